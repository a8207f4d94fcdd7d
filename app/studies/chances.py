"""How likely the clusters of a sizing keep each limit, and what a week less costs.

A range belongs to a number, a chance to a limit: "58 days (53-64)" does not say whether 60 days are met.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Generic

from app.catalog.load import Catalog
from app.plan.band import Band, Draws, Q, fold, nan_is_an_answer, record, result
from app.studies.odds import SAFE, chance, joint_chance
from app.studies.sizing import FIGURES, Answer, Candidate, Question, costs_by_kind, drawn_plan
from app.units import parse

MOST = 10
"""Clusters whose chances are worked out before the first safe one is looked for: each is a plan with its ranges."""
ALIKE = 1.04
"""Clusters of the front whose costs are closer than so many times tell a reader the same."""
WEEK = parse("7 days", "s")


@record
class Likely(Generic[Q]):
    """A cluster with its ranges, and how likely it keeps each limit; ``None`` of a limit that was not given."""

    gpu: str = result("", "GPU", "Key of the GPU.")
    scale_out: str = result("", "Network", "Key of the network.")
    gpus: int = result("1", "GPUs", "GPUs of the cluster.")
    query: str = result("", "Query", "Its scenario as a query string.")
    time_to_train: Q = result("s", "Time to train", "Time of the run.", formula="training.time_to_train")
    campaign_time: Q = result(
        "s",
        "Calendar time",
        "Time from start to end, with ramp-up, evaluation, restarts and bad nodes.",
        formula="training.campaign_time",
    )
    capital: Q = result("USD", "Capital", "Nodes, networks and the building they need, bought.")
    rental: Q = result("USD", "Rent of the run", "GPU-hours of the run at the rent of one.", formula="costs.rental")
    run: Q = result("USD", "Owned cost of the run", "The run's share of the lifetime's total.", formula="costs.run")
    cost: Q = result("USD", "Cost", "The one of the three costs that the budget is for.")
    power: Q = result("W", "Power", "Power to provide for nodes and networks at their maximum, IT load alone.")
    by_deadline: float | None = result("1", "By the date", "Chance that the run takes no longer.", share=True)
    by_calendar: float | None = result(
        "1", "By the calendar", "Chance that it takes no longer from start to end.", share=True
    )
    in_budget: float | None = result("1", "In budget", "Chance that it costs no more.", share=True)
    in_power: float | None = result("1", "In power", "Chance that it draws no more.", share=True)
    in_all: float | None = result(
        "1",
        "All at once",
        "Chance that it keeps all limits, a deadline by the calendar, where several were given.",
        share=True,
    )

    @property
    def least(self) -> float:
        """The chance of the limit that it is least likely to keep; a date is one on the calendar."""
        return min((odds for odds in (self.by_calendar, self.in_budget, self.in_power) if odds is not None), default=1)


@record
class Sooner:
    """The cheapest of the front that takes at least a week less than the cheapest that meets the limits."""

    cluster: Candidate = result("", "Cluster", "The quicker one.")
    saves: float = result("s", "Saves", "How much less it takes.")
    costs: float = result("USD", "Costs", "How much more it costs.")
    per_week: float = result("USD", "A week costs", "The same for each week that it saves.")


@record
class Chances:
    """What a sizing's clusters are likely to keep."""

    chances: tuple[Likely, ...] = result(
        "", "Chances", "Clusters near the limits with their ranges and chances, cheapest first."
    )
    safest: Likely | None = result(
        "",
        "Safest",
        "The cheapest of them, without a deadline the soonest, that keeps each limit in nine cases of ten, a deadline "
        "by the calendar; null where none does.",
    )
    sooner: Sooner | None = result(
        "", "A week sooner", "What at least a week less costs; null without a deadline, and where nothing saves one."
    )


@nan_is_an_answer
def chances(question: Question, answer: Answer, catalog: Catalog) -> Chances:
    """The chances of the clusters that a reader of this answer chooses among."""
    near, wanted = _near(question, answer), attrgetter("cost" if answer.deadline else "time_to_train")

    def likely(candidate: Candidate) -> Likely[Band | None]:
        folded: Likely[Band | None] = fold(_likely(question, candidate, catalog))
        return folded

    known = {candidate.query: likely(candidate) for candidate in near}
    offered = {candidate.query: candidate for candidate in (*near, *answer.front)}
    in_order = sorted(offered.values(), key=wanted)
    known |= _first_safe(in_order, known, likely)
    known_in_order = (known[candidate.query] for candidate in in_order if candidate.query in known)
    safe = next((chances for chances in known_in_order if chances.least >= SAFE), None)
    cheapest_first = sorted(known, key=lambda query: offered[query].cost)
    return Chances(tuple(known[query] for query in cheapest_first), safe, _sooner(answer))


def _first_safe(
    in_order: Sequence[Candidate],
    known: Mapping[str, Likely[Band | None]],
    likely: Callable[[Candidate], Likely[Band | None]],
) -> dict[str, Likely[Band | None]]:
    """The first of some clusters that keeps its limits safely, by its query, where it is not known yet.

    From the cheapest to the soonest, or back, the chance of what is lacking rises: it is looked for by halves, between
    the last known cluster that is not safe and the first that is.
    """
    places = [place for place, candidate in enumerate(in_order) if candidate.query in known]
    safe = next((place for place in places if known[in_order[place].query].least >= SAFE), 0)
    unsafe = max((place for place in places if place < safe), default=safe)
    first_safe: dict[str, Likely[Band | None]] = {}
    while safe - unsafe > 1:
        middle = (safe + unsafe) // 2
        cluster = likely(in_order[middle])
        if cluster.least >= SAFE:
            safe, first_safe = middle, {in_order[middle].query: cluster}
        else:
            unsafe = middle
    return first_safe


def _near(question: Question, answer: Answer) -> list[Candidate]:
    """The clusters that are named, and of the front those nearest to the limits."""
    named = [answer.cheapest, answer.fastest, answer.best_value, *answer.ties, *answer.nearest_misses]
    kept = {candidate.query: candidate for candidate in named if candidate}
    for candidate in sorted(answer.front, key=lambda candidate: _distance(question, candidate)):
        if len(kept) >= MOST:
            break
        if all(max(candidate.cost, other.cost) > ALIKE * min(candidate.cost, other.cost) for other in kept.values()):
            kept[candidate.query] = candidate
    return list(kept.values())


def _distance(question: Question, candidate: Candidate) -> float:
    """How many times a cluster is away from the limit that it is farthest from."""
    over = [float(getattr(candidate, FIGURES[name])) / limit for name, limit in question.limits.items()]
    return max(max(factor, 1 / factor) for factor in over)


def _likely(question: Question, candidate: Candidate, catalog: Catalog) -> Likely[Draws]:
    drawn = drawn_plan(question, candidate, catalog)
    time, calendar = drawn.training.time_to_train, drawn.training.campaign_time
    power, deadline = drawn.cluster.power, question.limits.get("deadline")
    spent = costs_by_kind(drawn)
    cost = spent[question.budget_kind]
    return Likely(
        gpu=candidate.gpu,
        scale_out=candidate.scale_out,
        gpus=candidate.gpus,
        query=candidate.query,
        time_to_train=time,
        campaign_time=calendar,
        **spent,
        cost=cost,
        power=power,
        by_deadline=chance(time, deadline),
        by_calendar=chance(calendar, deadline),
        in_budget=chance(cost, question.budget),
        in_power=chance(power, question.power_limit),
        in_all=joint_chance((calendar, deadline), (cost, question.budget), (power, question.power_limit))
        if len(question.limits) > 1
        else None,
    )


def _sooner(answer: Answer) -> Sooner | None:
    """The front is cheapest first, so the first that saves a week is the cheapest that does."""
    best = answer.cheapest if answer.deadline else None
    saves = ((candidate, best.time_to_train - candidate.time_to_train) for candidate in answer.front) if best else ()
    sooner = next(((candidate, saved) for candidate, saved in saves if saved >= WEEK), None)
    if best is None or sooner is None:
        return None
    (cluster, saved), more = sooner, sooner[0].cost - best.cost
    return Sooner(cluster, saved, more, more / (saved / WEEK))
