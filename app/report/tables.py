"""Every table of a plan as rows, and those rows as CSV, XLSX and JSON.

A table is made once and read by the page, the chart beside it and the files, so the numbers agree. In files a band
becomes three columns, low, typical and high, in the base unit that the heading names. Text that a spreadsheet would
take for a formula is defused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.catalog.load import Catalog
from app.plan.band import Band
from app.plan.result import AllReduce, Fabric, Plan
from app.studies.curve import Curve
from app.studies.nccl_tests import Result
from app.studies.sensitivity import Sensitivity

Cell = str | int | float | bool | Band | None


@dataclass(frozen=True)
class Column:
    """A column: its name on pages, its key in files, and its unit; ``band`` where cells are ranges."""

    key: str
    title: str
    unit: str = ""
    band: bool = False
    share: bool = False

    @property
    def number(self) -> bool:
        """Whether the column holds numbers."""
        return self.band or self.share or bool(self.unit)


@dataclass(frozen=True)
class Table:
    """Rows under columns; ``note`` says what a reader needs to know."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

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

    def flat(self) -> Iterator[list[str | int | float | bool | None]]:
        """Rows of a file: a band is three cells."""
        for row in self.rows:
            cells: list[str | int | float | bool | None] = []
            for column, cell in zip(self.columns, row, strict=True):
                if isinstance(cell, Band):
                    cells += [cell.low, cell.typical, cell.high]
                else:
                    cells += [None] * 3 if column.band else [cell]
            yield cells


# Tables of a plan ----------------------------------------------------------------------------------------------------


def tables(plan: Plan, catalog: Catalog) -> dict[str, Table]:
    """Every table of a plan by key, in the order of the page."""
    made = (
        _inputs(plan),
        _key_figures(plan),
        _step(plan),
        _what_if(plan),
        _parallelism(plan),
        _memory(plan),
        all_reduce_table(plan.all_reduce),
        *fabric_tables(plan.fabric).values(),
        _lines("capital", "Capital", plan.costs.capital_parts, plan.costs.capital),
        _lines("operating", "Running cost of a year", plan.costs.operating_parts, plan.costs.operating, "USD/year"),
        _cost_figures(plan),
        _power(plan),
        _findings(plan),
        _sources(plan, catalog),
    )
    return {table.key: table for table in made}


def _text(value: Any) -> str:
    """One input as text: blank for what was not given."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def named(key: str) -> str:
    """A key of the wire as the name of a row.

    >>> named("tensor_parallel")
    'Tensor parallel'
    """
    return key[:1].upper() + key[1:].replace("_", " ")


def _inputs(plan: Plan) -> Table:
    columns = (Column("field", "Field"), Column("value", "Value"))
    rows = tuple((name, _text(value)) for name, value in plan.scenario.items())
    return Table("inputs", "Inputs, every blank filled in", columns, rows, "Numbers are in base units.")


def _figures(key: str, title: str, rows: Iterable[tuple[str, Band | None]]) -> Table:
    """A table whose rows have units of their own."""
    columns = (Column("figure", "Figure"), Column("value", "Value", band=True), Column("unit", "Unit of the file"))
    return Table(key, title, columns, tuple((name, value, value.unit if value else "") for name, value in rows))


def _key_figures(plan: Plan) -> Table:
    training, fabric, reduce, costs = plan.training, plan.fabric, plan.all_reduce, plan.costs
    return _figures(
        "figures",
        "Key figures",
        (
            ("Step time", training.step_time),
            ("Time to train", training.time_to_train),
            ("Model FLOPs utilisation", training.mfu),
            ("Hardware FLOPs utilisation", training.hfu),
            ("Tokens per second", training.tokens_per_second),
            ("Memory of the fullest GPU", plan.memory.total),
            ("All-reduce time", reduce.time),
            ("All-reduce bus bandwidth", reduce.bus_bandwidth),
            ("Bisection bandwidth per GPU, one way", fabric.bisection_per_gpu),
            ("Fabric cost", fabric.cost),
            ("Fabric cost per host port", fabric.cost_per_host_port),
            ("Fabric cost per switch port", fabric.cost_per_switch_port),
            ("Fabric cost per GPU", fabric.cost_per_gpu),
            ("Cluster power", plan.cluster.power),
            ("Capital", costs.capital),
            ("Cost of this run, owned", costs.per_run),
            ("Cost of this run, rented", costs.rental),
        ),
    )


def _step(plan: Plan) -> Table:
    columns = (Column("part", "Part"), Column("resource", "Bounded by"), Column("time", "Time", "s", band=True))
    rows: list[tuple[Cell, ...]] = [(named(part.name), named(part.resource), part.time) for part in plan.training.parts]
    rows.append(("Step", "", plan.training.step_time))
    return Table(
        "step", "Time of one training step", columns, tuple(rows), "Only what is not hidden behind other parts."
    )


def _what_if(plan: Plan) -> Table:
    columns = (
        Column("resource", "Resource"),
        Column("factor", "Times as good", "1"),
        Column("step_time", "Step time", "s", band=True),
        Column("gain", "Step time saved", share=True),
    )
    rows = tuple(
        (named(entry.resource), entry.factor, entry.step_time, entry.gain) for entry in plan.bottleneck.what_if
    )
    return Table("what_if", "What a better resource would gain", columns, rows)


def _parallelism(plan: Plan) -> Table:
    chosen = plan.training.parallelism
    columns = (Column("degree", "Degree"), Column("value", "Value"))
    rows = tuple((named(name), _text(value)) for name, value in asdict(chosen).items()) if chosen else ()
    return Table("parallelism", "How the model is spread", columns, rows)


def _memory(plan: Plan) -> Table:
    columns = (Column("part", "Part"), Column("size", "Memory of one GPU", "B", band=True))
    rows: list[tuple[Cell, ...]] = [(named(part.name), part.size) for part in plan.memory.parts]
    rows += [("Total", plan.memory.total), ("Usable", plan.memory.capacity), ("Head-room", plan.memory.headroom)]
    return Table("memory", "Memory of the fullest GPU", columns, tuple(rows))


def all_reduce_table(reduce: AllReduce) -> Table:
    """The message by every algorithm."""
    columns = (
        Column("algorithm", "Algorithm"),
        Column("protocol", "Protocol"),
        Column("time", "Time", "s", band=True),
        Column("algorithm_bandwidth", "Algorithm bandwidth", "B/s", band=True),
        Column("bus_bandwidth", "Bus bandwidth", "B/s", band=True),
        Column("latency_share", "Latency share", share=True),
        Column("bandwidth_share", "Bandwidth share", share=True),
    )
    rows = tuple(
        (
            entry.algorithm,
            entry.protocol,
            entry.time,
            entry.algorithm_bandwidth,
            entry.bus_bandwidth,
            entry.latency_share,
            entry.bandwidth_share,
        )
        for entry in reduce.alternatives
    )
    return Table("all_reduce", "All-reduce by algorithm", columns, rows, reduce.reason)


def fabric_tables(fabric: Fabric) -> dict[str, Table]:
    """The tables of a fabric by key."""
    made = (_switches(fabric), _bisection(fabric), _bill(fabric), _networks(fabric))
    return {table.key: table for table in made}


def _switches(fabric: Fabric) -> Table:
    links = fabric.links
    columns = (
        Column("tier", "Tier"),
        Column("switches", "Switches", "1"),
        Column("links_down", "Links down", "1"),
        Column("ports_free", "Ports free", "1"),
    )
    rows = tuple(
        (named(tier), count, down, fabric.ports_free.get(tier))
        for tier, count, down in (
            ("leaf", fabric.leaf_switches, links.node_leaf if links else None),
            ("spine", fabric.spine_switches, links.leaf_spine if links else None),
            ("core", fabric.core_switches, links.spine_core if links else None),
        )
    )
    return Table("switches", "Switches and links", columns, rows)


def _bisection(fabric: Fabric) -> Table:
    columns = (
        Column("tier", "Tier"),
        Column("one_way", "One way", "B/s", band=True),
        Column("both_ways", "Both ways", "B/s", band=True),
    )
    rows = tuple((named(cut.tier), cut.one_way, cut.both_ways) for cut in fabric.bisection)
    return Table("bisection", "Bisection bandwidth", columns, rows, "Across the worst equal halves at each tier.")


def _bill(fabric: Fabric) -> Table:
    columns = (
        Column("role", "Role"),
        Column("part", "Part"),
        Column("quantity", "Quantity", "1"),
        Column("unit_price", "Price each", "USD", band=True),
        Column("cost", "Cost", "USD", band=True),
        Column("power", "Power", "W", band=True),
    )
    lines = fabric.bill_of_materials
    rows: list[tuple[Cell, ...]] = [
        (named(line.role), line.part, line.quantity, line.unit_price, line.cost, line.power) for line in lines
    ]
    rows.append(("Fabric", "", None, None, fabric.cost, fabric.power))
    return Table("bill_of_materials", "Bill of materials", columns, tuple(rows))


def _networks(fabric: Fabric) -> Table:
    columns = (
        Column("network", "Network"),
        Column("switch", "Switch"),
        Column("leaf_switches", "Leaf switches", "1"),
        Column("spine_switches", "Spine switches", "1"),
        Column("node_links", "Node links", "1"),
        Column("cost", "Cost", "USD", band=True),
        Column("power", "Power", "W", band=True),
    )
    rows = tuple(
        (
            named(other.role),
            other.switch,
            other.leaf_switches,
            other.spine_switches,
            other.links.node_leaf,
            other.cost,
            other.power,
        )
        for other in fabric.networks
    )
    return Table("networks", "Storage and management networks", columns, rows)


def _lines(key: str, title: str, lines: Sequence[Any], total: Band | None, unit: str = "USD") -> Table:
    columns = (Column("part", "Part"), Column("cost", "Cost", unit, band=True))
    rows: list[tuple[Cell, ...]] = [(named(line.name), line.cost) for line in lines]
    return Table(key, title, columns, (*rows, ("Total", total)))


def _cost_figures(plan: Plan) -> Table:
    costs = plan.costs
    return _figures(
        "costs",
        "Cost",
        (
            ("Capital", costs.capital),
            ("Running cost of a year", costs.operating),
            ("Total over the lifetime", costs.total),
            ("One GPU for one hour, owned", costs.per_gpu_hour),
            ("This run, owned", costs.per_run),
            ("This run, rented", costs.rental),
            ("Energy of a year", costs.energy),
        ),
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


def _power(plan: Plan) -> Table:
    rows: list[tuple[str, Band | None]] = [*power_parts(plan), ("Cluster, provisioned", plan.cluster.power)]
    rows += [("Cluster, typical", plan.cluster.typical_power), ("Fabric, typical", plan.fabric.typical_power)]
    return _figures("power", "Power", rows)


def _findings(plan: Plan) -> Table:
    columns = (
        Column("severity", "Severity"),
        Column("message", "Finding"),
        Column("suggestion", "What to change"),
        Column("fields", "Fields"),
    )
    rows = tuple((found.severity, found.message, found.suggestion, ", ".join(found.fields)) for found in plan.findings)
    return Table("findings", "Findings", columns, rows)


def used_sources(value: Any) -> Iterator[str]:
    """The source keys of every band inside a part of a plan."""
    if isinstance(value, Band):
        yield from value.sources
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from used_sources(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from used_sources(inner)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from used_sources(getattr(value, name))


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
    found: list[dict[float, Band]] = []
    for series in curve.series:
        columns.append(Column(series.name, series.name, unit, band=True))
        cells = zip(series.x, series.low, series.typical, series.high, strict=True)
        found.append(
            {
                float(x): Band(float(low), float(typical), float(high), unit)
                for x, low, typical, high in cells
                if typical == typical
            }
        )
    rows = tuple((place, *(cells.get(place) for cells in found)) for place in places)
    title = f"{curve.y_name} against {curve.x_name[:1].lower()}{curve.x_name[1:]}"
    return Table(curve.key, title.replace("gPUs", "GPUs"), tuple(columns), rows, curve.subtitle)


def sensitivity_table(sensitivity: Sensitivity) -> Table:
    """The numbers of a tornado."""
    columns = (Column("input", "Input"), Column("result", sensitivity.name, sensitivity.unit, band=True))
    rows = tuple(
        (swing.name, Band(swing.low, sensitivity.typical, swing.high, sensitivity.unit)) for swing in sensitivity.swings
    )
    return Table("sensitivity", f"What moves {sensitivity.name.lower()}", columns, rows)


def comparison_table(result: Result) -> Table:
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
        for row in result.rows
    )
    return Table("comparison", "Measured beside predicted", columns, rows)


# Tables of accuracy --------------------------------------------------------------------------------------------------

Report = Mapping[str, Any]


def accuracy_tables(collectives: Report, training: Report, fabric: Report, left_out: Report) -> dict[str, Table]:
    """The errors of all models, by group, good and bad."""
    reduce = collectives["all_reduce"]
    made = (
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
        _errors("collectives_by_class", "Collectives by class of hardware", collectives["by_class"]),
        _errors("collectives_by_collective", "By collective", collectives["by_collective"]),
        _errors("collectives_by_run", "Collectives by run", collectives["by_run"]),
        _errors(
            "training",
            "Training steps",
            {
                "All rows": training["overall"],
                "Dense rows that state everything": training["identified"],
                "Dense models": training["dense"],
                "Mixtures of experts": training["moe"],
                "Baseline: one utilisation for each GPU and precision": training["baseline"],
                "Memory of one GPU": training["memory"],
            },
        ),
        _errors("training_by_group", "Training steps by source", training["by_group"]),
        _errors("training_by_stack", "Training steps by software", training["by_stack"]),
        _errors("training_by_gpu", "Training steps by GPU", training["by_gpu"]),
        _designs(fabric),
        *_left_out(left_out["collectives"], left_out["training"]),
    )
    return {table.key: table for table in made}


def _left_out(collectives: Report, training: Report) -> Iterator[Table]:
    """The errors on systems and sources that the fit had not seen."""
    reduce = collectives["all_reduce"]
    bands = {f"… {name} messages": found for name, found in reduce["switched_by_band"].items()}
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
    yield _errors("left_out_by_class", "By class of hardware, left out", collectives["by_class"])
    yield _errors(
        "left_out_training",
        "Training steps of sources left out of the fit",
        {
            "All rows": training["overall"],
            "Dense rows that state everything": training["identified"],
            "Dense models": training["dense"],
            "Mixtures of experts": training["moe"],
        },
    )
    yield _errors("left_out_by_group", "Training steps by source, left out", training["by_group"])


def _errors(key: str, title: str, groups: Mapping[str, Report]) -> Table:
    columns = (
        Column("group", "Group"),
        Column("count", "Rows", "1"),
        Column("median", "Median error", share=True),
        Column("mean", "Mean error", share=True),
        Column("p90", "9 of 10 are within", share=True),
        Column("bias", "Bias", share=True),
        Column("coverage", "Inside the range", share=True),
    )
    names = [column.key for column in columns[1:]]
    rows = tuple((group, *(found.get(name) for name in names)) for group, found in groups.items() if found["count"])
    return Table(key, title, columns, rows, "Errors are |predicted ÷ measured − 1|; ranges should hold four of five.")


def _designs(fabric: Report) -> Table:
    columns = (
        Column("design", "Published design"),
        Column("verdict", "Verdict"),
        Column("published", "Published"),
        Column("computed", "Computed"),
        Column("reason", "Why"),
    )

    def counts(found: Mapping[str, int | None] | None) -> str:
        return ", ".join(f"{value:,} {named(name).lower()}" for name, value in (found or {}).items() if value)

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
