"""What must hold of every plan that somebody decides by: ranges in order, nothing cheaper for being more, true links.

A law takes the fields of a random question, and raises `AssertionError` where its plan breaks it. The everyday tests
hold a few plans to each, `make fuzz` thousands.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from math import isfinite, isnan
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from hypothesis import strategies as st
from pydantic import ValidationError

from app.catalog.load import Catalog, load_catalog
from app.plan.band import Band
from app.plan.evaluate import evaluate
from app.plan.network import network_of
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.plan.total_cost import cluster_of, ownership
from app.studies.comparison import compare
from app.studies.sizing import Question, size
from app.studies.sweep import RESULTS, Grid, sweep
from tests.laws import Asked, Law, NoPlanError

CATALOG = load_catalog()
TYPICAL = CATALOG.typical_only()
NEAR = 1e-9
"""Rounding."""

SIZES = (
    1,
    2,
    4,
    8,
    12,
    16,
    24,
    32,
    64,
    72,
    100,
    128,
    144,
    256,
    500,
    512,
    576,
    1000,
    1016,
    1024,
    1152,
    2048,
    4096,
    8192,
)
OTHERS: dict[str, tuple[Any, ...]] = {
    "precision": ("bf16", "fp8", "nvfp4"),
    "topology": ("fat-tree", "rail-only", "mesh", "torus-2d", "torus-3d", "dragonfly"),
    "oversubscription": (1.5, 2, 3, 4, 8),
    "spine_oversubscription": (2, 4),
    "spine_policy": ("rail",),
    "tiers": (2, 3),
    "planes": (2, 4),
    "nodes_per_unit": (4, 16, 32),
    "management_links": (4,),
    "storage_network": (True,),
    "management_network": (True,),
    "nics_per_node": (1, 2, 4, 16),
    "gpus_per_node": (1, 2, 4),
    "scale_up_domain": (4, 8, 72),
    "load_balancing": ("hashing", "adaptive"),
    "placement": ("scattered",),
    "gpudirect": (False,),
    "tuned": (False,),
    "in_network_reduction": (True,),
    "jitter": (0, 0.1),
    "slow_node": (0.2,),
    "message": (1e4, 1e9),
    "profile": ("ideal",),
    "sequence_length": (2048, 32768),
    "global_batch": (256, 1000, 2048),
    "sharding": ("none", "optimizer", "parameters"),
    "recompute": ("none", "full"),
    "tensor_parallel": (1, 2, 8),
    "pipeline_parallel": (1, 4),
    "stack": ("megatron-lm", "fsdp", "nemo"),
    "routing": ("balanced",),
    "price_book": ("rule-of-thumb",),
    "price_node": (250_000,),
    "price_gpu_hour": (0.0008,),
    "region": ("germany",),
    "rack_power": (40e3, 130e3),
    "site_power": (1e5, 2e6),
    "failure_rate": (0,),
    "availability": (0.9,),
    "training_tokens": (1e9, 3e13),
    "spare_nodes": (1, 8),
    "storage_capacity": (1e12, 1e16),
}


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    """Fields of a valid scenario: hardware and model at random, and a few of the others."""
    asked = {
        "gpu": draw(st.sampled_from(sorted(CATALOG.gpus))),
        "gpus": draw(st.sampled_from(SIZES)),
        "scale_out": draw(st.sampled_from(sorted(CATALOG.scale_out))),
        "model": draw(st.sampled_from([*sorted(CATALOG.models), "1B", "100B", "2T"])),
    }
    for name in draw(st.lists(st.sampled_from(sorted(OTHERS)), max_size=4, unique=True)):
        asked[name] = draw(st.sampled_from(OTHERS[name]))
    return asked


def scenario_of(asked: Asked) -> Scenario:
    """A question, checked."""
    try:
        return Scenario.model_validate(dict(asked), context={"catalog": CATALOG})
    except ValidationError as error:
        raise NoPlanError from error


def plan_of(asked: Asked, catalog: Catalog = TYPICAL) -> Plan:
    """The plan of a question, by typical values alone unless a catalogue with ranges is given."""
    return _plan_of(scenario_of(asked), catalog)


@lru_cache(maxsize=8)
def _plan_of(scenario: Scenario, catalog: Catalog) -> Plan:
    return evaluate(scenario, catalog)


def opened(link: str, catalog: Catalog = TYPICAL) -> Plan:
    """The plan that a link opens."""
    return plan_of(dict(parse_qsl(link.partition("?")[2] or link)), catalog)


def numbers(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every band and every plain number of a plan, whatever it stands in."""
    if isinstance(part, Band | int | float):
        yield path, part
    elif is_dataclass(part) and not isinstance(part, type):
        for entry in fields(part):
            yield from numbers(getattr(part, entry.name), f"{path}.{entry.name}")
    elif isinstance(part, Mapping):
        for name, value in part.items():
            yield from numbers(value, f"{path}.{name}")
    elif isinstance(part, tuple | list):
        for place, value in enumerate(part):
            yield from numbers(value, f"{path}[{place}]")


def ranges_are_in_order(asked: Asked) -> None:
    """Low, typical and high in this order, finite; no number is none."""
    for name, value in numbers(plan_of(asked, CATALOG)):
        if isinstance(value, Band):
            assert value.low <= value.typical <= value.high, f"{name}: {value.low} {value.typical} {value.high}"
            assert isfinite(value.low), f"{name}: from {value.low}"
            assert isfinite(value.high), f"{name}: to {value.high}"
        else:
            assert not isnan(value), f"{name} is no number"


def bought(asked: Asked) -> Mapping[str, float]:
    """What more of anything never makes less: what is bought and drawn, typically."""
    return _bought(scenario_of(asked))


@lru_cache(maxsize=8)
def _bought(scenario: Scenario) -> Mapping[str, float]:
    network = network_of(scenario, TYPICAL)
    owned = ownership(network, network.prices)
    ports, drawn, _ = network.for_spares
    fabric, power = float((network.cost + ports)[0]), float((network.power + drawn)[0])
    cluster = cluster_of(owned)
    found = {
        "nodes": cluster.nodes,
        "bought nodes": network.cluster.standing_nodes,
        "racks": cluster.racks,
        "power": cluster.power.typical,
        "typical power": cluster.typical_power.typical,
        "fabric": fabric,
        "fabric in place": fabric + owned.rates.infrastructure.typical * power,
        "capital": owned.capital.typical,
        "a year": float(np.ravel(owned.operating)[0]),
        "total": float(np.ravel(owned.total)[0]),
    }
    return {name: value for name, value in found.items() if not isnan(value)} if not network.unbuildable else {}


def never_less(asked: Asked, fewer: Asked, more: Asked, *names: str, slack: float = NEAR) -> None:
    """What is bought for one plan, or some of it, is no more than for another that asks for more, but for a share."""
    small, large = bought({**asked, **fewer}), bought({**asked, **more})
    for name in names or small.keys() & large.keys():
        if name not in small or name not in large:
            continue
        said = f"{name}: {small[name]:,.10g} with {dict(fewer)}, {large[name]:,.10g} with {dict(more)}"
        assert large[name] >= small[name] * (1 - slack), said


SPENT = ("nodes", "bought nodes", "fabric in place", "capital")
"""What switches are chosen by, and what follows it."""
DRAWN = ("power", "typical power")
TRADED_TOTAL, TRADED_YEAR, TRADED_POWER = 0.001, 0.01, 0.02
"""Share by which cheaper switches may cost more in a life and in a year, as their usual power does not choose them, and
draw more than dearer ones of a larger cluster or a narrower taper."""


def with_switches_of_its_own(asked: Asked, fewer: Asked, more: Asked) -> None:
    """What never falls where each of two plans has the switches that are cheapest for it."""
    never_less(asked, fewer, more, *SPENT)
    small, large = bought({**asked, **fewer}), bought({**asked, **more})
    grown = large.get("bought nodes", 0) > small.get("bought nodes", 0)
    never_less(asked, fewer, more, "total", slack=NEAR if grown else TRADED_TOTAL)
    never_less(asked, fewer, more, "a year", slack=TRADED_YEAR)
    never_less(asked, fewer, more, *DRAWN, slack=TRADED_POWER)


def of_the_same_switches(asked: Asked) -> Asked:
    """The switches that a plan is built of, as fields that name them; nobody names those of storage and management."""
    built = network_of(scenario_of(asked), TYPICAL).built
    named = {"switch": built.choice.leaf.key, "spine_switch": built.choice.spine.key} if built else {}
    return named | {"storage_network": False, "management_network": False}


def more_gpus_cost_no_less(asked: Asked) -> None:
    """A node or rack more, and twice as many GPUs, cost no less, and with the same switches draw and take no less.

    With switches of its own the larger cluster may stand in fewer racks of switches. Parts alone may cost less where
    copper reaches from smaller units and more switches draw more: 1,028 GH200 in pairs on NDR200, 6 % and 17 kW.
    """
    platform = CATALOG.platforms[CATALOG.gpus[asked["gpu"]].platform]
    unit = max(platform.gpus_per_node, platform.scale_up_domain)
    switches = of_the_same_switches(asked)
    for more in (asked["gpus"] + unit, 2 * asked["gpus"]):
        with_switches_of_its_own(asked, {"gpus": asked["gpus"]}, {"gpus": more})
        never_less({**asked, **switches}, {"gpus": asked["gpus"]}, {"gpus": more}, *SPENT, *DRAWN, "total", "racks")


def a_wider_taper_costs_no_more(asked: Asked) -> None:
    """Fewer uplinks cost no more, and of the same switches take no more room; what costs less may draw a little more.

    So may the same switches: four of them more for fewer links, where the most that one draws has its modules in it.
    """
    switches = of_the_same_switches(asked)
    for name in ("oversubscription", "spine_oversubscription"):
        own = asked.get(name, 1)
        for wider in (1.25 * own, 2 * own):
            never_less(asked, {name: wider}, {name: own}, "fabric in place", "capital")
            same = {**asked, **switches}
            never_less(same, {name: wider}, {name: own}, *SPENT, "racks")
            never_less(same, {name: wider}, {name: own}, *DRAWN, slack=TRADED_POWER)


SAME = (".cluster", ".fabric", ".all_reduce", ".training.step_time", ".training.time_to_train", ".training.mfu",
        ".training.tokens_per_second", ".training.parts", ".memory", ".storage", ".bottleneck", ".costs")  # fmt: skip
"""What a question that was asked again answers again; a search whose outcome is given is no search any more."""


def same(one: Plan, other: Plan, where: str, parts: tuple[str, ...] = ("",)) -> None:
    """Two plans have the same numbers."""
    before, after = ({name: value for name, value in numbers(plan) if name.startswith(parts)} for plan in (one, other))
    assert before.keys() == after.keys(), f"{where}: {sorted(before.keys() ^ after.keys())[:3]} in one alone"
    for name, value in before.items():
        mine, theirs = (
            (each.low, each.typical, each.high) if isinstance(each, Band) else (each,) for each in (value, after[name])
        )
        pairs = zip(mine, theirs, strict=True)
        near = all(a == b or abs(a - b) <= 1e-6 * max(abs(a), abs(b)) + 1e-15 for a, b in pairs)
        assert near, f"{where}: {name} {mine} became {theirs}"


def a_link_opens_the_same_plan(asked: Asked) -> None:
    """The permalink of a plan, alone and in a comparison, and its scenario asked again, are the same plan."""
    plan = plan_of(asked, CATALOG)
    same(plan, opened(plan.permalink, CATALOG), "permalink")
    plan = plan_of(asked)
    again = {name: value for name, value in plan.scenario.items() if value is not None}
    same(plan, plan_of(again), "scenario asked again", SAME)


def typical(plan: Plan, name: str) -> Any:
    """A figure of a plan by its name, typically; nothing where it has none of that name."""
    part: Any = plan
    for step in name.split("."):
        part = part.get(step) if isinstance(part, Mapping) else getattr(part, step, None)
    return part.typical if isinstance(part, Band) else part


def a_comparison_shows_what_its_links_open(asked: Asked) -> None:
    """A figure of a comparison is that of the plan behind its link, and a change is that of two figures."""
    found = compare([scenario_of(asked), scenario_of({**asked, "gpus": 2 * asked["gpus"]})], TYPICAL)
    plan = opened(found.plans[1].permalink)
    for row in found.differences:
        first, second = (each.typical if isinstance(each, Band) else each for each in row.values)
        behind = typical(plan, row.field)
        if isinstance(behind, int | float) and isinstance(second, int | float):
            assert abs(second - behind) <= NEAR * abs(behind), f"{row.field}: {second}, opened {behind}"
        if row.changes[1] is not None:
            assert abs(first * (1 + row.changes[1]) - second) <= 1e-6 * abs(second) + 1e-12, row.field


def advice_does_what_it_says(asked: Asked) -> None:
    """What a finding says to change makes it go away, and gains what it says."""
    plan = plan_of(asked)
    for finding in plan.findings:
        if not finding.changes:
            continue
        after = plan_of({**asked, **finding.changes})
        codes = {each.code for each in after.findings}
        assert finding.code not in codes, f"{finding.code} stays with {dict(finding.changes)}: {finding.message}"
        advised = finding.code.startswith(("batch-fits-badly", "tensor-parallel-"))
        if advised or finding.code in ("other-count-fits", "fewer-gpus-are-quicker"):
            gain = _gain(finding.suggestion if advised else finding.message)
            paces = [each.training.tokens_per_second for each in (plan, after)]
            counts = [each.cluster.gpus if finding.code == "other-count-fits" else 1 for each in (plan, after)]
            if gain is not None and all(paces):
                real = paces[1].typical / counts[1] / (paces[0].typical / counts[0]) - 1
                near = abs(real - gain) < 0.03 * (1 + gain)
                assert near, f"{finding.code}: gains {real:.3f}, not {gain}: {finding.message}"


def _gain(text: str) -> float | None:
    """The share that a sentence promises more.

    >>> _gain("With 2,080 the same GPUs train 65\u202f% more tokens a second.")
    0.65
    """
    words = text.replace(",", "").replace("\u202f%", "%").split()
    found = [float(word[:-1]) / 100 for word in words if word.endswith("%")]
    return found[0] if found else None


RIVAL = 0.01
"""How far the run on the other network may be from its plan: of the quickest ways on the planned network the best is
taken."""


def the_rival_is_what_it_was_said_to_be(asked: Asked) -> None:
    """Opened as the page links to it, with the plan's batch, the network that the plan was held against takes and costs
    what was said.
    """
    plan = plan_of(asked)
    said = plan.recommendation
    if said is None or plan.training.time_to_train is None or plan.costs.per_run is None:
        return
    blank = ("switch", "spine_switch", "tiers", "nodes_per_unit", "load_balancing")
    changed = {"scale_out": said.rival, "global_batch": plan.scenario["global_batch"]}
    other = plan_of({name: value for name, value in asked.items() if name not in blank} | changed)
    if other.training.time_to_train is None or other.costs.per_run is None:
        raise AssertionError(f"{said.rival} has no plan, but was said to be {said.slower:.3f} slower")
    slower = other.training.time_to_train.typical / plan.training.time_to_train.typical - 1
    dearer = other.costs.per_run.typical / plan.costs.per_run.typical - 1
    assert abs(slower - said.slower) < RIVAL, f"{said.rival}: {slower:.4f} slower, not {said.slower:.4f}"
    assert abs(dearer - said.dearer) < RIVAL, f"{said.rival}: {dearer:.4f} dearer, not {said.dearer:.4f}"


def what_sizing_names_is_its_plan(asked: Asked) -> None:
    """Every cluster that sizing names has, opened, the time, cost and power that were said."""
    few = {name: value for name, value in asked.items() if name not in ("gpus", "scale_out", "switch")}
    try:
        question = Question.model_validate(
            few | {"gpu": (asked["gpu"],), "scale_out": (asked["scale_out"],), "gpus": min(asked["gpus"], 32)}
        )
    except ValidationError as error:
        raise NoPlanError from error
    answer = size(question, CATALOG, seconds=60)
    named = [
        one for one in (answer.cheapest, answer.fastest, answer.best_value, *answer.ties, *answer.front[:2]) if one
    ]
    for one in dict.fromkeys(named):
        plan = opened(one.query)
        found = {
            "time_to_train": plan.training.time_to_train,
            "capital": plan.costs.capital,
            "rental": plan.costs.rental,
            "run": plan.costs.per_run,
            "power": plan.cluster.power,
        }
        for name, band in found.items():
            promised = getattr(one, name)
            if band is None:
                assert isnan(promised), f"{name} of {one.gpus}: {promised}, opened nothing"
            else:
                off = abs(promised / band.typical - 1) if band.typical else abs(promised)
                assert off < 1e-6, f"{name} of {one.gpus}: {promised}, opened {band.typical}"


def a_row_of_a_sweep_is_its_plan(asked: Asked) -> None:
    """A row among those that have more GPUs, other prices, or are as usual otherwise has the figures of its plan alone.

    Held as it is asked, where the parallelism is searched, and where all of it is given.
    """
    given = GIVEN | {"global_batch": 2 * asked["gpus"]}
    for question in (dict(asked), given | dict(asked)):
        varied: dict[str, list[Any]] = {"electricity": [2e-8, 3e-8], "gpus": [2 * asked["gpus"], asked["gpus"]]}
        for name in [name for name in asked if name in OTHERS][:2]:
            varied[name] = [Scenario.model_fields[name].default, asked[name]]
        varied["micro_batch"] = [2, 1] if "micro_batch" in question else [None]
        own = {name: values[-1] for name, values in varied.items()}
        base = {name: value for name, value in question.items() if name not in own}
        *_, row = sweep(Grid(base=base, grid=varied), CATALOG)
        assert {name: row[name] for name in own} == own
        plan = plan_of({**base, **own})
        for name in RESULTS:
            alone, found = typical(plan, name), row[name]
            if alone is None or found is None:
                assert alone is found, f"{name}: {found} in the row, {alone} alone, of {own}"
            else:
                assert abs(found - alone) <= NEAR * abs(alone), f"{name}: {found} in the row, {alone} alone, of {own}"
        errors = {finding.message for finding in plan.findings if finding.severity == "error"}
        of_message = {f.message for f in plan.findings if "algorithm" in f.fields}
        assert row["error"] in errors or not errors - of_message, f"{row['error']!r} in the row, {errors} alone"


GIVEN: Asked = {
    "tensor_parallel": 1, "pipeline_parallel": 1, "virtual_pipeline": 1, "context_parallel": 1, "expert_parallel": 1,
    "micro_batch": 1, "sequence_parallel": True, "sharding": "optimizer", "recompute": "none",
}  # fmt: skip
"""A parallelism that divides."""


LAWS: tuple[Law, ...] = (
    ranges_are_in_order,
    more_gpus_cost_no_less,
    a_wider_taper_costs_no_more,
    a_link_opens_the_same_plan,
    a_comparison_shows_what_its_links_open,
    advice_does_what_it_says,
    the_rival_is_what_it_was_said_to_be,
    what_sizing_names_is_its_plan,
    a_row_of_a_sweep_is_its_plan,
)
