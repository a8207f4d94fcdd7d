"""Every table of a plan as rows, and those rows as CSV, XLSX and JSON.

A table is made once and read by the page, the chart beside it and the files, so the numbers agree. In files a band
becomes three columns, low, typical and high, in the base unit that the heading names. Text that a spreadsheet would
take for a formula is defused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import fsum, isnan, nan
from typing import Any, get_args, get_origin, get_type_hints

from app import units
from app.catalog.load import Catalog
from app.plan.band import Band, Declaration, declaration, record, result
from app.plan.declarations import READING, is_quantity, part_of, results, view
from app.plan.result import AllReduce, BillLine, Fabric, Plan
from app.report.labels import HARDWARE, capitalize_first, in_words, named
from app.studies.curve import Curve
from app.studies.nccl_tests import Result
from app.studies.sensitivity import Sensitivity
from app.studies.step_kernels import Roofline
from app.studies.step_timeline import NAMES, timeline
from app.validation.citations import Citation, citations, names

Cell = str | int | float | bool | Band | Citation | None


@dataclass(frozen=True)
class Column:
    """A column: its name on pages, its key in files, and its unit.

    ``band`` where cells are ranges, ``share`` where pages print per cent, ``words``: the vocabulary of keys.
    """

    key: str
    title: str
    unit: str = ""
    band: bool = False
    share: bool = False
    words: str = ""

    @property
    def number(self) -> bool:
        """Whether the column holds numbers."""
        return self.band or self.share or bool(self.unit)


@dataclass(frozen=True)
class Table:
    """Rows under columns; ``note`` says what a reader needs to know.

    ``totals`` stand below the rows in a workbook. Programs read other files, and would count them with what they sum.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    totals: tuple[tuple[Cell, ...], ...] = ()

    def headings(self) -> list[str]:
        """Column headings of a file, with units.

        >>> Table("t", "T", (Column("time", "Time", "s", band=True),), ()).headings()
        ['time low [s]', 'time typical [s]', 'time high [s]']
        """
        names: list[str] = []
        for column in self.columns:
            unit = f" [{column.unit}]" if column.unit not in ("", "1") else ""
            ends = ("low", "typical", "high") if column.band else ("",)
            names += [f"{column.key} {end}".strip() + unit for end in ends]
        return names

    def flat(self, totals: bool = False) -> Iterator[list[str | int | float | bool | None]]:
        """Rows of a file, with its totals or without: a band is three cells."""
        for row in self.rows + (self.totals if totals else ()):
            cells: list[str | int | float | bool | None] = []
            for column, cell in zip(self.columns, row, strict=True):
                if isinstance(cell, Band):
                    cells += [None if isnan(end) else end for end in (cell.low, cell.typical, cell.high)]
                elif isinstance(cell, Citation):
                    cells.append(cell.address or cell.text)
                else:
                    cells += [None] * 3 if column.band else [cell]
            yield cells


# Tables of a plan ----------------------------------------------------------------------------------------------------

VIEWS = {"figures": "Key figures", "costs": "Cost", "power": "Power", "storage": "Storage and checkpoints"}
"""Tables of single results, by the views that results declare, and their titles."""


def tables(plan: Plan, catalog: Catalog) -> dict[str, Table]:
    """Every table of a plan by key: inputs, key figures, then its parts as people read them, then what they rest on."""
    by_key = {"inputs": _inputs(plan), "figures": _figures(plan, "figures")}
    for part in (getattr(plan, name) for name in READING):
        if part is None:
            continue
        by_key |= fabric_tables(part) if isinstance(part, Fabric) else listings(part)
    if plan.serving and plan.serving.bottleneck:
        by_key |= listings(plan.serving.bottleneck)
    by_key["purchases"] = _purchases(plan)
    by_key["timeline"] = _timeline(plan)
    by_key["costs"] = _figures(plan, "costs")
    by_key["power"] = _figures(plan, "power", power_parts(plan))
    by_key["storage"] = _figures(plan, "storage")
    by_key["findings"] = listings(plan)["findings"]
    by_key["sources"] = _sources(plan, catalog)
    return by_key


def listings(part: Any) -> dict[str, Table]:
    """The tables that a record of results declares: a row for each record of a list, or for each field of a part."""
    by_key: dict[str, Table] = {}
    for name, declared, kind in _tabled(part.__class__):
        value = getattr(part, name)
        by_key[declared.table] = (
            listing(declared, kind, value, part) if isinstance(value, tuple) else _properties(declared, value)
        )
    return by_key


@cache
def _tabled(kind: type) -> tuple[tuple[str, Declaration, type], ...]:
    """The fields of a kind of record that are a table: the name, what it declares, and the kind of its records."""
    hints, tabled = get_type_hints(kind), []
    for entry in fields(kind):
        if (declared := declaration(entry)) and declared.table:
            of = get_args(hints[entry.name])[0]
            tabled.append((entry.name, declared, get_origin(of) or of))
    return tuple(tabled)


def listing(declared: Declaration, kind: type, records: Sequence[Any], part: Any = None) -> Table:
    """Records as rows: a column for each of their fields, and the sums of the part that they belong to below them."""
    columns = columns_of(kind)
    rows = [tuple(_cell(record, column) for column in columns) for record in records]
    for name, sums in declared.sums.items():
        below = [getattr(part, sums[column.key]) if column.key in sums else _blank(column) for column in columns[1:]]
        rows.append((name, *below))
    return Table(declared.table, declared.label, columns, tuple(rows), declared.meaning)


@cache
def columns_of(kind: type, path: str = "") -> tuple[Column, ...]:
    """A column for each field that a record declares, those of its parts in their place."""
    hints = get_type_hints(kind)
    columns: list[Column] = []
    for entry in fields(kind):
        declared, hint = declaration(entry), hints[entry.name]
        if declared is None or not declared.listed:
            continue
        if inner := part_of(hint):
            columns += columns_of(inner, f"{path}{entry.name}.")
        else:
            name, unit = f"{path}{entry.name}", "" if declared.share else declared.unit
            columns.append(Column(name, declared.label, unit, is_quantity(hint), declared.share, declared.words))
    return tuple(columns)


def _cell(record: Any, column: Column) -> Cell:
    """What a record has in a column; nothing where it lacks the part that the column is of."""
    *parts, name = column.key.split(".")
    for part in parts:
        record = getattr(record, part)
        if record is None:
            return _blank(column)
    value = getattr(record, name)
    if isinstance(value, tuple):
        return ", ".join(value)
    return in_words(value, column.words) if isinstance(value, str) else value


def _blank(column: Column) -> Cell:
    return None if column.number else ""


def _properties(declared: Declaration, part: Any) -> Table:
    """The fields of one record as rows."""
    columns = (Column("name", "Name"), Column("value", "Value"))
    rows = tuple((shown.declared.label, _text(shown.value)) for shown in results(part)) if part else ()
    return Table(declared.table, declared.label, columns, rows, declared.meaning)


def _text(value: Any) -> str:
    """One value as text: blank for what was not given."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _inputs(plan: Plan) -> Table:
    columns = (Column("field", "Field"), Column("value", "Value"))
    rows = tuple((name, _text(value)) for name, value in plan.scenario.items())
    return Table("inputs", "Inputs, every blank filled in", columns, rows, "Numbers are in base units.")


def _figures(plan: Plan, name: str, parts: Iterable[tuple[str, Band]] = ()) -> Table:
    """The results of a view, after the parts that they are made of; each row has a unit of its own."""
    columns = (Column("figure", "Figure"), Column("value", "Value", band=True), Column("unit", "Unit of the file"))
    rows = [(title, value, value.unit) for title, value in parts]
    serves = plan.serving is not None  # and trains nothing
    shown = [entry for entry in view(plan, name) if entry.value is not None or not serves]
    rows += [(entry.declared.label, entry.value, entry.declared.unit) for entry in shown]
    return Table(name, VIEWS[name], columns, tuple(rows))


def all_reduce_table(reduce: AllReduce) -> Table:
    """The message by every algorithm."""
    return listings(reduce)["all_reduce"]


def _timeline(plan: Plan) -> Table:
    """What each stage of the pipeline does when, in one step."""
    columns = (
        Column("stage", "Stage", "1"),
        Column("what", "What it does"),
        Column("start", "From", "s"),
        Column("length", "Lasts", "s"),
    )
    rows = tuple(
        (lane.stage, NAMES[part.what], part.start, part.length) for lane in timeline(plan) for part in lane.segments
    )
    return Table("timeline", "One step, stage by stage", columns, rows, "Typical times.")


@record
class SwitchTier:
    """The switches of one tier."""

    tier: str = result("", "Tier", "leaf, spine or core.", words="part")
    switches: int | None = result("1", "Switches", "Switches of this tier, of all planes.")
    links_down: int | None = result("1", "Links down", "Links to the tier below, or to nodes.")
    ports_free: int | None = result("1", "Ports free", "Unused ports of this tier's switches.")


def fabric_tables(fabric: Fabric) -> dict[str, Table]:
    """The tables of a fabric by key."""
    links, free = fabric.links, fabric.ports_free
    tiers = (
        SwitchTier("leaf", fabric.leaf_switches, links.node_leaf if links else None, free.get("leaf")),
        SwitchTier("spine", fabric.spine_switches, links.leaf_spine if links else None, free.get("spine")),
        SwitchTier("core", fabric.core_switches, links.spine_core if links else None, free.get("core")),
    )
    used = tuple(tier for tier in tiers if tier.switches != 0)
    about = Declaration("", "Switches and links", "Tier by tier.", table="switches")
    return {"switches": listing(about, SwitchTier, used), **listings(fabric)}


@record
class Purchase(BillLine):
    """A line of what is bought for the whole cluster."""

    bought_for: str = result("", "For", "The cluster, the compute network or one beside it.", default="", words="part")


PURCHASE = (
    "bought_for", "role", "part", "key", "vendor", "part_number", "quantity", "spares", "length", "unit_price", "cost",
    "power",
)  # fmt: skip


def _purchases(plan: Plan) -> Table:
    """All bills of materials of a plan on one list, with what each comes to, and all of them."""
    bills = {"cluster": plan.cluster.bill_of_materials, "compute network": plan.fabric.bill_of_materials}
    bills |= {f"{other.role} network": other.bill_of_materials for other in plan.fabric.networks}
    ranges = {"compute network": plan.fabric.cost}
    ranges |= {f"{other.role} network": other.cost for other in plan.fabric.networks}
    lines = [Purchase(**vars(line), bought_for=name) for name, bill in bills.items() for line in bill]
    columns = _purchase_columns()
    rows = tuple(tuple(_cell(line, column) for column in columns) for line in lines)
    sums = {name: _paid(bill, ranges.get(name)) for name, bill in bills.items() if len(bill) < len(lines) and bill}
    sums["everything"] = _paid(lines, None)
    totals = tuple(_total(name, cost, columns) for name, cost in sums.items())
    note = (
        "Nodes, storage and all networks; spares are pieces to keep in stock, for which a network's bill has a share."
    )
    return Table("purchases", "Everything to buy", columns, rows, note, totals)


def _paid(bill: Sequence[BillLine], whole: Band | None) -> Band | None:
    """What a bill comes to, with the range that the plan has for it; nothing where a line has no price."""
    costs = [line.cost for line in bill]
    if any(cost is None for cost in costs):
        return None
    if len(costs) == 1:
        return costs[0]
    return whole or Band(nan, fsum(cost.typical for cost in costs if cost), nan, "USD")


def _total(name: str, cost: Band | None, columns: Sequence[Column]) -> tuple[Cell, ...]:
    """A row below a list of purchases."""
    known: dict[str, Cell] = {"bought_for": in_words(name, "part"), "role": "Total", "cost": cost}
    return tuple(known.get(column.key, _blank(column)) for column in columns)


@cache
def _purchase_columns() -> tuple[Column, ...]:
    hints, declared = get_type_hints(Purchase), {entry.name: declaration(entry) for entry in fields(Purchase)}
    return tuple(
        Column(name, about.label, about.unit, is_quantity(hints[name]), words=about.words)
        for name in PURCHASE
        if (about := declared[name])
    )


def power_parts(plan: Plan) -> list[tuple[str, Band]]:
    """The cluster's provisioned power by part; the servers are what the networks leave."""
    whole = plan.cluster.power
    if whole is None:
        return []
    lines = [(named(line.role), line.power) for line in plan.fabric.bill_of_materials]
    lines += [(f"{named(other.role)} network", other.power) for other in plan.fabric.networks]
    parts = [(name, power) for name, power in lines if power is not None and power.typical > 0]
    rest = whole.typical - sum(power.typical for _, power in parts)
    servers = [("Servers", Band(rest, rest, rest, whole.unit, whole.sources))] if rest > 0 else []
    return [*servers, *parts]


def used_sources(value: Any) -> list[str]:
    """The source keys of every band inside a part of a plan, as often as they occur."""
    sources: list[str] = []
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, Band):
            sources += value.sources
        elif isinstance(value, Mapping):
            pending += [*value.values()][::-1]
        elif isinstance(value, list | tuple):
            pending += value[::-1]
        elif hasattr(value, "__dataclass_fields__"):
            pending += [getattr(value, name) for name in reversed(value.__dataclass_fields__)]
    return sources


def _sources(plan: Plan, catalog: Catalog) -> Table:
    columns = (
        Column("source", "Source"),
        Column("title", "Title"),
        Column("publisher", "Publisher"),
        Column("published", "Published"),
        Column("url", "Address"),
    )
    keys = dict.fromkeys(used_sources(plan))
    documents = ((key, catalog.sources[key]) for key in keys if key in catalog.sources)
    rows = tuple((key, doc.title, doc.publisher, doc.published, doc.url) for key, doc in documents)
    return Table("sources", "Sources these figures rest on", columns, rows)


# Tables of curves ----------------------------------------------------------------------------------------------------

UNITS = {"GPUs": "1", "%": "1"}


def curve_table(curve: Curve) -> Table:
    """The numbers of a curve: one row for each x, three columns a line; a dash where a line has no value."""
    places = sorted({float(x) for series in curve.series for x in series.x})
    unit = UNITS.get(curve.y_unit, curve.y_unit)
    columns = [
        Column(curve.x_name.lower(), curve.x_name, UNITS.get(curve.x_unit, curve.x_unit), share=curve.x_unit == "%")
    ]
    bands: list[dict[float, Band]] = []
    for series in curve.series:
        columns.append(Column(series.name, capitalize_first(series.name), unit, band=True))
        cells = zip(series.x, series.low, series.typical, series.high, strict=True)
        bands.append(
            {
                float(x): Band(float(low), float(typical), float(high), unit)
                for x, low, typical, high in cells
                if typical == typical
            }
        )
    rows = tuple((place, *(cells.get(place) for cells in bands)) for place in places)
    title = f"{curve.y_name} against {curve.x_name[:1].lower()}{curve.x_name[1:]}"
    return Table(curve.key, title.replace("gPUs", "GPUs"), tuple(columns), rows, curve.subtitle)


def sensitivity_table(sensitivity: Sensitivity) -> Table:
    """The numbers of a tornado."""
    columns = (Column("input", "Input"), Column("result", sensitivity.name, sensitivity.unit, band=True))
    rows = tuple(
        (swing.name, Band(swing.low, sensitivity.typical, swing.high, sensitivity.unit)) for swing in sensitivity.swings
    )
    return Table("sensitivity", f"What moves {sensitivity.name.lower()}", columns, rows)


def roofline_table(roofline: Roofline) -> Table:
    """The kernels of a step, and how near each comes to its roof."""
    columns = (
        Column("kernel", "Kernel"),
        Column("time", "Time in a step", "s"),
        Column("flops", "Operations", "FLOP"),
        Column("moved", "Bytes at least", "B"),
        Column("intensity", "FLOP for each byte", "1"),
        Column("rate", "Reached", "FLOP/s"),
        Column("roof", "Roof", "FLOP/s"),
        Column("share", "Of the roof", share=True),
    )
    rows = tuple(
        (
            kernel.name,
            kernel.time,
            kernel.flops,
            kernel.moved,
            kernel.intensity,
            kernel.rate,
            roofline.roof(kernel),
            kernel.rate / roofline.roof(kernel),
        )
        for kernel in roofline.kernels
    )
    note = "Each matrix is read and written once; elementwise work counts an operation for each 16-bit element."
    return Table("roofline", "Kernels of one step", columns, rows, note)


def comparison_table(measured: Result) -> Table:
    """Pasted measurements beside their predictions."""
    columns = (
        Column("message", "Message", "B"),
        Column("measured", "Measured time", "s"),
        Column("predicted", "Predicted time", "s", band=True),
        Column("measured_bus_bandwidth", "Measured bus bandwidth", "B/s"),
        Column("predicted_bus_bandwidth", "Predicted bus bandwidth", "B/s", band=True),
        Column("ratio", "Measured over predicted rate", share=True),
        Column("inside", "Inside the range"),
    )
    rows = tuple(
        (row.size, row.measured, row.predicted, row.measured_bus, row.predicted_bus, row.ratio, row.inside)
        for row in measured.rows
    )
    return Table("comparison", "Measured beside predicted", columns, rows)


# Tables of accuracy --------------------------------------------------------------------------------------------------

Report = Mapping[str, Any]


def accuracy_tables(
    collectives: Report, training: Report, fabric: Report, left_out: Report, scores: Sequence[Report]
) -> dict[str, Table]:
    """The errors of all models, by group, good and bad; ``scores`` are the ledger's."""
    reduce = collectives["all_reduce"]
    error_tables = (
        _errors(
            "collectives",
            "Collectives",
            {
                "All good rows": collectives["overall"],
                "All-reduce": reduce["overall"],
                "All-reduce on NVLink switches": reduce["switched"],
                "Weak rows, kept out of the figures above": collectives["weak"],
                "Other libraries, kept out": collectives["other_libraries"],
            },
        ),
        _errors("collectives_by_band", "Collectives by message size", collectives["by_band"]),
        _errors("collectives_by_class", "Collectives by class of hardware", _named(collectives["by_class"], HARDWARE)),
        _errors("collectives_by_collective", "By collective", collectives["by_collective"]),
        _errors("collectives_by_run", "Collectives by run", collectives["by_run"], citations("collectives", "run")),
        _errors(
            "training",
            "Training steps",
            {
                **_of_steps(training),
                "Baseline: one utilisation for each GPU and precision": training["baseline"],
                "Memory of one GPU": training["memory"],
            },
        ),
        _by_source("training_by_group", "Training steps by source", training["by_group"]),
        _errors("training_by_stack", "Training steps by software", training["by_stack"]),
        _errors("training_by_gpu", "Training steps by GPU", training["by_gpu"]),
        _errors("training_by_regime", "Training steps by how well they were tuned", training["by_regime"]),
        _errors("experts_by_regime", "Mixtures of experts by how well they were tuned", training["moe_by_regime"]),
        _errors("experts_by_routing", "Mixtures of experts by routing", training["moe_by_routing"]),
        _ledger(scores),
        _designs(fabric),
        *_left_out(left_out["collectives"], left_out["training"]),
    )
    return {table.key: table for table in error_tables}


def serving_tables(report: Report, left_out: Report) -> dict[str, Table]:
    """The errors of serving: on sources that the fit had not seen, on those that it had, by group."""
    core, best = left_out["core"], left_out["best_configuration"]
    error_tables = (
        _errors(
            "serving_left_out",
            "Operating points of sources left out of the fit",
            {title: core[name] for name, title in POINTS.items()}
            | {f"Best configuration of MLPerf, {name}, never fitted": errors for name, errors in best.items()},
        ),
        _unseen(
            "unseen_serving",
            "Operating points of an engine, a GPU or a model that nobody measured",
            left_out["unseen"],
            POINTS,
        ),
        _errors("serving_left_out_by_source", "Time per token by source, left out", core["tpot"]["by_source"]),
        _errors(
            "serving",
            "Operating points",
            {title: report["core"][name] for name, title in POINTS.items()}
            | {f"{title}, queues and pools apart": report["stress"][name] for name, title in POINTS.items()},
        ),
        _errors("serving_by_engine", "Time per token by engine", report["core"]["tpot"]["by_engine"]),
        _errors("serving_by_gpu", "Time per token by GPU", report["core"]["tpot"]["by_gpu"]),
        _errors("serving_by_model", "Time per token by model", report["core"]["tpot"]["by_model"]),
        _errors(
            "serving_by_family",
            "Time per token by family of models",
            {in_words(name, "family"): errors for name, errors in report["core"]["tpot"]["by_family"].items()},
        ),
        _errors(
            "serving_stress_by_engine",
            "Time per token by engine, queues and pools apart",
            report["stress"]["tpot"]["by_engine"],
        ),
    )
    return {table.key: table for table in error_tables}


def cluster_tables(report: Report) -> dict[str, Table]:
    """Whole published clusters and runs beside ours: the errors by kind of figure, and every figure."""
    kinds = {kind.capitalize() if kind.islower() else kind: errors for kind, errors in report["by_kind"].items()}
    both = (_errors("clusters", "Whole clusters", kinds), _cluster_figures(report["figures"]))
    return {table.key: table for table in both}


def _cluster_figures(figures: Sequence[Report]) -> Table:
    columns = (
        Column("cluster", "Cluster or run"),
        Column("quantity", "Figure"),
        Column("published", "Published"),
        Column("railyard", "Railyard"),
        Column("ratio", "Ratio", "1"),
        Column("inside", "Inside the range"),
        Column("means", "What it counts"),
        Column("source", "Source"),
    )
    rows = tuple(
        (
            figure["name"],
            figure["title"],
            units.show(figure["published"], figure["unit"]),
            units.show_range(figure["low"], figure["typical"], figure["high"], figure["unit"]),
            figure["ratio"],
            figure["inside"],
            ". ".join(filter(None, (figure["means"], figure["note"].rstrip(".")))),
            figure["source"] + (" (from memory)" if figure["recalled"] else ""),
        )
        for figure in figures
    )
    return Table("cluster_figures", "Every figure of whole clusters and runs", columns, rows)


def _ledger(scores: Sequence[Report]) -> Table:
    """What was predicted of each new source before it was fitted."""
    kinds = (("dense", "dense"), ("moe", "mixtures of experts"))
    groups = {f"{names()[score['source']]}, {words}": score[kind] for score in scores for kind, words in kinds}
    return _errors("ledger", "New sources, scored before any constant was fitted to them", groups)


NEVER_SEEN = {"gpu": "a GPU", "stack": "a stack", "engine": "an engine", "model": "a model"}
STEPS = {"dense": "Dense models", "moe": "Mixtures of experts"}
POINTS = {"tpot": "Time per token", "throughput": "Largest throughput", "ttft": "Time to first token"}


def _unseen(key: str, title: str, unseen: Report, names: Mapping[str, str]) -> Table:
    """Errors on what a fit had seen no row of, by what it is and what was predicted."""
    groups = {
        f"{names[name]}, {words} never seen": unseen[kind][name]
        for kind, words in NEVER_SEEN.items()
        for name in unseen.get(kind, ())
    }
    return _errors(key, title, groups)


LEFT_OUT_BY = {
    "by_group": "Training steps by source",
    "by_stack": "Training steps by software",
    "by_gpu": "Training steps by GPU",
    "by_regime": "Training steps by how well they were tuned",
    "moe_by_routing": "Mixtures of experts by routing",
}
"""The groups whose errors on sources left out of the fit have a table."""


def _left_out(collectives: Report, training: Report) -> Iterator[Table]:
    """The errors on systems and sources that the fit had not seen."""
    reduce = collectives["all_reduce"]
    bands = {f"… {name} messages": errors for name, errors in reduce["switched_by_band"].items()}
    yield _errors(
        "left_out_collectives",
        "Collectives on systems left out of the fit",
        {
            "All collectives": collectives["overall"],
            "All-reduce": reduce["overall"],
            "All-reduce on NVLink switches with InfiniBand, RoCE or none": reduce["switched"],
            **bands,
        },
    )
    yield _errors("left_out_by_class", "By class of hardware, left out", _named(collectives["by_class"], HARDWARE))
    yield _errors("left_out_by_cell", "All-reduce by class and size, left out", _cells(reduce["by_cell"]))
    yield _errors(
        "left_out_by_system",
        "Collectives by system, left out",
        collectives["by_system"],
        citations("collectives", "system"),
    )
    yield _errors(
        "left_out_training",
        "Training steps of sources left out of the fit",
        _of_steps(training, {f"… {regime}": errors for regime, errors in training["moe_by_regime"].items()}),
    )
    yield _unseen(
        "unseen_training", "Training steps on a GPU, a stack or a model that nobody measured", training["unseen"], STEPS
    )
    for key, words in LEFT_OUT_BY.items():
        table = _by_source if key == "by_group" else _errors
        yield table(f"left_out_{key}", f"{words}, left out", training[key])


def _of_steps(training: Report, experts: Mapping[str, Report] | None = None) -> dict[str, Report]:
    """Errors of training steps by what they are of, those of experts by groups of their own too."""
    return {
        "All rows": training["overall"],
        "Dense rows that state everything": training["identified"],
        "Dense models": training["dense"],
        "Mixtures of experts": training["moe"],
        **(experts or {}),
        "Dense, one vote a cluster of rows": training["dense_clusters"],
        "Experts, one vote a cluster of rows": training["moe_clusters"],
    }


def _by_source(key: str, title: str, groups: Mapping[str, Report]) -> Table:
    """Errors of training steps by source, each with what it is called and where it is."""
    cited = {name: citations("training", "group")[group] for group, name in names().items()}
    return _errors(key, title, _named(groups, names()), cited)


def _named(groups: Mapping[str, Report], words: Mapping[str, str]) -> dict[str, Report]:
    return {words.get(group, group): errors for group, errors in groups.items()}


def _cells(groups: Mapping[str, Report]) -> dict[str, Report]:
    """Groups by class of hardware and size of message, as "pcie, small", in words."""
    parts = {group: group.partition(", ") for group in groups}
    return {HARDWARE.get(kind, kind) + comma + size: groups[group] for group, (kind, comma, size) in parts.items()}


def _errors(key: str, title: str, groups: Mapping[str, Report], cited: Mapping[str, Citation] | None = None) -> Table:
    columns = (
        Column("group", "Group"),
        Column("count", "Rows", "1"),
        Column("median", "Median error", share=True),
        Column("mean", "Mean error", share=True),
        Column("p90", "9 of 10 are within", share=True),
        Column("bias", "Bias", share=True),
        Column("coverage", "Inside the range", share=True),
    )
    measures = [column.key for column in columns[1:]]
    rows = tuple(
        (group, *(errors.get(measure) for measure in measures), *((cited.get(group),) if cited else ()))
        for group, errors in groups.items()
        if errors["count"]
    )
    sources = (Column("source", "Source"),) if cited else ()
    return Table(
        key, title, columns + sources, rows, "Errors are |predicted ÷ measured − 1|; ranges should hold four of five."
    )


def _designs(fabric: Report) -> Table:
    columns = (
        Column("design", "Published design"),
        Column("verdict", "Verdict"),
        Column("published", "Published"),
        Column("computed", "Computed"),
        Column("reason", "Why"),
    )

    def counts(numbers: Mapping[str, int | None] | None) -> str:
        return ", ".join(f"{value:,} {named(name).lower()}" for name, value in (numbers or {}).items() if value)

    rows = tuple(
        (
            design["id"],
            design["verdict"].replace("_", " "),
            counts(design["published"]),
            counts(design["computed"]),
            design["reason"],
        )
        for design in fabric["designs"]
    )
    return Table("fabric_designs", "Published reference designs", columns, rows)
