"""The inverse question: which cluster trains this model by this date for this money?"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from time import monotonic
from typing import Annotated, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import ConfigDict, FailFast, Field

from app import units
from app.catalog.load import Catalog
from app.formulas import transformer
from app.formulas.fabric.placement import Site
from app.plan.band import Draws, nan_is_an_answer, record, result
from app.plan.cluster import Cluster, look_up
from app.plan.declarations import declared
from app.plan.job import job as training_job
from app.plan.job.calibration import peaks
from app.plan.job.inputs import JobRequest, JobSetup, StepInputs, step_inputs
from app.plan.job.run_time import Ways, quickest_times, ways_to_run
from app.plan.job.shape import shape
from app.plan.machine import RDMA_ETHERNET
from app.plan.network import Network, design_together, network_of, networks_of
from app.plan.prices import PriceList
from app.plan.recommendation import TIE, rule_of_thumb
from app.plan.result import Parallelism
from app.plan.scenario import (
    Count,
    GpuKey,
    ModelRequest,
    PriceRequest,
    ScaleOutKey,
    Scenario,
    Usual,
    about,
    check_keys,
)
from app.plan.total_cost import spent
from app.studies.front import front
from app.studies.odds import safe_limit
from app.studies.stages import Stages, stages
from app.studies.stretches import stretches
from app.units import Dollars, Seconds, Watts

Kind = Literal["capital", "rental", "run"]
Key = tuple[str, str, int]
"""GPU, network and number of GPUs."""
NEAREST = 5
"""Kinds of cluster that are looked at closely for each limit: those that come nearest to it."""
STEPS = (0.25, 0.5, 0.75, 1.0, 1.25)
"""Clusters beside the best are tried at these shares of the way to what is safe, on the logarithm."""
HOPELESS = 5.0
"""Times a limit that a run's arithmetic alone may take, at the peak of its GPUs, or that nodes alone may cost or draw,
in clusters that are tried first."""
CLOSE = 1.1
"""GPUs whose best cluster costs, or takes, so many times the least at most are looked at beside it too."""
ABOUT = 2
"""Whole nodes or racks more and fewer than the number looked for that are tried as well."""
NEXT = 4
"""Nodes or racks fewer than the cheapest, and more than the fastest, that are tried before one is named."""
ROUNDS = 4
"""Times that what would be named is looked at again."""
ROUNDER = 1.2
"""Times that number, or its share, up to which numbers that divide well are tried too."""
BESIDE = 1.05
"""The same where one of them is enough."""
WAYS = 40
"""Ways to run the job on one network that are timed on the others."""
ALIKE = 1.005
"""Clusters that take, or miss a limit by, so many times as much at most are alike in it."""
FIGURES = {"deadline": "time_to_train", "budget": "cost", "power_limit": "power"}
"""The figure of a candidate that each limit bounds."""
MOST_CANDIDATES = 12
"""GPUs that a cluster can be sized among."""
USUAL_DEADLINE = units.parse("90 days", "s")
"""The deadline of a question without limits [s]."""


class Question(Scenario):
    """Which cluster? GPUs and networks are lists of candidates; the rest is as in a scenario."""

    model_config = ConfigDict(defer_build=True)

    workload: Literal["training"] = Field(
        "training", title="Workload", description="See serve/size for serving.", json_schema_extra=about("serving")
    )
    gpu: Annotated[tuple[GpuKey, ...], FailFast(), Field(min_length=1, max_length=MOST_CANDIDATES)] = Field(  # type: ignore[assignment]
        ("h100-sxm", "h200-sxm", "b200-sxm", "gb200"),
        title="Candidate GPUs",
        description="Keys of accelerators in the catalogue.",
        json_schema_extra={"group": "cluster"},
    )
    gpus: Count = Field(
        16384, ge=1, le=131072, title="At most", description="The largest cluster considered.",
        json_schema_extra={"group": "cluster"},
    )  # fmt: skip
    scale_out: Annotated[tuple[ScaleOutKey, ...], FailFast(), Field(max_length=12)] = Field(  # type: ignore[assignment]
        (),
        title="Candidate networks",
        description="Blank: InfiniBand and RoCE at the rate each GPU's platform has.",
        json_schema_extra={"group": "network"},
    )
    deadline: Annotated[Seconds, Field(gt=0, le=1e10)] | None = Field(
        None,
        title="Deadline",
        description="Such as 60 days. Blank: 90 days where no other limit is given.",
        json_schema_extra=about("limits", Usual.read("12 h", "60 days", "1 year", "s")),
    )
    budget: Annotated[Dollars, Field(gt=0, le=1e13)] | None = Field(
        None,
        title="Budget",
        description="Such as $20M.",
        json_schema_extra=about("limits", Usual.read("$10K", "$20M", "$10B", "USD")),
    )
    budget_kind: Kind = Field(
        "capital",
        title="Budget is for",
        description="capital: buying the cluster; rental: renting it for the run; run: the run's share of owning it.",
        json_schema_extra={"group": "limits"},
    )
    power_limit: Annotated[Watts, Field(gt=0, le=1e12)] | None = Field(
        None,
        title="Power limit",
        description="Such as 5 MW of IT power.",
        json_schema_extra=about("limits", Usual.read("10 kW", "5 MW", "2 GW", "W")),
    )

    @property
    def given_limits(self) -> dict[str, float]:
        """The limits that are given."""
        given = {"deadline": self.deadline, "budget": self.budget, "power_limit": self.power_limit}
        return {name: limit for name, limit in given.items() if limit is not None}

    @property
    def limits(self) -> dict[str, float]:
        """The limits in force: those given, or the usual deadline where none is."""
        return self.given_limits or {"deadline": USUAL_DEADLINE}

    def scenario(self, gpu: str, scale_out: str, gpus: int) -> Scenario:
        """One candidate as a scenario of its own."""
        return self.part(Scenario).model_copy(update={"gpu": gpu, "scale_out": scale_out, "gpus": gpus})

    def largest(self, gpu: str) -> Scenario:
        """The largest candidate of a GPU, on the first network."""
        return self.scenario(gpu, self.scale_out[0] if self.scale_out else Scenario().scale_out, self.gpus)


@record
class Candidate:
    """One cluster that runs the model, by typical values."""

    gpu: str = result("", "GPU", "Key of the GPU.")
    scale_out: str = result("", "Network", "Key of the network.")
    gpus: int = result("1", "GPUs", "GPUs of the cluster.")
    time_to_train: float = result("s", "Time to train", "Time of the run.", formula="training.time_to_train")
    capital: float = result("USD", "Capital", "Nodes, networks and the building they need, bought.")
    rental: float = result("USD", "Rent of the run", "GPU-hours of the run at the rent of one.", formula="costs.rental")
    run: float = result("USD", "Owned cost of the run", "The run's share of the lifetime's total.", formula="costs.run")
    power: float = result("W", "Power", "Power to provide for nodes and networks at their maximum, IT load alone.")
    cost: float = result("USD", "Cost", "The one of the three costs that the budget is for.")
    parallelism: Parallelism = result("", "Parallelism", "How the model is spread.")
    meets: bool = result("", "Meets", "Whether it is within deadline, budget and power limit.")
    misses: tuple[str, ...] = result("", "Misses", "The limits that it does not meet, by their fields.")
    query: str = result("", "Query", "Its scenario as a query string.")
    next_dollar: float | None = result(
        "s/USD", "Next dollar", "What the next dollar saves: the slope to the next point of the front.", default=None
    )
    next_cost: float | None = result("USD", "Next one costs", "What the next of the front costs more.", default=None)
    next_time: float | None = result("s", "Next one saves", "The time that the next of the front saves.", default=None)


C = TypeVar("C", bound=Candidate)


@record
class BreakEven:
    """From how many GPUs on InfiniBand pays over Ethernet, for one GPU."""

    gpu: str = result("", "GPU", "Key of the GPU.")
    infiniband: str = result("", "InfiniBand", "Key of the InfiniBand network; blank where none was tried.")
    ethernet: str = result("", "Ethernet", "Key of the Ethernet network; blank where none was tried.")
    gpus: int | None = result("1", "GPUs", "From how many on InfiniBand pays; null: not even at the largest tried.")
    stretches: tuple[tuple[int, int], ...] = result(
        "1", "Stretches", "Of the sizes tried the first and the last of each stretch on which InfiniBand pays."
    )
    points: tuple[tuple[int, float], ...] = result(
        "1", "Points", "GPUs, and what the run costs with Ethernet over what it costs with InfiniBand."
    )
    tie: bool = result("", "Tie", "Whether both cost the same at the largest size tried, within 2 %.")
    rule_of_thumb: str = result("", "Rule of thumb", "What the usual advice says.")
    agrees: bool = result("", "Agrees", "Whether the model and the rule agree.")


@record
class Answer:
    """Clusters that do the job."""

    front: tuple[Candidate, ...] = result(
        "", "Front", "Clusters that no other beats in both time and cost, cheapest first."
    )
    cheapest: Candidate | None = result("", "Cheapest", "The cheapest that meets the limits; null where none does.")
    ties: tuple[Candidate, ...] = result(
        "",
        "Ties",
        "Of other GPUs and networks, the cheapest that meets the limits, where it costs no more than 2 % more.",
    )
    fastest: Candidate | None = result(
        "", "Fastest", "The fastest that meets the limits, of those within 0.5 % the cheapest; null where none does."
    )
    best_value: Candidate | None = result(
        "", "Best value", "That with the least product of time and cost; null where none meets the limits."
    )
    break_even: tuple[BreakEven, ...] = result("", "Break-even", "Where InfiniBand pays, for each candidate GPU.")
    considered: int = result("1", "Considered", "Clusters that were tried.")
    feasible: int = result("1", "Feasible", "Those of them that can run the model.")
    deadline: float | None = result("s", "Deadline", "The deadline in force: as asked, or the usual one.")
    complete: bool = result("", "Complete", "Whether all clusters were tried; false where time ran out.")
    message: str = result("", "Message", "Why no cluster meets the limits, and by how much; blank where one does.")
    nearest_misses: tuple[Candidate, ...] = result(
        "", "Nearest misses", "Where none meets the limits: for each the cluster that misses it alone, by the least."
    )

    @property
    def best(self) -> Candidate | None:
        """What to buy: by a date the cheapest, without one the soonest that the money or the power allows."""
        return self.cheapest if self.deadline else self.fastest

    @property
    def shown(self) -> tuple[Candidate, ...]:
        """The front and what is named, cheapest first: the front leaves out what is hardly quicker than a cheaper
        cluster, be it the cheapest that meets the limits beside one that just misses them.
        """
        named = filter(None, (self.cheapest, self.fastest, *self.nearest_misses))
        every = {candidate.query: candidate for candidate in (*named, *self.front)}
        return tuple(sorted(every.values(), key=lambda candidate: (candidate.cost, candidate.time_to_train)))


@nan_is_an_answer
def size(
    question: Question, catalog: Catalog, seconds: float = 20.0, stopped: Callable[[], bool] = lambda: False
) -> Answer:
    """Try clusters of every candidate GPU and network, in whole nodes or racks.

    First in sizes that double; then, for every limit, the clusters that by the line between two sizes come nearest to
    meeting it at least cost or soonest, with the next nodes or racks and the next numbers that divide well; then those
    next to the cheapest and the fastest, until none of them beats it; then those beside the best that keep the limits
    with more to spare. What is named is the plan of its scenario.

    Tries no more after ``seconds``, or once it is ``stopped``, and says so in ``complete``.
    """
    check_keys(question, catalog)
    whole_catalog, catalog = catalog, catalog.typical_only()
    until = monotonic() + seconds
    search = _Search(question, catalog, lambda: monotonic() < until and not stopped())
    pairs = list(pairs_of(question, catalog))
    in_reach, hopeless = _sizes(question, pairs, catalog)
    search.double(pairs, in_reach)
    if not search.met:
        search.exactly(_soonest_at_most(question, catalog, search.tried))
    search.look_closely()
    if not search.met and (len(question.limits) > 1 or not any(search.tried.values())):
        search.double(pairs, hopeless)
        search.look_closely()
    search.settle()
    search.exactly(_safer(question, whole_catalog, search.tried))
    search.settle()
    feasible = [candidate for candidate in search.tried.values() if candidate]
    meeting = [candidate for candidate in feasible if candidate.meets]
    cheapest = _cheapest(meeting)
    misses = {} if meeting else _nearest_misses(question, feasible)
    return Answer(
        front=front_of(feasible),
        cheapest=cheapest[0] if cheapest else None,
        ties=cheapest[1:],
        fastest=_fastest(meeting),
        best_value=_best_value(meeting),
        break_even=tuple(_break_even(catalog, gpu, feasible) for gpu in question.gpu),
        considered=len(search.tried),
        feasible=len(feasible),
        deadline=question.limits.get("deadline"),
        complete=search.go_on(),
        message="" if meeting else _message(question, feasible, misses),
        nearest_misses=tuple(misses.values()),
    )


def _beside(question: Question, catalog: Catalog, looked_at: Iterable[tuple[Key, bool]], wide: int) -> Iterator[Key]:
    """Clusters of so many nodes or racks fewer and more, within what is allowed, and those beyond that divide well."""
    for (gpu, scale_out, gpus), larger in looked_at:
        unit = unit_of(gpu, catalog)
        about = gpus // unit
        for number in (*range(about - wide, about + wide + 1), *_rounder(about, larger)):
            yield gpu, scale_out, min(number, question.gpus // unit) * unit


def _rounder(number: int, larger: bool) -> Iterator[int]:
    """The multiples of two, four, eight and so on next above so many nodes or racks, or next below.

    Degrees of parallelism divide these, and not the numbers between: experts are spread over powers of two.

    >>> [*_rounder(142, True)], [*_rounder(256, False)]
    ([144, 144, 144, 144, 160], [254, 252, 248, 240, 224])
    """
    for power in itertools.count(1):
        rounder = ((number >> power) + 1 if larger else number - 1 >> power) << power
        if not 1 / ROUNDER <= rounder / number <= ROUNDER:
            return
        yield rounder


def _roundest(number: int, larger: bool) -> int:
    """Of the numbers of nodes or racks just above, or below, the one that the highest power of two divides.

    >>> _roundest(1375, True), _roundest(1375, False), _roundest(7, True)
    (1408, 1344, 7)
    """
    close = [near for near in _rounder(number, larger) if 1 / BESIDE <= near / number <= BESIDE]
    return close[-1] if close else number


def _safer(question: Question, catalog: Catalog, tried: Mapping[Key, Candidate | None]) -> Iterator[Key]:
    """Clusters with more to spare than the best, of every GPU whose own is close to it, up to what should be safe.

    By a date the cheapest is best and larger ones are safer; without one the soonest is, and smaller ones are. Beside
    each the next number that divides well: a run on a prime number of nodes keeps no date.
    """
    dated = "deadline" in question.limits

    def worth(candidate: Candidate) -> float:
        return candidate.cost if dated else candidate.time_to_train

    best: dict[str, Candidate] = {}
    for candidate in sorted((candidate for candidate in tried.values() if candidate and candidate.meets), key=worth):
        best.setdefault(candidate.gpu, candidate)
    close = [candidate for candidate in best.values() if worth(candidate) <= worth(next(iter(best.values()))) * CLOSE]
    for candidate in close:
        unit = unit_of(candidate.gpu, catalog)
        units, times = candidate.gpus // unit, _over(question, candidate, catalog)
        for number, share in enumerate(STEPS, 1):
            more = max(round(units * times**share), units + number)
            fewer = min(round(units / times**share), units - number)
            about = more if dated else fewer
            for nodes in (about, _roundest(about, dated)):
                yield candidate.gpu, candidate.scale_out, min(nodes, question.gpus // unit) * unit


def _over(question: Question, best: Candidate, catalog: Catalog) -> float:
    """How many times over its limits a cluster is in one case of ten: by the calendar, or without a date in money and
    power.
    """
    drawn = drawn_plan(question, best, catalog)
    if deadline := question.limits.get("deadline"):
        over = [safe_limit(drawn.training.campaign_time) / deadline]
    else:
        spent = costs_by_kind(drawn)[question.budget_kind]
        limits = (spent, question.budget), (drawn.cluster.power, question.power_limit)
        over = [safe_limit(value) / limit for value, limit in limits if limit]
    finite = [times for times in over if math.isfinite(times)]
    return max(1.0, *finite) if finite else 1.0


def drawn_plan(question: Question, candidate: Candidate, catalog: Catalog) -> Stages:
    """The draws of a candidate's plan."""
    return stages(question.scenario(candidate.gpu, candidate.scale_out, candidate.gpus), catalog)


def costs_by_kind(drawn: Stages) -> dict[Kind, Draws]:
    """The three costs that a budget may be for."""
    return {"capital": drawn.costs.capital, "rental": drawn.costs.rental, "run": drawn.costs.per_run}


def unit_of(gpu: str, catalog: Catalog) -> int:
    """GPUs of the smallest thing that is sold: a node, or a rack of one scale-up domain [1]."""
    platform = catalog.platforms[catalog.gpus[gpu].platform]
    return max(platform.gpus_per_node, platform.scale_up_domain)


class _Search:
    """Clusters that were tried, by GPU, network and number of GPUs; ``None`` where one cannot run the model."""

    def __init__(self, question: Question, catalog: Catalog, go_on: Callable[[], bool]) -> None:
        self.question = question
        self.plain = question.part(Scenario)
        self.catalog = catalog
        self.go_on = go_on
        self.tried: dict[Key, Candidate | None] = {}
        self.exact: set[Key] = set()

    @property
    def met(self) -> bool:
        """Whether any cluster that was tried is within the limits."""
        return any(candidate and candidate.meets for candidate in self.tried.values())

    def double(self, pairs: Sequence[tuple[str, str]], sizes: Mapping[str, tuple[int, ...]]) -> None:
        """Some sizes of each GPU, on its networks."""

        @cache
        def design() -> None:
            every = ((pair, gpus) for pair in pairs for gpus in sizes[pair[0]])
            design_together((scenario_of(self.plain, (*pair, gpus)) for pair, gpus in every), self.catalog)

        for gpu in dict.fromkeys(gpu for gpu, _ in pairs):
            networks = tuple(scale_out for its_gpu, scale_out in pairs if its_gpu == gpu)
            try:
                line = _doubling(self.plain, gpu, networks, sizes[gpu], self.catalog, Watch(self.go_on, design))
            except _CutOffError as cut:
                line = cut.outcomes
            for key, outcome in line.items():
                self.tried[key] = outcome and judged(self.question, key, outcome)
                if outcome is None or outcome.exact:
                    self.exact.add(key)

    def look_closely(self) -> None:
        """Try what is about where a limit is just met, twice: the second time by what was found the first time."""
        for wide in (0, ABOUT):
            self.exactly(_beside(self.question, self.catalog, _worth_a_look(self.question, self.tried), wide))

    def exactly(self, keys: Iterable[Key]) -> None:
        """Try some clusters as their plans are made."""
        wanted = [key for key in dict.fromkeys(keys) if key[2] >= 1 and key not in self.exact]
        outcomes: dict[Key, Outcome | None] = {}
        for gpu in dict.fromkeys(gpu for gpu, *_ in wanted):
            if self.go_on():
                keys_of_gpu = tuple(key for key in wanted if key[0] == gpu)
                outcomes |= zip(keys_of_gpu, _outcomes(self.plain, keys_of_gpu, self.catalog), strict=True)
        for key in wanted:
            if key in outcomes:
                outcome = outcomes[key]
                self.exact.add(key)
                self.tried[key] = outcome and judged(self.question, key, outcome)

    def settle(self) -> None:
        """Plan what would be named, and what is next to it, until all that is named is a plan that none of these beats.

        Next to the cheapest are clusters of a few nodes fewer, next to the fastest those of a few more.
        """
        for _ in range(ROUNDS):
            feasible = [candidate for candidate in self.tried.values() if candidate]
            meeting = [candidate for candidate in feasible if candidate.meets]
            cheapest, fastest = _cheapest(meeting), _fastest(meeting)
            named = [*front_of(feasible), *cheapest, *filter(None, (fastest, _best_value(meeting)))]
            wanted = {(candidate.gpu, candidate.scale_out, candidate.gpus) for candidate in named}
            wanted |= {key for candidate in cheapest[:1] for key in self._fewer(candidate)}
            wanted |= {key for candidate in filter(None, [fastest]) for key in self._more(candidate)}
            if not meeting:
                wanted |= {
                    key for miss in _nearest_misses(self.question, feasible).items() for key in self._about(*miss)
                }
            if not wanted - self.exact:
                return
            self.exactly(sorted(wanted - self.exact))

    def _fewer(self, candidate: Candidate) -> Iterator[Key]:
        """Clusters of a few nodes or racks fewer."""
        unit = unit_of(candidate.gpu, self.catalog)
        for number in range(candidate.gpus // unit - NEXT, candidate.gpus // unit):
            yield candidate.gpu, candidate.scale_out, number * unit

    def _about(self, limit: str, miss: Candidate) -> Iterator[Key]:
        """A cluster that misses one limit alone, and those next to it that may miss it by less."""
        yield miss.gpu, miss.scale_out, miss.gpus
        yield from self._more(miss) if limit == "deadline" else self._fewer(miss)

    def _more(self, candidate: Candidate) -> Iterator[Key]:
        """Clusters of a few nodes or racks more; or where no larger one misses a limit, the largest and those below it
        that divide well.
        """
        unit, kind = unit_of(candidate.gpu, self.catalog), (candidate.gpu, candidate.scale_out)
        bought, most = candidate.gpus // unit, self.question.gpus // unit
        larger = (tried for key, tried in self.tried.items() if key[:2] == kind and key[2] > candidate.gpus)
        limited = any(tried is None or not tried.meets for tried in larger)
        for number in range(bought + 1, min(bought + NEXT, most) + 1) if limited else (most, *_rounder(most, False)):
            yield *kind, number * unit


class Outcome(NamedTuple):
    """What a cluster takes and costs, whatever the limits; not exact where another network's ways to run stand for its
    own.
    """

    time: float
    capital: float
    rental: float
    run: float
    power: float
    parallelism: Parallelism
    exact: bool


@dataclass(frozen=True)
class Watch:
    """Whether anybody still waits, and what designs all fabrics; no part of what a cache keeps results by."""

    go_on: Callable[[], bool] = field(compare=False)
    design: Callable[[], None] = field(compare=False)


class _CutOffError(TimeoutError):
    """Time ran out; what was found until then."""

    def __init__(self, outcomes: Mapping[Key, Outcome | None]) -> None:
        self.outcomes = outcomes


@lru_cache(maxsize=64)
def _doubling(
    plain: Scenario, gpu: str, networks: tuple[str, ...], sizes: tuple[int, ...], catalog: Catalog, watch: Watch
) -> Mapping[Key, Outcome | None]:
    """Clusters of one GPU in sizes that double. Kept: a question with other limits asks for the same."""
    lines = [[scenario_of(plain, (gpu, scale_out, gpus)) for scale_out in networks] for gpus in sizes]
    outcome_lines = run_together(lines, list(_built(lines, catalog, watch)), catalog)
    outcomes = {
        (gpu, scale_out, gpus): outcome
        for gpus, line in zip(sizes, outcome_lines, strict=False)
        for scale_out, outcome in zip(networks, line, strict=True)
    }
    if len(outcome_lines) < len(lines):
        raise _CutOffError(outcomes)
    return outcomes


def _built(lines: Iterable[Sequence[Scenario]], catalog: Catalog, watch: Watch) -> Iterator[list[Network]]:
    """The networks of lines of clusters, fewer lines where time ran out."""
    for line in lines:
        if not watch.go_on():
            return
        watch.design()
        yield [network_of(scenario, catalog) for scenario in line]


def run_together(
    lines: Sequence[Sequence[Scenario]],
    built: Sequence[Sequence[Network]],
    catalog: Catalog,
    searched: int | None = None,
) -> list[list[Outcome | None]]:
    """What clusters on these networks take and cost, in lines of which each has clusters that differ in their kind of
    network and its taper alone.

    The parallelism is searched on the cheapest network of a line, or of its first so many, and timed on its others;
    once on those that leave transfers the same, as any taper of a single switch does. Lines without networks are left
    out.
    """
    lines = lines[: len(built)]
    costs = [[float(network.cost[0]) for network in networks[:searched]] for networks in built]
    firsts = [min(range(len(each)), key=lambda place: (math.isnan(each[place]), each[place])) for each in costs]
    starts = zip(lines, built, firsts, strict=True)
    setups = [_setup(line[first], catalog, networks[first]) for line, networks, first in starts]
    runs: list[list[_Run | None]] = [[None] * len(line) for line in lines]
    others: dict[tuple[int, Cluster, Site, int], tuple[Ways, StepInputs, list[int]]] = {}
    for row, ways in enumerate(ways_to_run(setups, WAYS)):
        if ways is None:
            continue
        for place, network in enumerate(built[row]):
            alike = row, network.cluster, network.site, network.hops
            if place == firsts[row]:
                runs[row][place] = _Run(network, ways, ways.step_time, exact=True)
            elif alike in others:
                others[alike][-1].append(place)
            else:
                fabric = training_job.fabric_on(network, lines[row][place], catalog)
                others[alike] = ways, ways.setup.inputs.on(fabric), [place]
    times = quickest_times(
        [inputs for _, inputs, _ in others.values()], [ways.parallelism for ways, *_ in others.values()]
    )
    for ((row, *_), (ways, _, places)), time in zip(others.items(), times, strict=True):
        for place in places:
            runs[row][place] = _Run(built[row][place], ways, time, exact=False)
    outcomes = iter(_priced([*itertools.chain.from_iterable(runs)]))
    return [[*itertools.islice(outcomes, len(line))] for line in lines]


def doubled(gpu: str, most: int, catalog: Catalog) -> list[int]:
    """Sizes that double from the smallest that is sold on [1]."""
    sizes = (unit_of(gpu, catalog) << doubled for doubled in itertools.count())
    return [*itertools.takewhile(lambda gpus: gpus <= most, sizes)]


Sizes = dict[str, tuple[int, ...]]
"""Numbers of GPUs that double, of each GPU."""


def _sizes(question: Question, pairs: Sequence[tuple[str, str]], catalog: Catalog) -> tuple[Sizes, Sizes]:
    """Those in reach, and those that are hopeless; of a GPU that has none in reach all are tried at once."""
    in_reach, hopeless = Sizes(), Sizes()
    for gpu, scale_out in dict(pairs).items():
        every = doubled(gpu, question.gpus, catalog)
        fewest, most = _in_reach(question, gpu, scale_out, catalog)
        in_reach[gpu] = tuple(gpus for gpus in every if fewest <= gpus <= most) or tuple(every)
        hopeless[gpu] = tuple(gpus for gpus in every if gpus not in in_reach[gpu])
    return in_reach, hopeless


def _in_reach(question: Question, gpu: str, scale_out: str, catalog: Catalog) -> tuple[float, float]:
    """Numbers of GPUs between which no limit is missed many times over: by the arithmetic of the run at their peak, or
    by what nodes alone cost or draw.
    """
    fewest, most, limits = 0.0, math.inf, question.limits
    cluster = look_up(question.scenario(gpu, scale_out, question.gpus), catalog)
    prices = PriceList.of(question.part(PriceRequest), catalog)
    if deadline := limits.get("deadline"):
        model = shape(question.part(ModelRequest), catalog)
        work = float(transformer.training_flops(model, question.sequence_length)) * question.training_tokens
        fewest = work / (peaks(cluster.gpu, question.precision)[1].typical * deadline * HOPELESS)
    price = prices.node(cluster.platform, cluster.whole_node)
    if question.budget and question.budget_kind == "capital" and price and price.typical:
        most = question.budget * HOPELESS / price.typical * cluster.used_per_node
    if limit := limits.get("power_limit"):
        drawn = cluster.platform.power.typical * cluster.whole_node / cluster.platform.gpus_per_node
        most = min(most, limit * HOPELESS / drawn * cluster.used_per_node)
    return fewest, most


@lru_cache(maxsize=64)
def _outcomes(plain: Scenario, keys: tuple[Key, ...], catalog: Catalog) -> list[Outcome | None]:
    """Clusters as their plans are made. Kept: see `_doubling`."""
    scenarios = [scenario_of(plain, key) for key in keys]
    networks = networks_of(scenarios, catalog)
    setups = [_setup(scenario, catalog, network) for scenario, network in zip(scenarios, networks, strict=True)]
    searched = ways_to_run(setups, 1)
    return _priced([
        _Run(network, ways, ways.step_time, exact=True) if ways else None
        for network, ways in zip(networks, searched, strict=True)
    ])  # fmt: skip


def scenario_of(plain: Scenario, key: Key) -> Scenario:
    """One candidate as a scenario of its own."""
    return plain.model_copy(update=dict(zip(("gpu", "scale_out", "gpus"), key, strict=True)))


def _setup(scenario: Scenario, catalog: Catalog, network: Network) -> JobSetup:
    """The job on a network."""
    fabric, request = training_job.fabric_on(network, scenario, catalog), JobRequest.of(scenario, catalog)
    return JobSetup.of(network.cluster, request, catalog, step_inputs(network.cluster, fabric, request, catalog))


class _Run(NamedTuple):
    """A run on a cluster by the time of its step [s]; not exact where another network's ways stand for its own."""

    network: Network
    ways: Ways
    step_time: float
    exact: bool


def _priced(runs: Sequence[_Run | None]) -> list[Outcome | None]:
    """What runs on clusters of one GPU take and cost; ``None`` where there is none, or it cannot be built or finish."""
    outcomes: list[Outcome | None] = [None] * len(runs)
    times = [run.ways.time_to_train(run.step_time) if run else math.nan for run in runs]
    fine = [(place, run) for place, run in enumerate(runs) if run and times[place] > 0 and not run.network.unbuildable]
    if fine:
        columns = spent([run.network for _, run in fine], np.array([times[place] for place, _ in fine]))
        for (place, run), *figures in zip(fine, *(column.tolist() for column in columns), strict=True):
            capital, rental, whole, power = figures
            outcomes[place] = Outcome(times[place], capital, rental, whole, power, run.ways.quickest, run.exact)
    return outcomes


def _worth_a_look(question: Question, tried: Mapping[Key, Candidate | None]) -> Iterator[tuple[Key, bool]]:
    """Where clusters that meet a limit begin or end, by the line between two sizes that were tried: for every limit
    those that cost least there, and those that are soonest. With each whether it is the larger ones that meet it.

    Where they end, the dearest to buy are: none of these is the cheapest, unless what a run costs is asked.
    """
    lines: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in tried.values():
        if candidate:
            lines.setdefault((candidate.gpu, candidate.scale_out), []).append(candidate)
    for line in lines.values():
        line.sort(key=lambda candidate: candidate.gpus)
    best: list[_Crossing] = []
    for limit, most in question.limits.items():
        name = FIGURES[limit]
        crossings = list(_crossings(lines, most, name))
        if name != "cost":
            cheap = (crossing for crossing in crossings if crossing.larger or question.budget_kind != "capital")
            best += sorted(cheap, key=lambda crossing: crossing.cost)[:NEAREST]
        if name != "time_to_train":
            best += sorted(crossings, key=lambda crossing: crossing.time_to_train)[:NEAREST]
    yield from dict.fromkeys((crossing.key, crossing.larger) for crossing in best)


class _Crossing(NamedTuple):
    """Where a limit is just met, by the line between two sizes, and whether larger clusters meet it."""

    key: Key
    cost: float
    time_to_train: float
    larger: bool


def _crossings(lines: Mapping[tuple[str, str], Sequence[Candidate]], limit: float, name: str) -> Iterator[_Crossing]:
    """Where the clusters of each GPU and network, by size, cross a limit of a figure."""
    for (gpu, scale_out), line in lines.items():
        for fewer, more in itertools.pairwise(line):
            low, high = getattr(fewer, name), getattr(more, name)
            if min(low, high) < limit < max(low, high):
                share = math.log(limit / low) / math.log(high / low)
                gpus, cost, time = (
                    getattr(fewer, each) * (getattr(more, each) / getattr(fewer, each)) ** share
                    for each in ("gpus", "cost", "time_to_train")
                )
                yield _Crossing((gpu, scale_out, round(gpus)), cost, time, high < low)


def _soonest_at_most(question: Question, catalog: Catalog, tried: Mapping[Key, Candidate | None]) -> Iterator[Key]:
    """The largest clusters allowed, of the GPUs and networks that are nearest to being in time."""
    largest = {
        (candidate.gpu, candidate.scale_out): candidate
        for candidate in sorted(filter(None, tried.values()), key=lambda candidate: candidate.gpus)
    }
    late = [candidate for candidate in largest.values() if "deadline" in candidate.misses]
    for candidate in sorted(late, key=lambda candidate: candidate.time_to_train * candidate.gpus)[:NEAREST]:
        unit = unit_of(candidate.gpu, catalog)
        if question.gpus // unit * unit > candidate.gpus:
            yield candidate.gpu, candidate.scale_out, question.gpus // unit * unit


def pairs_of(question: Question, catalog: Catalog) -> Iterator[tuple[str, str]]:
    for gpu in question.gpu:
        if question.scale_out:
            yield from ((gpu, scale_out) for scale_out in question.scale_out)
            continue
        yield from ((gpu, scale_out) for scale_out in usual_networks(gpu, catalog))


def usual_networks(gpu: str, catalog: Catalog) -> Iterator[str]:
    """InfiniBand and RoCE at the rate nearest to that of the adapters that a GPU's platform has."""
    rate = catalog.platforms[catalog.gpus[gpu].platform].nic_rate.typical
    for family in ("infiniband", "roce"):
        of_family = [entry for entry in catalog.scale_out.values() if entry.family == family]
        if of_family:
            yield min(of_family, key=lambda entry: abs(entry.port_rate.typical / rate - 1)).key


def judged(question: Question, key: Key, outcome: Outcome, query: str | None = None) -> Candidate | None:
    """A cluster held against the limits; ``None`` where nobody knows its cost. ``query`` is its address if known."""
    cost = {"capital": outcome.capital, "rental": outcome.rental, "run": outcome.run}[question.budget_kind]
    if not cost > 0:
        return None
    reached = {"deadline": outcome.time, "budget": cost, "power_limit": outcome.power}
    misses = tuple(name for name, limit in question.limits.items() if reached[name] > limit)
    return Candidate(
        *key,
        time_to_train=outcome.time,
        capital=outcome.capital,
        rental=outcome.rental,
        run=outcome.run,
        power=outcome.power,
        cost=cost,
        parallelism=outcome.parallelism,
        meets=not misses,
        misses=misses,
        query=question.scenario(*key).query() if query is None else query,
    )


def _cheapest(meeting: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The cheapest that meets all limits, and of other GPUs and networks those that cost the same."""
    best: dict[tuple[str, str], Candidate] = {}
    for candidate in sorted(meeting, key=lambda candidate: (candidate.cost, candidate.time_to_train)):
        best.setdefault((candidate.gpu, candidate.scale_out), candidate)
    first = next(iter(best.values()), None)
    return tuple(candidate for candidate in best.values() if first and candidate.cost < first.cost * (1 + TIE))


def _fastest(meeting: Sequence[Candidate]) -> Candidate | None:
    """The fastest of those that meet all limits, and of several as fast, see `ALIKE`, the cheapest."""
    least = min((candidate.time_to_train for candidate in meeting), default=0.0)
    as_fast = (candidate for candidate in meeting if candidate.time_to_train <= least * ALIKE)
    return min(as_fast, key=lambda candidate: (candidate.cost, candidate.time_to_train), default=None)


def _best_value(meeting: Iterable[Candidate]) -> Candidate | None:
    """That with the least product of time and cost."""
    return min(meeting, key=lambda candidate: candidate.cost * candidate.time_to_train, default=None)


def front_of(candidates: Sequence[C]) -> tuple[C, ...]:
    """Those that no other beats in both time and cost, cheapest first, each with what the next dollar buys."""
    cheapest_first = sorted(candidates, key=lambda candidate: (candidate.cost, candidate.time_to_train))
    return in_steps(front(cheapest_first, lambda candidate: candidate.time_to_train))


def in_steps(kept: Sequence[C]) -> tuple[C, ...]:
    """Clusters from the cheapest on, each with what the next dollar buys."""
    return tuple(
        candidate if following is None else _before(candidate, following)
        for candidate, following in itertools.zip_longest(kept, kept[1:])
    )


def _before(point: C, following: Candidate) -> C:
    """A point of the front with what the next one costs more, and saves."""
    more, saved = following.cost - point.cost, point.time_to_train - following.time_to_train
    return replace(point, next_dollar=saved / more if more else None, next_cost=more, next_time=saved)


def _break_even(catalog: Catalog, gpu: str, candidates: Sequence[Candidate]) -> BreakEven:
    """Compare the run's cost over one network of each family at each size both were tried."""
    of_gpu = [(catalog.scale_out[each.scale_out].family, each) for each in candidates if each.gpu == gpu]
    families = [[each for family, each in of_gpu if family in asked] for asked in (("infiniband",), RDMA_ETHERNET)]
    largest = max(set.intersection(*({each.gpus for each in tried} for tried in families)), default=None)
    infiniband, ethernet = (_of_one_network(tried, largest) for tried in families)
    both = ((gpus, ethernet[gpus].run, infiniband[gpus].run) for gpus in sorted(infiniband.keys() & ethernet.keys()))
    points = tuple((gpus, over / under) for gpus, over, under in both if under > 0 and math.isfinite(over / under))
    sizes = [gpus for gpus, _ in points]
    paying = tuple((sizes[first], sizes[last]) for first, last in stretches(ratio > 1 for _, ratio in points))
    best = catalog.scale_out[infiniband[points[-1][0]].scale_out] if points and points[-1][1] > 1 else None
    if best is None and points:
        best = catalog.scale_out[ethernet[points[-1][0]].scale_out]
    tie = bool(points) and abs(points[-1][1] - 1) < TIE
    agrees, rule = rule_of_thumb(points[-1][0], best, tie, catalog) if best else (True, "")
    return BreakEven(
        gpu=gpu,
        infiniband=next((candidate.scale_out for candidate in infiniband.values()), ""),
        ethernet=next((candidate.scale_out for candidate in ethernet.values()), ""),
        gpus=paying[-1][0] if paying and paying[-1][1] == sizes[-1] else None,
        stretches=paying,
        points=points,
        tie=tie,
        rule_of_thumb=rule,
        agrees=agrees,
    )


def _of_one_network(tried: Sequence[Candidate], largest: int | None) -> dict[int, Candidate]:
    """Clusters by their GPUs, of that network on which the run costs least at the largest size."""
    place = [each for each in tried if largest in (None, each.gpus)]
    best = min(place, key=lambda each: (math.inf if math.isnan(each.run) else each.run, each.scale_out), default=None)
    return {each.gpus: each for each in tried if best and each.scale_out == best.scale_out}


def _message(question: Question, feasible: Sequence[Candidate], misses: Mapping[str, Candidate]) -> str:
    """Why there is no answer, and by how much it is missed."""
    if not feasible:
        return (
            f"No cluster of up to {question.gpus:,} GPUs can run the model as asked. Allow more GPUs, or another GPU."
        )
    quickest = min(candidate.time_to_train for candidate in feasible)
    deadline = question.limits.get("deadline")
    if deadline and quickest > deadline:
        times = units.show(quickest / deadline, "1", 2)
        return f"The quickest cluster needs {times} times the deadline. Allow more GPUs, or move the deadline."
    return f"No cluster meets all limits at once. {_allow(question, misses)}"


def _nearest_misses(question: Question, feasible: Sequence[Candidate]) -> dict[str, Candidate]:
    """Of each limit the cluster that misses it alone, by the least; of several alike the cheapest."""
    misses = {}
    for limit in question.limits:
        missing = [(getattr(miss, FIGURES[limit]), miss) for miss in feasible if miss.misses == (limit,)]
        least = min((reached for reached, _ in missing), default=math.inf)
        alike = [miss for reached, miss in missing if reached <= least * ALIKE]
        if alike:
            misses[limit] = min(alike, key=lambda miss: (miss.cost, miss.time_to_train))
    return misses


def enough(limit: str, miss: Candidate) -> str:
    """What a limit would have to be at least for a cluster that misses it alone."""
    figure = FIGURES[limit]
    return units.show_enough(getattr(miss, figure), declared(Candidate)[figure].unit)


def _allow(question: Question, misses: Mapping[str, Candidate]) -> str:
    """What each limit would have to be for a cluster that meets the others."""
    ways = []
    for limit, miss in misses.items():
        title = type(question).model_fields[limit].title or limit
        ways.append(f"a {title.lower()} of {enough(limit, miss)}")
    return f"Allow {' or '.join(ways)}." if ways else "Raise the budget or the power limit, or move the deadline."
