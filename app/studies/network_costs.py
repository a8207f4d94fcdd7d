"""What NVLink, InfiniBand and Ethernet cost side by side: per port, GPU, GB/s and token, by size, in both editions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Generic, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field

from app import units
from app.catalog.entries import ScaleUp
from app.catalog.estimate import EARLY, Estimate
from app.catalog.load import MARKET, SCALE_UP_OPTICS, Catalog
from app.formulas import costs
from app.formulas.arrays import Array
from app.plan.band import Draws, Q, fold, nan_is_an_answer, record, result
from app.plan.bill_of_materials import draws_or_nan
from app.plan.cluster import Cluster, look_up
from app.plan.network import Network, network_of
from app.plan.prices import PriceList
from app.plan.scenario import MOST_GPUS, Count, PriceRequest, Scenario, Usual, about, check_keys, on_network
from app.plan.total_cost import ownership
from app.studies import port_cost
from app.studies.buy_or_rent import BuyOrRent, Terms, buy_or_rent, terms_in_force
from app.studies.phases import Growth, Phases, phases
from app.studies.stages import stages
from app.studies.which_network import Weighed, weighed
from app.units import DollarsPerJoule, DollarsPerSecond, Number, Seconds

EDITIONS = (MARKET, "rule-of-thumb")
SIZES = tuple(8 * 2**power for power in range(14))
"""Sizes of cluster at which costs are listed [GPUs]."""
CLAIMED = (64, 1024, 4096, 16384)
"""Sizes at which the articles' claims are held against prices [GPUs]."""
BATCH = 1e6


class CostQuestion(Scenario):
    """What does the network cost, and is it cheaper to buy, to lease or to rent?"""

    model_config = ConfigDict(defer_build=True)

    term: Annotated[Seconds, Field(gt=0, le=1e10)] | None = Field(
        None,
        title="Term",
        description="How long the cluster is kept. Blank: its lifetime.",
        json_schema_extra=about("ownership", Usual.read("1 year", "4 years", "8 years", "s")),
    )
    utilisation: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        None,
        title="Use",
        description="Share of the time that GPUs are in use. Blank: the catalogue's.",
        json_schema_extra={"group": "ownership"},
    )
    interest: Annotated[Number, Field(ge=0, le=1)] | None = Field(
        None,
        title="Interest",
        description="Of a year, such as 0.1 or 10 %. Blank: the catalogue's.",
        json_schema_extra={"group": "ownership"},
    )
    residual: Annotated[Number, Field(ge=0, le=1)] | None = Field(
        None,
        title="Residual value",
        description="Worth at the end of the term, as a share of the price. Blank: by the term.",
        json_schema_extra={"group": "ownership"},
    )
    staff: Annotated[Number, Field(ge=0, le=1000)] | None = Field(
        None,
        title="Staff",
        description="Posts for 1,000 GPUs. Blank: the catalogue's.",
        json_schema_extra={"group": "ownership"},
    )
    colocation: Annotated[DollarsPerJoule, Field(ge=0, le=1)] | None = Field(
        None,
        title="Colocation",
        description="Such as 180 USD/kW-month, energy apart. Blank: the catalogue's.",
        json_schema_extra={"group": "ownership"},
    )
    lease: Annotated[DollarsPerSecond, Field(ge=0, le=100)] | None = Field(
        None,
        title="Lease of one GPU",
        description="Such as 2,500 USD/month. Blank: the book's, where it has one.",
        json_schema_extra={"group": "ownership"},
    )

    grow_to: Annotated[Count, Field(ge=1, le=MOST_GPUS)] | None = Field(
        None,
        title="Grows to",
        description="GPUs of the last phase. Blank: four times as many.",
        json_schema_extra={"group": "ownership"},
    )
    grow_after: Annotated[Seconds, Field(gt=0, le=1e10)] | None = Field(
        None,
        title="Grows after",
        description="Time between the phases. Blank: the catalogue's year.",
        json_schema_extra=about("ownership", Usual.read("3 months", "1 year", "4 years", "s")),
    )

    def scenario(self) -> Scenario:
        """The cluster and its job alone."""
        return self.part(Scenario)

    def growth(self) -> Growth:
        """How the cluster grows."""
        return Growth(self.grow_to, self.grow_after, self.interest)

    def terms(self) -> Terms:
        """How a cluster of one's own would be paid for."""
        values = vars(self)
        return Terms(**{name: values[name] for name in Terms.__dataclass_fields__})


@record
class NetworkCost(Generic[Q]):
    """What one network costs at the cluster's size. Cards are priced by themselves, whatever a server's price holds."""

    network: str = result("", "Network", "Key of the link or of the network generation.", listed=False)
    name: str = result("", "Network", "Its name.")
    family: str = result("", "Family", "nvlink, infiniband, roce, …", listed=False)
    edition: str = result("", "Price book", "market or rule-of-thumb.", words="edition")
    reach: int | None = result("1", "GPUs joined", "How many GPUs it joins; null where it cannot be built.")
    cost: Q = result("USD", "Cost", "Cards, switches, modules, cables and spares; of NVLink its share of all nodes.")
    per_port: Q = result("USD", "Per port", "Cost over NIC ports in use.", formula="costs.per")
    per_gpu: Q = result("USD", "Per GPU", "Cost over GPUs.", formula="costs.per")
    per_bandwidth: Q = result(
        "USD/(GB/s)", "Per GB/s of a GPU", "Cost of a GPU's share over the one-way rate it has.", formula="costs.per"
    )
    per_bisection: Q = result(
        "USD/(Gb/s)", "Per Gb/s of bisection", "Cost over the worst cut's rate, one way.", formula="costs.per"
    )
    running: Q = result(
        "USD/year",
        "Running cost per GPU",
        "Energy and support of switches, modules and cards of a year, over GPUs.",
        formula="costs.operating",
    )
    per_million_tokens: Q = result(
        "USD",
        "Per million tokens",
        "What the whole cluster, owned, costs for a million tokens of the job with this network.",
        formula="costs.run",
    )
    switch: str = result("", "Switch", "Key of the leaf switch; blank where there is none to choose.")
    tiers: int | None = result("1", "Tiers", "Tiers of switches.")


@record
class SizeCost(Generic[Q]):
    """What one network costs at one size."""

    network: str = result("", "Network", "Key of the network generation.")
    edition: str = result("", "Price book", "market or rule-of-thumb.", words="edition")
    gpus: int = result("1", "GPUs", "GPUs of the cluster.")
    tiers: int | None = result("1", "Tiers", "Tiers of switches; null where it cannot be built.")
    per_port: Q = result("USD", "Per port", "Cost over NIC ports in use.", formula="costs.per")
    per_gpu: Q = result("USD", "Per GPU", "Cost over GPUs.", formula="costs.per")
    per_bisection: Q = result(
        "USD/(Gb/s)", "Per Gb/s of bisection", "Cost over the worst cut's rate, one way.", formula="costs.per"
    )


@record
class ClaimRow:
    """What is computed for a claim at one size."""

    edition: str = result("", "Price book", "market or rule-of-thumb.", words="edition")
    gpus: int = result("1", "GPUs", "GPUs of the cluster.")
    first: float | None = result("USD", "First", "What the claim's first network costs, typically.")
    second: float | None = result("USD", "Second", "What its second costs.")
    ratio: float | None = result("1", "Ratio", "The first over the second.")


@record
class ArticleClaim:
    """What an article says of cost, and what the prices of today say."""

    says: str = result("", "Article", "The claim.")
    source: str = result("", "Source", "Key of the article among the sources.")
    verdict: str = result("", "Verdict", "yes, no or partly, by the market's prices.")
    finding: str = result("", "Finding", "What was computed, as a sentence.")
    first: str = result("", "First", "What is held against the second.")
    second: str = result("", "Second", "What it is held against.")
    rows: tuple[ClaimRow, ...] = result("", "Rows", "Each size, in each edition.", default=())


@record
class CostStudy(Generic[Q]):
    """Networks side by side, the articles' claims, and owning against renting."""

    networks: tuple[NetworkCost[Q], ...] = result(
        "", "Networks side by side", "Each network at the cluster's size, in each edition.", table="network_costs"
    )
    sizes: tuple[SizeCost[Q], ...] = result("", "By size", "Each network, in each edition, against cluster size.")
    claims: tuple[ArticleClaim, ...] = result("", "Articles", "What articles say of cost, held against prices.")
    choice: tuple[Weighed, ...] = result(
        "",
        "InfiniBand or Ethernet",
        "Both planned in full, as planned and where nobody tunes, and at other sizes.",
        table="which_network",
    )
    ownership: BuyOrRent[Q] = result("", "Buy, lease or rent", "A cluster of one's own against others'.")
    phases: Phases[Q] = result("", "Growing in phases", "What of the network to buy before the cluster grows.")


def in_force(question: CostQuestion, catalog: Catalog) -> dict[str, float | None]:
    """What the fields of growing and owning stand at, the blank ones too; ``None`` where nothing is known."""
    network = network_of(question.scenario(), catalog)
    owned, growth = ownership(network, network.prices), question.growth()
    return {
        **terms_in_force(owned, question.terms(), catalog),
        "price_gpu_hour": owned.rates.rent.typical if owned.rates.rent else None,
        "grow_to": growth.goal(question.gpus),
        "grow_after": growth.time_between(catalog).typical,
    }


FAMILIES = ("infiniband", "roce", "spectrum-x", "ultra-ethernet", "tcp")


def networks_of(scenario: Scenario, catalog: Catalog) -> tuple[str, ...]:
    """Generations on sale of InfiniBand and of each kind of Ethernet, near the usual rate, and the planner's own."""
    shown = port_cost.generations(scenario, catalog)
    rates = {catalog.scale_out[key].port_rate.typical for key in shown}
    return tuple(
        key
        for key, entry in catalog.scale_out.items()
        if key in shown
        or (
            entry.family in FAMILIES
            and entry.status not in EARLY
            and min(rates) <= entry.port_rate.typical <= max(rates)
        )
    )


@nan_is_an_answer
def cost_study(question: CostQuestion, catalog: Catalog) -> CostStudy:
    """What networks cost at the question's size and at others, and how owning compares with renting."""
    check_keys(question, catalog)
    scenario = question.scenario()
    network = network_of(scenario, catalog)
    owned = ownership(network, network.prices)
    keys = networks_of(scenario, catalog)
    apart = scenario.model_copy(update={"nics_included": False})
    by_size = {
        edition: port_cost.by_size(apart.model_copy(update={"price_book": edition}), catalog, keys, SIZES)
        for edition in EDITIONS
    }
    study: CostStudy = fold(
        CostStudy[Draws](
            networks=(*_scale_up(network.cluster, catalog, network.prices), *_networks(scenario, keys, catalog)),
            sizes=tuple(_by_size(by_size)),
            claims=tuple(_claims(by_size, scenario, catalog)),
            choice=weighed(scenario, catalog),
            ownership=buy_or_rent(owned, question.terms(), catalog),
            phases=phases(scenario, owned, question.growth(), catalog),
        )
    )
    return study


# Networks at one size -------------------------------------------------------------------------------------------------


def _networks(scenario: Scenario, keys: Sequence[str], catalog: Catalog) -> Iterator[NetworkCost[Draws]]:
    priced = scenario.price_book if scenario.price_book in EDITIONS else MARKET
    for key in keys:
        variant = on_network(scenario, key)
        tokens = _per_million_tokens(variant, catalog)
        for edition in EDITIONS:
            apart = variant.model_copy(update={"price_book": edition, "nics_included": False})
            yield _network(network_of(apart, catalog), edition, tokens if edition == priced else UNKNOWN)


UNKNOWN = Draws(draws_or_nan(None))


def _per_million_tokens(scenario: Scenario, catalog: Catalog) -> Draws:
    """What the cluster costs for a million tokens of the job, by the prices asked for [USD]."""
    run = stages(scenario, catalog).costs.per_run
    return Draws(np.asarray(run.values / scenario.training_tokens * BATCH), used=run.used, residual=run.residual)


def _network(network: Network, edition: str, tokens: Draws) -> NetworkCost[Draws]:
    """One network, priced with its cards by themselves."""
    cluster, built, prices = network.cluster, network.built, network.prices
    entry = cluster.scale_out
    design = built.design if built else None
    rate = entry.port_rate.draws() * cluster.nics_per_node / cluster.gpus_per_node
    cut = design.bisection * entry.port_rate.draws() / network.request.planes if design else np.nan
    each = costs.per(network.cost, cluster.gpus)
    support, pue = prices.rate("support"), prices.rate("pue")
    year = prices.catalog.operations["site"]["year"].typical
    electricity = prices.electricity()
    running = costs.operating(
        network.typical_power, pue.draws(), draws_or_nan(electricity), network.cost, support.draws(), year
    )
    paid_for = (support, pue, *((electricity,) if electricity else ()), *network.power_sources)

    def spent(values: Array, *used: Estimate) -> Draws:
        return Draws(np.asarray(values) + np.zeros_like(network.cost), used=(*network.used, *used))

    return NetworkCost(
        network=entry.key,
        name=entry.name,
        family=entry.family,
        edition=edition,
        reach=cluster.gpus if built else None,
        switch=network.switch,
        tiers=network.tiers,
        cost=spent(network.cost),
        per_port=spent(costs.per(network.cost, float(design.hosts) if design else 0)),
        per_gpu=spent(each),
        per_bandwidth=spent(costs.per(each, rate / units.GIGABYTE), entry.port_rate),
        per_bisection=spent(costs.per(network.cost, cut / units.GIGABIT), entry.port_rate),
        running=spent(costs.per(running, cluster.gpus), *paid_for),
        per_million_tokens=tokens,
    )


def _scale_up(cluster: Cluster, catalog: Catalog, prices: PriceList) -> Iterator[NetworkCost[Draws]]:
    """The links inside the cluster's own domains, those of a rack where its domains are smaller, and optical ones."""
    server = cluster.platform
    rack = catalog.platforms["gb300-nvl72"]
    platforms = [server] if server.scale_up_price == rack.scale_up_price else [server, rack]
    for platform in platforms:
        link = catalog.scale_up[catalog.gpus[platform.gpus[0]].scale_up]
        if price := prices.scale_up(platform):
            name = f"{link.name}, {platform.short_name}"
            yield _links(link, name, platform.scale_up_domain, price, platform.scale_up_domain, cluster.gpus)
    optics = prices.book(SCALE_UP_OPTICS)
    if optics:
        link = catalog.scale_up[catalog.gpus[rack.gpus[0]].scale_up]
        name = f"{link.name} as optics, beyond {rack.scale_up_domain} GPUs"
        yield _links(link, name, link.largest_domain, optics, rack.scale_up_domain, cluster.gpus)


def _links(link: ScaleUp, name: str, reach: int, price: Estimate, priced: int, gpus: int) -> NetworkCost[Draws]:
    """Links whose price is for so many GPUs, ``priced``, in a cluster of ``gpus``."""
    each = costs.per(price.draws(), priced)
    rate = link.bandwidth
    cut = priced / 2 * rate.draws()

    def spent(values: Array, *used: Estimate) -> Draws:
        return Draws(np.asarray(values), used=(price, *used))

    return NetworkCost(
        network=link.key,
        name=name,
        family=link.family,
        edition=MARKET,
        reach=reach,
        switch="",
        tiers=1,
        cost=spent(each * gpus),
        per_port=UNKNOWN,
        per_gpu=spent(each),
        per_bandwidth=spent(costs.per(each, rate.draws() / units.GIGABYTE), rate),
        per_bisection=spent(costs.per(price.draws(), cut / units.GIGABIT), rate),
        running=UNKNOWN,
        per_million_tokens=UNKNOWN,
    )


# By size --------------------------------------------------------------------------------------------------------------


def _by_size(by_edition: Mapping[str, Sequence[port_cost.PortCurve]]) -> Iterator[SizeCost[Draws]]:
    for edition, curves in by_edition.items():
        for curve in curves:
            for place, gpus in enumerate(curve.gpus.astype(int).tolist()):
                tiers = float(curve.tiers[place])
                yield SizeCost(
                    network=curve.scale_out,
                    edition=edition,
                    gpus=gpus,
                    tiers=int(tiers) if np.isfinite(tiers) else None,
                    per_port=Draws(curve.cost_per_host_port[place], used=curve.used),
                    per_gpu=Draws(curve.cost_per_gpu[place], used=curve.used),
                    per_bisection=Draws(curve.cost_per_bisection[place], used=curve.used),
                )


# What articles say ----------------------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """Two networks that a claim holds against one another."""

    first: str
    second: str


NDR = _Pair("infiniband-ndr", "roce-400")
XDR = _Pair("infiniband-xdr", "roce-800")


def _rows(by_edition: Mapping[str, Sequence[port_cost.PortCurve]], pair: _Pair) -> Iterator[ClaimRow]:
    """Cost of a port of two networks at each size, in each edition."""
    for edition, curves in by_edition.items():
        ports = {
            curve.scale_out: dict(zip(curve.gpus, curve.cost_per_host_port[:, 0], strict=True)) for curve in curves
        }
        for gpus in CLAIMED:
            first, second = (ports.get(key, {}).get(float(gpus), np.nan) for key in pair)
            yield ClaimRow(
                edition=edition,
                gpus=gpus,
                first=float(first) if np.isfinite(first) else None,
                second=float(second) if np.isfinite(second) else None,
                ratio=_over(float(first), float(second)),
            )


def _over(first: float, second: float) -> float | None:
    """One cost over another; ``None`` where either is unknown, or the other nothing.

    >>> _over(3.0, 2.0), _over(3.0, 0.0), _over(np.nan, 2.0)
    (1.5, None, None)
    """
    return first / second if second > 0 and np.isfinite(first / second) else None


def _claims(
    by_edition: Mapping[str, Sequence[port_cost.PortCurve]], scenario: Scenario, catalog: Catalog
) -> Iterator[ArticleClaim]:
    """Each claim of the articles on cost, with its rows."""
    names = {key: catalog.scale_out[key].name for key in (*NDR, *XDR)}
    ndr, xdr = tuple(_rows(by_edition, NDR)), tuple(_rows(by_edition, XDR))
    market = [row.ratio for row in ndr if row.edition == MARKET and row.ratio]
    thumb = [row.ratio for row in ndr if row.edition != MARKET and row.ratio]
    if market and thumb:
        several = "yes" if min(market) >= 2 else "no" if max(market) < 2 else "partly"
        yield ArticleClaim(
            "InfiniBand switches and adapters cost several times what Ethernet's do.",
            "insertchat-infiniband",
            several,
            f"A port of {names[NDR.first]} costs {min(market):.2f} to {max(market):.2f} times one of "
            f"{names[NDR.second]} by the market; the articles' own figures give {min(thumb):.2f} to {max(thumb):.2f}. "
            "The same card serves both, so the adapter makes no difference.",
            NDR.first,
            NDR.second,
            ndr,
        )
        yield _at_scale(xdr, ndr, names)
    yield from _roce_port(by_edition, catalog)
    yield from _small(ndr, names)
    yield from _nvlink(scenario, by_edition, catalog)


def _at_scale(xdr: tuple[ClaimRow, ...], ndr: tuple[ClaimRow, ...], names: Mapping[str, str]) -> ArticleClaim:
    """Whether InfiniBand is cheaper per port in large clusters."""

    def large(rows: tuple[ClaimRow, ...]) -> list[float]:
        return [row.ratio for row in rows if row.edition == MARKET and row.gpus > CLAIMED[1] and row.ratio]

    newer, older = large(xdr), large(ndr)
    cheaper = [ratio < 1 for ratio in (*newer, *older)]
    said = ", ".join(
        f"{names[pair.first]} {min(ratios):.2f} to {max(ratios):.2f} times {names[pair.second]}"
        for pair, ratios in ((XDR, newer), (NDR, older))
        if ratios
    )
    return ArticleClaim(
        "InfiniBand's cost per port is lower at scale.",
        "jarvislabs-nvlink-infiniband",
        "yes" if cheaper and all(cheaper) else "partly" if any(cheaper) else "no",
        f"Above {CLAIMED[1]:,} GPUs: {said}. What decides is how many ports a switch has, and so how many tiers it "
        "takes, not the protocol.",
        XDR.first,
        XDR.second,
        xdr,
    )


def _roce_port(by_edition: Mapping[str, Sequence[port_cost.PortCurve]], catalog: Catalog) -> Iterator[ArticleClaim]:
    """What the articles' price of a RoCE NIC buys."""
    card = catalog.prices[MARKET].prices.get("connectx-7")
    rows = []
    for edition, curves in by_edition.items():
        for curve in (curve for curve in curves if curve.scale_out == NDR.second):
            port_costs = dict(zip(curve.gpus, curve.cost_per_host_port[:, 0], strict=True))
            at = {gpus: port_costs.get(float(gpus), np.nan) for gpus in CLAIMED}
            rows += [
                ClaimRow(edition, gpus, float(port), card.typical, float(port / card.typical))
                for gpus, port in at.items()
                if card and np.isfinite(port)
            ]
    ports = [row.first for row in rows if row.edition == MARKET and row.first]
    if card and ports:
        yield ArticleClaim(
            "A RoCE port costs $1,000 to $2,000.",
            "infiniband-knowledge-base",
            "no" if min(ports) > 2000 else "yes",
            f"The card alone costs {units.show(card.typical, 'USD')}; a connected port, with its share of switches, "
            f"modules and cables, {units.show(min(ports), 'USD')} to {units.show(max(ports), 'USD')}.",
            NDR.second,
            "connectx-7",
            tuple(rows),
        )


def _small(ndr: tuple[ClaimRow, ...], names: Mapping[str, str]) -> Iterator[ArticleClaim]:
    """Whether Ethernet is the cheaper one in a small cluster."""
    rows = tuple(row for row in ndr if row.gpus == CLAIMED[0])
    ratio = next((row.ratio for row in rows if row.edition == MARKET), None)
    if ratio:
        yield ArticleClaim(
            "For small clusters Ethernet gives more for the money.",
            "infiniband-knowledge-base",
            "yes" if ratio > 1.02 else "no" if ratio < 0.98 else "partly",
            f"At {CLAIMED[0]} GPUs a port of {names[NDR.first]} costs {ratio:.2f} times one of {names[NDR.second]}: "
            "one switch carries them all.",
            NDR.first,
            NDR.second,
            rows,
        )


def _nvlink(
    scenario: Scenario, by_edition: Mapping[str, Sequence[port_cost.PortCurve]], catalog: Catalog
) -> Iterator[ArticleClaim]:
    """Whether NVLink is the dearer one, for the bandwidth it gives."""
    platform = catalog.platforms["gb300-nvl72"]
    price = PriceList.of(scenario.part(PriceRequest), catalog).scale_up(platform)
    link = catalog.scale_up[catalog.gpus[platform.gpus[0]].scale_up]
    curve = next((curve for curve in by_edition[MARKET] if curve.scale_out == NDR.first), None)
    if price is None or curve is None:
        return
    nvlink = price.typical / platform.scale_up_domain / (link.bandwidth.typical / units.GIGABYTE)
    cluster = look_up(scenario, catalog)
    rate = curve.rate * cluster.nics_per_node / cluster.gpus_per_node / units.GIGABYTE
    ndr = dict(zip(curve.gpus, curve.cost_per_gpu[:, 0] / rate, strict=True))
    rows = tuple(
        ClaimRow(MARKET, gpus, nvlink, float(ndr[gpus]), _over(nvlink, float(ndr[gpus])))
        for gpus in CLAIMED
        if np.isfinite(ndr.get(float(gpus), np.nan))
    )
    optics = catalog.prices[MARKET].prices.get(SCALE_UP_OPTICS)
    if rows:
        each = price.typical / platform.scale_up_domain
        dearer = f": as optics it would cost {optics.typical / price.typical:.0f} times as much" if optics else ""
        yield ArticleClaim(
            "NVLink costs more than InfiniBand.",
            "jarvislabs-nvlink-infiniband",
            "no" if all(row.ratio and row.ratio < 1 for row in rows) else "yes",
            f"For each GB/s of a GPU {link.name} costs {units.show(nvlink, 'USD')}, InfiniBand NDR "
            f"{units.show(min(row.second or 0 for row in rows), 'USD')} and more; {units.show(each, 'USD')} a GPU in "
            f"all. It ends at {platform.scale_up_domain} GPUs and the reach of copper{dearer}.",
            link.key,
            NDR.first,
            rows,
        )
