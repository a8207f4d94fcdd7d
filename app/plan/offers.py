"""What switches and links cost at least in place, whatever fabric they are part of."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Switch
from app.plan.bill_of_materials import ENDS, Cages, cages_of, drawn_by, holds_modules, price_of
from app.plan.cables import Medium
from app.plan.prices import PriceList
from app.plan.switches import SwitchPair

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
UNREACHED = 1e12
"""What stands for links that no part carries [USD]: such a fabric comes last, and by what else it costs."""


@dataclass(frozen=True, eq=False)
class Offers:
    """Choices of switches that are worth pricing, and the least that each needs [USD].

    Attributes:
        places: of each which choice it is.
        leaf, spine: price of a switch.
        ends: the switches, and the cages, that its links end in.
    """

    places: tuple[int, ...]
    leaf: Floats
    spine: Floats
    ends: tuple[tuple[SwitchPair, Cages], ...]

    @cached_property
    def ports(self) -> tuple[tuple[int, int], ...]:
        """The different numbers of ports of a leaf and of a switch above [1]."""
        return tuple(dict.fromkeys(choice.ports for choice, _ in self.ends))

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """The different numbers of ports of a leaf [1]."""
        return tuple(dict.fromkeys(radix for radix, _ in self.ports))

    @cached_property
    def lowest(self) -> dict[tuple[int, int], int]:
        """The least height of switches above the leaves, by their ports [rack units]."""
        heights = sorted(((choice.height, choice.ports) for choice, _ in self.ends), reverse=True)
        return {ports: height for height, ports in heights}


class AllOffers(NamedTuple):
    """What is on offer to several clusters, one choice of switches after another.

    Attributes:
        offered: the different offers.
        which: of each cluster which of them it has.
        begins: where each of them begins.
    """

    offered: Sequence[Offers]
    which: Integers
    begins: Integers

    @staticmethod
    def of(each: Sequence[Offers]) -> "AllOffers":
        """The offers of each cluster."""
        numbers: dict[int, int] = {}
        which = [numbers.setdefault(id(its), len(numbers)) for its in each]
        offered = [*{id(its): its for its in each}.values()]
        begins = np.cumsum([0, *(len(its.places) for its in offered)])
        return AllOffers(offered, np.array(which), begins)

    @property
    def ends(self) -> list[tuple[SwitchPair, Cages]]:
        """The switches, and the cages, that links end in."""
        return [end for its in self.offered for end in its.ends]

    @property
    def leaf(self) -> Floats:
        """Price of a leaf of each choice [USD]."""
        return np.concatenate([its.leaf for its in self.offered])

    @property
    def spine(self) -> Floats:
        """Price of a switch above the leaves of each choice [USD]."""
        return np.concatenate([its.spine for its in self.offered])

    @property
    def many(self) -> Integers:
        """Choices that each cluster has [1]."""
        return np.diff(self.begins)[self.which]


@lru_cache(maxsize=1024)
def offers(
    choices: tuple[SwitchPair, ...], prices: PriceList, platform: str, scale_out: str, planes: int, wanted: str = ""
) -> Offers:
    """The least that the parts of every choice cost; of equal ports and cages the cheaper choice alone.

    Kept: it takes a millisecond, the same for every size of a cluster.
    """
    best: dict[Any, tuple[int, float, float, Cages]] = {}
    for place, choice in enumerate(choices):
        cages = cages_of(choice, prices.catalog, platform, scale_out, planes, wanted)
        leaf, spine = _box(choice.leaf, prices), _box(choice.spine, prices)
        boxes = (choice.leaf.switches_per_box, choice.spine.switches_per_box, choice.spine.rack_units)
        held = holds_modules(choice.leaf), holds_modules(choice.spine)
        alike = choice.ports, cages, boxes, held, choice.leaf is choice.spine
        if alike not in best or leaf + spine < best[alike][1] + best[alike][2]:
            best[alike] = place, leaf, spine, cages
    kept = sorted(best.values(), key=lambda offer: offer[0])
    ends = tuple((choices[place], cages) for place, _, _, cages in kept)
    leaves, spines = (np.array([offer[part] for offer in kept]) for part in (1, 2))
    return Offers(tuple(place for place, *_ in kept), leaves, spines, ends)


@lru_cache(maxsize=256)
def some_of(offered: Offers, places: tuple[int, ...]) -> Offers:
    """Some of the choices on offer, by their places there. Kept: which object they are is what tells offers apart."""
    kept = [*places]
    choices, ends = tuple(offered.places[place] for place in kept), tuple(offered.ends[place] for place in kept)
    return Offers(choices, offered.leaf[kept], offered.spine[kept], ends)


def _box(switch: Switch, prices: PriceList) -> float:
    """Price of a switch in place [USD]; infinite where nobody names one."""
    most = switch.maximum_power or switch.power
    return prices.in_place(prices.switch(switch), most.typical if most else 0.0) / switch.switches_per_box


@lru_cache(maxsize=1024)
def link_prices(
    ends: tuple[tuple[SwitchPair, Cages], ...], level: str, lengths: tuple[float, ...], prices: PriceList
) -> Floats:
    """The least that a link of a level costs in place with its ends [USD]: between each of some switches, where it is
    as long as each of these.

    Kept: designs of other sizes need the same few.
    """
    priced = _priced(ends, level, lengths, prices)
    return np.where(np.isfinite(priced), priced, 0.0)


@lru_cache(maxsize=256)
def longer_link_prices(
    ends: tuple[tuple[SwitchPair, Cages], ...], level: str, lengths: tuple[float, ...], prices: PriceList
) -> Floats:
    """The same where it may be longer than each of these; infinite where no part fits even so."""
    return np.minimum.accumulate(_priced(ends, level, lengths, prices)[:, ::-1], axis=1)[:, ::-1]


@lru_cache(maxsize=1024)
def _priced(
    ends: tuple[tuple[SwitchPair, Cages], ...], level: str, lengths: tuple[float, ...], prices: PriceList
) -> Floats:
    """The same, infinite where no part fits."""
    return np.array([_priced_between(*each, level, lengths, prices) for each in ends])


@lru_cache(maxsize=1024)
def _priced_between(
    choice: SwitchPair, cages: Cages, level: str, lengths: tuple[float, ...], prices: PriceList
) -> tuple[float, ...]:
    """The same of one choice. Kept: some of the choices on offer are priced as all are."""
    media = [cages.medium(prices, level, length) for length in lengths]
    price = {medium: _link_price(choice, cages, level, medium, prices) for medium in dict.fromkeys(media)}
    return tuple(price[medium] for medium in media)


def _link_price(choice: SwitchPair, cages: Cages, level: str, medium: Medium | None, prices: PriceList) -> float:
    """Price of a link of a level of some medium in place, with its ends [USD]; infinite where no part fits, and 0 where
    parts have no price.
    """
    if medium is None:
        return np.inf
    near, far = cages.ends(level)
    parts = [
        (f"cable {level}", medium.cable, cages.per_cable(level, medium)),
        *(
            (f"{tier} switch module", module, cage[1])
            for tier, module, cage in zip(ENDS[level], (medium.near, medium.far), (near, far), strict=True)
            if module
        ),
    ]
    if any(prices.optic(optic) is None for _, optic, _ in parts):
        return 0.0
    return sum(in_place(role, optic.key, choice, prices) / links for role, optic, links in parts)


@lru_cache(maxsize=1024)
def in_place(role: str, key: str, choice: SwitchPair, prices: PriceList) -> float:
    """Price of a part in place [USD]. Kept: it takes 8 µs, and fabrics of any size are made of the same few parts."""
    _, _, price = price_of(role, key, choice, prices)
    return prices.in_place(price, drawn_by(role, key, choice, prices.catalog))
