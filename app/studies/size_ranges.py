"""How sure the figures are of the clusters that sizing names: each planned in full, with ranges."""

from collections.abc import Iterator
from urllib.parse import parse_qsl

from app.catalog.load import Catalog
from app.plan.band import Quantity, record, result
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.studies.sizing import Answer, Candidate, Question


@record
class CandidateRange:
    """One of the clusters that are named, with the ranges of its figures."""

    gpu: str = result("", "GPU", "Key of the GPU.")
    scale_out: str = result("", "Network", "Key of the network.")
    gpus: int = result("1", "GPUs", "GPUs of the cluster.")
    time_to_train: Quantity = result("s", "Time to train", "Time of the run.", formula="training.time_to_train")
    capital: Quantity = result("USD", "Capital", "Nodes, networks and the building they need, bought.")
    rental: Quantity = result(
        "USD", "Rent of the run", "GPU-hours of the run at the rent of one.", formula="costs.rental"
    )
    run: Quantity = result(
        "USD", "Owned cost of the run", "The run's share of the lifetime's total.", formula="costs.run"
    )
    power: Quantity = result("W", "Power", "Power to provide for nodes and networks at their maximum, IT load alone.")
    cost: Quantity = result("USD", "Cost", "The one of the three costs that the budget is for.")
    at_risk: tuple[str, ...] = result(
        "", "At risk", "Limits that it meets typically, and not at the high end of the range, by their fields."
    )
    query: str = result("", "Query", "Its scenario as a query string.")


def ranges_of(answer: Answer, question: Question, catalog: Catalog) -> Iterator[CandidateRange]:
    """The ranges of the cheapest, of those that tie with it, of the fastest and of the best value, each once."""
    named = (answer.cheapest, *answer.ties, answer.fastest, answer.best_value)
    for candidate in {candidate.query: candidate for candidate in named if candidate}.values():
        settings = dict(parse_qsl(candidate.query))
        plan = evaluate(Scenario.model_validate(settings, context={"catalog": catalog}), catalog, ())
        yield _range(candidate, plan, question)


def _range(candidate: Candidate, plan: Plan, question: Question) -> CandidateRange:
    costs = plan.costs
    spent = {"capital": costs.capital, "rental": costs.rental, "run": costs.per_run}
    cost = spent[question.budget_kind]
    reached = {"deadline": plan.training.time_to_train, "budget": cost, "power_limit": plan.cluster.power}
    limits = question.limits.items()
    return CandidateRange(
        gpu=candidate.gpu,
        scale_out=candidate.scale_out,
        gpus=candidate.gpus,
        time_to_train=plan.training.time_to_train,
        **spent,
        power=plan.cluster.power,
        cost=cost,
        at_risk=tuple(name for name, limit in limits if (band := reached[name]) and band.typical <= limit < band.high),
        query=candidate.query,
    )
