"""Many whole plans as columns: each stage is worked out once for all points that do not differ in what it reads.

A grid's fields reach a plan's stages in turn: the site (cluster and network), the job, the run and the money. Of points
on equal sites the network is designed once, and networks that differ in size alone are priced as one; jobs in which all
is given, runs and money are arrays with one number a point, by the very functions that a single plan is made of.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL
from app.formulas import transformer
from app.formulas.arrays import distinct, grouped, typical_of
from app.formulas.collectives.group_times import Links
from app.formulas.records import but
from app.formulas.training.goodput import campaign_time, time_to_train
from app.plan.all_reduce import time_all_reduce
from app.plan.band import Draws, nan_is_an_answer
from app.plan.cluster import Cluster, look_up_sizes
from app.plan.communication import Communication, links_of_each
from app.plan.declarations import figures, value_of
from app.plan.findings import of_links
from app.plan.job.breakdown import campaign_overhead
from app.plan.job.inputs import JobRequest, JobSetup, first_links, spread_of, step_inputs
from app.plan.job.job import fabric_on
from app.plan.job.job_columns import (
    DEGREES,
    NAMED,
    SIZES,
    GivenJob,
    JobColumns,
    given_jobs,
    is_given,
    own_number,
    searched_jobs,
)
from app.plan.job.job_findings import no_progress
from app.plan.job.shape import usual_message
from app.plan.job.storage import checkpointing
from app.plan.network import Inputs, Network, fabric_result, networks_from, sites_of, tapered_alike, together
from app.plan.prices import OF_NO_DESIGN, PriceList
from app.plan.result import Finding, Plan
from app.plan.scenario import (
    SHAPE,
    ClusterRequest,
    CollectiveRequest,
    ModelRequest,
    NetworkRequest,
    OperationRequest,
    ParallelismRequest,
    PriceRequest,
    Request,
    Scenario,
    SoftwareRequest,
)
from app.plan.total_cost import Ownership, TotalCost, cluster_result, cost_columns, ownership

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Objects = NDArray[np.object_]

OF_RUNS = (
    "training.step_time", "training.time_to_train", "training.productive_time", "training.campaign_time",
    "training.mfu", "training.tokens_per_second", "memory.total",
)  # fmt: skip
"""Results of a job that columns have."""
DEGREES_FOUND = tuple(f"training.parallelism.{name}" for name in NAMED)
"""Results that say how a job is spread."""
COLUMNS = frozenset((*OF_RUNS, *DEGREES_FOUND)) | {
    name for name in figures(Plan) if name.startswith(("costs.", "cluster.", "fabric.", "all_reduce."))
}  # fmt: skip
"""Results that columns have."""
QUANTITIES = frozenset({
    "cluster.power", "cluster.typical_power", "cluster.memory", "fabric.bisection_per_gpu", "fabric.cost",
    "fabric.cost_per_host_port", "fabric.cost_per_switch_port", "fabric.cost_per_gpu", "fabric.cost_per_bisection",
    "fabric.share_of_capital", "fabric.power", "fabric.typical_power",
})  # fmt: skip
"""Those of hardware that networks which are alike have as columns; other results of it each has by itself."""


def _names(*kinds: type[Request]) -> set[str]:
    return {name for kind in kinds for name in kind.model_fields}


TOGETHER = frozenset({"gpu", "platform", "model", "parameters", "workload", *SHAPE})
"""Fields whose values are right or wrong together."""
COUNTED = (*DEGREES, *SIZES)
"""Numbers of a job that can be columns."""
SPREAD = ("jitter", "slow_node")
"""Fields of a network that say how its nodes spread, which are columns of a job's constants."""
OF_MONEY = frozenset({"pue", "region", "storage_capacity", "site_power", "rack_power"})
"""Fields that no network depends on, and that are no columns of prices."""
OF_TRAFFIC = frozenset({
    "load_balancing", "placement", "tuned", "in_network_reduction", "flow_control", "congestion_control", "jitter",
    "slow_node", "degraded_link", "link_rate_left", "link_loss",
})  # fmt: skip
"""Fields of a network that change nothing of what is bought."""
OF_PRICES = frozenset(_names(PriceRequest))
OF_NETWORK = (_names(ClusterRequest, NetworkRequest) | OF_PRICES) - OF_TRAFFIC - OF_NO_DESIGN - OF_MONEY
OF_SITE = (OF_NETWORK | OF_TRAFFIC | _names(CollectiveRequest) | {"graphs"}) - {"message", *SPREAD}
TAPERS = ("oversubscription", "spine_oversubscription")
OF_SIZE = frozenset({"gpus", *TAPERS}) | OF_PRICES
"""Fields of a site that say nothing of its nodes, and nothing of its network but how large that is."""
OF_JOB = frozenset(
    _names(ModelRequest, ParallelismRequest, SoftwareRequest) - {"training_tokens", "graphs"} - set(COUNTED)
)
OF_RUN = frozenset(_names(OperationRequest))
MOST_KEPT = 512
"""Sites, jobs, and networks as columns that are kept for later points."""


@dataclass(frozen=True)
class _Values:
    """Values of a field in turn: what they mean in base units, what is wrong with any of them, which are blank."""

    checked: Sequence[Any]
    errors: Objects | None
    blank: NDArray[np.bool_]

    @classmethod
    def of(cls, name: str, given: Sequence[Any], catalog: Catalog) -> "_Values":
        """Those of a field of a scenario, checked."""
        entry = Scenario.model_fields[name]
        reader: TypeAdapter[Any] = TypeAdapter(entry.rebuild_annotation())
        checked, errors = [], []
        for value in given:
            error = ""
            try:
                blank = isinstance(value, str) and not value.strip()
                read = entry.default if blank else reader.validate_python(value, context={"catalog": catalog})
            except ValidationError as wrong:
                read, error = entry.default, unreadable(wrong, name)
            checked.append(read)
            errors.append(error)
        blanks = np.array([value is None for value in checked])
        return cls(checked, np.array(errors, object) if any(errors) else None, blanks)

    @cached_property
    def numbers(self) -> Floats:
        """The same as numbers; none for blanks."""
        return np.array([0 if value is None else value for value in self.checked])


@dataclass(eq=False)
class _Site:
    """A cluster, its network and what times its transfers, however its nodes spread."""

    network: Network
    fabric: Communication
    links: Links
    error: str

    def spreading(self, scenario: Scenario) -> Communication:
        """What times its transfers where its nodes spread as in a scenario."""
        spread = {name: getattr(scenario, name) for name in SPREAD}
        alike = all(getattr(self.fabric, name) == value for name, value in spread.items())
        return self.fabric if alike else but(self.fabric, **spread)


@dataclass(frozen=True, eq=False)
class _Hardware:
    """Points with networks that are alike at the same prices, but for those of the prices that are columns.

    Attributes:
        members: which points.
        networks, which: the different networks, and of each point which it has.
        whole: these networks as one whose numbers are columns.
        prices, paid: the prices that all have, and the others.
    """

    members: Whole
    networks: tuple[Network, ...]
    which: Whole
    whole: Network
    prices: PriceList
    paid: Mapping[str, Floats]

    @cached_property
    def owned(self) -> Sequence[Ownership]:
        """What each of the clusters costs to buy and keep, at these prices."""
        return [ownership(network, self.prices) for network in self.networks]

    def cost(self, times: Floats) -> TotalCost:
        """What all of them cost, and runs that take so long [s]."""
        network = self.whole if len(self.networks) == 1 else self.whole.at(self.which)
        return cost_columns(network, self.prices, self.paid, times)

    def figure(self, name: str, cost: TotalCost) -> Any:
        """A result of hardware or money, one for all or one of each."""
        part, _, path = name.partition(".")
        owned = cost.owned
        if part == "costs":
            return _plain(value_of(cost.costs, path))
        if name in QUANTITIES:
            if part == "cluster":
                return _plain(cluster_result(owned, path))
            return _plain(fabric_result(owned.network, owned.capital, path))
        head, _, rest = path.partition(".")
        if part == "cluster":
            values = [cluster_result(each, head) for each in self.owned]
        else:
            values = [fabric_result(network, owned.capital, head) for network in self.networks]
        each = np.empty(len(values), object)
        each[:] = [_single(value_of(value, rest) if rest else value) for value in values]
        return each[self.which]


@dataclass(frozen=True, eq=False)
class _Job:
    """A job on clusters that are alike, as far as its fields are not counted.

    Attributes:
        setup: the job on one of the clusters.
        scenario: what is asked of that one.
        given: whether all of the job is given.
        parameters: of its model [1].
    """

    setup: JobSetup
    scenario: Scenario
    given: bool
    parameters: float

    @staticmethod
    def of(setup: JobSetup, scenario: Scenario) -> "_Job":
        """That of a scenario."""
        return _Job(setup, scenario, is_given(setup), float(transformer.parameters(setup.inputs.shape)))


@dataclass(slots=True, eq=False)
class _Asked:
    """A job on a site; of those that are searched, in which columns and where what came of each is."""

    site: _Site
    job: _Job
    searched: dict[tuple[int, ...], tuple[JobColumns, int]] = field(default_factory=dict)


class _Rows(NamedTuple):
    """Some points.

    Attributes:
        places: of each field the place of its value.
        kinds, kind: scenarios but for the fields that are checked by themselves, and which of them each point has.
        scenarios: those of points that were asked for, by the fields that are not left blank and their values' places.
    """

    places: Mapping[str, Whole]
    kinds: Sequence[Scenario]
    kind: Whole
    scenarios: dict[tuple[Any, ...], Scenario]


class _Runs(NamedTuple):
    """What jobs take: results by name, the time of the run [s], and why there are none."""

    results: Mapping[str, Objects]
    time: Floats
    error: Objects


class PlanColumns:
    """A grid's plans, by the place of each of their fields' values.

    What is worked out for some points is kept for later ones, of so many sites and jobs.
    """

    def __init__(
        self, base: Mapping[str, Any], grid: Mapping[str, Sequence[Any]], results: Sequence[str], catalog: Catalog
    ) -> None:
        self.catalog = catalog
        self.grid = grid
        self.results = results
        self.single = [name for name in grid if name in Scenario.model_fields and name not in TOGETHER]
        self.together = [name for name in grid if name not in self.single]
        self.base = {name: value for name, value in base.items() if name not in grid}
        self.values = {name: _Values.of(name, grid[name], catalog) for name in self.single}
        self.limited = "site_power" in base or "site_power" in grid
        self.paid = [name for name in self.single if name in OF_NO_DESIGN or (name == "pue" and not self.limited)]
        self.kinds: dict[tuple[int, ...], tuple[Scenario | None, str, int]] = {}
        self.blank = [*self.paid, *(name for name in self.single if name in OF_MONEY)]
        self.sizeless = [*self.blank, "gpus"]
        self.sites: dict[tuple[int, ...], _Site] = {}
        self.jobs: dict[tuple[Any, ...], _Asked] = {}
        self.wholes: dict[tuple[Network, ...], Network] = {}

    @nan_is_an_answer
    def of(self, places: Whole) -> dict[str, list[Any]]:
        """The results at some points and their errors, as columns.

        Args:
            places: of each point the place of each field's value, fields in the grid's order.
        """
        by_name = dict(zip(self.grid, places.T, strict=True))
        rows, error = self._checked(by_name, len(places))
        columns: dict[str, Objects] = {name: np.full(len(places), None, object) for name in self.results}
        fine = np.flatnonzero(error == "")
        if len(fine):
            some = _Rows({name: column[fine] for name, column in by_name.items()}, rows.kinds, rows.kind[fine], {})
            answered, error[fine] = self._answered(some)
            for name, column in answered.items():
                columns[name][fine] = column
        return {name: column.tolist() for name, column in columns.items()} | {"error": error.tolist()}

    # What is asked ---------------------------------------------------------------------------------------------------

    def _checked(self, places: Mapping[str, Whole], count: int) -> tuple[_Rows, Objects]:
        """The points as scenarios, and the first error of each, by the order of fields."""
        order = {name: rank for rank, name in enumerate(Scenario.model_fields)}
        first, kind = distinct([places[name] for name in self.together], count)
        kinds = [self._kind(tuple(int(places[name][row]) for name in self.together)) for row in first]
        error = np.array([text for _, text, _ in kinds], object)[kind]
        rank = np.array([rank for _, _, rank in kinds])[kind]
        for name, values in self.values.items():
            if values.errors is not None:
                text = values.errors[places[name]]
                worse = (text != "") & (order[name] < rank)
                error[worse], rank[worse] = text[worse], order[name]
        fallback = Scenario()
        return _Rows(places, [scenario or fallback for scenario, _, _ in kinds], kind, {}), error

    def _kind(self, key: tuple[int, ...]) -> tuple[Scenario | None, str, int]:
        """What is asked but for the fields that are checked by themselves, or what is wrong with it and where."""
        if key not in self.kinds:
            given = {name: self.grid[name][place] for name, place in zip(self.together, key, strict=True)}
            try:
                scenario = Scenario.model_validate({**self.base, **given}, context={"catalog": self.catalog})
                self.kinds[key] = scenario, "", len(Scenario.model_fields)
            except ValidationError as wrong:
                worst = wrong.errors()[0]
                names = list(Scenario.model_fields)
                rank = names.index(worst["loc"][0]) if worst["loc"] and worst["loc"][0] in names else len(names) - 1
                self.kinds[key] = None, unreadable(wrong), rank
        return self.kinds[key]

    def _scenario(self, rows: _Rows, row: int, without: Sequence[str] = ()) -> Scenario:
        """The scenario of a point; some fields blank."""
        names = [name for name in self.single if name not in without]
        key = (*names, rows.kind[row], *self._key(rows, row, names))
        if key not in rows.scenarios:
            values = {name: self.values[name].checked[rows.places[name][row]] for name in names}
            rows.scenarios[key] = rows.kinds[rows.kind[row]].model_copy(update=values)
        return rows.scenarios[key]

    def _key(self, rows: _Rows, row: int, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(int(rows.places[name][row]) for name in names)

    def _keys(self, rows: _Rows, some: Whole, names: Sequence[str]) -> list[tuple[int, ...]]:
        """The same of some points."""
        return _rows_at(some, [rows.places[name] for name in names])

    def _alike(self, of: Callable[[str], bool]) -> list[str]:
        """Fields of the grid that decide something."""
        return [name for name in self.grid if name in self.together or of(name)]

    # What is answered ------------------------------------------------------------------------------------------------

    def _answered(self, rows: _Rows) -> tuple[dict[str, Objects], Objects]:
        count = len(rows.kind)
        sites, site = self._sites(rows, count)
        asked, which = self._asked(rows, sites, site)
        jobs = self._jobs(rows, asked, which)
        runs = self._runs(rows, asked, which, jobs)
        columns = {name: np.full(count, None, object) for name in self.results}
        columns.update({name: runs.results[name] for name in columns.keys() & runs.results.keys()})
        error = _earlier(np.array([each.error for each in sites], object)[site], runs.error)
        if reduced := [name for name in columns if name.startswith("all_reduce.")]:
            error = _earlier(error, self._reduce(rows, sites, site, {name: columns[name] for name in reduced}))
        asked_for = [name for name in columns if name not in runs.results and name not in reduced]
        for hardware in self._bought(rows, sites, site):
            members = hardware.members
            cost = hardware.cost(runs.time[members])
            for name in asked_for:
                columns[name][members] = hardware.figure(name, cost)
            error[members] = _earlier(error[members], worst(cost.findings))
        return columns, error

    def _reduce(self, rows: _Rows, sites: Sequence[_Site], site: Whole, columns: Mapping[str, Objects]) -> Objects:
        """Fill in the results of the all-reduce; why there are none."""
        names = self._alike(lambda name: name in ("message", *SPREAD))
        first, group = distinct([site, *(rows.places[name] for name in names)], len(site))
        errors = []
        for number, row in enumerate(first):
            scenario = self._scenario(rows, row, self.blank)
            message = scenario.message or usual_message(scenario.part(ModelRequest), self.catalog)
            reduction = time_all_reduce(sites[site[row]].spreading(scenario), message)
            for name, column in columns.items():
                column[group == number] = _plain(value_of(reduction.all_reduce, name.partition(".")[2]))
            errors.append(worst(reduction.findings))
        return np.array(errors, object)[group]

    def _bought(self, rows: _Rows, sites: Sequence[_Site], site: Whole) -> Iterator[_Hardware]:
        """What is bought at the points, such as is alike together."""
        names = [name for name in self.grid if name in OF_PRICES and name not in self.paid]
        blanks = {name: self.values[name].blank[rows.places[name]] for name in self.paid}
        parts = _numbered(each.network.bought for each in sites)
        networks = [sites[place].network for place in np.unique(parts, return_index=True)[1]]
        bought = parts[site]
        kind = np.arange(len(networks)) if self.limited else _numbered(network.alike for network in networks)
        columns = (kind[bought], *(rows.places[name] for name in names), *blanks.values())
        first, group = distinct(columns, len(site))
        for row, members in zip(first, grouped(group), strict=True):
            different, which = np.unique(bought[members], return_inverse=True)
            paid = {
                name: self.values[name].numbers[rows.places[name][members]]
                for name, blank in blanks.items()
                if not blank[row]
            }
            prices = PriceList.of(self._scenario(rows, row, self.paid).part(PriceRequest), self.catalog)
            its = tuple(networks[place] for place in different)
            yield _Hardware(members, its, which, self._whole(its), prices, paid)

    def _whole(self, networks: tuple[Network, ...]) -> Network:
        """Networks that are alike as one. Kept: it takes a millisecond, and thousands of prices of few share it."""
        if len(networks) == 1:
            return networks[0]
        if networks not in self.wholes:
            if sum(map(len, self.wholes)) + len(networks) > MOST_KEPT:
                self.wholes.clear()
            self.wholes[networks] = together(networks)
        return self.wholes[networks]

    def _sites(self, rows: _Rows, count: int) -> tuple[list[_Site], Whole]:
        """The different sites of some points, and which each has."""
        names = self._alike(lambda name: name in OF_SITE)
        first, which = distinct([rows.places[name] for name in names], count)
        if len(self.sites) + len(first) > MOST_KEPT:
            self.sites.clear()
            self.jobs.clear()
        keys = self._keys(rows, first, names)
        missing = {key: row for key, row in zip(keys, first, strict=True) if key not in self.sites}
        if missing:
            self.sites |= zip(missing, self._new_sites(rows, np.array([*missing.values()])), strict=True)
        every = [self.sites[key] for key in keys]
        return [*dict.fromkeys(every)], _numbered(every)[which]

    def _new_sites(self, rows: _Rows, some: Whole) -> list[_Site]:
        """The sites of some points, of which none is asked like another; tapers may come to the same."""
        places = {name: rows.places[name][some] for name in self._alike(lambda name: name in OF_SITE)}
        networks = self._networks(rows, some)
        if not OF_TRAFFIC.isdisjoint(places):
            requests = self._each(rows, some, [*places], lambda scenario: scenario.part(NetworkRequest))
            networks = [network.carrying(its) for network, its in zip(networks, requests, strict=True)]
        if places.keys().isdisjoint(TAPERS):
            return self._sites_of(networks, rows, some)
        _, others = distinct([places[name] for name in places if name not in TAPERS], len(some))
        number = _numbered(zip(others.tolist(), tapered_alike(networks), strict=True))
        first = np.unique(number, return_index=True)[1]
        sites = self._sites_of([networks[place] for place in first], rows, some[first])
        return [sites[which] for which in number.tolist()]

    def _sites_of(self, networks: Sequence[Network], rows: _Rows, some: Whole) -> list[_Site]:
        """The sites of networks that were designed for some points."""
        places = [rows.places[name][some] for name in self._alike(lambda name: name in OF_SITE - OF_SIZE)]
        _, node = distinct(places, len(some))
        errors = []
        numbers: dict[Hashable, int] = {}
        alike: dict[int, list[int]] = {}
        wrong: dict[tuple[int, int], str] = {}
        for place, (nodes, network) in enumerate(zip(node.tolist(), networks, strict=True)):
            cluster = network.cluster
            like = numbers.setdefault((cluster.alike, nodes), len(numbers))
            alike.setdefault(like, []).append(place)
            linked = like, 0 if cluster.nics_per_node else cluster.nodes
            if linked not in wrong:
                wrong[linked] = worst(of_links(cluster, self._scenario(rows, some[place], self.sizeless)))
            errors.append(wrong[linked] or worst(network.faults))
        of_each: dict[int, tuple[Communication, Links]] = {}
        for places_alike in alike.values():
            its = [networks[place] for place in places_alike]
            fabric = fabric_on(its[0], self._scenario(rows, some[places_alike[0]], self.sizeless), self.catalog)
            fabrics = [fabric, *fabric.on_each(sites_of(its[1:]), [network.hops for network in its[1:]])]
            links = map(first_links, links_of_each(fabrics, TYPICAL))
            of_each |= zip(places_alike, zip(fabrics, links, strict=True), strict=True)
        return [_Site(network, *of_each[place], errors[place]) for place, network in enumerate(networks)]

    def _networks(self, rows: _Rows, some: Whole) -> list[Network]:
        """The networks of some points, those that are bought alike designed once."""
        names = self._alike(lambda name: name in OF_NETWORK)
        first, which = distinct([rows.places[name][some] for name in names], len(some))
        others = [rows.places[name][some[first]] for name in names if name not in TAPERS]
        designed = networks_from(self._inputs(rows, some[first]), distinct(others, len(first))[1].tolist())
        return [designed[place] for place in which.tolist()]

    def _inputs(self, rows: _Rows, some: Whole) -> list[Inputs]:
        """What the networks of some points are designed from, none like another."""
        names = self._alike(lambda name: name in OF_NETWORK)
        requests = self._requests(rows, some)
        prices = self._each(
            rows,
            some,
            [name for name in names if name in self.together or name in OF_PRICES],
            lambda scenario: PriceList.of(scenario.part(PriceRequest), self.catalog),
        )
        return [*zip(self._clusters(rows, some), requests, prices, strict=True)]

    def _requests(self, rows: _Rows, some: Whole) -> list[NetworkRequest]:
        """What is asked of the networks of some points, of those that differ in their tapers alone read once."""
        names = self._alike(lambda name: name in OF_NETWORK and name not in TAPERS)
        requests = self._each(rows, some, names, lambda scenario: scenario.part(NetworkRequest))
        tapers = [name for name in TAPERS if name in self.values]
        if not tapers:
            return requests
        columns = [[self.values[name].checked[place] for place in rows.places[name][some]] for name in tapers]
        changes = (dict(zip(tapers, values, strict=True)) for values in zip(*columns, strict=True))
        return [request.model_copy(update=its) for request, its in zip(requests, changes, strict=True)]

    def _each(self, rows: _Rows, some: Whole, names: Sequence[str], of: Callable[[Scenario], Any]) -> list[Any]:
        """What is made of the scenario of each of some points, once of those that agree in some fields."""
        first, which = distinct([rows.places[name][some] for name in names if name != "gpus"], len(some))
        results = [of(self._scenario(rows, row, self.sizeless)) for row in some[first]]
        return [results[place] for place in which.tolist()]

    def _clusters(self, rows: _Rows, some: Whole) -> list[Cluster]:
        """The clusters of some points: of each kind of nodes each size is looked up once."""
        names = self._alike(lambda name: name in OF_NETWORK and name not in OF_SIZE)
        first, node = distinct([rows.places[name][some] for name in names], len(some))
        given = self.values.get("gpus")
        clusters: dict[int, Cluster] = {}
        for row, members in zip(some[first], grouped(node), strict=True):
            scenario = self._scenario(rows, row, self.sizeless)
            gpus = (
                given.numbers[rows.places["gpus"][some[members]]].tolist() if given else [scenario.gpus] * len(members)
            )
            sizes = [*dict.fromkeys(gpus)]
            by_size = dict(zip(sizes, look_up_sizes(scenario, sizes, self.catalog), strict=True))
            clusters |= zip(members.tolist(), map(by_size.__getitem__, gpus), strict=True)
        return [clusters[place] for place in range(len(some))]

    def _asked(self, rows: _Rows, sites: Sequence[_Site], site: Whole) -> tuple[list[_Asked], Whole]:
        """The different jobs, but for what is counted, and which each point has."""
        names = self._alike(lambda name: name in OF_JOB)
        counted = [name for name in COUNTED if name in self.values]
        blanks = [self.values[name].blank[rows.places[name]] for name in counted]
        first, which = distinct([site, *(rows.places[name] for name in names), *blanks], len(site))
        if len(self.jobs) + len(first) > MOST_KEPT:
            self.jobs.clear()
        asked = []
        alike: dict[Hashable, _Job] = {}
        jobs = zip(self._keys(rows, first, names), _rows_at(first, blanks), strict=True)
        for row, number, job in zip(first.tolist(), site[first].tolist(), jobs, strict=True):
            on = sites[number]
            known = self.jobs.get((on, job))
            if known is None:
                cluster, fabric = on.network.cluster, on.fabric
                kind = cluster.gpu.key, cluster.domain, fabric.jitter, fabric.slow_node, job
                if kind not in alike:
                    scenario = self._scenario(rows, row, self.paid)
                    alike[kind] = _Job.of(self._setup(on, scenario), scenario)
                known = self.jobs[on, job] = _Asked(on, alike[kind])
            asked.append(known)
        return asked, which

    def _setup(self, site: _Site, scenario: Scenario) -> JobSetup:
        request, cluster = JobRequest.of(scenario, self.catalog), site.network.cluster
        inputs = step_inputs(cluster, site.spreading(scenario), request, self.catalog)
        return JobSetup.of(cluster, request, self.catalog, inputs)

    def _jobs(self, rows: _Rows, asked: Sequence[_Asked], which: Whole) -> JobColumns:
        """What each point's job takes."""
        counted = [name for name in COUNTED if name in self.values]
        varied = [*counted, *(name for name in SPREAD if name in self.values)]
        first, job = distinct([which, *(rows.places[name] for name in varied)], len(which))
        owners = which[first]
        all_given = np.array([each.job.given for each in asked])
        given = all_given[owners]
        parts, places = [], []
        if given.any():
            jobs = [
                GivenJob(each.job.setup, each.site.network.cluster.gpus, each.site.links)
                for each in asked
                if each.job.given
            ]
            owner = (np.cumsum(all_given) - 1)[owners[given]]
            columns = {name: self._counted(name, rows, first[given], jobs, owner) for name in counted}
            parts.append(given_jobs(jobs, owner, columns, self._spread(rows, first[given], asked, owners[given])))
            places.append(np.flatnonzero(given))
        if not given.all():
            parts.append(self._searched(rows, [asked[owner] for owner in owners[~given]], first[~given], varied))
            places.append(np.flatnonzero(~given))
        return JobColumns.of(parts, places, len(first)).at(job)

    def _counted(self, name: str, rows: _Rows, some: Whole, jobs: Sequence[GivenJob], owner: Whole) -> Whole:
        """A number of some jobs that are given; where it is blank, what follows from the rest, if anything does."""
        values, places = self.values[name], rows.places[name][some]
        blank, numbers = values.blank[places], values.numbers.astype(np.int64)[places]
        if not blank.any():
            return numbers
        automatic = np.array([own_number(job.setup, name) or 0 for job in jobs])
        return np.where(blank, automatic[owner], numbers)

    def _spread(self, rows: _Rows, some: Whole, asked: Sequence[_Asked], owners: Whole) -> Mapping[str, Any]:
        """The constants of the spread of some points' nodes; none where the grid does not vary it."""
        if not self.values.keys() & set(SPREAD):
            return {}
        of_site = {name: np.array([getattr(each.site.fabric, name) for each in asked])[owners] for name in SPREAD}
        varied = {name: self.values[name].numbers[rows.places[name][some]] for name in SPREAD if name in self.values}
        return spread_of(**(of_site | varied), catalog=self.catalog)

    def _searched(self, rows: _Rows, asked: Sequence[_Asked], first: Whole, varied: Sequence[str]) -> JobColumns:
        """The jobs at some points whose parallelism is looked for, those that were not found before in few calls."""
        for each in asked:
            if len(each.searched) > MOST_KEPT:
                each.searched.clear()
        keys = self._keys(rows, first, varied)
        missing = [place for place, (each, key) in enumerate(zip(asked, keys, strict=True)) if key not in each.searched]
        if missing:
            setups: list[JobSetup] = []
            alike: dict[Hashable, JobSetup] = {}
            for place in missing:
                each, kind = asked[place], (asked[place].job, keys[place])
                if kind not in alike:
                    alike[kind] = self._setup(each.site, self._scenario(rows, first[place], self.paid))
                setups.append(alike[kind].on(each.site.network.cluster, each.site.links))
            searched = searched_jobs(setups)
            for number, place in enumerate(missing):
                asked[place].searched[keys[place]] = searched, number
        places: dict[int, list[int]] = {}
        answers = [each.searched[key] for each, key in zip(asked, keys, strict=True)]
        for place, (columns, _) in enumerate(answers):
            places.setdefault(id(columns), []).append(place)
        parts = [answers[some[0]][0].at(np.array([answers[place][1] for place in some])) for some in places.values()]
        return JobColumns.of(parts, [np.array(some) for some in places.values()], len(answers))

    def _runs(self, rows: _Rows, asked: Sequence[_Asked], which: Whole, jobs: JobColumns) -> _Runs:
        """The runs made of the jobs' steps."""
        progress, overhead = self._shares(rows, asked, which)
        tokens = self._numbers(rows, "training_tokens", [each.job.scenario.training_tokens for each in asked], which)
        steps = tokens / jobs.tokens
        ends = jobs.runs & ~np.array([each.site.network.unbuildable for each in asked])[which]
        whole = np.where(ends, time_to_train(steps, jobs.step_time, progress), np.nan)
        stalled = next(no_progress(0.0)).message
        results = {
            "training.step_time": jobs.step_time,
            "training.time_to_train": whole,
            "training.productive_time": np.where(ends, steps * jobs.step_time, np.nan),
            "training.campaign_time": np.asarray(campaign_time(whole, overhead)),
            "training.mfu": jobs.mfu,
            "training.tokens_per_second": jobs.tokens / jobs.step_time,
            "memory.total": jobs.memory,
        }
        error = np.where((jobs.error == "") & ~(progress > 0), stalled, jobs.error)
        degrees = {
            name: np.array([None if number != number else round(number) for number in column], object)
            for name, column in zip(DEGREES_FOUND, jobs.degrees.T.tolist(), strict=True)
            if name in self.results
        }
        return _Runs({name: _or_none(column) for name, column in results.items()} | degrees, whole, error)

    def _numbers(self, rows: _Rows, name: str, asked: Sequence[float], which: Whole) -> Floats:
        """A field's number at each point."""
        if name in self.values:
            return self.values[name].numbers[rows.places[name]]
        return np.array(asked)[which]

    def _shares(self, rows: _Rows, asked: Sequence[_Asked], which: Whole) -> tuple[Floats, Floats]:
        """Share of the time that makes progress, and calendar time over that of the run, typically."""
        names = [name for name in self.grid if name in OF_RUN]
        clusters = [each.site.network.cluster for each in asked]
        kind = _numbered(
            (each.job.parameters, its.request.spare_nodes) for each, its in zip(asked, clusters, strict=True)
        )
        first, group = distinct([kind[which], *(rows.places[name] for name in names)], len(which))
        sizes = {name: np.array([getattr(cluster, name) for cluster in clusters])[which] for name in ("gpus", "nodes")}
        progress, overhead = np.empty(len(which)), np.empty(len(which))
        for row, members in zip(first, grouped(group), strict=True):
            operation = self._scenario(rows, row, self.paid).part(OperationRequest)
            several = but(clusters[which[row]], **{name: column[members, None] for name, column in sizes.items()})
            checkpoints = checkpointing(asked[which[row]].job.parameters, several, operation, self.catalog)
            progress[members] = checkpoints.progress[..., 0]
            overhead[members] = typical_of(campaign_overhead(operation, self.catalog)[0])
        return progress, overhead


def unreadable(wrong: ValidationError, field: str = "") -> str:
    """What cannot be understood first of a scenario or of one field, and which field it is."""
    first = wrong.errors()[0]
    name = field or (str(first["loc"][0]) if first["loc"] else "")
    return f"{name}: {first['msg']}" if name else first["msg"]


def worst(findings: Iterable[Finding]) -> str:
    """What keeps a plan from being built or run; blank where nothing does."""
    return next((finding.message for finding in findings if finding.severity == "error"), "")


def _earlier(first: Objects, second: Any) -> Objects:
    """Of two errors of each point the first that there is."""
    return np.where(first == "", second, first)


def _or_none(values: Floats) -> Objects:
    objects = values.astype(object)
    objects[~np.isfinite(values)] = None
    return objects


def _plain(value: Any) -> Any:
    """The typical values of a quantity; anything else as it is."""
    return _or_none(np.ravel(value.values[..., 0])) if isinstance(value, Draws) else value


def _single(value: Any) -> Any:
    """The same of a quantity of one network, which is one number."""
    return _plain(value)[0] if isinstance(value, Draws) else value


def _rows_at(some: Whole, columns: Sequence[NDArray[Any]]) -> list[tuple[Any, ...]]:
    """Rows of some columns at some places.

    >>> _rows_at(np.array([2, 0]), [np.array([5, 6, 7]), np.array([True, False, True])])
    [(7, True), (5, True)]
    """
    taken = [column[some].tolist() for column in columns]
    return [*zip(*taken, strict=True)] if taken else [()] * len(some)


def _numbered(keys: Iterable[Hashable]) -> Whole:
    """A number for each key, the same for equal ones, in the order in which they come.

    >>> _numbered(["a", "b", "a"])
    array([0, 1, 0])
    """
    every = [*keys]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(every))}
    return np.array([numbers[key] for key in every])
