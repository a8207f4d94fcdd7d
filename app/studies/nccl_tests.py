"""What a user pastes from nccl-tests or rccl-tests, held against the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.load import Catalog
from app.formulas.collectives.ideal import bus_factor
from app.plan import communication
from app.plan.all_reduce import all_reduce_times
from app.plan.band import Band, interval
from app.plan.scenario import Scenario
from app.studies import benchmark_output
from app.studies.curve import Curve, Series

LARGE = units.parse("32 MiB", "B")
"""From here on bandwidth decides, so that measured over predicted is an efficiency [B]."""


@dataclass(frozen=True)
class Measured:
    """One line of the output: message [B] and out-of-place time [s]."""

    size: float
    time: float


@dataclass(frozen=True)
class Output:
    """What the pasted text holds. ``ranks`` and ``hosts`` are 0 where the text does not say; see
    `benchmark_output.Output` for ``allowed``.
    """

    rows: tuple[Measured, ...]
    ranks: int
    hosts: int
    problem: str = ""
    allowed: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """One measurement beside the prediction; ``ratio`` is the measured over the predicted rate."""

    size: float
    measured: float
    measured_bus: float
    predicted: Band
    predicted_bus: Band
    ratio: float
    inside: bool


@dataclass(frozen=True)
class Result:
    """All comparisons, and what they say of the cluster."""

    scenario: Scenario
    output: Output
    rows: tuple[Comparison, ...]
    inside: int
    median_error: float
    efficiency: float | None
    verdict: str


def read(text: str) -> Output:
    """The first all-reduce of what a benchmark printed.

    >>> line = " 1048576  262144  float  sum  -1  60.0  17.48  32.77  0  59.0  17.77  33.32  0"
    >>> read(line).rows
    (Measured(size=1048576.0, time=6e-05),)
    """
    outputs, problem = benchmark_output.read(text)
    for output in outputs:
        if output.collective in ("", "all-reduce"):
            rows = tuple(Measured(*row) for row in output.rows)
            return Output(rows, output.ranks, output.hosts, allowed=output.allowed)
    if outputs:
        problem = f"This is the output of {outputs[0].collective}. Paste that of all_reduce_perf."
    return Output((), 0, 0, problem)


def compare(output: Output, scenario: Scenario, catalog: Catalog) -> Result:
    """Hold pasted measurements against the prediction for the scenario, on as many GPUs as the output names."""
    update: dict[str, object] = {"measured_efficiency": None, "graphs": None}
    node = communication.of_scenario(scenario, catalog).system.gpus_per_node
    ranks = benchmark_output.ranks_about(output.ranks, output.allowed, scenario.gpus, node)
    if ranks > 1:
        update["gpus"] = ranks
        if output.hosts:
            update["gpus_per_node"] = -(-ranks // output.hosts)
    question = scenario.model_copy(update=update)
    sizes = np.array([row.size for row in output.rows])
    times = np.array([row.time for row in output.rows])
    way = all_reduce_times(communication.of_scenario(question, catalog), sizes).best
    low, high = interval(way.time, np.nan_to_num(way.residual), way.least)
    typical = way.time[:, 0]
    carried = float(bus_factor("all-reduce", question.gpus))
    rows = tuple(
        Comparison(
            size=float(size),
            measured=float(time),
            measured_bus=float(size * carried / time),
            predicted=Band(float(least), float(middle), float(most), "s"),
            predicted_bus=Band(
                float(size * carried / most), float(size * carried / middle), float(size * carried / least), "B/s"
            ),
            ratio=float(middle / time),
            inside=bool(least <= time <= most),
        )
        for size, time, least, middle, most in zip(sizes, times, low, typical, high, strict=True)
        if np.isfinite(middle) and middle > 0
    )
    ratios = np.array([row.ratio for row in rows])
    large = [row for row in rows if row.size >= LARGE]
    efficiency = float(np.median([row.ratio for row in large])) if large else None
    inside = sum(row.inside for row in rows)
    return Result(
        scenario=question,
        output=output,
        rows=rows,
        inside=inside,
        median_error=float(np.median(np.abs(ratios - 1))) if rows else float("nan"),
        efficiency=efficiency,
        verdict=_verdict(len(rows), inside, efficiency, usual=all(row.inside for row in large)),
    )


def _verdict(count: int, inside: int, efficiency: float | None, *, usual: bool) -> str:
    """What the comparison says, in a sentence or two; large messages are usual where all lie inside the range."""
    if not count:
        return "This cluster cannot run an all-reduce as asked, so there is nothing to compare with."
    first = f"{inside} of {count} measurements lie inside the predicted range"
    if efficiency is None:
        return f"{first}. Run up to 8 GiB to learn what the network delivers."
    return f"{first}. {reached(efficiency, usual=usual)}"


def reached(efficiency: float, *, usual: bool) -> str:
    """What a median rate of large messages over the predicted one says; usual where all lie inside the range.

    >>> reached(0.86, usual=False).replace("\u202f", " ")
    'Large messages reach 86 % of the predicted rate, less than usual: look for a slow link or setting.'
    """
    large = f"Large messages reach {units.percent(efficiency)} of the predicted rate"
    if efficiency < 0.9:
        return f"{large}, {'which is not unusual' if usual else 'less than usual: look for a slow link or setting'}."
    return f"{large}: better than clusters we know of." if efficiency > 1.1 else f"{large}, as they should."


Floats = NDArray[np.float64]


def measured(result: Result) -> Curve:
    """Pasted measurements over the predicted bus bandwidth."""
    sizes = np.array([row.size for row in result.rows])
    order = np.argsort(sizes)
    sizes = sizes[order]

    def column(values: Sequence[float]) -> Floats:
        return np.array(values)[order]

    predicted = [row.predicted_bus for row in result.rows]
    typical_rate = column([band.typical for band in predicted])
    ends = column([band.low for band in predicted]), column([band.high for band in predicted])
    rates = column([row.measured_bus for row in result.rows])
    return Curve(
        key="measured",
        title=result.verdict,
        subtitle="Bus bandwidth against message size: measured, and predicted with its 80 % range",
        x_name="Message",
        x_unit="B",
        y_name="Bus bandwidth",
        y_unit="B/s",
        series=(
            Series("Predicted", "quickest", sizes, typical_rate, *ends, strong=True),
            Series("Measured", "measured", sizes, rates, rates, rates, dash="dot"),
        ),
        y_logarithmic=False,
    )
