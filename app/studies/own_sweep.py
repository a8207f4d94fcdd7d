"""Your own sweep: what it says of your cluster, and every measurement beside what is usual and what is calibrated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError

from app import units
from app.catalog.estimate import Z90
from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS, TYPICAL
from app.formulas.arrays import Array
from app.formulas.collectives.ideal import COLLECTIVES, bus_factor
from app.plan import communication
from app.plan.band import Band, interval, record, result
from app.plan.communication import Communication, least_times, time_collective
from app.plan.result import Finding
from app.plan.scenario import Scenario
from app.plan.site_calibration import NAMES, Sweep, calibrate
from app.studies.benchmark_output import PORT, Output, ranks_about, read
from app.studies.curve import Curve, Series
from app.studies.nccl_tests import LARGE, reached

Floats = NDArray[np.float64]
LONGEST = 1_000_000
NEXT_DOCUMENT = "\f"
"""Between outputs that are documents of their own, such as files."""
MOST_OUTPUTS = 100
AT_ONCE = 256
"""Messages whose draws are worked out together."""
ODD = 4
"""A row that is further off than so many times the scatter, and twice, fits no model [1]."""
FAR = 0.25
"""Where more rows than one, and than this share, are further than this off, the factors explain too little [1]."""


class CalibrateQuestion(Scenario):
    """What does a measured sweep say of this cluster?"""

    model_config = ConfigDict(defer_build=True)

    text: Annotated[str, Field(max_length=LONGEST)] = Field(
        "",
        title="Output",
        description="What nccl-tests, rccl-tests, OSU or ib_write_bw printed: one output or several, plain or JSON, "
        "a form feed between documents.",
        json_schema_extra={"group": "collective"},
    )

    def scenario(self) -> Scenario:
        """The cluster alone, with what is usual."""
        return self.part(Scenario).model_copy(update={"calibration": None, "measured_efficiency": None})


@record
class SiteFactor:
    """One part of the time over what such parts usually have."""

    name: str = result("", "Part", "latency, bandwidth or fill.")
    value: float = result("1", "Over the usual", "So many times the usual.")
    low: float = result("1", "At least", "Four of five times it is more.")
    high: float = result("1", "At most", "Nine of ten times it is less.")
    meaning: str = result("", "Meaning", "What it says, and what to check.")


@record
class SweepRow:
    """One measurement beside its predictions."""

    collective: str = result("", "Collective", "As in a question.")
    gpus: int = result("1", "GPUs", "That took part.")
    message: float = result("B", "Message", "As nccl-tests count it.")
    measured: float = result("s", "Measured time", "Out of place.")
    usual: Band = result("s", "Usual time", "What such parts usually take.")
    calibrated: Band = result("s", "Calibrated time", "What this cluster takes by its factors.")
    fits: bool = result("", "Fits", "Whether a model of the cluster can hold it.")


@record
class OwnSweep:
    """What a measured sweep says of a cluster."""

    calibration: str = result(
        "", "Calibration", "The factors as a field of any question; blank where nothing was read."
    )
    factors: tuple[SiteFactor, ...] = result("", "Factors", "Latency, bandwidth and pipeline fill.")
    usual_error: float | None = result("1", "Error as usual", "Median over all rows, before calibrating.")
    calibrated_error: float | None = result("1", "Error when calibrated", "The same after it.")
    rows: tuple[SweepRow, ...] = result("", "Rows", "Every measurement.")


@dataclass(frozen=True)
class PortSweep:
    """What ``ib_write_bw`` measured of one port of this line rate [B/s]: messages [B] and times [s]."""

    rate: float
    messages: Floats
    times: Floats

    def predicted(self, latency: Array, bandwidth: Array, fill: Array) -> Floats:
        """The time of the bytes alone; what a port does in hops and fill is not its own [s]."""
        return np.broadcast_to(self.messages[:, None] / (self.rate * bandwidth), (len(self.messages), np.size(latency)))


@dataclass(frozen=True)
class _Part:
    """An output on the cluster that it ran on."""

    scenario: Scenario
    fabric: Communication
    sweep: Sweep | PortSweep


def own_sweep(question: CalibrateQuestion, catalog: Catalog) -> tuple[OwnSweep, tuple[Finding, ...]]:
    """Calibrate a cluster on what its owner measured; findings say what was not understood or fits no model."""
    outputs, findings = _outputs(question.text)
    parts = []
    for output in outputs[:MOST_OUTPUTS]:
        part = _part(output, question.scenario(), catalog)
        if isinstance(part, Finding):
            findings.append(part)
        else:
            parts.append(part)
    if not parts:
        return OwnSweep("", (), None, None, ()), tuple(findings)
    site, posterior = calibrate([part.sweep for part in parts], catalog)
    text = site.text()
    rows = [row for part in parts for row in _rows(part, text, posterior.scatter, catalog)]
    factors = tuple(_factor(name, *getattr(site, name)) for name in NAMES)
    before = _error([row.usual.typical / row.measured for row in rows])
    after = _error([row.calibrated.typical / row.measured for row in rows])
    return OwnSweep(text, factors, before, after, tuple(rows)), (*findings, *_far(rows), *_unusual(rows))


def _outputs(text: str) -> tuple[list[Output], list[Finding]]:
    """The outputs of a text, documents apart that a form feed parts, and what is wrong where one holds none."""
    documents = [document for document in text.split(NEXT_DOCUMENT) if document.strip()] or [""]
    outputs: list[Output] = []
    findings, several = [], len(documents) > 1
    for number, document in enumerate(documents[:MOST_OUTPUTS], start=1):
        of_document, problem = read(document)
        outputs += of_document
        if problem and several:
            which = f"Output {number} of {len(documents)}: {problem}"
            findings.append(Finding("warning", "unread-document", which, ("text",)))
        elif problem:
            findings.append(Finding("error", "unread-output", problem, ("text",)))
    left_out = max(len(outputs), len(documents)) - MOST_OUTPUTS
    if left_out > 0:
        beyond = f"{left_out:,} outputs beyond the first {MOST_OUTPUTS} are left out."
        findings.append(Finding("warning", "too-many-outputs", beyond, ("text",), "Paste them in parts."))
    return outputs, findings


def _error(ratios: Sequence[float]) -> float | None:
    """How far half of the predictions are off [1]."""
    return float(np.median(np.abs(np.array(ratios) - 1))) if ratios else None


def _part(output: Output, scenario: Scenario, catalog: Catalog) -> _Part | Finding:
    """An output on as many GPUs and nodes as it names; the scenario's where it names none."""
    changes: dict[str, object] = {"graphs": None}
    if output.collective not in ("", PORT, *COLLECTIVES):
        text = f"{output.collective} times no collective that the plan has; its output is left out."
        return Finding("warning", "unplaced-output", text, ("text",), "Paste that of all_reduce_perf, or another.")
    node = communication.of_scenario(scenario, catalog).system.gpus_per_node
    ranks = ranks_about(output.ranks, output.allowed, scenario.gpus, node)
    if ranks > 1:
        changes["gpus"] = ranks
        if output.hosts or ranks <= node:
            changes["gpus_per_node"] = -(-ranks // max(output.hosts, 1))
    try:
        fields = scenario.model_dump() | changes
        ran_on = Scenario.model_validate(fields, context={"catalog": catalog})
    except ValidationError:
        return _unplaced(output.collective, ranks)
    fabric = communication.of_scenario(ran_on, catalog)
    messages, times = (np.array(column) for column in zip(*output.rows, strict=True))
    if output.collective == PORT:
        large = messages >= units.parse("64 KiB", "B")
        if np.any(large):
            rate = fabric.scale_out.port_rate.typical
            return _Part(ran_on, fabric, PortSweep(rate, messages[large], times[large]))
        text = "ib_write_bw was run with small messages alone, which say nothing of a port's bandwidth."
        return Finding("note", "small-port-messages", text, ("text",), "Run it with --size of 64 KiB or more.")
    collective, machine = output.collective or "all-reduce", fabric.machine(TYPICAL)
    forced = ran_on.algorithm or "", ran_on.protocol or ""
    sweep = Sweep(machine, fabric.calibration(TYPICAL), collective, *forced, messages, times)
    runs = fabric.gpus > 1 and bool(np.all(np.isfinite(sweep.predicted(1.0, 1.0, 1.0))))
    return _Part(ran_on, fabric, sweep) if runs else _unplaced(collective, fabric.gpus)


def _unplaced(collective: str, gpus: int) -> Finding:
    text = f"An output of {collective or 'a test'} over {gpus:,} GPUs cannot have run on this cluster; it is left out."
    return Finding("warning", "unplaced-output", text, ("text", "gpus"), "Give the GPU, nodes and network it ran on.")


def _rows(part: _Part, text: str, scatter: float, catalog: Catalog) -> Iterator[SweepRow]:
    """The rows of a collective with their ranges, as usual and calibrated; a port has none."""
    sweep = part.sweep
    if isinstance(sweep, PortSweep):
        return
    at_site = communication.of_scenario(part.scenario.model_copy(update={"calibration": text}), catalog)
    usual, calibrated = (_bands(fabric, sweep.collective, sweep.messages) for fabric in (part.fabric, at_site))
    for message, time, before, after in zip(sweep.messages, sweep.times, usual, calibrated, strict=True):
        fits = abs(float(np.log(time / after.typical))) <= max(ODD * scatter, np.log(2))
        yield SweepRow(sweep.collective, part.fabric.gpus, float(message), float(time), before, after, bool(fits))


def _bands(fabric: Communication, collective: str, messages: Floats) -> list[Band]:
    """The times of messages with their ranges, so many at a time that their draws need little memory."""
    pieces = np.array_split(messages, -(-len(messages) // AT_ONCE))
    return [band for piece in pieces for band in _bands_at_once(fabric, collective, piece)]


def _bands_at_once(fabric: Communication, collective: str, messages: Floats) -> list[Band]:
    choice = time_collective(fabric, collective, messages[:, None], DRAWS)
    drawn = np.asarray(choice.time)
    drawn = np.broadcast_to(drawn, (len(messages), drawn.shape[-1]))
    ways = np.broadcast_to(choice.algorithm, drawn.shape)[:, 0].astype(int)
    error = np.ravel(fabric.residual(messages, fabric.machine(TYPICAL).domains, collective))
    least = least_times(fabric, collective, messages, ways)
    low, high = interval(drawn, np.broadcast_to(error, len(messages)), least)
    return [Band(float(a), float(b), float(c), "s") for a, b, c in zip(low, drawn[:, 0], high, strict=True)]


CHECKS = {
    "latency": "GPUDirect RDMA, access control of PCIe (ACS), power states of the processors, others on the network",
    "bandwidth": "slow links, the width of PCIe, relaxed ordering, congestion and the settings of the adapters",
    "fill": "forced algorithms and protocols, NCCL_BUFFSIZE and the number of channels",
}
"""What to look at where a part is worse than usual."""


def _factor(name: str, value: float, spread: float) -> SiteFactor:
    """A factor with its range and what it means."""
    ends = float(np.exp(Z90 * spread))
    low, high = value / ends, value * ends
    worse = low > 1.1 if name != "bandwidth" else high < 0.95
    if low <= 1 <= high:
        meaning = f"Your {name} is what such parts usually have, as far as these rows tell."
    elif worse:
        meaning = f"Your {name} is {units.show(value, '1', 2)} × what such parts usually have: check {CHECKS[name]}."
    else:
        meaning = f"Your {name} is {units.show(value, '1', 2)} × what such parts usually have."
    return SiteFactor(name, value, low, high, meaning)


def _far(rows: Sequence[SweepRow]) -> Iterator[Finding]:
    """That the calibrated times are still far from many of the rows."""
    far = sum(abs(row.calibrated.typical / row.measured - 1) > FAR for row in rows)
    if far > max(FAR * len(rows), 1):
        text = f"The calibrated times miss {far:,} of {len(rows):,} rows by more than {units.percent(FAR)}."
        advice = "Measure more sizes, and check that they ran on this GPU, network and rate."
        yield Finding("warning", "far-from-calibrated", text, ("text", "gpu", "network_rate"), advice)


def _unusual(rows: Sequence[SweepRow]) -> Iterator[Finding]:
    """The rows that no factors explain: five by themselves, the others by their number."""
    odd = [row for row in rows if not row.fits]
    for row in odd[:5]:
        times, size = units.show(row.measured / row.calibrated.typical, "1", 2), units.show_message(row.message)
        text = f"{size} of {row.collective} over {row.gpus} GPUs took {times} × what the other rows say."
        yield Finding("note", "row-fits-no-model", text, ("text",), "Measure it again.")
    if len(odd) > 5:
        yield Finding(
            "note",
            "more-rows-fit-no-model",
            f"{len(odd) - 5} more rows fit no model.",
            ("text",),
            "Measure them again.",
        )


def verdict(sweep: OwnSweep) -> str:
    """How fast large messages move beside what such parts usually give; blank where there is none."""
    large = [row for row in sweep.rows if row.message >= LARGE]
    if not large:
        return ""
    inside = all(row.usual.low <= row.measured <= row.usual.high for row in large)
    return reached(float(np.median([row.usual.typical / row.measured for row in large])), usual=inside)


def curve(sweep: OwnSweep, collective: str, gpus: int) -> Curve:
    """Bus bandwidth of one collective on so many GPUs: measured, usual and calibrated."""
    rows = sorted(
        (row for row in sweep.rows if (row.collective, row.gpus) == (collective, gpus)), key=lambda row: row.message
    )
    sizes = np.array([row.message for row in rows])
    carried = sizes * float(bus_factor(collective, gpus))
    measured = carried / np.array([row.measured for row in rows])

    def line(name: str, look: str, part: str, *, strong: bool) -> Series:
        bands = [getattr(row, part) for row in rows]
        low, typical, high = (
            carried / np.array([getattr(band, end) for band in bands]) for end in ("high", "typical", "low")
        )
        return Series(name, look, sizes, typical, low, high, strong=strong)

    before, after = (units.percent(error or 0.0) for error in (sweep.usual_error, sweep.calibrated_error))
    return Curve(
        key=f"{collective}-{gpus}",
        title=f"Half of all rows are {before} off as usual, {after} when calibrated: {collective} over {gpus} GPUs.",
        subtitle="Bus bandwidth against message size: measured, usual and calibrated with their 80 % ranges",
        x_name="Message",
        x_unit="B",
        y_name="Bus bandwidth",
        y_unit="B/s",
        series=(
            line("Usual", "ring", "usual", strong=False),
            line("Calibrated", "quickest", "calibrated", strong=True),
            Series("Measured", "measured", sizes, measured, measured, measured, dash="dot"),
        ),
        y_logarithmic=False,
    )
