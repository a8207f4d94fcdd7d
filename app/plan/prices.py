"""Which price goes for a part: the planner's own, the chosen edition's, or the market's."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from app.catalog import Catalog, Estimate
from app.catalog.types import Nic, Optic, Platform, Status, Switch
from app.scenario import Scenario

MARKET = "market"
OWN = "planner"


def own(value: float, unit: str, key: str) -> Estimate:
    """A figure the planner typed: exact, and cited as such."""
    return Estimate(typical=value, unit=unit, source=OWN, key=f"planner.{key}", note="Given in the scenario.")


@dataclass(frozen=True)
class PriceList:
    """Prices in force for one scenario. A price nobody publishes is ``None``.

    A ``price_*`` field of the scenario goes before the edition it names; what that edition does not name comes from the
    market edition, and ``borrowed`` remembers it.
    """

    scenario: Scenario
    catalog: Catalog
    borrowed: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    scaled: set[str] = field(default_factory=set)

    @cached_property
    def _market(self) -> bool:
        return self.scenario.price_book == MARKET

    def book(self, *keys: str) -> Estimate | None:
        """The first of some keys that the edition has, then that the market has."""
        for edition in dict.fromkeys((self.scenario.price_book, MARKET)):
            prices = self.catalog.prices[edition].prices if edition in self.catalog.prices else {}
            for key in keys:
                if key in prices:
                    if edition != self.scenario.price_book:
                        self.borrowed.add(key)
                    return prices[key]
        self.missing.add(keys[0])
        return None

    def _own(self, name: str, unit: str = "USD") -> Estimate | None:
        value = getattr(self.scenario, name)
        return None if value is None else own(value, unit, name)

    def switch(self, switch: Switch) -> Estimate | None:
        """One box. An edition that only names a port is multiplied by the box's ports [USD]."""
        given = self._own("price_switch")
        if given:
            return given
        family = "infiniband" if switch.family == "infiniband" else "ethernet"
        ports = switch.ports * switch.switches_per_box
        if not self._market:
            per_port = self.book(f"switch-port-{family}")
            return per_port.times(ports) if per_port else None
        prices = self.catalog.prices[MARKET].prices
        if switch.key in prices:
            return self.book(switch.key)
        return self._by_rate(f"switch-port-{family}", switch, ports)

    def nic(self, nic: Nic | None, family: str) -> Estimate | None:
        """One adapter [USD]."""
        generic = "nic-infiniband" if family == "infiniband" else "nic-ethernet"
        given = self._own("price_nic")
        if given or nic is None or not self._market or nic.key in self.catalog.prices[MARKET].prices:
            return given or self.book(*((nic.key, generic) if nic and self._market else (generic,)))
        return self._by_rate(generic, nic, nic.ports)

    def _by_rate(self, key: str, part: Switch | Nic, ports: int) -> Estimate | None:
        """The price of a usual 400 Gb/s port, scaled to a part nobody prints a price for."""
        price = self.book(key)
        if price is None:
            return None
        self.scaled.add(part.name)
        share = ports * part.port_rate.typical / self.catalog.scale_out["infiniband-ndr"].port_rate.typical
        status: Status = "projected" if part.status in ("announced", "projected") else "estimate"
        return replace(price.times(share, "No price is published: by the rate of its ports."), status=status)

    def optic(self, optic: Optic) -> Estimate | None:
        """One module or cable [USD]."""
        fields = {"transceiver": "price_transceiver", "fibre": "price_cable"}
        given = self._own(fields.get(optic.kind, "price_copper_cable"))
        generic = "transceiver" if optic.kind == "transceiver" else "cable"
        return given or self.book(*((optic.key,) if self._market else (generic,)))

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
        parts = gpu.split("-")
        return self.book(*(f"gpu-hour-{'-'.join(parts[:n])}" for n in range(len(parts), 0, -1)))

    def electricity(self) -> Estimate | None:
        """Energy [USD/J]."""
        return self._own("electricity", "USD/J") or self.book("electricity")

    def rate(self, name: str, unit: str = "1") -> Estimate:
        """An operating figure: pue, lifetime, spares, support or infrastructure."""
        return self._own(name, unit) or self.catalog.operations["site"][name]
