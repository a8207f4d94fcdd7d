"""The inverse question: which cluster trains this model by this date for this money?"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Annotated, Literal

from pydantic import Field

from app.catalog.load import Catalog
from app.plan.band import nan_is_an_answer, record, result
from app.plan.job import job as training_job
from app.plan.network import network_of
from app.plan.recommendation import rule_of_thumb
from app.plan.result import Parallelism
from app.plan.scenario import Count, GpuKey, ScaleOutKey, Scenario, Usual, about, check_keys
from app.plan.total_cost import total_cost
from app.units import Dollars, Seconds, Watts

Kind = Literal["capital", "rental", "run"]
ALIKE = 0.01
"""Times closer than this share are called equal."""


class Question(Scenario):
    """Which cluster? GPUs and networks are lists of candidates; the rest is as in a scenario."""

    gpu: Annotated[tuple[GpuKey, ...], Field(min_length=1, max_length=8)] = Field(  # type: ignore[assignment]
        ("h100-sxm", "h200-sxm", "b200-sxm", "gb200"),
        title="Candidate GPUs",
        description="Keys of accelerators in the catalogue.",
        json_schema_extra={"group": "cluster"},
    )
    gpus: Count = Field(
        16384, ge=1, le=131072, title="At most", description="The largest cluster considered.",
        json_schema_extra={"group": "cluster"},
    )  # fmt: skip
    scale_out: Annotated[tuple[ScaleOutKey, ...], Field(max_length=8)] = Field(  # type: ignore[assignment]
        (),
        title="Candidate networks",
        description="Blank: InfiniBand and RoCE at the rate each GPU's platform has.",
        json_schema_extra={"group": "network"},
    )
    deadline: Annotated[Seconds, Field(gt=0, le=1e10)] | None = Field(
        None,
        title="Deadline",
        description="Such as 60 days.",
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

    def scenario(self, gpu: str, scale_out: str, gpus: int) -> Scenario:
        """One candidate as a scenario of its own."""
        own = {name: value for name, value in self if name in Scenario.model_fields}
        return Scenario.model_construct(**{**own, "gpu": gpu, "scale_out": scale_out, "gpus": gpus})


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
    query: str = result("", "Query", "Its scenario as a query string.")
    next_dollar: float | None = result(
        "s/USD", "Next dollar", "What the next dollar saves: the slope to the next point of the front.", default=None
    )


@record
class BreakEven:
    """From how many GPUs on InfiniBand pays over Ethernet, for one GPU."""

    gpu: str = result("", "GPU", "Key of the GPU.")
    infiniband: str = result("", "InfiniBand", "Key of the InfiniBand network; blank where none was tried.")
    ethernet: str = result("", "Ethernet", "Key of the Ethernet network; blank where none was tried.")
    gpus: int | None = result("1", "GPUs", "From how many on InfiniBand pays; null: not even at the largest tried.")
    points: tuple[tuple[int, float], ...] = result(
        "1", "Points", "GPUs, and what the run costs with Ethernet over what it costs with InfiniBand."
    )
    rule_of_thumb: str = result("", "Rule of thumb", "What the usual advice says.")
    agrees: bool = result("", "Agrees", "Whether the model and the rule agree.")


@record
class Answer:
    """Clusters that do the job."""

    front: tuple[Candidate, ...] = result(
        "", "Front", "Clusters that no other beats in both time and cost, cheapest first."
    )
    cheapest: Candidate | None = result("", "Cheapest", "The cheapest that meets the limits; null where none does.")
    fastest: Candidate | None = result("", "Fastest", "The fastest that meets the limits; null where none does.")
    best_value: Candidate | None = result(
        "", "Best value", "That with the least product of time and cost; null where none meets the limits."
    )
    break_even: tuple[BreakEven, ...] = result("", "Break-even", "Where InfiniBand pays, for each candidate GPU.")
    considered: int = result("1", "Considered", "Clusters that were tried.")
    feasible: int = result("1", "Feasible", "Those of them that can run the model.")
    complete: bool = result("", "Complete", "Whether all clusters were tried; false where time ran out.")
    message: str = result("", "Message", "Why no cluster meets the limits, and by how much; blank where one does.")


def size(
    question: Question, catalog: Catalog, seconds: float = 20.0, stopped: Callable[[], bool] = lambda: False
) -> Answer:
    """Try clusters of every candidate GPU and network, in sizes that double, then finely about the limits.

    Tries no more after ``seconds``, or once it is ``stopped``, and says so in ``complete``.
    """
    check_keys(question, catalog)
    catalog = catalog.typical_only()
    until = monotonic() + seconds
    tried: dict[tuple[str, str, int], Candidate | None] = {}

    def go_on() -> bool:
        return monotonic() < until and not stopped()

    pairs = list(_pairs(question, catalog))
    for gpu, scale_out in pairs:
        counts = list(_doubling(catalog, gpu, question.gpus))
        for gpus in counts:
            if go_on():
                tried[gpu, scale_out, gpus] = _candidate(question, catalog, gpu, scale_out, gpus)
        for gpus in _about_limits(question, [(n, tried.get((gpu, scale_out, n))) for n in counts]):
            if go_on():
                tried[gpu, scale_out, gpus] = _candidate(question, catalog, gpu, scale_out, gpus)
    feasible = [candidate for candidate in tried.values() if candidate]
    meeting = [candidate for candidate in feasible if candidate.meets]
    front = _front(feasible)
    return Answer(
        front=front,
        cheapest=min(meeting, key=lambda one: (one.cost, one.time_to_train), default=None),
        fastest=min(meeting, key=lambda one: (one.time_to_train, one.cost), default=None),
        best_value=min(meeting, key=lambda one: one.cost * one.time_to_train, default=None),
        break_even=tuple(_break_even(catalog, gpu, feasible) for gpu in question.gpu),
        considered=len(tried),
        feasible=len(feasible),
        complete=go_on(),
        message=_message(question, feasible, meeting),
    )


def _pairs(question: Question, catalog: Catalog) -> Iterator[tuple[str, str]]:
    for gpu in question.gpu:
        if question.scale_out:
            yield from ((gpu, scale_out) for scale_out in question.scale_out)
            continue
        rate = catalog.platforms[catalog.gpus[gpu].platform].nic_rate.typical
        for family in ("infiniband", "roce"):
            own = [entry for entry in catalog.scale_out.values() if entry.family == family]
            if own:
                yield gpu, min(own, key=lambda entry: abs(entry.port_rate.typical / rate - 1)).key


def _doubling(catalog: Catalog, gpu: str, most: int) -> Iterator[int]:
    """Powers of two from one node, or from most of one rack where a rack is the unit that is sold."""
    platform = catalog.platforms[catalog.gpus[gpu].platform]
    gpus = max(platform.gpus_per_node, 2 ** (platform.scale_up_domain.bit_length() - 1))
    while gpus <= most:
        yield gpus
        gpus *= 2


def _about_limits(question: Question, curve: Sequence[tuple[int, Candidate | None]]) -> Iterator[int]:
    """Sizes between the two neighbours where a limit is crossed."""
    for (few, below), (many, above) in itertools.pairwise(curve):
        if above and (below is None or below.meets != above.meets):
            yield from (few + (many - few) * quarter // 4 for quarter in (1, 2, 3) if (many - few) % 4 == 0)


@nan_is_an_answer
def _candidate(question: Question, catalog: Catalog, gpu: str, scale_out: str, gpus: int) -> Candidate | None:
    scenario = question.scenario(gpu, scale_out, gpus)
    network = network_of(scenario, catalog)
    cluster = network.cluster
    job = training_job.job_on(network, scenario, catalog)
    time = job.training.time_to_train.typical
    if job.training.parallelism is None or not time > 0:
        return None
    priced = total_cost(cluster, network, network.prices, job.training.time_to_train.values)
    capital, rental, run = (each.typical for each in (priced.costs.capital, priced.costs.rental, priced.costs.per_run))
    cost = {"capital": capital, "rental": rental, "run": run}[question.budget_kind]
    power = float(priced.owned.power[0])
    if not cost > 0:
        return None
    return Candidate(
        gpu=gpu,
        scale_out=scale_out,
        gpus=gpus,
        time_to_train=time,
        capital=capital,
        rental=rental,
        run=run,
        power=power,
        cost=cost,
        parallelism=job.training.parallelism,
        meets=_within(time, question.deadline)
        and _within(cost, question.budget)
        and _within(power, question.power_limit),
        query=scenario.query(),
    )


def _within(value: float, limit: float | None) -> bool:
    return limit is None or value <= limit


def _front(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those that no other beats in both time and cost, cheapest first, each with what the next dollar buys.

    A point that is less than ``ALIKE`` quicker than a cheaper one is left out: no model can tell them apart.
    """
    front: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda one: (one.cost, one.time_to_train)):
        if not front or candidate.time_to_train < front[-1].time_to_train * (1 - ALIKE):
            front.append(candidate)
    slopes = [
        (one.time_to_train - after.time_to_train) / (after.cost - one.cost) for one, after in itertools.pairwise(front)
    ]
    return tuple(
        Candidate(**{**vars(one), "next_dollar": slope}) for one, slope in itertools.zip_longest(front, slopes)
    )


def _break_even(catalog: Catalog, gpu: str, candidates: Sequence[Candidate]) -> BreakEven:
    """Compare the run's cost over the two families at each size both were tried."""
    family = {key: entry.family for key, entry in catalog.scale_out.items()}
    own = [one for one in candidates if one.gpu == gpu]
    infiniband = {one.gpus: one for one in own if family[one.scale_out] == "infiniband"}
    ethernet = {one.gpus: one for one in own if family[one.scale_out] in ("roce", "spectrum-x", "ultra-ethernet")}
    points = tuple(
        (gpus, ethernet[gpus].run / infiniband[gpus].run) for gpus in sorted(infiniband.keys() & ethernet.keys())
    )
    never = [gpus for gpus, ratio in points if ratio <= 1]
    paying = [gpus for gpus, _ in points if gpus > max(never, default=0)]
    best = catalog.scale_out[infiniband[points[-1][0]].scale_out] if points and points[-1][1] > 1 else None
    if best is None and points:
        best = catalog.scale_out[ethernet[points[-1][0]].scale_out]
    agrees, rule = rule_of_thumb(points[-1][0], best, tie=False, catalog=catalog) if best else (True, "")
    return BreakEven(
        gpu=gpu,
        infiniband=next((one.scale_out for one in infiniband.values()), ""),
        ethernet=next((one.scale_out for one in ethernet.values()), ""),
        gpus=paying[0] if paying else None,
        points=points,
        rule_of_thumb=rule,
        agrees=agrees,
    )


def _message(question: Question, feasible: Sequence[Candidate], meeting: Sequence[Candidate]) -> str:
    """Why there is no answer, and by how much it is missed."""
    if meeting:
        return ""
    if not feasible:
        return (
            f"No cluster of up to {question.gpus:,} GPUs can run the model as asked. Allow more GPUs, or another GPU."
        )
    quickest = min(one.time_to_train for one in feasible)
    if question.deadline and quickest > question.deadline:
        short = quickest / question.deadline
        return f"The quickest cluster needs {short:.2g} times the deadline. Allow more GPUs, or move the deadline."
    return "No cluster meets all limits at once. Raise the budget or the power limit, or move the deadline."
