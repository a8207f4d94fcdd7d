"""The fabric to build: of the switches, unit sizes and uplinks that do what is asked, those that cost least in place.

In place is with the spares of their parts and the building of what they draw: what a fabric adds to the capital.
Parts that cost a little less may draw so much more that their building costs more than they save.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from app.formulas.fabric.layouts import Design
from app.plan.cables import floor_of
from app.plan.cheapest_fabrics import CheapestFabrics
from app.plan.cluster import Cluster
from app.plan.fabric_search import (
    FAMILIES,
    FEW_KEPT,
    MOST_KEPT,
    CommonOptions,
    FabricKey,
    FabricSearch,
    Family,
    FewSwitches,
)
from app.plan.kept import Kept
from app.plan.least_cost import LeastCosts, least_of_switches
from app.plan.offers import some_of
from app.plan.prices import PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import Chosen, SwitchPair
from app.plan.tried_leaves import TriedLeaves

Booleans = NDArray[np.bool_]


_KEPT: Kept[FabricKey, Chosen] = Kept(MOST_KEPT)
"""What was chosen last: it takes 5 ms, and servers of several GPUs have the same ports."""


_DESIGNS: Kept[bytes, Design] = Kept(2_048)
"""Designs of those, by their numbers: one takes more than a kilobyte, three times what else is kept of a choice."""


def keep_few() -> None:
    """Keep fewer fabrics in this process: another answers the questions that ask for many."""
    _KEPT.most = FAMILIES.most = FEW_KEPT


Wish = tuple[tuple[SwitchPair, ...], Cluster, DesignRequest]
"""Switches to choose from for a cluster, and what is asked of its fabric."""


def choose(choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList) -> Chosen:
    """The switches to build and their design: the cheapest in place that works.

    Where none has a price, the one with fewest switches; where none works, the one that comes nearest. Switches are
    taken in the order of the least that they can cost, until that is more than the cheapest so far.
    """
    key = FabricKey.of(choices, cluster, request, prices)
    return _KEPT.get(key) or choose_all([(choices, cluster, request)], prices)[0]


def choose_all(wishes: Iterable[Wish], prices: PriceList) -> list[Chosen]:
    """The same for several clusters; designing all that may be built for them takes little longer than for one."""
    several = [*wishes]
    keys = [FabricKey.of(*wish, prices) for wish in several]
    known = [_KEPT.get(key) for key in keys]
    if all(known):
        return [each for each in known if each]
    chosen = {key: each for key, each in zip(keys, known, strict=True) if each}
    new = {key: wish for key, wish in zip(keys, several, strict=True) if key not in chosen}
    searches = _searches(new, prices)
    while searches:
        for portion in _portions(searches, lambda search: search.many_sizes, SIZES_TOGETHER):
            for search, cheapest in _cheapest(portion, prices):
                chosen[search.key] = _shared(cheapest)
                _KEPT.add(search.key, chosen[search.key])
        searches = [search.among_all() for search in searches if search.key not in chosen]
    return [chosen[key] for key in keys]


def _shared(chosen: Chosen) -> Chosen:
    """The same, with the design and the lengths of equal ones chosen lately: five of six are built as others are."""
    key = np.array(chosen.design, np.float64).tobytes()
    if (known := _DESIGNS.get(key)) is None:
        _DESIGNS.add(key, chosen.design)
    return Chosen(chosen.choice, known or chosen.design, chosen.lengths and _lengths(*chosen.lengths.items()))


@lru_cache(maxsize=1_024)
def _lengths(*of_levels: tuple[str, float]) -> Mapping[str, float]:
    return dict(of_levels)


def _searches(new: Mapping[FabricKey, Wish], prices: PriceList) -> list[FabricSearch]:
    """The searches for some fabrics, those of a family one after another."""
    families: dict[Family, list[FabricKey]] = {}
    for key in new:
        families.setdefault(key.family, []).append(key)
    common = {family: CommonOptions.of(*new[members[0]], prices) for family, members in families.items()}
    few = _few_switches(families, new, common, prices)
    return [
        FabricSearch(key, *new[key][1:], common[family], few.get(key))
        for family in sorted(families, key=lambda family: family.joined)
        for key in families[family]
    ]


MANY_SWITCHES = 4
"""Choices of switches of which it pays to ask which may be worth it for any of many networks."""
MANY_TAPERS, TAPERS_ALIKE = 24, 48
"""How many networks these are that differ in their taper alone, and of how many at most it is asked at once."""
AS_CHEAP = 1.25
"""Switches are tried of which a fabric may cost so many times the least at most that one of any may."""


def _few_switches(
    families: Mapping[Family, Sequence[FabricKey]],
    wishes: Mapping[FabricKey, Wish],
    common: Mapping[Family, CommonOptions],
    prices: PriceList,
) -> dict[FabricKey, FewSwitches]:
    """Where many networks differ in their taper alone, the few switches that each is looked for among: what others cost
    at least follows for all of them from the widest taper.
    """
    bands = [
        sorted(members, key=lambda key: key.taper)[begin : begin + TAPERS_ALIKE]
        for family, members in families.items()
        if len(members) >= MANY_TAPERS and len(family.choices) > MANY_SWITCHES and common[family].hosts.is_tree
        for begin in range(0, len(members), TAPERS_ALIKE)
    ]
    few: dict[FabricKey, FewSwitches] = {}
    widest = [FabricSearch(band[-1], *wishes[band[-1]][1:], common[band[-1].family]) for band in bands]
    floor = floor_of(prices.catalog, 1)
    least = least_of_switches([search.options for search in widest], floor, prices) if bands else []
    for band, search, costs in zip(bands, widest, least, strict=True):
        tried = costs <= costs.min() * AS_CHEAP
        if 0 < costs.min() < np.inf and not tried.all():
            offered = some_of(search.offered, tuple(np.flatnonzero(tried).tolist()))
            few |= dict.fromkeys(band, FewSwitches(offered, float(costs[~tried].min())))
    return few


MUCH, MUCH_TOGETHER = 500, 8_000
"""Fabrics of a search, and of several together, that take longer to try than finding those that may be cheapest."""
MUCH_AMONG_OTHERS = 100
"""Fabrics of a search of which that is so where it is done for others too."""
MARGINS = ((1.08, False), (1.15, True))
"""How many times the least that any may cost those may that are tried first, and then where that was too little; and
whether as much is allowed to the cheapest that fit narrower tapers."""
MOST_TOGETHER = 16_384
"""Fabrics that are tried together: more gain no time; a hundred thousand, as the whole catalogue asks, took 150 MB for
a moment."""
SIZES_TOGETHER = 4 * MOST_TOGETHER
"""Sizes of leaves whose fabrics are bounded together, which takes less of each: 13 MB for a moment."""


def _cheapest(searches: Sequence[FabricSearch], prices: PriceList) -> Iterator[tuple[FabricSearch, Chosen]]:
    """The cheapest fabric of each of some searches.

    Of many fabrics only those are tried that may cost little more than the least that any may; and more of them where
    one that was left out may be cheaper than all of these.
    """
    options = [search.options for search in searches]
    leaves = TriedLeaves.of(options)
    work = leaves.many + [search.work_apart for search in searches]
    has_sizes = np.array([search.many_sizes > 0 for search in searches])
    if work[has_sizes & (work > MUCH)].sum() <= MUCH_TOGETHER:
        yield from _tried(searches, leaves, prices)
        return
    yield from _narrowed(searches, leaves, has_sizes & (work > MUCH_AMONG_OTHERS), prices)


def _narrowed(
    searches: Sequence[FabricSearch], leaves: TriedLeaves, is_large: Booleans, prices: PriceList
) -> Iterator[tuple[FabricSearch, Chosen]]:
    """The same where some searches are of many fabrics each."""
    large = np.flatnonzero(is_large).tolist()
    some, of_large = [searches[place] for place in large], leaves.at(large)
    least = LeastCosts([search.options for search in some], of_large, floor_of(prices.catalog, 1), prices)
    is_of_large = is_large[leaves.cluster[leaves.place]]
    waiting, others = [*range(len(large))], np.flatnonzero(~is_large).tolist()
    for margin, narrower in MARGINS:
        narrowed, sizes = least.narrowed(waiting, margin, narrower)
        whole = of_large.many_of(sizes) == of_large.many
        for place in waiting:
            some[place].narrow(None if whole[place] else narrowed[place])
        kept = ~is_of_large
        kept[is_of_large] = sizes | whole[of_large.cluster[of_large.place]]
        together = sorted([*others, *(large[place] for place in waiting)])
        cheapest = dict(_tried([searches[place] for place in together], leaves.at(together, kept), prices))
        yield from cheapest.items()
        waiting, others = [place for place in waiting if some[place] not in cheapest], []
        if not waiting:
            return
    for place in waiting:
        some[place].narrow(None)
    yield from _tried([some[place] for place in waiting], of_large.at(waiting), prices)


def _tried(
    searches: Sequence[FabricSearch], leaves: TriedLeaves, prices: PriceList
) -> Iterator[tuple[FabricSearch, Chosen]]:
    """The cheapest of the fabrics that are tried for each of some searches, unless one that is left out may be."""
    many = leaves.many if leaves.many.sum() <= MOST_TOGETHER else leaves.many_more
    for portion in _portions(range(len(searches)), many.tolist().__getitem__, MOST_TOGETHER):
        some = [searches[place] for place in portion]
        its = leaves if len(some) == len(searches) else leaves.at(portion)
        for search, chosen in zip(some, CheapestFabrics(some, its, prices).cheapest(), strict=True):
            if chosen:
                yield search, chosen


Portioned = TypeVar("Portioned")


def _portions(several: Iterable[Portioned], many: Callable[[Portioned], int], most: int) -> Iterator[list[Portioned]]:
    """Searches in their order, so many together that they have about as much of something as that."""
    portion: list[Portioned] = []
    together = 0
    for each in several:
        portion.append(each)
        together += many(each)
        if together >= most:
            yield portion
            portion, together = [], 0
    if portion:
        yield portion
