"""InfiniBand or Ethernet: what would turn the answer, and how it stands by budget, pace, scale and who runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.load import Catalog
from app.formulas import costs
from app.formulas.arrays import typical_of
from app.plan.band import interval, record, result
from app.plan.cluster import counterpart
from app.plan.job.job import job_on
from app.plan.network import network_of
from app.plan.recommendation import TIE, Run, advised, price_change, turning_points
from app.plan.scenario import Scenario, on_network
from app.plan.total_cost import Ownership, ownership
from app.studies.curve import Curve, Mark, Series, short
from app.units import percent

Floats = NDArray[np.float64]
LARGEST = 131_072
"""The most GPUs at which a grown cluster is weighed: a larger one takes seconds to plan."""


@record
class Weighed:
    """The two networks in one situation, each planned in full: what Ethernet takes and costs beside InfiniBand."""

    situation: str = result("", "Situation", "own, untuned, small, large or grown.", words="situation")
    gpus: int = result("1", "GPUs", "GPUs of the cluster.")
    infiniband: str = result("", "InfiniBand", "Key of the InfiniBand generation.", listed=False)
    ethernet: str = result("", "Ethernet", "Key of the Ethernet generation.", listed=False)
    better: str = result(
        "", "Cheaper run", "infiniband, ethernet, either where it makes less than 2 %, or blank.", words="better"
    )
    advice: str = result("", "Rule of thumb", "What the articles advise at that size.", words="advice")
    slower: float | None = result(
        "1", "Takes longer by", "How much longer the run takes on Ethernet; null where it does not run.", share=True
    )
    slower_allowed: float | None = result(
        "1", "May take longer by", "How much longer the run may take on Ethernet until both cost the same.", share=True
    )
    cheaper: float | None = result("1", "Costs less by", "How much less the run costs on Ethernet.", share=True)
    saved: float | None = result(
        "USD", "Saves to buy", "How much less there is to buy with Ethernet, for a tight budget."
    )
    dearer_allowed: float | None = result(
        "1",
        "InfiniBand may rise by",
        "How much more the InfiniBand network may cost until both runs cost the same; negative: how much less it must.",
        share=True,
    )


class OwnedRun(NamedTuple):
    """A cluster that is owned, and how long the run takes on it, typically [s]."""

    owned: Ownership
    time: float

    @property
    def typical(self) -> Run:
        """What the run typically costs."""
        return Run(self.owned.cluster.scale_out, self.time, self.owned.typical_run(self.time))


class Pair(NamedTuple):
    """The run on InfiniBand and on Ethernet."""

    infiniband: OwnedRun
    ethernet: OwnedRun

    @property
    def slower(self) -> float:
        """How much longer the run takes on Ethernet [1]."""
        return self.ethernet.time / self.infiniband.time - 1


def keys(scenario: Scenario, catalog: Catalog) -> tuple[str, str] | None:
    """The generations of InfiniBand and of Ethernet: the planned one, and the other family's nearest."""
    planned = catalog.scale_out[scenario.scale_out]
    rival = counterpart(planned, catalog)
    if rival is None:
        return None
    return (planned.key, rival.key) if planned.family == "infiniband" else (rival.key, planned.key)


@lru_cache(maxsize=16)
def pair(scenario: Scenario, catalog: Catalog) -> Pair | None:
    """Both networks planned in full, each with its own parallelism; ``None`` where one of them does not run.

    Kept: the table of situations and the chart ask for the same two pairs, each of which takes two plans.
    """
    both = keys(scenario, catalog)
    runs = [_run(scenario, key, catalog) for key in both] if both else []
    infiniband, ethernet = runs if runs else (None, None)
    return Pair(infiniband, ethernet) if infiniband and ethernet else None


def _run(scenario: Scenario, key: str, catalog: Catalog) -> OwnedRun | None:
    """The run on one network."""
    variant = on_network(scenario, key)
    network = network_of(variant, catalog)
    if network.built is None or network.cluster.nodes < 2:
        return None
    time = job_on(network, variant, catalog).training.time_to_train.values
    owned = ownership(network, network.prices)
    positive = typical_of(time) > 0 and typical_of(owned.per_run(time)) > 0
    return OwnedRun(owned, typical_of(time)) if positive else None


# By situation --------------------------------------------------------------------------------------------------------


def weighed(scenario: Scenario, catalog: Catalog) -> tuple[Weighed, ...]:
    """The two networks as planned, run by people who do not tune Ethernet, and at other sizes."""
    both = keys(scenario, catalog)
    if both is None:
        return ()
    return tuple(_weighed(name, variant, both, catalog) for name, variant in _situations(scenario, both[1], catalog))


def _situations(scenario: Scenario, ethernet: str, catalog: Catalog) -> Iterator[tuple[str, Scenario]]:
    """What the articles weigh: as planned; nobody to tune it; either side of their limits of size; the cluster grown.

    At another size the batch is that size's own.
    """
    yield "own", scenario
    if untuned := _untuned(scenario, ethernet, catalog):
        yield "untuned", untuned
    limits = catalog.operations["rule_of_thumb"]
    few, many = (int(limits[name].typical) for name in ("either_below", "infiniband_above"))
    for name, gpus in (("small", few // 2), ("large", 2 * many), ("grown", 4 * scenario.gpus)):
        if gpus != scenario.gpus and gpus <= LARGEST:
            yield name, scenario.model_copy(update={"gpus": gpus, "global_batch": None})


def _weighed(situation: str, scenario: Scenario, both: tuple[str, str], catalog: Catalog) -> Weighed:
    unknown = Weighed(
        situation=situation,
        gpus=scenario.gpus,
        infiniband=both[0],
        ethernet=both[1],
        better="",
        advice=advised(scenario.gpus, catalog),
        slower=None,
        slower_allowed=None,
        cheaper=None,
        saved=None,
        dearer_allowed=None,
    )
    runs = pair(scenario, catalog)
    if runs is None:
        return unknown
    first, second = runs
    typically = first.typical, second.typical
    dearer = typically[1].cost.whole / typically[0].cost.whole - 1
    turns = turning_points(*typically)
    return replace(
        unknown,
        better="either" if abs(dearer) < TIE else "ethernet" if dearer < 0 else "infiniband",
        slower=runs.slower,
        slower_allowed=turns["slower_allowed"],
        cheaper=-dearer,
        saved=typical_of(first.owned.capital.values) - typical_of(second.owned.capital.values),
        dearer_allowed=turns["dearer_allowed"],
    )


# Where the answer turns ----------------------------------------------------------------------------------------------


def break_even(scenario: Scenario, catalog: Catalog) -> Curve | None:
    """What InfiniBand's network may cost, over its price, against how much longer the run takes on Ethernet.

    On the line both runs cost the same; above it Ethernet is the cheaper one. ``None`` where one of them does not run.
    """
    runs = pair(scenario, catalog)
    if runs is None or not typical_of(runs.infiniband.owned.network_per_run(runs.infiniband.time)) > 0:
        return None
    names = [short(run.owned.cluster.scale_out.key) for run in runs]
    turns = turning_points(runs.infiniband.typical, runs.ethernet.typical)
    even = float(turns["slower_allowed"])
    untuned = _slower_untuned(scenario, runs.ethernet.owned.cluster.scale_out.key, catalog)
    ends = [0.0, even, runs.slower, *([untuned] if untuned is not None else [])]
    room = max(0.25 * (max(ends) - min(ends)), 0.01)
    x = np.unique([*np.linspace(min(ends) - room, max(ends) + room, 25), even, runs.slower])
    price = np.stack([_price_allowed(runs, float(slower)) for slower in x])
    shown = price[:, 0] > 0
    low, high = interval(price[shown])
    line = Series("both runs cost the same", "quickest", x[shown], price[shown, 0], low, high, strong=True)
    return Curve(
        key="which-network",
        title=_title(names, even, turns["dearer_allowed"]),
        subtitle=f"Price at which both runs cost the same; above the line {names[1]} is cheaper, below it {names[0]}",
        x_name=f"Longer run on {names[1]}",
        x_unit="%",
        y_name=f"Price of {names[0]}'s network over today's",
        y_unit="1",
        x_logarithmic=False,
        y_logarithmic=False,
        series=(line,),
        plan_point=(runs.slower, 1.0),
        marks=(Mark(untuned, f"{names[1]} untuned"),) if untuned is not None else (),
    )


def _untuned(scenario: Scenario, ethernet: str, catalog: Catalog) -> Scenario | None:
    """The same with nobody to tune Ethernet; ``None`` where there is nothing to tune, or nobody tunes it."""
    if not scenario.tuned or catalog.scale_out[ethernet].family != "roce":
        return None
    return scenario.model_copy(update={"tuned": False})


def _slower_untuned(scenario: Scenario, ethernet: str, catalog: Catalog) -> float | None:
    """How much longer the run takes on Ethernet that nobody tunes [1]."""
    untuned = _untuned(scenario, ethernet, catalog)
    runs = pair(untuned, catalog) if untuned else None
    return runs.slower if runs else None


def _price_allowed(runs: Pair, slower: float) -> Floats:
    """Price of InfiniBand's network, over its own, at which both runs cost the same where Ethernet's is so much longer.

    All draws of prices; the times are typical.
    """
    first, second = runs
    cost, part = first.owned.per_run(first.time), first.owned.network_per_run(first.time)
    other = second.owned.per_run(first.time * (1 + slower))
    return np.asarray(1 + costs.slack_in_price(cost, other, part))


def _title(names: list[str], slower: float, dearer: float) -> str:
    pace = f"{percent(abs(slower), 1)} {'longer' if slower > 0 else 'less'}"
    return f"The answer turns where {names[1]} takes {pace}, or {names[0]}'s network costs {price_change(dearer)}."
