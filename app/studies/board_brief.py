"""What a board asks of a plan: where its money goes, how likely it keeps its limits, what else was considered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, Field

from app.catalog.load import Catalog
from app.catalog.names import listed
from app.plan.band import Band
from app.plan.cluster import counterpart
from app.plan.evaluate import evaluate
from app.plan.long_parts import SOURCES, STORAGE
from app.plan.result import Plan
from app.plan.scenario import MOST_GPUS, Scenario, another_network
from app.studies.front import ALIKE
from app.studies.odds import chance
from app.studies.sensitivity import sensitivity
from app.studies.stages import stages
from app.units import Dollars, Seconds, parse, percent, show

RISKS = 3


class BriefQuestion(Scenario):
    """A plan and the limits it is held against."""

    model_config = ConfigDict(defer_build=True)

    workload: Literal["training"] = Field(
        "training", title="Workload", description="The brief is of a run.", json_schema_extra={"group": "serving"}
    )
    deadline: Seconds | None = Field(
        None, gt=0, le=1e10, title="Deadline", description="Such as 120 days.", json_schema_extra={"group": "limits"}
    )
    budget: Dollars | None = Field(
        None,
        gt=0,
        le=1e13,
        title="Budget",
        description="For capital, such as $60M.",
        json_schema_extra={"group": "limits"},
    )
    annex: bool = Field(
        False,
        title="Annex",
        description="Whether the sections of the plan follow on sheets of their own.",
        json_schema_extra={"group": "limits"},
    )

    def scenario(self) -> Scenario:
        """The plan without its limits."""
        return self.part(Scenario)


@dataclass(frozen=True)
class Line:
    """A part of capital: how many of what, the price of one, and what that makes, typical."""

    name: str
    quantity: float
    unit: str
    each: float
    cost: Band


@dataclass(frozen=True)
class Alternative:
    """Another plan for the same job, and what speaks for and against it."""

    name: str
    query: str
    time: Band | None
    capital: Band | None
    why: str


@dataclass(frozen=True)
class Risk:
    """What moves the cost of the run most, and what settles it."""

    name: str
    low: float
    high: float
    settled: str


@dataclass(frozen=True)
class Brief:
    """The pages of a board; chances are ``None`` where no limit was given or nothing is known."""

    plan: Plan
    lines: tuple[Line, ...]
    time_chance: float | None
    calendar_chance: float | None
    money_chance: float | None
    alternatives: tuple[Alternative, ...]
    risks: tuple[Risk, ...]


def brief(question: BriefQuestion, catalog: Catalog) -> Brief:
    """The brief of one plan."""
    scenario = question.scenario()
    plan, drawn = evaluate(scenario, catalog, ("bill_of_materials", STORAGE, SOURCES)), stages(scenario, catalog)
    return Brief(
        plan=plan,
        lines=tuple(capital_lines(plan)),
        time_chance=chance(drawn.training.time_to_train, question.deadline),
        calendar_chance=chance(drawn.training.campaign_time, question.deadline),
        money_chance=chance(drawn.costs.capital, question.budget),
        alternatives=tuple(_alternatives(scenario, plan, catalog)),
        risks=tuple(_risks(scenario, plan, catalog)),
    )


def capital_lines(plan: Plan) -> Iterator[Line]:
    """Capital by part, each as a quantity and the price of one."""
    power = plan.cluster.power
    bought = sum(line.quantity for line in plan.cluster.bill_of_materials if line.role == "node")
    counted = {
        "nodes": (float(bought), "servers"),
        "spare nodes": (float(plan.cluster.spare_nodes), "servers"),
        "fabric": (float(plan.fabric.host_ports or 0), "host ports, with switches, modules and cables"),
        "infrastructure": (power.typical / parse("1 kW", "W") if power else 0.0, "kW of IT power"),
        "storage": (1.0, "system"),
    }
    for part in plan.costs.capital_parts:
        if part.cost is not None and part.cost.typical > 0:
            quantity, unit = counted.get(part.name, (1.0, "network"))
            quantity = quantity or 1.0
            yield Line(part.name, quantity, unit, part.cost.typical / quantity, part.cost)


def not_included(plan: Plan) -> str:
    """What the capital of a plan holds nothing of, as the end of a sentence."""
    bought = {part.name for part in plan.costs.capital_parts}
    storage = [] if "storage" in bought else ["storage servers"]
    planned = {network.role for network in plan.fabric.networks}
    missing = [kind for kind in ("storage", "management") if not any(role.endswith(kind) for role in planned)]
    plural = "s" if "management" in missing else ""
    networks = [f"the {listed(missing)} network{plural}"] if missing else []
    return "; ".join([*storage, "staff and software licences", "tax, freight and financing", *networks])


def _alternatives(scenario: Scenario, plan: Plan, catalog: Catalog) -> Iterator[Alternative]:
    """The network of the other family, and a cluster of twice or half the size."""
    rival = counterpart(catalog.scale_out[scenario.scale_out], catalog)
    changes: list[tuple[str, dict[str, object]]] = []
    if rival is not None:
        changes.append((rival.name, another_network(rival.key)))
    size = scenario.gpus * 2 if scenario.gpus * 2 <= MOST_GPUS else scenario.gpus // 2
    changes.append((f"{size:,} GPUs", {"gpus": size}))
    for name, change in changes:
        other_scenario = scenario.model_copy(update=change)
        other = evaluate(other_scenario, catalog, (SOURCES,))
        time, capital = other.training.time_to_train, other.costs.capital
        yield Alternative(name, other_scenario.query(), time, capital, _why(plan, other))


def _why(plan: Plan, other: Plan) -> str:
    """How another plan differs from this one in time and money."""
    time, money = plan.training.time_to_train, plan.costs.capital
    its_time, its_money = other.training.time_to_train, other.costs.capital
    if time is None or its_time is None:
        return "It cannot run the job as asked." if its_time is None else "The plan itself cannot run the job as asked."
    if money is None or its_money is None:
        return "Nobody publishes the price of one of its parts."
    longer, dearer = its_time.typical / time.typical - 1, its_money.typical - money.typical
    pace = (
        "takes as long"
        if abs(longer) < ALIKE
        else f"takes {percent(abs(longer))} {'longer' if longer > 0 else 'less time'}"
    )
    price = f"costs {show(abs(dearer), 'USD')} {'more' if dearer > 0 else 'less'} to buy"
    inside = abs(dearer) < (money.high - money.low) / 2
    doubt = ", a difference smaller than the uncertainty of prices" if inside else ""
    return f"It {pace} and {price}{doubt}."


def _risks(scenario: Scenario, plan: Plan, catalog: Catalog) -> Iterator[Risk]:
    """The inputs that move the cost of the run most."""
    if plan.training.parallelism is None:
        return
    for swing in sensitivity(scenario, catalog, plan.training.parallelism).swings[:RISKS]:
        quoted = swing.look == "money"
        settled = "Quotes and contracts settle it." if quoted else "A trial run on a few nodes settles it."
        yield Risk(swing.name, swing.low, swing.high, settled)
