"""Whole published clusters and runs held against plans: counts, racks, power, dollars, steps and GPU hours.

An entry of the file asks one question: a preset of the catalogue, a scenario, or the columns of a published run, whose
blanks are filled as those of the measured steps are. Its figures are what sources print of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import tomli
from pydantic import BaseModel, ConfigDict

from app import units
from app.catalog.entries import Source
from app.catalog.load import Catalog
from app.formulas import costs
from app.plan import result
from app.plan.band import Draws, interval, nan_is_an_answer
from app.plan.job.job import Job, job_on
from app.plan.network import Network, fabric_of, network_of
from app.plan.scenario import SHAPE, Scenario
from app.plan.total_cost import Ownership, cluster_of, ownership
from app.validation import training_rows
from app.validation.statistics import statistics, table

CLUSTERS = Path(__file__).parent / "measurements" / "clusters.toml"
HOUR = units.parse("1 h", "s")
Kind = Literal["counts", "racks", "power", "dollars", "step", "GPU hours"]
Said = Draws | float | None


@dataclass(frozen=True)
class Answer:
    """What the planner says of one scenario, stage by stage."""

    scenario: Scenario
    catalog: Catalog

    @cached_property
    def network(self) -> Network:
        """The cluster and its network."""
        return network_of(self.scenario, self.catalog)

    @cached_property
    def owned(self) -> Ownership:
        """What they cost."""
        return ownership(self.network, self.network.prices)

    @cached_property
    def cluster(self) -> result.Cluster[Draws]:
        """Nodes, racks and power."""
        return cluster_of(self.owned)

    @cached_property
    def fabric(self) -> result.Fabric[Draws]:
        """Switches and links."""
        return fabric_of(self.network, self.owned.capital)

    @cached_property
    def job(self) -> Job:
        """The training job."""
        return job_on(self.network, self.scenario, self.catalog)

    @property
    def training(self) -> result.Training[Draws]:
        """Its step and its run."""
        return self.job.training


def _scaled(draws: Draws, factor: float) -> Draws:
    return draws._replace(values=draws.values * factor)


def _switches(answer: Answer) -> float:
    fabric = answer.fabric
    return sum(filter(None, (fabric.leaf_switches, fabric.spine_switches, fabric.core_switches)))


def _links(name: str) -> Callable[[Answer], Said]:
    def count(answer: Answer) -> Said:
        return getattr(answer.fabric.links, name) if answer.fabric.links else None

    return count


def _equipment(answer: Answer) -> Draws:
    return Draws(np.asarray(answer.owned.equipment), used=answer.owned.capital.used)


def _fabric_per_endpoint(answer: Answer) -> Draws:
    """Switches, modules and cables for each NIC port, without the NICs [USD]."""
    network = answer.network
    bare = sum(
        (line.cost.values for line in answer.fabric.bill_of_materials if line.role != "NIC"),
        np.zeros_like(network.cost),
    )
    return Draws(np.asarray(costs.per(bare, float(answer.fabric.host_ports or 0))), used=network.used)


def _site_power(answer: Answer) -> Draws:
    pue = answer.owned.rates.pue
    drawn = costs.facility_power(answer.owned.typical_power, pue.draws())
    return Draws(np.asarray(drawn), used=(pue, *answer.owned.power_sources))


def _rate(answer: Answer) -> Draws:
    return _scaled(answer.training.tokens_per_second, 1 / answer.network.cluster.gpus)


def _gpu_hours(time: Callable[[result.Training[Draws]], Draws]) -> Callable[[Answer], Said]:
    return lambda answer: _scaled(time(answer.training), answer.network.cluster.gpus / HOUR)


def _steps_alone(training: result.Training[Draws]) -> Draws:
    """Time of all steps, also of a run that the planner would refuse [s]."""
    return _scaled(training.step_time, training.steps)


def _campaign(training: result.Training[Draws]) -> Draws:
    return training.campaign_time


class Quantity(NamedTuple):
    """Something that sources print of a cluster or a run."""

    title: str
    unit: str
    kind: Kind
    of: Callable[[Answer], Said]


QUANTITIES: Mapping[str, Quantity] = {
    "nodes": Quantity("Nodes", "1", "counts", lambda answer: answer.cluster.nodes),
    "leaf_switches": Quantity("Leaf switches", "1", "counts", lambda answer: answer.fabric.leaf_switches),
    "spine_switches": Quantity("Spine switches", "1", "counts", lambda answer: answer.fabric.spine_switches),
    "core_switches": Quantity("Core switches", "1", "counts", lambda answer: answer.fabric.core_switches),
    "switches": Quantity("Switches", "1", "counts", _switches),
    "node_leaf_links": Quantity("Node–leaf links", "1", "counts", _links("node_leaf")),
    "leaf_spine_links": Quantity("Leaf–spine links", "1", "counts", _links("leaf_spine")),
    "racks": Quantity("Racks", "1", "racks", lambda answer: answer.cluster.racks),
    "compute_racks": Quantity("Racks of nodes", "1", "racks", lambda answer: answer.cluster.compute_racks),
    "power": Quantity("Power, provisioned", "W", "power", lambda answer: answer.cluster.power),
    "typical_power": Quantity("Power under load", "W", "power", lambda answer: answer.cluster.typical_power),
    "site_power": Quantity("Power of the site", "W", "power", _site_power),
    "equipment": Quantity("Nodes and networks", "USD", "dollars", _equipment),
    "capital": Quantity("Capital with the building", "USD", "dollars", lambda answer: answer.owned.capital),
    "fabric_per_endpoint": Quantity("Network per endpoint, without NICs", "USD", "dollars", _fabric_per_endpoint),
    "step_time": Quantity("Step time", "s", "step", lambda answer: answer.training.step_time),
    "step_gpu_hours": Quantity("GPU hours of the steps alone", "1", "step", _gpu_hours(_steps_alone)),
    "mfu": Quantity("MFU", "1", "step", lambda answer: answer.training.mfu),
    "hfu": Quantity("HFU", "1", "step", lambda answer: answer.training.hfu),
    "token_rate": Quantity("Tokens per second and GPU", "1/s", "step", _rate),
    "gpu_hours": Quantity("GPU hours of the campaign", "1", "GPU hours", _gpu_hours(_campaign)),
}


class Figure(BaseModel):
    """What a source prints. ``recalled`` marks what was not read again: general knowledge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: str
    published: str
    source: str
    means: str = ""
    recalled: bool = False


class Entry(BaseModel):
    """A published cluster or run: its question in one of three ways, and the figures, or why there are none.

    ``recalled`` names settings of the question that were not read in a source: general knowledge.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    preset: str = ""
    scenario: Mapping[str, Any] = {}
    run: Mapping[str, str] = {}
    figures: tuple[Figure, ...] = ()
    recalled: tuple[str, ...] = ()
    note: str = ""

    @property
    def remarks(self) -> str:
        """The note, and what of the question is general knowledge."""
        settings = ", ".join(Scenario.model_fields[name].title or name for name in self.recalled)
        return " ".join(filter(None, (self.note, settings and f"Settings from memory: {settings}.")))

    def question(self, catalog: Catalog) -> Scenario:
        """The question to the planner."""
        if self.run:
            settings = vars(training_rows.scenario_of(_shape_columns(self.run, catalog) | dict(self.run), catalog))
            tokens = {"training_tokens": self.run["training_tokens"]} if "training_tokens" in self.run else {}
            return Scenario.model_validate(settings | tokens, context={"catalog": catalog})
        stated = catalog.presets[self.preset].scenario if self.preset else self.scenario
        return Scenario.model_validate(stated, context={"catalog": catalog})


def _shape_columns(run: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    """The shape of the catalogue's model that a run names; nothing where it names none."""
    model = catalog.models.get(run.get("model", ""))
    counts = {} if model is None else {name: getattr(model, name, None) for name in SHAPE}
    return {name: str(count) for name, count in counts.items() if count is not None and count is not True}


def read(path: Path, catalog: Catalog) -> tuple[Mapping[str, Entry], Mapping[str, Source]]:
    """The entries of a file by key, and the sources that they name: its own and the catalogue's."""
    tables = tomli.loads(path.read_text(encoding="utf-8"))
    file_sources = {key: Source.model_validate(table) for key, table in tables.pop("sources", {}).items()}
    entries = {key: Entry.model_validate(table) for key, table in tables.items()}
    sources = {**catalog.sources, **file_sources}
    for key, entry in entries.items():
        if unknown := set(entry.recalled) - (entry.run or entry.scenario).keys():
            raise ValueError(f"{key}: recalled settings that are not asked: {', '.join(sorted(unknown))}")
        for figure in entry.figures:
            if figure.of not in QUANTITIES:
                raise ValueError(f"{key}: no quantity {figure.of!r}; there are {', '.join(QUANTITIES)}")
            if figure.source not in sources:
                raise ValueError(f"{key}: no source {figure.source!r}")
    return entries, sources


@dataclass(frozen=True)
class Comparison:
    """One published figure beside ours; ``predicted`` is low, typical and high."""

    key: str
    entry: Entry
    figure: Figure
    published: float
    predicted: tuple[float, float, float]

    @property
    def quantity(self) -> Quantity:
        """What is compared."""
        return QUANTITIES[self.figure.of]

    @property
    def ratio(self) -> float:
        """Ours over the published."""
        return self.predicted[1] / self.published

    @property
    def inside(self) -> bool | None:
        """Whether the published figure is inside our range; ``None`` where we give none."""
        low, _, high = self.predicted
        return None if low == high or not np.isfinite(self.ratio) else low <= self.published <= high


@nan_is_an_answer
def compare(entries: Mapping[str, Entry], catalog: Catalog) -> list[Comparison]:
    """Every figure of every entry."""
    compared = []
    for key, entry in entries.items():
        answer = Answer(entry.question(catalog), catalog)
        for figure in entry.figures:
            quantity = QUANTITIES[figure.of]
            published = units.parse(figure.published, quantity.unit)
            compared.append(Comparison(key, entry, figure, published, _range(quantity.of(answer))))
    return compared


def _range(said: Said) -> tuple[float, float, float]:
    if not isinstance(said, Draws):
        count = float("nan") if said is None else float(said)
        return count, count, count
    low, high = interval(said.values, said.residual)
    return float(low), said.typical, float(high)


def summary(
    compared: Sequence[Comparison], entries: Mapping[str, Entry], sources: Mapping[str, Source]
) -> dict[str, Any]:
    """The report: errors by kind, and every figure beside ours."""
    kinds = dict.fromkeys(each.quantity.kind for each in compared)
    runs = sum(bool({"step", "GPU hours"} & kinds_of(entry)) for entry in entries.values())
    return {
        "clusters": len(entries) - runs,
        "runs": runs,
        "by_kind": {kind: _errors([each for each in compared if each.quantity.kind == kind]) for kind in kinds},
        "figures": [
            {
                "cluster": each.key,
                "name": each.entry.name,
                "quantity": each.figure.of,
                "title": each.quantity.title,
                "kind": each.quantity.kind,
                "unit": each.quantity.unit,
                "published": each.published,
                "low": _number(each.predicted[0]),
                "typical": _number(each.predicted[1]),
                "high": _number(each.predicted[2]),
                "ratio": _number(each.ratio),
                "inside": each.inside,
                "means": each.figure.means,
                "note": each.entry.remarks,
                "recalled": each.figure.recalled,
                "source": _cited(sources[each.figure.source]),
                "url": sources[each.figure.source].url,
            }
            for each in compared
        ],
        "without_figures": {key: entry.note for key, entry in entries.items() if not entry.figures},
    }


def kinds_of(entry: Entry) -> set[Kind]:
    """The kinds of figure that an entry has."""
    return {QUANTITIES[figure.of].kind for figure in entry.figures}


def _cited(source: Source) -> str:
    return f"{source.title}, {source.publisher}"


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _errors(compared: Sequence[Comparison]) -> dict[str, Any]:
    """Errors of the figures that we give a number for."""
    said = [each for each in compared if np.isfinite(each.ratio)]
    ranged = [each for each in said if each.inside is not None]
    errors = statistics([each.predicted[1] for each in said], [each.published for each in said])
    errors["coverage"] = float(np.mean([each.inside for each in ranged])) if ranged else None
    return errors


def report(path: Path, catalog: Catalog, leave_one_out: bool = False) -> dict[str, Any]:
    """Compare every figure of a file. Nothing is fitted to it, so there is nothing to leave out."""
    entries, sources = read(path, catalog)
    return summary(compare(entries, catalog), entries, sources)


def text(report: dict[str, Any]) -> str:
    """The report as plain text."""
    lines = [table(report["by_kind"], f"{report['clusters']} clusters, {report['runs']} runs"), ""]
    for figure in report["figures"]:
        unit = figure["unit"]
        ours = units.show(figure["typical"], unit) if figure["typical"] is not None else "-"
        ratio = f"{figure['ratio']:.2f}" if figure["ratio"] is not None else "-"
        where = {True: "inside", False: "outside", None: ""}[figure["inside"]]
        published = units.show(figure["published"], unit)
        lines.append(f"{figure['cluster']:<26} {figure['quantity']:<20} {published:>12} {ours:>12} {ratio:>6} {where}")
    return "\n".join(lines)
