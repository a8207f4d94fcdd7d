"""Which price goes for a part: the planner's own, the chosen edition's, or the market's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter

from app.catalog.entries import Nic, Optic, Platform, Switch
from app.catalog.estimate import Estimate, Status
from app.catalog.load import MARKET, Catalog, gpu_hours
from app.plan.scenario import PriceRequest

OWN = "planner"
FIELDS = (
    "price_switch", "price_nic", "price_transceiver", "price_cable", "price_copper_cable", "price_node",
    "price_gpu_hour", "electricity", "pue", "lifetime", "spares", "support", "infrastructure",
)  # fmt: skip
"""The prices a scenario may give."""
_given = attrgetter("price_book", *FIELDS)


def own(value: float, unit: str, key: str) -> Estimate:
    """A figure the planner typed: exact, and cited as such."""
    return Estimate(typical=value, unit=unit, source=OWN, key=f"planner.{key}", note="Given in the scenario.")


@dataclass(frozen=True, eq=False)
class PriceList:
    """Prices in force. A price nobody publishes is ``None``.

    A ``price_*`` field of the request goes before the edition it names; what that edition does not name comes from the
    market edition. A list equals itself alone, and requests with the same prices share one, so that it can be part of
    a cache's key.
    """

    catalog: Catalog
    edition: str
    given: Mapping[str, float]

    @staticmethod
    def of(request: PriceRequest, catalog: Catalog) -> "PriceList":
        """The prices in force for a request."""
        return _listed(catalog, *_given(request))

    def published(self, edition: str = "") -> "PriceList":
        """The same edition, or another, without the planner's own prices."""
        return _listed(self.catalog, edition or self.edition, *(None for _ in FIELDS))

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
            return per_port.times(ports) if per_port else None
        return _by_rate(self.catalog, generic, switch, ports) if self.by_rate(switch) else self.book(switch.key)

    def nic(self, nic: Nic | None, family: str) -> Estimate | None:
        """One adapter [USD]."""
        generic = "nic-infiniband" if family == "infiniband" else "nic-ethernet"
        given = self._own("price_nic")
        if given or nic is None or self.edition != MARKET:
            return given or self.book(generic)
        return _by_rate(self.catalog, generic, nic, nic.ports) if self.by_rate(nic) else self.book(nic.key)

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
        """One node; a rack's price is shared out over its GPUs [USD]."""
        given = self._own("price_node")
        if given or platform.price is None:
            return given
        price = self.book(platform.price)
        whole = platform.scale_up_domain if platform.price.startswith("rack-") else platform.gpus_per_node
        return price.times(gpus_per_node / whole, price.note) if price and gpus_per_node != whole else price

    def gpu_hour(self, gpu: str) -> Estimate | None:
        """Rent of one GPU [USD/s]."""
        given = self._own("price_gpu_hour", "USD/s")
        if given:
            return given
        return self.book(*gpu_hours(gpu))

    def electricity(self) -> Estimate | None:
        """Energy [USD/J]."""
        return self._own("electricity", "USD/J") or self.book("electricity")

    def rate(self, name: str, unit: str = "1") -> Estimate:
        """An operating figure: pue, lifetime, spares, support or infrastructure."""
        return self._own(name, unit) or self.catalog.operations["site"][name]


@lru_cache(maxsize=256)
def _listed(catalog: Catalog, edition: str, *values: float | None) -> PriceList:
    """The prices of an edition under those given.

    Kept: one list for equal prices is what keeps networks, 0.7 ms each.
    """
    given = {name: value for name, value in zip(FIELDS, values, strict=True) if value is not None}
    return PriceList(catalog, edition, given)


def _generic(switch: Switch) -> str:
    """The key of a port of a usual switch."""
    return "switch-port-infiniband" if switch.family == "infiniband" else "switch-port-ethernet"


def _by_rate(catalog: Catalog, key: str, part: Switch | Nic, ports: int) -> Estimate | None:
    """The market's price of a usual 400 Gb/s port, scaled to a part nobody prints a price for."""
    price = catalog.prices[MARKET].prices.get(key)
    if price is None:
        return None
    share = ports * part.port_rate.typical / catalog.scale_out["infiniband-ndr"].port_rate.typical
    status: Status = "projected" if part.status in ("announced", "projected") else "estimate"
    return replace(price.times(share, "No price is published: by the rate of its ports."), status=status)
