"""Answers that are one part of a plan, or several plans: each with the envelope that every answer carries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from app import __version__
from app.catalog.load import Catalog
from app.plan.band import nan_is_an_answer, record, result
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate_all_reduce, evaluate_network
from app.plan.findings import by_severity
from app.plan.result import AllReduce, Fabric, Finding, Plan
from app.plan.scenario import Scenario
from app.plan.unusual_values import unusual_values
from app.studies.comparison import Difference, compare
from app.studies.sizing import Answer, Question, size
from app.validation import collective_runs, design_counts, training_runs
from app.web import form

MEASUREMENTS = Path(__file__).parents[1] / "validation" / "measurements"


@record
class Envelope:
    """What every answer carries: the versions, the question with its blanks filled in, findings and a link."""

    model_version: str = result("", "Model version", "Version of the formulas.")
    catalog_version: str = result("", "Catalogue version", "Version of the catalogue, overrides counted.")
    scenario: Mapping[str, Any] = result("", "Inputs", "The question, every blank filled in, in base units.")
    findings: tuple[Finding, ...] = result("", "Findings", "What the reader should know, worst first.")
    permalink: str = result("", "Link", "Address of a page that asks the same.")


@record
class ReduceResult(AllReduce):
    """The reduction for one pair of a message and a number of GPUs."""

    gpus: int = result("1", "GPUs", "GPUs of the cluster.")


@record
class ReduceAnswer(Envelope):
    """The time of an all-reduce."""

    all_reduce: AllReduce = result("", "All-reduce", "The first of the results.")
    results: tuple[ReduceResult, ...] = result("", "Results", "One for each pair of a message and a number of GPUs.")


@record
class FabricAnswer(Envelope):
    """The fabric alone."""

    fabric: Fabric = result("", "Fabric", "The network between nodes.")
    cable_list: str = result("", "Cable list", "Address of the point-to-point cable list, as CSV.")


@record
class CompareAnswer(Envelope):
    """Plans side by side; the inputs are the first one's, which the others are held against."""

    plans: tuple[Plan, ...] = result("", "Plans", "The plan of each scenario, in their order.")
    differences: tuple[Difference, ...] = result("", "Differences", "Results that differ.")
    asked: tuple[Difference, ...] = result("", "Asked", "Inputs that differ.")
    same: tuple[Difference, ...] = result("", "Same", "Results that are the same.")


@record
class SizeAnswer(Answer, Envelope):
    """Clusters that do the job: the front of cost against time, and the three that matter."""


ANSWERS = (Plan, ReduceAnswer, FabricAnswer, CompareAnswer, SizeAnswer)
"""What the questions of the interface are answered with."""


def reduce_answer(scenarios: Sequence[Scenario], catalog: Catalog) -> ReduceAnswer:
    """The reduction for each scenario; they differ in message and GPUs only."""
    plans = [evaluate_all_reduce(scenario, catalog) for scenario in scenarios]
    first = plans[0]
    filled = dict(first.scenario)
    for name in ("message", "gpus"):
        asked = tuple(dict.fromkeys(plan.scenario[name] for plan in plans))
        if len(asked) > 1:
            filled[name] = asked
    return ReduceAnswer(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=filled,
        findings=by_severity(finding for plan in plans for finding in plan.findings),
        permalink="/all-reduce?" + scenarios[0].query(catalog_version=catalog.version),
        all_reduce=first.all_reduce,
        results=tuple(ReduceResult(**vars(plan.all_reduce), gpus=plan.scenario["gpus"]) for plan in plans),
    )


def fabric_answer(scenario: Scenario, catalog: Catalog) -> FabricAnswer:
    """The fabric of one scenario, priced."""
    plan = evaluate_network(scenario, catalog)
    return FabricAnswer(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=plan.scenario,
        findings=plan.findings,
        permalink="/fabric?" + scenario.query(catalog_version=catalog.version),
        fabric=plan.fabric,
        cable_list="/export/cables.csv?" + scenario.query(catalog_version=catalog.version),
    )


@nan_is_an_answer
def compare_answer(scenarios: Sequence[Scenario], catalog: Catalog) -> CompareAnswer:
    """Two to four scenarios side by side."""
    found = compare(scenarios, catalog)
    fields = {
        f"{letter}.{name}": text
        for letter, scenario in zip("abcd", scenarios, strict=False)
        for name, text in form.texts(scenario).items()
    }
    return CompareAnswer(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=found.plans[0].scenario,
        findings=by_severity(finding for plan in found.plans for finding in plan.findings),
        permalink="/compare?" + urlencode(fields),
        plans=found.plans,
        differences=found.differences,
        asked=found.asked,
        same=found.same,
    )


@nan_is_an_answer
def size_answer(
    question: Question, catalog: Catalog, seconds: float, stopped: Callable[[], bool] = lambda: False
) -> SizeAnswer:
    """The inverse question."""
    answer: Answer = size(question, catalog, seconds, stopped)
    findings = []
    if answer.message:
        findings.append(Finding("error", "no-cluster", answer.message, ("deadline", "budget", "gpus", "gpu")))
    if not answer.complete:
        text = f"Cut off after {seconds:.3g} s: {answer.considered} clusters were tried, larger ones were not."
        findings.append(Finding("warning", "cut-off", text, ("gpu", "scale_out"), "Name fewer candidates."))
    findings += _unusual(question, catalog)
    asked = [
        (name, one)
        for name, value in question.asked().items()
        for one in (value if isinstance(value, tuple) else (value,))
        if one is not None
    ]
    return SizeAnswer(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=dict(question),
        findings=by_severity(findings),
        permalink="/size?" + urlencode(asked),
        **vars(answer),
    )


def _unusual(question: Question, catalog: Catalog) -> list[Finding]:
    """Values that are far from usual for every candidate."""
    scale_out = question.scale_out[0] if question.scale_out else Scenario().scale_out
    clusters = [look_up(question.scenario(gpu, scale_out, question.gpus), catalog) for gpu in question.gpu]
    found = [{finding.fields: finding for finding in unusual_values(each, question, catalog)} for each in clusters]
    return [finding for fields, finding in found[0].items() if all(fields in others for others in found)]


@lru_cache(maxsize=1)
def accuracy(catalog: Catalog) -> Mapping[str, Any]:
    """The models held against the measurements kept here: one report a model. It takes seconds to make."""
    reports = {"collectives": collective_runs.report, "fabric": design_counts.report, "training": training_runs.report}
    return {kind: report(MEASUREMENTS / f"{kind}.csv", catalog) for kind, report in reports.items()}


LINKS = ("permalink", "cable_list")
"""Fields of answers that are addresses of this service."""


def with_root_path(answer: Any, root_path: str) -> Any:
    """The answer with its links below the sub-path that a proxy serves this under, or with the host before them.

    >>> with_root_path({"permalink": "/catalog", "kinds": {}}, "/railyard")
    {'permalink': '/railyard/catalog', 'kinds': {}}
    """
    if not root_path:
        return answer
    if isinstance(answer, dict):
        return answer | {name: root_path + answer[name] for name in LINKS if name in answer}
    changed: dict[str, Any] = {name: root_path + getattr(answer, name) for name in LINKS if hasattr(answer, name)}
    if isinstance(answer, CompareAnswer):
        changed["plans"] = tuple(with_root_path(plan, root_path) for plan in answer.plans)
    return replace(answer, **changed)
