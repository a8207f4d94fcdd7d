"""Which price goes for a part: the planner's own, the chosen edition's, or the market's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Content, Nic, Optic, Platform, Switch
from app.catalog.estimate import EARLY, Estimate, Status
from app.catalog.load import ELECTRICITY, GPU_HOUR, MARKET, STORAGE, Catalog, gpu_hours
from app.formulas import costs
from app.plan.scenario import PriceRequest

Floats = NDArray[np.float64]
OWN = "planner"
FIELDS = (
    "price_switch", "price_nic", "price_transceiver", "price_cable", "price_copper_cable", "price_node",
    "price_storage", "price_gpu_hour", "electricity", "pue", "lifetime", "spares", "support", "infrastructure",
)  # fmt: skip
"""The prices a scenario may give."""
OF_NO_DESIGN = frozenset({"price_node", "price_storage", "price_gpu_hour", "electricity", "lifetime", "support"})
"""Those that money alone is reckoned with: neither design, power nor findings depend on them."""
SITE = ("nics_included", "rack_power", "site_power", "region", "storage_capacity")
"""What else a scenario may give of prices and of the site."""
HOME = "united-states"
"""The region whose electricity the editions price without naming it."""
_given = attrgetter("price_book", *FIELDS, *SITE)
Contained = Literal["", "contains", "may_contain"]


class PaidPart(NamedTuple):
    """A part that the price of the node it sits in may pay for.

    Attributes:
        price: what one costs on top of the node [USD].
        usual: what one costs bought by itself [USD].
        contained: whether the node's price contains it, may contain it, or does not.
    """

    price: Estimate | None
    usual: Estimate | None
    contained: Contained = ""


def own(value: Any, unit: str, key: str) -> Estimate:
    """A figure the planner typed, or a column of them: exact, and cited as such."""
    note, single = "Given in the scenario.", np.ndim(value) == 0
    return Estimate(typical=value, unit=unit, source=OWN, key=f"planner.{key}", note=note, spread=single)


@dataclass(frozen=True, eq=False)
class PriceList:
    """Prices in force. A price nobody publishes is ``None``.

    A ``price_*`` field of the request goes before the edition it names; what that edition does not name comes from the
    market edition. A list equals itself alone, and requests with the same prices share one, so that it can be part of
    a cache's key.
    """

    catalog: Catalog
    edition: str
    given: dict[str, Any]

    @staticmethod
    def of(request: PriceRequest, catalog: Catalog) -> "PriceList":
        """The prices in force for a request."""
        return _listed(catalog, *_given(request))

    def columns(self, several: Mapping[str, Floats]) -> "PriceList":
        """The same with columns of prices that no design depends on: results then have the draws of each in turn."""
        return PriceList(
            self.catalog, self.edition, self.given | {name: column[:, None] for name, column in several.items()}
        )

    def published(self, edition: str = "") -> "PriceList":
        """The same edition, or another, without the planner's own prices."""
        return _listed(self.catalog, edition or self.edition, *(None for _ in (*FIELDS, *SITE)))

    def book(self, *keys: str) -> Estimate | None:
        """The first of some keys that the edition has, then that the market has."""
        for edition in (self.edition, MARKET):
            prices = self.catalog.prices[edition].prices if edition in self.catalog.prices else {}
            for key in keys:
                if key in prices:
                    return prices[key]
        return None

    def borrowed(self, price: Estimate | None) -> bool:
        """Whether a price is the market edition's for want of one in the edition asked for."""
        return price is not None and self.edition != MARKET and price.key.startswith(f"prices.{MARKET}.")

    def _own(self, name: str, unit: str = "USD") -> Estimate | None:
        value = self.given.get(name)
        return None if value is None else own(value, unit, name)

    def switch(self, switch: Switch) -> Estimate | None:
        """One box. An edition that only names a port is multiplied by the box's ports [USD]."""
        given = self._own("price_switch")
        if given:
            return given
        generic, ports = _generic(switch), switch.ports * switch.switches_per_box
        if self.edition != MARKET:
            per_port = self.book(generic)
            return per_port.times(ports * _articles_ports(self.catalog, switch)) if per_port else None
        return _by_rate(self.catalog, generic, switch, ports) if self.by_rate(switch) else self.book(switch.key)

    def nic(self, nic: Nic | None, family: str) -> Estimate | None:
        """One adapter [USD]."""
        generic = "nic-infiniband" if family == "infiniband" else "nic-ethernet"
        given = self._own("price_nic")
        if given or nic is None or self.edition != MARKET:
            return given or self.book(generic)
        return _by_rate(self.catalog, generic, nic, nic.ports) if self.by_rate(nic) else self.book(nic.key)

    def contained(self, platform: Platform, content: Content) -> Contained:
        """Whether the price of a node, typed or the book's, pays for parts of a kind."""
        if "nics_included" in self.given:
            return "contains" if self.given["nics_included"] else ""
        book, name = self.catalog.prices[MARKET], platform.price or ""
        if content in book.contains.get(name, ()):
            return "contains"
        return "may_contain" if content in book.may_contain.get(name, ()) else ""

    @lru_cache(maxsize=256)  # noqa: B019  # one list for equal prices is kept itself
    def adapter(
        self, nic: Nic | None, family: str, platform: Platform, gpus_per_node: int, adapters: int, content: Content
    ) -> PaidPart:
        """One adapter of a node that has so many, on top of the node's price.

        What the node's price contains costs nothing more; those beyond the platform's own number are bought, and a
        dearer card of at least the rate of the platform's own costs the difference. A NIC's price that the planner
        types is always paid.
        Another edition than the market's prices cards by themselves, and its nodes are without them.

        Kept: with the draws of what is paid it takes 60 µs, twice a plan, and all clusters of such nodes share it.
        """
        usual, contained = self.nic(nic, family), self.contained(platform, content)
        if usual is None or not contained or self.edition != MARKET or "price_nic" in self.given:
            return PaidPart(usual, usual)
        whole = platform.nics_per_node if content == "compute_nics" else platform.storage_nics
        included = min(whole * gpus_per_node / platform.gpus_per_node, adapters)
        card = self._card(platform) if content == "compute_nics" else None
        needed = nic is not None and nic.port_rate.typical >= platform.nic_rate.typical
        dearer = max(usual.typical - card.typical, 0.0) if card and needed else 0.0
        paid = (usual.typical * (adapters - included) + dearer * included) / adapters
        note = "Paid on top of what the node's price contains."
        high = max(usual.typical, paid) if contained == "may_contain" else None
        price = replace(usual, typical=paid, low=None, high=high, note=note, key=f"{usual.key}.contained")
        return PaidPart(price, usual, contained)

    def _card(self, platform: Platform) -> Estimate | None:
        """The adapter that a platform comes with: InfiniBand's newest of its day, or the cheapest of its rate [USD]."""
        rate, catalog = platform.nic_rate.typical, self.catalog
        fitting = [nic for nic in catalog.nics.values() if nic.port_rate.typical == rate and nic.ports == 1]
        usual = {network.nic for network in catalog.scale_out.values() if network.family == "infiniband"}
        of_its_day = [nic for nic in fitting if nic.key in usual and (nic.year or 0) <= (platform.year or math.inf)]
        newest = [max(of_its_day, key=lambda nic: nic.year or 0)] if of_its_day else fitting
        prices = [price for price in (self.nic(nic, "infiniband") for nic in newest) if price]
        return min(prices, key=lambda price: price.typical, default=None)

    def by_rate(self, part: Switch | Nic) -> bool:
        """Whether nobody prints a price of a part, so that it is taken by the rate of its ports."""
        given = "price_switch" if isinstance(part, Switch) else "price_nic"
        return self.edition == MARKET and given not in self.given and part.key not in self.catalog.prices[MARKET].prices

    def optic(self, optic: Optic) -> Estimate | None:
        """One module or cable [USD]."""
        fields = {"transceiver": "price_transceiver", "fibre": "price_cable"}
        given = self._own(fields.get(optic.kind, "price_copper_cable"))
        generic = "transceiver" if optic.kind == "transceiver" else "cable"
        return given or self.book(optic.key if self.edition == MARKET else generic)

    def node(self, platform: Platform, gpus_per_node: int) -> Estimate | None:
        """One node; a rack's price is shared out over its GPUs [USD].

        In another edition than the market's it is the market's without the adapters that its price contains.
        """
        given = self._own("price_node")
        if given or platform.price is None:
            return given
        price = self.book(platform.price)
        whole = platform.scale_up_domain if platform.price.startswith("rack-") else platform.gpus_per_node
        price = price.times(gpus_per_node / whole, price.note) if price and gpus_per_node != whole else price
        if price and self.edition != MARKET and self.contained(platform, "compute_nics") == "contains":
            return self._without_adapters(price, platform, gpus_per_node)
        return price

    def _without_adapters(self, price: Estimate, platform: Platform, gpus_per_node: int) -> Estimate:
        """A node's price less that of the adapters in it, each at the market's [USD]."""
        card = self.published(MARKET)._card(platform)
        cards = card.typical * platform.nics_per_node * gpus_per_node / platform.gpus_per_node if card else 0.0
        low, high = (None if end is None else max(end - cards, 0.0) for end in (price.low, price.high))
        return replace(price, typical=max(price.typical - cards, 0.0), low=low, high=high)

    def scale_up(self, platform: Platform) -> Estimate | None:
        """The links between the GPUs of one domain, which are part of the node's or rack's price [USD]."""
        return self.book(platform.scale_up_price) if platform.scale_up_price else None

    def gpu_hour(self, gpu: str) -> Estimate | None:
        """Rent of one GPU [USD/s]."""
        given = self._own("price_gpu_hour", "USD/s")
        if given:
            return given
        return self.book(*gpu_hours(gpu))

    def contract(self, kind: str, gpu: str) -> Estimate | None:
        """What a kind of contract, such as a lease, costs for one GPU [USD/s]."""
        return self.book(*(name.replace(GPU_HOUR, kind, 1) for name in gpu_hours(gpu)))

    def storage(self) -> Estimate | None:
        """One usable petabyte of storage with its software and support [USD]."""
        return self._own("price_storage") or self.book(STORAGE)

    def electricity(self) -> Estimate | None:
        """Energy [USD/J]."""
        local = f"{ELECTRICITY}-{self.region}"
        return self._own("electricity", "USD/J") or self.book(local, ELECTRICITY)

    def carbon(self) -> Estimate:
        """What a unit of energy emits [kg/J]."""
        return self.catalog.operations["carbon"][self.region]

    @property
    def region(self) -> str:
        """Whose electricity it is."""
        return self.given.get("region") or HOME

    def rate(self, name: str, unit: str = "1") -> Estimate:
        """An operating figure: pue, lifetime, spares, support or infrastructure."""
        return self._own(name, unit) or self.catalog.operations["site"][name]

    @cached_property
    def _beside_parts(self) -> tuple[float, float]:
        """Share of a part's price that its spares cost [1], and price of the building of a watt [USD/W], typically."""
        return self.rate("spares").typical, self.rate("infrastructure").typical

    def in_place(self, price: Estimate | None, power: float = 0.0) -> float:
        """Typical price of a network's part with its spares and the building of what it draws [USD]; infinite without
        a price.
        """
        return float(costs.in_place(price.typical, power, *self._beside_parts)) if price else np.inf

    def in_force(self, platform: Platform, gpus_per_node: int, gpu: str, switch: Switch | None) -> dict[str, Estimate]:
        """What the fields of prices and of the site stand at, the blank ones too, where one figure stands for all."""
        sites = ("pue", "lifetime", "spares", "support", "infrastructure")
        estimates = {
            "price_node": self.node(platform, gpus_per_node),
            "price_switch": self.switch(switch) if switch else None,
            "price_storage": self.storage(),
            "price_gpu_hour": self.gpu_hour(gpu),
            "electricity": self.electricity(),
            **{name: self.rate(name, self.catalog.operations["site"][name].unit) for name in sites},
        }
        return {name: estimate for name, estimate in estimates.items() if estimate}


@lru_cache(maxsize=256)
def _listed(catalog: Catalog, edition: str, *values: float | None) -> PriceList:
    """The prices of an edition under those given.

    Kept: one list for equal prices is what keeps networks, 0.7 ms each.
    """
    names = (*FIELDS, *SITE)
    given = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    return PriceList(catalog, edition, given)


def _generic(switch: Switch) -> str:
    """The key of a port of a usual switch."""
    return "switch-port-infiniband" if switch.family == "infiniband" else "switch-port-ethernet"


def _articles_ports(catalog: Catalog, switch: Switch) -> float:
    """Ports that the articles would count for one of a switch: their Ethernet column is of 400 Gb/s [1]."""
    rate = catalog.scale_out["roce-400"].port_rate.typical
    return 1.0 if switch.family == "infiniband" else max(switch.port_rate.typical / rate, 1.0)


def _by_rate(catalog: Catalog, key: str, part: Switch | Nic, ports: int) -> Estimate | None:
    """The market's price of a usual 400 Gb/s port, scaled to a part nobody prints a price for.

    That of a switch with its optics inside contains them: no module is bought for its ports.
    """
    price = catalog.prices[MARKET].prices.get(key)
    if price is None:
        return None
    rate = ports * part.port_rate.typical
    share = rate / catalog.scale_out["infiniband-ndr"].port_rate.typical
    status: Status = "projected" if part.status in EARLY else "estimate"
    optics = _optics_inside(catalog) * rate if isinstance(part, Switch) and part.co_packaged else 0.0
    return _with_optics(price.times(share, "No price is published: by the rate of its ports."), optics, status)


@lru_cache(maxsize=256)
def _with_optics(bare: Estimate, optics: float, status: Status) -> Estimate:
    """A price with that of so much optics on top [USD]. Kept, so that its draws are made once."""
    if not optics:
        return replace(bare, status=status)
    low, high = (None if end is None else end + optics for end in (bare.low, bare.high))
    note = f"{bare.note[:-1]}, and optics inside as in a priced switch that holds them."
    return replace(bare, typical=bare.typical + optics, low=low, high=high, status=status, note=note)


@lru_cache(maxsize=8)
def _optics_inside(catalog: Catalog) -> float:
    """What optics inside a switch cost for each byte per second of its ports, typically [USD s/B].

    The difference between a co-packaged switch that has a price and its sister of equal ports that takes modules:
    $590 for each 800 Gb/s of a Q3450-LD beside a Q3400-RA, of what analysts take its optics to cost. Nothing where the
    catalogue has no such pair.
    """
    prices = catalog.prices[MARKET].prices
    priced = [switch for switch in catalog.switches.values() if switch.key in prices]
    differences = (
        (prices[packaged.key].typical - prices[bare.key].typical) / (packaged.ports * packaged.port_rate.typical)
        for packaged in priced
        for bare in priced
        if packaged.co_packaged
        and not bare.co_packaged
        and (packaged.ports, packaged.port_rate.typical) == (bare.ports, bare.port_rate.typical)
    )
    return max(next(differences, 0.0), 0.0)
