"""Answers that are one part of a plan, or several plans: each with the envelope that every answer carries."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, TypeVar, cast
from urllib.parse import urlencode

from app import __version__
from app.catalog.entries import (
    Engine,
    Gpu,
    Model,
    Nic,
    Optic,
    Platform,
    Preset,
    PriceBook,
    ScaleOut,
    ScaleUp,
    Source,
    Switch,
)
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.names import listed
from app.plan.band import Declaration, nan_is_an_answer, record, result
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate, evaluate_all_reduce, evaluate_network
from app.plan.findings import by_severity
from app.plan.job.shape import shape_findings
from app.plan.long_parts import EVERYTHING, SOURCES
from app.plan.network import network_of
from app.plan.prices import PriceList
from app.plan.question_findings import of_question, other_catalogue
from app.plan.result import AllReduce, Cluster, Fabric, Finding, Plan
from app.plan.scenario import ModelRequest, PriceRequest, Scenario
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving_result import Serving
from app.plan.total_cost import price_in_doubt
from app.plan.unusual_values import unusual_for_all
from app.report.charts import accuracy_charts
from app.studies.chances import Chances, chances
from app.studies.comparison import Difference, compare
from app.studies.network_costs import CostQuestion, CostStudy, cost_study
from app.studies.own_sweep import CalibrateQuestion, OwnSweep, own_sweep
from app.studies.serving_sizing import ServeSizeQuestion, ServeSizing, idle_findings, size_serving, slow_finding
from app.studies.sizing import Answer, Question, size
from app.studies.whole_catalog import sold
from app.units import show
from app.validation import collective_runs, design_counts, ledger, serving_runs, training_runs, whole_clusters
from app.validation.nearest_points import nearest_points
from app.web import form

MEASUREMENTS = Path(__file__).parents[1] / "validation" / "measurements"


VERSION = Declaration("", "Model version", "Version of the formulas.")
CATALOG_VERSION = Declaration("", "Catalogue version", "Version of the catalogue, overrides counted.")
LINK = Declaration("", "Link", "Address of a page that shows the same.")


@record
class Envelope:
    """What every answer carries: the versions, the question with its blanks filled in, findings and a link."""

    model_version: str = result("", "Model version", "Version of the formulas.")
    catalog_version: str = result("", "Catalogue version", "Version of the catalogue, overrides counted.")
    scenario: Mapping[str, Any] = result(
        "", "Inputs", "The question, its blanks filled in, in base units; an engine that is assumed stays blank."
    )
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
class SizeAnswer(Chances, Answer, Envelope):
    """Clusters that do the job: the front of cost against time, those that matter, and what they are likely to keep."""


@record
class CostAnswer(CostStudy, Envelope):
    """What networks cost side by side, what articles say of it, and owning against renting.

    Of its inputs, what the design of each network settles at each size stays blank.
    """


@record
class CalibrateAnswer(OwnSweep, Envelope):
    """What a measured sweep says of a cluster, and every measurement beside its predictions."""


@record
class ServeAnswer(Envelope):
    """What a cluster serves."""

    verdict: str = result("", "Answer", "The answer in one sentence.")
    cluster: Cluster = result("", "Cluster", "The nodes as a whole.")
    serving: Serving = result("", "Serving", "What the cluster answers with.")


@record
class ServeSizeAnswer(ServeSizing, Envelope):
    """Clusters that carry a load of serving: the cheapest, the one of fewest GPUs, the quickest."""


ANSWERS = (
    Plan,
    ReduceAnswer,
    FabricAnswer,
    CompareAnswer,
    SizeAnswer,
    CostAnswer,
    ServeAnswer,
    ServeSizeAnswer,
    CalibrateAnswer,
)
"""What the questions of the interface are answered with."""


Entry = Gpu | ScaleUp | ScaleOut | Switch | Nic | Optic | Platform | Model | Engine | Preset | PriceBook | Source
AnyEntry = Entry | Mapping[str, Estimate]
"""An entry, or a group of constants."""


MATCHES = Declaration("1", "Count", "Entries that are asked for, on all pages.")
NEXT = Declaration("", "Cursor", "Where the list goes on; null at its end.")


class CatalogAnswer(TypedDict):
    """The whole catalogue, or what is asked for of it."""

    model_version: Annotated[str, VERSION]
    catalog_version: Annotated[str, CATALOG_VERSION]
    permalink: Annotated[str, LINK]
    kinds: Annotated[Mapping[str, Mapping[str, AnyEntry]], Declaration("", "Kinds", "Entries by kind and key.")]
    count: Annotated[int, MATCHES]
    cursor: Annotated[str | None, NEXT]
    sources: NotRequired[Annotated[Mapping[str, Source], Declaration("", "Sources", "Sources that they cite, by key.")]]


class KindAnswer(TypedDict):
    """The entries of one kind, or those of them that are asked for."""

    model_version: Annotated[str, VERSION]
    catalog_version: Annotated[str, CATALOG_VERSION]
    permalink: Annotated[str, LINK]
    kind: Annotated[str, Declaration("", "Kind", "The kind that was asked.")]
    entries: Annotated[Mapping[str, AnyEntry], Declaration("", "Entries", "Entries of the kind, by key.")]
    count: Annotated[int, MATCHES]
    cursor: Annotated[str | None, NEXT]
    sources: NotRequired[Annotated[Mapping[str, Source], Declaration("", "Sources", "Sources that they cite, by key.")]]


class EntryAnswer(TypedDict):
    """One entry."""

    model_version: Annotated[str, VERSION]
    catalog_version: Annotated[str, CATALOG_VERSION]
    permalink: Annotated[str, LINK]
    kind: Annotated[str, Declaration("", "Kind", "Its kind.")]
    key: Annotated[str, Declaration("", "Key", "Its key.")]
    entry: Annotated[AnyEntry, Declaration("", "Entry", "The entry.")]
    sources: NotRequired[Annotated[Mapping[str, Source], Declaration("", "Sources", "Sources that it cites, by key.")]]


class Statistics(TypedDict):
    """How far predictions are from measurements; null where there are none, or no band."""

    count: Annotated[int, Declaration("1", "Rows", "Measurements.")]
    median: Annotated[float | None, Declaration("1", "Median error", "Median of |predicted/measured - 1|.")]
    mean: Annotated[float | None, Declaration("1", "Mean error", "Mean of |predicted/measured - 1|.")]
    p90: Annotated[float | None, Declaration("1", "90th percentile", "Error that nine rows of ten stay below.")]
    bias: Annotated[float | None, Declaration("1", "Bias", "Geometric mean of predicted/measured, less 1.")]
    coverage: Annotated[float | None, Declaration("1", "Coverage", "Share of measurements inside the band.")]
    width: Annotated[float | None, Declaration("1", "Width", "Median half-width of the band.")]


SKIPPED = Declaration("", "Skipped", "Rows that cannot be predicted, with the reason.")
LEFT_OUT = Declaration("", "Leave one out", "Whether constants were fitted anew without each source in turn.")
OVERALL = Declaration("", "Overall", "All rows together.")
BY_SIZE = Declaration("", "By size", "Small, medium and large messages.")
BY_RUN = Declaration("", "By run", "Each published run.")
BY_SYSTEM = Declaration("", "By system", "Each cluster, all its runs together.")


class AllReduceAccuracy(TypedDict):
    """All-reduces alone."""

    overall: Annotated[Statistics, OVERALL]
    by_band: Annotated[Mapping[str, Statistics], BY_SIZE]
    by_system: Annotated[Mapping[str, Statistics], BY_SYSTEM]
    median_of_systems: Annotated[
        float | None, Declaration("1", "Median of systems", "The median of the systems' median errors: one vote each.")
    ]
    by_cell: Annotated[Mapping[str, Statistics], Declaration("", "By cell", "Each class of hardware and size.")]
    switched: Annotated[Statistics, Declaration("", "Switched", "NVLink switches, and InfiniBand or RoCE or none.")]
    switched_by_band: Annotated[Mapping[str, Statistics], Declaration("", "Switched by size", "The same by size.")]


class CollectiveAccuracy(TypedDict):
    """Predicted times of collectives against published runs."""

    rows: Annotated[int, Declaration("1", "Rows", "Rows that were predicted.")]
    skipped: Annotated[tuple[Mapping[str, str], ...], SKIPPED]
    leave_one_out: Annotated[bool, LEFT_OUT]
    overall: Annotated[Statistics, OVERALL]
    weak: Annotated[Statistics, Declaration("", "Weak", "Rows whose source leaves the system unclear.")]
    other_libraries: Annotated[Statistics, Declaration("", "Other libraries", "Rows of libraries but NCCL and RCCL.")]
    by_band: Annotated[Mapping[str, Statistics], BY_SIZE]
    by_run: Annotated[Mapping[str, Statistics], BY_RUN]
    by_class: Annotated[Mapping[str, Statistics], Declaration("", "By class", "Each class of hardware.")]
    by_collective: Annotated[Mapping[str, Statistics], Declaration("", "By collective", "Each collective.")]
    by_system: Annotated[Mapping[str, Statistics], BY_SYSTEM]
    all_reduce: Annotated[AllReduceAccuracy, Declaration("", "All-reduce", "All-reduces alone.")]


class DesignCheck(TypedDict):
    """One published design against ours."""

    id: Annotated[str, Declaration("", "Design", "The design's name in the file of measurements.")]
    verdict: Annotated[str, Declaration("", "Verdict", "exact, mismatch or not_applicable.")]
    published: Annotated[Mapping[str, int], Declaration("1", "Published", "Counts that the source prints.")]
    computed: Annotated[Mapping[str, int], Declaration("1", "Computed", "The same counts of ours.")]
    reason: Annotated[str, Declaration("", "Reason", "Why they differ, or cannot be compared.")]
    source: Annotated[str, Declaration("", "Source", "The document.")]
    source_kind: Annotated[str, Declaration("", "Kind of source", "What kind of document it is.")]


class FabricAccuracy(TypedDict):
    """Designed fabrics against published ones."""

    exact: Annotated[int, Declaration("1", "Exact", "Designs whose counts are the same.")]
    mismatch: Annotated[int, Declaration("1", "Mismatch", "Designs whose counts differ.")]
    not_applicable: Annotated[int, Declaration("1", "Not applicable", "Designs of a kind that is not modelled.")]
    designs: Annotated[tuple[DesignCheck, ...], Declaration("", "Designs", "Each design.")]


class Infeasible(TypedDict):
    """Published runs that the planner would refuse: too large for the memory it allows, or not to be divided."""

    count: Annotated[int, Declaration("1", "Rows", "Runs that it would refuse.")]
    share: Annotated[float, Declaration("1", "Share", "Their share of the runs that were predicted.")]


class SourcesInside(TypedDict):
    """Of how many sources the ranges hold four of five rows, each source by itself."""

    count: Annotated[int, Declaration("1", "Sources", "Sources that were predicted.")]
    possible: Annotated[int, Declaration("1", "Possible", "With so many rows that 75 to 88 % of them can be inside.")]
    compatible: Annotated[int, Declaration("1", "Compatible", "That agree with four of five, one in twenty each side.")]
    enough: Annotated[int, Declaration("1", "Enough", "With at least 75 % of their rows inside the range.")]
    between: Annotated[int, Declaration("1", "Between", "With 75 to 88 % of them inside.")]
    near: Annotated[int, Declaration("1", "Near", "With 75 to 88 %, give or take one row.")]


class TrainingAccuracy(TypedDict):
    """Predicted step times against published runs."""

    rows: Annotated[int, Declaration("1", "Rows", "Rows that were predicted.")]
    skipped: Annotated[tuple[Mapping[str, str], ...], SKIPPED]
    leave_one_out: Annotated[bool, LEFT_OUT]
    overall: Annotated[Statistics, OVERALL]
    identified: Annotated[Statistics, Declaration("", "Identified", "Rows whose source states all settings.")]
    dense: Annotated[Statistics, Declaration("", "Dense", "Dense models.")]
    moe: Annotated[Statistics, Declaration("", "Mixtures", "Mixtures of experts.")]
    clusters: Annotated[Statistics, Declaration("", "Clusters", "One vote a cluster: rows of one source and setting.")]
    dense_clusters: Annotated[Statistics, Declaration("", "Dense clusters", "The same of dense models.")]
    moe_clusters: Annotated[Statistics, Declaration("", "Expert clusters", "The same of mixtures of experts.")]
    baseline: Annotated[Statistics, Declaration("", "Baseline", "What the usual MFU of others would predict.")]
    infeasible: Annotated[Infeasible, Declaration("", "Infeasible", "Runs that the planner would refuse.")]
    memory: Annotated[Statistics, Declaration("", "Memory", "Memory of a GPU, where the source prints it.")]
    sources: Annotated[SourcesInside, Declaration("", "Sources inside", "Sources whose rows the ranges hold.")]
    others_ranges: Annotated[
        Statistics,
        Declaration("", "Ranges of others", "With ranges as wide as all other sources need; left out alone."),
    ]
    others_ranges_dense: Annotated[Statistics, Declaration("", "Ranges of others, dense", "The same of dense models.")]
    others_ranges_moe: Annotated[
        Statistics, Declaration("", "Ranges of others, experts", "The same of mixtures of experts.")
    ]
    others_ranges_sources: Annotated[
        SourcesInside, Declaration("", "Sources inside ranges of others", "Sources whose rows those ranges hold.")
    ]
    by_group: Annotated[Mapping[str, Statistics], Declaration("", "By source", "Each group of sources.")]
    by_stack: Annotated[Mapping[str, Statistics], Declaration("", "By stack", "Each software stack.")]
    by_regime: Annotated[Mapping[str, Statistics], Declaration("", "By regime", "How well runs were tuned.")]
    moe_by_regime: Annotated[Mapping[str, Statistics], Declaration("", "Experts by regime", "Mixtures of experts.")]
    moe_by_routing: Annotated[
        Mapping[str, Statistics], Declaration("", "Experts by routing", "How tokens were routed.")
    ]
    by_gpu: Annotated[Mapping[str, Statistics], Declaration("", "By GPU", "Each GPU.")]
    by_run: Annotated[Mapping[str, Statistics], BY_RUN]


class OperatingPoints(Statistics):
    """How far off operating points are, overall and by group."""

    by_source: Annotated[Mapping[str, Statistics], Declaration("", "By source", "Each source.")]
    by_engine: Annotated[Mapping[str, Statistics], Declaration("", "By engine", "Each engine.")]
    by_gpu: Annotated[Mapping[str, Statistics], Declaration("", "By GPU", "Each GPU.")]
    by_model: Annotated[Mapping[str, Statistics], Declaration("", "By model", "Each model.")]
    by_family: Annotated[Mapping[str, Statistics], Declaration("", "By family", "Each family of architectures.")]


class ServingTier(TypedDict):
    """Operating points of one tier."""

    tpot: Annotated[OperatingPoints, Declaration("", "Time per token", "Mean time between tokens.")]
    throughput: Annotated[OperatingPoints, Declaration("", "Largest throughput", "Where a queue is never empty.")]
    ttft: Annotated[OperatingPoints, Declaration("", "Time to first token", "Mean.")]


class ChoicesUnderLimits(TypedDict):
    """What choices by prediction cost under some limits."""

    choices: Annotated[int, Declaration("1", "Choices", "Choices under a limit on the time per token.")]
    loss: Annotated[float | None, Declaration("1", "Loss", "Share of the best throughput lost, on average.")]
    kept: Annotated[float | None, Declaration("1", "Kept", "Share of the limits that are kept within a tenth.")]
    refused: Annotated[
        float | None, Declaration("1", "Refused", "Share of the choices whose best is predicted over the limit.")
    ]
    loss_otherwise: Annotated[float | None, Declaration("1", "Loss otherwise", "Loss of the other choices.")]


class Decisions(ChoicesUnderLimits):
    """What choosing a layout and load by prediction costs against the best that was measured."""

    groups: Annotated[int, Declaration("1", "Groups", "Groups of comparable measurements.")]
    round_limits: Annotated[
        ChoicesUnderLimits,
        Declaration("", "Round limits", "The same under 10, 15, 20, 30, 50 ms and so on; the others lie at points."),
    ]


class ServingAccuracy(TypedDict):
    """Predicted operating points of serving against published ones."""

    rows: Annotated[int, Declaration("1", "Rows", "Rows that were predicted.")]
    skipped: Annotated[tuple[Mapping[str, str], ...], SKIPPED]
    leave_one_out: Annotated[bool, LEFT_OUT]
    core: Annotated[ServingTier, Declaration("", "Core", "Plain decoding with a stated layout and no queue.")]
    stress: Annotated[ServingTier, Declaration("", "Stress", "Queues, pools apart, new attention.")]
    decisions: Annotated[Decisions, Declaration("", "Decisions", "Choices by prediction.")]


class WholeFigure(TypedDict):
    """One published figure of a whole cluster or run beside ours."""

    cluster: Annotated[str, Declaration("", "Key", "The cluster's key in the file.")]
    name: Annotated[str, Declaration("", "Cluster", "Its name.")]
    quantity: Annotated[str, Declaration("", "Quantity", "What is compared.")]
    title: Annotated[str, Declaration("", "Figure", "The same in words.")]
    kind: Annotated[str, Declaration("", "Kind", "counts, racks, power, dollars, step or GPU hours.")]
    unit: Annotated[str, Declaration("", "Unit", "Of the numbers beside it.")]
    published: Annotated[float, Declaration("", "Published", "What the source prints.")]
    low: Annotated[float | None, Declaration("", "Low", "Lower end of our range.")]
    typical: Annotated[float | None, Declaration("", "Typical", "Ours; null where the plan leaves it open.")]
    high: Annotated[float | None, Declaration("", "High", "Upper end of our range.")]
    ratio: Annotated[float | None, Declaration("1", "Ratio", "Ours over the published.")]
    inside: Annotated[bool | None, Declaration("", "Inside", "Whether our range holds it; null where there is none.")]
    means: Annotated[str, Declaration("", "Means", "What the source counts.")]
    note: Annotated[str, Declaration("", "Note", "How the question was put.")]
    recalled: Annotated[bool, Declaration("", "Recalled", "General knowledge, not read again for this.")]
    source: Annotated[str, Declaration("", "Source", "The document.")]
    url: Annotated[str, Declaration("", "Address", "Of the document.")]


class WholeClusterAccuracy(TypedDict):
    """Whole plans held against published clusters and runs."""

    clusters: Annotated[int, Declaration("1", "Clusters", "Clusters and designs.")]
    runs: Annotated[int, Declaration("1", "Runs", "Training runs.")]
    by_kind: Annotated[Mapping[str, Statistics], Declaration("", "By kind", "Each kind of figure.")]
    figures: Annotated[tuple[WholeFigure, ...], Declaration("", "Figures", "Each figure.")]
    without_figures: Annotated[Mapping[str, str], Declaration("", "Without figures", "Clusters, and why.")]


class LedgerScore(TypedDict):
    """What was predicted of a source before any constant was fitted to it."""

    source: Annotated[str, Declaration("", "Source", "The group of rows in the file of measurements.")]
    made: Annotated[str, Declaration("", "Made", "The day.")]
    model_version: Annotated[str, VERSION]
    catalog_version: Annotated[str, CATALOG_VERSION]
    dense: Annotated[Statistics, Declaration("", "Dense", "Dense models.")]
    moe: Annotated[Statistics, Declaration("", "Mixtures", "Mixtures of experts.")]
    refused: Annotated[int, Declaration("1", "Refused", "Runs that the planner would have refused.")]


class AccuracyAnswer(TypedDict):
    """Predictions held against published measurements."""

    model_version: Annotated[str, VERSION]
    catalog_version: Annotated[str, CATALOG_VERSION]
    permalink: Annotated[str, LINK]
    collectives: Annotated[CollectiveAccuracy, Declaration("", "Collectives", "Times of collectives.")]
    fabric: Annotated[FabricAccuracy, Declaration("", "Fabric", "Counts of switches and cables.")]
    training: Annotated[TrainingAccuracy, Declaration("", "Training", "Step times and memory.")]
    serving: Annotated[ServingAccuracy, Declaration("", "Serving", "Operating points of serving.")]
    clusters: Annotated[WholeClusterAccuracy, Declaration("", "Whole clusters", "Published clusters and runs.")]
    ledger: Annotated[
        tuple[LedgerScore, ...], Declaration("", "Ledger", "New sources of step times, scored before they were fitted.")
    ]


def reduce_answer(scenarios: Sequence[Scenario], catalog: Catalog) -> ReduceAnswer:
    """The reduction for each scenario; they differ in message and GPUs only."""
    plans = [evaluate_all_reduce(scenario, catalog, explained=False) for scenario in scenarios]
    first = plans[0]
    filled = dict(first.scenario)
    for name in ("message", "gpus"):
        values = tuple(dict.fromkeys(plan.scenario[name] for plan in plans))
        if len(values) > 1:
            filled[name] = values
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
    plan = evaluate_network(scenario, catalog, explained=False)
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
    comparison = compare(scenarios, catalog)
    fields = {
        f"{letter}.{name}": text
        for letter, scenario in zip("abcd", scenarios, strict=False)
        for name, text in form.texts(scenario).items()
    }
    return CompareAnswer(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=comparison.plans[0].scenario,
        findings=by_severity(finding for plan in comparison.plans for finding in plan.findings),
        permalink="/compare?" + urlencode(fields | {"a.catalog_version": catalog.version}),
        plans=comparison.plans,
        differences=comparison.differences,
        asked=comparison.asked,
        same=comparison.same,
    )


@nan_is_an_answer
def calibrate_answer(question: CalibrateQuestion, catalog: Catalog) -> CalibrateAnswer:
    """The reader's cluster by its own measurements."""
    calibrated, findings = own_sweep(question, catalog)
    scenario = question.scenario().model_copy(update={"calibration": calibrated.calibration or None})
    cluster = look_up(scenario, catalog)
    return CalibrateAnswer(
        **vars(calibrated),
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=scenario.filled(cluster.fields()),
        findings=by_severity(findings),
        permalink="/?" + scenario.query(catalog_version=catalog.version),
    )


def _calibrated_for_all(question: Question) -> list[Finding]:
    """That one cluster's calibration is taken for candidates of other kinds."""
    if not question.calibration or (len(question.gpu) == 1 and len(question.scale_out) == 1):
        return []
    text = "One calibration stands for all candidates, and was measured on one GPU and network."
    advice = "Name the GPU and the network that it was measured on alone."
    return [Finding("warning", "calibrated-elsewhere", text, ("calibration", "gpu", "scale_out"), advice)]


def _priced_for_all(question: Question) -> list[Finding]:
    """That a price of one's own is taken for the nodes of every candidate."""
    if question.price_node is None or len(question.gpu) == 1:
        return []
    text = f"{show(question.price_node, 'USD')} was taken as the price of a node of each candidate, whatever its GPUs."
    return [Finding("warning", "one-price-for-all", text, ("price_node", "gpu"), "Name the GPU that it is of alone.")]


def _doubted(question: Question, answer: Answer, catalog: Catalog) -> Iterator[Finding]:
    """Where the price of what is named may be a multiple of what was taken."""
    named = (answer.cheapest, answer.fastest, answer.best_value, *answer.ties, *answer.nearest_misses)
    prices = PriceList.of(question.part(PriceRequest), catalog)
    for gpu in dict.fromkeys(candidate.gpu for candidate in named if candidate):
        platform = catalog.platforms[catalog.gpus[gpu].platform]
        yield from price_in_doubt(platform, prices.node(platform, platform.gpus_per_node))


def _few_tried(question: Question, catalog: Catalog) -> list[Finding]:
    """That others than the usual candidates were not tried."""
    if question.gpu != Question.model_fields["gpu"].default:
        return []
    names = [catalog.gpus[gpu].name for gpu in question.gpu]
    text = f"Tried were {listed(names)}, of {len(sold(catalog))} GPUs that are on sale."
    return [Finding("note", "few-gpus-tried", text, ("gpu",), "Explore all, or name others as candidates.")]


@nan_is_an_answer
def size_answer(
    question: Question, catalog: Catalog, seconds: float, stopped: Callable[[], bool] = lambda: False
) -> SizeAnswer:
    """The inverse question."""
    answer: Answer = size(_of_now(question), catalog, seconds, stopped)
    findings = [*other_catalogue(question, catalog)]
    if answer.message:
        findings.append(Finding("error", "no-cluster", answer.message, ("deadline", "budget", "gpus", "gpu")))
    if not answer.complete:
        text = f"Cut off after {show(seconds, 's')}: {answer.considered} clusters were tried, larger ones were not."
        findings.append(Finding("warning", "cut-off", text, ("gpu", "scale_out"), "Name fewer candidates."))
    findings += unusual_for_all(question, map(question.largest, question.gpu), catalog)
    findings += (*_calibrated_for_all(question), *_priced_for_all(question), *_few_tried(question, catalog))
    findings += (*_doubted(question, answer, catalog), *shape_findings(question.part(ModelRequest), catalog))
    return SizeAnswer(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=dict(question),
        findings=by_severity(findings),
        permalink="/size?" + _several(question, catalog),
        **vars(answer),
        **vars(chances(_of_now(question), answer, catalog)),
    )


@nan_is_an_answer
def cost_answer(question: CostQuestion, catalog: Catalog) -> CostAnswer:
    """What networks cost side by side, and how owning compares with renting.

    Cards are priced by themselves here, so that a plan's note that the network's price lacks them is left out.
    """
    study = cost_study(question, catalog)
    scenario = question.scenario()
    network = network_of(scenario, catalog)
    cluster = network.cluster
    of_network = (finding for finding in network.findings if finding.code != "nics-included")
    return CostAnswer(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=question.filled(cluster.fields()),
        findings=by_severity((*of_question(cluster, question, catalog), *of_network)),
        permalink="/cost?" + question.query(catalog_version=catalog.version),
        **vars(study),
    )


def plan_answer(scenario: Scenario, catalog: Catalog, include: Collection[str] = EVERYTHING) -> Plan:
    """Everything about one scenario; where it serves, with the measurements that are nearest."""
    plan = evaluate(scenario, catalog, include)
    if plan.serving is None:
        return plan
    tpot = plan.serving.tpot
    nearest = nearest_points(scenario, tpot.typical if tpot else None, catalog)
    return replace(plan, serving=replace(plan.serving, nearest=nearest))


def serve_answer(question: ServingQuestion, catalog: Catalog) -> ServeAnswer:
    """What a cluster serves: of its plan, the cluster and what it answers with."""
    plan = plan_answer(question, catalog, include=("bill_of_materials", SOURCES))
    return ServeAnswer(
        model_version=plan.model_version,
        catalog_version=plan.catalog_version,
        scenario=plan.scenario,
        findings=plan.findings,
        permalink=plan.permalink,
        verdict=plan.verdict,
        cluster=plan.cluster,
        serving=cast(Serving, plan.serving),
    )


Asked = TypeVar("Asked", bound=Scenario)


def _of_now(question: Asked) -> Asked:
    """The question of candidates whose links are made with this catalogue, whichever its own was made with."""
    return question.model_copy(update={"catalog_version": None})


def _several(question: Scenario, catalog: Catalog) -> str:
    """The query string of a question whose candidates may repeat."""
    fields = question.asked() | {"catalog_version": catalog.version}
    return urlencode([(name, value) for name, value in fields.items() if value is not None], doseq=True)


def serve_size_answer(question: ServeSizeQuestion, catalog: Catalog) -> ServeSizeAnswer:
    """Which cluster carries a load."""
    sized = size_serving(_of_now(question), catalog)
    findings = [
        *other_catalogue(question, catalog),
        *idle_findings(question, sized, catalog),
        *slow_finding(question, sized),
        *shape_findings(question.part(ModelRequest), catalog),
    ]
    findings += unusual_for_all(question, map(question.largest, question.gpu), catalog)
    if sized.message:
        fields = ("tpot_limit", "ttft_limit", "gpus", "gpu")
        findings.append(Finding("error", "no-cluster", sized.message, fields, "Allow more time, or more GPUs."))
    return ServeSizeAnswer(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=dict(question),
        findings=by_severity(findings),
        permalink="/serve/size?" + _several(question, catalog),
        **vars(sized),
    )


def versions(catalog: Catalog) -> dict[str, str]:
    """What an answer that is no question's says of where it comes from."""
    return {"model_version": __version__, "catalog_version": catalog.version}


REPORTS = ("collectives", "fabric", "training", "serving", "clusters", "ledger")


class Accuracy(NamedTuple):
    """The models held against the measurements kept here: a report each, and what charts show of their predictions."""

    collectives: Mapping[str, Any]
    fabric: Mapping[str, Any]
    training: Mapping[str, Any]
    serving: Mapping[str, Any]
    clusters: Mapping[str, Any]
    ledger: Sequence[Mapping[str, Any]]
    scatters: Mapping[str, accuracy_charts.Scatter]


@lru_cache(maxsize=2)  # of the catalogue, and of it with an operator's overrides
def accuracy(catalog: Catalog) -> Accuracy:
    """Every kept measurement, predicted. It takes seconds to make, and page and API show the same."""
    collectives, reductions = _collective_accuracy(catalog)
    training, steps = _training_accuracy(catalog)
    return Accuracy(
        collectives=collectives,
        fabric=design_counts.report(MEASUREMENTS / "fabric.csv", catalog),
        training=training,
        serving=_serving_accuracy(catalog),
        clusters=whole_clusters.report(whole_clusters.CLUSTERS, catalog),
        ledger=ledger.read()["scores"],
        scatters={"collectives": reductions, "training": steps},
    )


def _collective_accuracy(catalog: Catalog) -> tuple[Mapping[str, Any], accuracy_charts.Scatter]:
    rows, skipped = collective_runs.read(MEASUREMENTS / "collectives.csv", catalog)
    predicted = collective_runs.predictions(rows, catalog)
    report = collective_runs.summary(predicted, skipped, leave_one_out=False)
    return report, accuracy_charts.collective_scatter(predicted, report)


def _serving_accuracy(catalog: Catalog) -> Mapping[str, Any]:
    rows, skipped = serving_runs.read(serving_runs.MEASUREMENTS, catalog)
    return serving_runs.summary(serving_runs.predictions(rows, catalog, leave_one_out=False), skipped, False)


def _training_accuracy(catalog: Catalog) -> tuple[Mapping[str, Any], accuracy_charts.Scatter]:
    rows, skipped = training_runs.read(MEASUREMENTS / "training.csv", catalog)
    predicted = training_runs.predictions(rows, catalog, leave_one_out=False)
    report = training_runs.summary(predicted, skipped, leave_one_out=False)
    return report, accuracy_charts.training_scatter(predicted, report)


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
