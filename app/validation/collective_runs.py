"""The collectives model against published nccl-tests and rccl-tests results.

Every row of a file is predicted from its own columns; what a row leaves blank is taken from the catalogue's platform of
that GPU. Leaving a system out refits the calibrated constants from their priors on everything else.
"""

import csv
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas.arrays import Array
from app.formulas.collectives.ideal import ALGORITHMS, COLLECTIVES, PROTOCOLS, Machine
from app.formulas.collectives.library import Selection, choose
from app.plan import machine
from app.plan.band import interval
from app.units import parse
from app.validation.statistics import Statistics, grouped, statistics, table

MEASUREMENTS = Path(__file__).parent / "measurements" / "collectives.csv"
PRIORS = Path(__file__).parent / "priors.toml"

SMALL, MEDIUM = parse("64 KiB", "B"), parse("32 MiB", "B")
LIBRARIES = ("nccl", "rccl")
TRANSPORTS = (
    "infiniband", "roce", "spectrum-x", "ultra-ethernet", "tcp", "efa", "slingshot", "gpudirect-tcp", "omni-path",
)  # fmt: skip
ALIASES = {
    "ib": "infiniband", "ethernet": "roce", "rdma": "roce", "socket": "tcp", "tcpx": "gpudirect-tcp",
    "tcpxo": "gpudirect-tcp", "fastrak": "gpudirect-tcp", "gpudirect-tcpx": "gpudirect-tcp",
    "gpudirect-tcpxo": "gpudirect-tcp",
    "alltoall": "all-to-all", "allreduce": "all-reduce", "allgather": "all-gather", "reducescatter": "reduce-scatter",
    "bcast": "broadcast", "sendrecv": "broadcast", "send-recv": "broadcast", "gather": "all-gather",
    "scatter": "all-gather", "nvlstree": "nvls-tree", "collnet-direct": "collnet", "collnet-chain": "collnet",
    "collnetdirect": "collnet", "collnetchain": "collnet", "sharp": "collnet",
}  # fmt: skip
"""Other names for the same thing. Send-receive moves a message one hop, like a broadcast."""

ONE_PROCESS = re.compile(r"single process|one process|-g\s*(?:[2-9]|1\d)\b", re.IGNORECASE)
NO_GPUDIRECT = re.compile(
    r"\bno gdr\b|gdr (?:off|disabled)|(?:without|no) gpudirect|NCCL_NET_GDR_LEVEL=(?:0|LOC)", re.I
)


# ---------------------------------------------------------------------------------------------------------------------
# Rows
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Configuration:
    """What of a row goes into the prediction, the message apart. Rates [B/s]."""

    collective: str
    gpu: str
    scale_up: str
    wiring: str
    domain: int
    gpus_per_node: int
    nodes: int
    transport: str
    rate: float
    algorithm: str
    protocol: str
    one_process: bool
    gpudirect: bool


@dataclass(frozen=True)
class Measured:
    """One row that can be predicted."""

    run: str
    system: str
    weak: bool
    library: str
    configuration: Configuration
    message: float  # [B]
    time: float  # [s]

    @property
    def band(self) -> str:
        """The size band of the message."""
        return "small" if self.message <= SMALL else "medium" if self.message <= MEDIUM else "large"


def read(path: Path, catalog: Catalog) -> tuple[list[Measured], list[dict[str, str]]]:
    """The rows of a file that can be predicted, and why the others cannot."""
    rows: list[Measured] = []
    skipped: list[dict[str, str]] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            cells = {name: (value or "").strip() for name, value in row.items() if name}
            run = cells.get("run") or f"line {number}"
            found = _row(run, cells, catalog)
            if isinstance(found, str):
                skipped.append({"run": run, "reason": found, "bytes": cells.get("bytes", "")})
            else:
                rows.append(found)
    return rows, skipped


def _row(run: str, cells: Mapping[str, str], catalog: Catalog) -> Measured | str:
    def word(name: str) -> str:
        text = cells.get(name, "").lower().replace("_", "-").replace(" ", "-")
        return ALIASES.get(text, text)

    def number(name: str) -> float | None:
        try:
            value = float(cells.get(name, "").replace(",", ""))
        except ValueError:
            return None
        return value if np.isfinite(value) and value > 0 else None

    gpu = _gpu(word("gpu"), catalog)
    if gpu is None:
        return f"{cells.get('gpu') or 'no GPU'} is not in the catalogue"
    collective = word("collective") or "all-reduce"
    if collective not in COLLECTIVES:
        return f"no model of the collective {collective}"
    message, time = number("bytes"), number("time_us")
    if message is None:
        return "no message size"
    if time is None:
        return "no measured time"
    card = catalog.gpus[gpu]
    platform = catalog.platforms[card.platform]
    nodes = int(number("nodes") or 1)
    gpus_per_node = int(number("gpus_per_node") or platform.gpus_per_node)
    if nodes * gpus_per_node == 1:
        return "one GPU alone communicates with nobody"
    domain = int(number("scale_up_domain") or 0)
    if domain <= 1 and gpus_per_node > 1:
        domain = 0
    scale_up = word("scale_up")
    wiring = word("scale_up_wiring")
    transport = word("scale_out")
    if transport not in TRANSPORTS:
        transport = "infiniband" if transport in ("", "none") else "roce"
    gbps = number("gbps_per_gpu")
    share = platform.nic_rate.typical * platform.nics_per_node / platform.gpus_per_node
    rate = share if gbps is None else units.parse(f"{gbps} Gb/s", "B/s")
    note = cells.get("note", "")
    algorithm, protocol = word("algorithm"), word("protocol")
    configuration = Configuration(
        collective=collective,
        gpu=gpu,
        scale_up=scale_up if scale_up in catalog.scale_up else "",
        wiring=wiring if wiring in WIRINGS else "",
        domain=domain,
        gpus_per_node=gpus_per_node,
        nodes=nodes,
        transport=transport,
        rate=rate,
        algorithm=algorithm if algorithm in ALGORITHMS else "",
        protocol=protocol if protocol in PROTOCOLS else "",
        one_process=gpus_per_node > 1 and bool(ONE_PROCESS.search(note)),
        gpudirect=transport not in ("infiniband", "roce") or not NO_GPUDIRECT.search(note),
    )
    return Measured(
        run=run,
        system=cells.get("system") or run,
        weak=word("quality") == "weak",
        library=word("library") or "nccl",
        configuration=configuration,
        message=message,
        time=units.parse(f"{time} us", "s"),
    )


WIRINGS = ("switch", "mesh", "bridge", "peer-to-peer", "host", "no-peer-to-peer")


def _gpu(name: str, catalog: Catalog) -> str | None:
    """The catalogue's key for a card named as loosely as results name it."""
    if name in catalog.gpus:
        return name
    for candidate in (f"{name}-sxm", name.removesuffix("-oam"), f"{name}-pcie"):
        if candidate in catalog.gpus:
            return candidate
    return next(
        (key for key in catalog.gpus if name and (name.startswith(f"{key}-") or key.startswith(f"{name}-"))), None
    )


# ---------------------------------------------------------------------------------------------------------------------
# Prediction
# ---------------------------------------------------------------------------------------------------------------------


def machine_of(configuration: Configuration, catalog: Catalog, reading: machine.Sampling) -> Machine:
    """The machine a row was measured on."""
    c = configuration
    return machine.machine(
        catalog,
        gpu=c.gpu,
        scale_up=c.scale_up,
        wiring=c.wiring,
        domain=c.domain,
        gpus_per_node=c.gpus_per_node,
        nodes=c.nodes,
        transport=c.transport,
        rate=c.rate,
        gpudirect=c.gpudirect,
        in_network_reduction=c.algorithm == "collnet" or (c.algorithm == "nvls" and c.nodes > 1),
        one_process=c.one_process,
        reading=reading,
    )


def predict(rows: Sequence[Measured], catalog: Catalog, reading: machine.Sampling) -> Selection:
    """What the model says of each row, on the first axis; the constants' own axis, if any, is last."""
    calibration = machine.calibration(catalog, reading)
    width = max(np.size(getattr(calibration, entry.name)) for entry in fields(calibration))
    whole = {entry.name: np.full((len(rows), width), np.nan) for entry in fields(Selection)}
    kinds: dict[tuple[str, str, str], list[int]] = {}
    for index, row in enumerate(rows):
        c = row.configuration
        kinds.setdefault((c.collective, c.algorithm, c.protocol), []).append(index)
    machines: dict[Configuration, Machine] = {}
    for (collective, algorithm, protocol), members in kinds.items():
        for index in members:
            c = rows[index].configuration
            if c not in machines:
                machines[c] = machine_of(c, catalog, reading)
        stacked = _stack([machines[rows[index].configuration] for index in members], width)
        message = np.array([rows[index].message for index in members])[:, None]
        # What a row says was forced may not be what this machine can do: then the library chose for itself.
        choice = choose(collective, message, stacked, calibration, algorithm, protocol)
        for fallback in (("", protocol), ("", "")):
            if np.all(np.isfinite(choice.time)):
                break
            choice = _or(choice, choose(collective, message, stacked, calibration, *fallback))
        for name, values in whole.items():
            values[members] = getattr(choice, name)
    return Selection(**whole)


def _or(first: Selection, second: Selection) -> Selection:
    """The first where it has a time, else the second."""
    known = np.isfinite(first.time)
    return Selection(
        *(np.where(known, getattr(first, entry.name), getattr(second, entry.name)) for entry in fields(Selection))
    )


def _stack(machines: Sequence[Machine], width: int) -> Machine:
    """Many machines as one, on the first axis. Most of them stand there many times: a row for each message."""
    different = list({id(machine): machine for machine in machines}.values())
    places = {id(machine): place for place, machine in enumerate(different)}
    rows = [places[id(machine)] for machine in machines]

    def one(name: str) -> Array:
        values = [np.broadcast_to(np.asarray(getattr(m, name), float).reshape(-1), width) for m in different]
        return np.stack(values)[rows]

    return Machine(**{entry.name: one(entry.name) for entry in fields(Machine)})


# ---------------------------------------------------------------------------------------------------------------------
# Refitting
# ---------------------------------------------------------------------------------------------------------------------

TOLERANCE = 0.25
"""Scale of the robust loss on the logarithm: a row that is further off counts for less and less."""
CROWDING = 0.35
"""A system of n rows weighs n^(1 - this), so that long sweeps do not drown single points."""


@dataclass(frozen=True)
class Prior:
    """What one would say of a constant before any measurement: a typical value and its relative spread."""

    key: str
    typical: float
    spread: float
    other: bool
    """It bears on collectives other than the all-reduce alone."""


@cache
def priors(other: bool = False) -> tuple[Prior, ...]:
    """The priors of all calibrated constants of the all-reduce, or of those that the other collectives add to them."""
    found = []
    for group, names in tomllib.loads(PRIORS.read_text(encoding="utf-8")).items():
        for name, entry in names.items():
            value = entry["typical"]
            number = units.parse(value, entry.get("unit", "s")) if isinstance(value, str) else float(value)
            found.append(
                Prior(f"collectives.{group}.{name}", number, float(entry["spread"]), bool(entry.get("other", False)))
            )
    return tuple(prior for prior in found if prior.other == other)


def read_at(factors: Mapping[str, Array], draws: bool = False) -> machine.Sampling:
    """A reading with some constants put elsewhere: key of the estimate to value; draws keep their relative spread."""

    def reading(estimate: Estimate) -> Array:
        value = factors.get(estimate.key)
        if value is None:
            return estimate.draws() if draws else estimate.typical
        return estimate.draws() * (value / estimate.typical) if draws else value

    return reading


def fit(
    rows: Sequence[Measured],
    catalog: Catalog,
    start: NDArray[np.float64] | None = None,
    steps: int = 12,
    settled: Mapping[str, Array] | None = None,
) -> NDArray[np.float64]:
    """Logarithm of each constant over its prior that fits the rows best.

    The constants are those of the all-reduce; with those ``settled`` they are those that other collectives add.

    Robust least squares on log(predicted/measured), with a Gaussian prior on the logarithm of each constant, by damped
    Gauss-Newton steps. All perturbed constants are evaluated in one call: they are the last axis.
    """
    known = priors(other=settled is not None)
    spread = np.array([prior.spread for prior in known])
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.system] = counts.get(row.system, 0) + 1
    weight = np.array([2 * counts[row.system] ** -CROWDING for row in rows])
    measured = np.log([row.time for row in rows])
    step = 1e-4

    def residuals(theta: NDArray[np.float64], slopes: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        moves = np.vstack([np.zeros(len(known)), step * np.eye(len(known))]) if slopes else np.zeros((1, len(known)))
        factors: dict[str, Array] = dict(settled or {})
        factors |= {prior.key: prior.typical * np.exp(theta[i] + moves[:, i]) for i, prior in enumerate(known)}
        off = np.log(predict(rows, catalog, read_at(factors)).time) - measured[:, None]
        relative = (off[:, 0] / TOLERANCE) ** 2
        loss = np.sqrt(np.log1p(relative))
        value = np.concatenate([weight * loss * np.sign(off[:, 0]), theta / spread])
        if not slopes:
            return value, np.empty((0, 0))
        gain = np.where(loss > 1e-9, np.sqrt(relative) / (1 + relative) / np.maximum(loss, 1e-9), 1.0) / TOLERANCE
        jacobian = (weight * gain)[:, None] * (off[:, 1:] - off[:, :1]) / step
        return value, np.vstack([jacobian, np.diag(1 / spread)])

    theta = np.zeros(len(known)) if start is None else start.copy()
    damping = 1e-3
    value, jacobian = residuals(theta, slopes=True)
    cost = float(value @ value)
    for _ in range(steps):
        normal = jacobian.T @ jacobian
        move = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -jacobian.T @ value)
        tried, _ = residuals(theta + move, slopes=False)
        if float(tried @ tried) >= cost:
            damping *= 10
            if damping > 1e4:
                break
            continue
        theta = theta + move
        value, jacobian = residuals(theta, slopes=True)
        before, cost = cost, float(value @ value)
        damping = max(damping / 10, 1e-6)
        if before - cost < 1e-4 * before:
            break
    return theta


def constants(theta: NDArray[np.float64], other: bool = False) -> dict[str, Array]:
    """The values of all calibrated constants at a fit."""
    return {prior.key: float(prior.typical * np.exp(theta[i])) for i, prior in enumerate(priors(other))}


def fitted(rows: Iterable[Measured], other: bool = False) -> list[Measured]:
    """The rows a calibration rests on: all-reduce, or all else, with NCCL or RCCL, of good quality."""
    return [
        row
        for row in rows
        if (row.configuration.collective != "all-reduce") == other and row.library in LIBRARIES and not row.weak
    ]


# ---------------------------------------------------------------------------------------------------------------------
# The report
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """A row and what the model says of it [s]; ``drawn`` is the band before the model's own error widens it."""

    row: Measured
    time: float
    low: float
    high: float
    drawn_low: float
    drawn_high: float
    group: str
    choice: Selection


def predictions(
    rows: Sequence[Measured], catalog: Catalog, leave_one_out: bool = False, learn_from: Sequence[Measured] = ()
) -> list[Prediction]:
    """Each row with its prediction and 80 % band; left out: by a calibration that never saw its system."""
    if not leave_one_out:
        return _bands(rows, catalog, read_at({}), read_at({}, draws=True))
    systems = list(dict.fromkeys(row.system for row in rows))
    everything = [*rows, *(row for row in learn_from if row.system not in set(systems))]
    reduces, besides = fitted(everything), fitted(everything, other=True)
    whole = fit(reduces, catalog)
    beside_whole = fit(besides, catalog, settled=constants(whole))
    found: dict[int, Prediction] = {}
    for system in systems:
        members = [index for index, row in enumerate(rows) if row.system == system]
        rest = [row for row in reduces if row.system != system]
        theta = fit(rest, catalog, start=whole, steps=6) if len(rest) < len(reduces) else whole
        values = constants(theta)
        if any(rows[i].configuration.collective != "all-reduce" for i in members):
            rest = [row for row in besides if row.system != system]
            values |= constants(fit(rest, catalog, start=beside_whole, steps=6, settled=values), other=True)
        seen = _bands([rows[i] for i in members], catalog, read_at(values), read_at(values, draws=True))
        found |= dict(zip(members, seen, strict=True))
    return [found[index] for index in range(len(rows))]


def _bands(
    rows: Sequence[Measured], catalog: Catalog, reading: machine.Sampling, drawn: machine.Sampling
) -> list[Prediction]:
    if not rows:
        return []
    typical, spread = predict(rows, catalog, reading), predict(rows, catalog, drawn).time
    groups = [class_of(row, catalog) for row in rows]
    choices = [Selection(*(getattr(typical, name)[index, 0] for name in CHOSEN)) for index in range(len(rows))]
    errors = [
        float(machine.residual(catalog, group, choice, row.configuration.collective))
        for row, group, choice in zip(rows, groups, choices, strict=True)
    ]
    times = np.asarray(typical.time)[:, :1]
    values = np.concatenate([times, np.asarray(spread)[:, 1:]], axis=1)
    edges = np.stack([*interval(values, np.array(errors)), *interval(values)], axis=1).tolist()
    return [
        Prediction(row, float(choice.time), low, high, drawn_low, drawn_high, group, choice)
        for row, choice, group, (low, high, drawn_low, drawn_high) in zip(rows, choices, groups, edges, strict=True)
    ]


CHOSEN = tuple(entry.name for entry in fields(Selection))


def class_of(row: Measured, catalog: Catalog) -> str:
    """The hardware class of a row."""
    c = row.configuration
    return machine.class_of(
        catalog,
        gpu=c.gpu,
        scale_up=c.scale_up,
        wiring=c.wiring,
        domain=c.domain,
        gpus_per_node=c.gpus_per_node,
        nodes=c.nodes,
        transport=c.transport,
    )


def _score(found: Sequence[Prediction]) -> Statistics:
    return statistics(
        [p.time for p in found], [p.row.time for p in found], [p.low for p in found], [p.high for p in found]
    )


def report(path: Path, catalog: Catalog, leave_one_out: bool = False) -> dict[str, Any]:
    """Predict every row of a file and say how far off, overall and by group.

    ``overall`` and the groups hold the rows of good quality run with NCCL or RCCL: the model describes those. Rows of
    weak quality and of other libraries are predicted too and reported apart.
    """
    rows, skipped = read(path, catalog)
    known, _ = read(MEASUREMENTS, catalog) if leave_one_out else ([], [])
    found = predictions(rows, catalog, leave_one_out, known)
    return summary(found, skipped, leave_one_out)


def summary(found: Sequence[Prediction], skipped: Sequence[Mapping[str, str]], leave_one_out: bool) -> dict[str, Any]:
    """The report of predictions already made."""
    good = [p for p in found if not p.row.weak and p.row.library in LIBRARIES]
    reduce = [p for p in good if p.row.configuration.collective == "all-reduce"]
    switched = [p for p in reduce if p.group in ("nvlink-switch", "nvlink-switch-rdma")]
    order = {name: index for index, name in enumerate(("small", "medium", "large"))}
    return {
        "rows": len(found),
        "skipped": list(skipped),
        "leave_one_out": leave_one_out,
        "overall": _score(good),
        "weak": _score([p for p in found if p.row.weak]),
        "other_libraries": _score([p for p in found if not p.row.weak and p.row.library not in LIBRARIES]),
        "by_band": grouped(sorted(good, key=lambda p: order[p.row.band]), lambda p: p.row.band, _score),
        "by_run": grouped(found, lambda p: p.row.run, _score),
        "by_class": grouped(sorted(good, key=lambda p: p.group), lambda p: p.group, _score),
        "by_collective": grouped(good, lambda p: p.row.configuration.collective, _score),
        "all_reduce": {
            "overall": _score(reduce),
            "by_band": grouped(sorted(reduce, key=lambda p: order[p.row.band]), lambda p: p.row.band, _score),
            "switched": _score(switched),
            "switched_by_band": grouped(
                sorted(switched, key=lambda p: order[p.row.band]), lambda p: p.row.band, _score
            ),
        },
    }


def text(report: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    how = (
        "each system left out of the calibration in turn" if report["leave_one_out"] else "calibrated on these systems"
    )
    reduce = report["all_reduce"]
    reasons: dict[str, int] = {}
    for entry in report["skipped"]:
        reason = f"{entry['run']}: {entry['reason']}"
        reasons[reason] = reasons.get(reason, 0) + 1
    parts = [
        f"{report['rows']} rows predicted, {len(report['skipped'])} skipped; {how}.",
        table(
            {"overall": report["overall"], "weak": report["weak"], "other libraries": report["other_libraries"]},
            "all collectives",
        ),
        table(report["by_band"], "size band"),
        table(report["by_class"], "hardware class"),
        table(report["by_collective"], "collective"),
        table({"all": reduce["overall"], **reduce["by_band"]}, "all-reduce"),
        table(
            {"all": reduce["switched"], **reduce["switched_by_band"]},
            "all-reduce, NVLink switch, InfiniBand or RoCE or none",
        ),
        table(report["by_run"], "run"),
    ]
    if reasons:
        parts.append("Skipped:\n" + "\n".join(f"  {count} rows of {reason}" for reason, count in reasons.items()))
    return "\n\n".join(parts)
