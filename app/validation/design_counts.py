"""Designs held against published reference designs: leaf, spine and core switches, and the links between them.

A row is a `Scenario` where the catalogue has its network and switch, and its design is the planner's. The others (two
switches side by side, a switch that is in no catalogue) are designed by the same formulas from their columns: nodes,
NICs, ports, rates, planes, units, management links, taper and the name of the topology. Only what a row prints is
compared.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from app.catalog.load import Catalog
from app.catalog.names import entries_called
from app.formulas.fabric import design as fabric_design
from app.formulas.fabric import layouts
from app.plan.network import network_of
from app.plan.reference_designs import Row, read
from app.plan.scenario import Scenario
from app.units import parse
from app.validation.row_names import GIGABIT

SWITCHES = ("leaf", "spine", "core")
CABLES = ("node_leaf_cables", "leaf_spine_cables", "spine_core_cables")
NEEDED = ("n_nodes", "nics_per_node", "ports", "port_gbps", "nic_gbps")
Counts = dict[str, int]


@dataclass(frozen=True)
class Comparison:
    """One published design beside ours."""

    row: Row
    verdict: str
    published: Counts
    computed: Counts
    reason: str


def layout(row: Row) -> int:
    """Which layout a row's topology names."""
    text = row.text("topology").lower()
    named = (
        ("rail-only", layouts.RAIL_ONLY),
        ("dragonfly", layouts.DRAGONFLY),
        ("3d torus", layouts.TORUS_3D),
        ("2d torus", layouts.TORUS_2D),
        ("full mesh", layouts.MESH),
    )
    for word, kind in named:
        if word in text:
            return kind
    if re.search(r"\bisl\b|\b(2|two)[- ]switch", text):
        return layouts.TWO_SWITCH
    return layouts.RAIL_OPTIMIZED if row.text("rail_optimized").lower() == "yes" else layouts.FAT_TREE


def tiers(row: Row) -> int:
    """How many tiers a row's topology names; 0 when it does not say.

    >>> tiers(Row({"topology": "3-tier fat tree"})), tiers(Row({"topology": "fat tree"}))
    (3, 0)
    """
    match = re.search(r"\b([1-4]|one|two|three|four)[- ]tier", row.text("topology").lower())
    if match is None or layout(row) not in (layouts.RAIL_OPTIMIZED, layouts.FAT_TREE, layouts.RAIL_ONLY):
        return 0
    return {"one": 1, "two": 2, "three": 3, "four": 4}.get(match[1]) or int(match[1])


def tapers(row: Row) -> tuple[float, float]:
    """Oversubscription at the leaf and at the spine: the first and second ratio a row prints, else none.

    >>> tapers(Row({"oversubscription": "2:1"})), tapers(Row({"oversubscription": "n/a"}))
    ((2.0, 1.0), (1.0, 1.0))
    """
    said = row.text("oversubscription")
    ratios = [float(down) / float(up) for down, up in re.findall(r"(\d+(?:\.\d+)?):(\d*\.?\d*[1-9]\d*)", said)]
    if not ratios and re.fullmatch(r"\d+(\.\d+)?", said) and float(said) > 0:
        ratios = [float(said)]
    leaf, spine = (*ratios, 1.0, 1.0)[:2]
    return leaf, spine


def published_counts(row: Row) -> Counts:
    """What a row prints of switches and cables."""
    return {name: count for name in (*SWITCHES, *CABLES) if (count := row.number(name)) is not None}


COMPUTE = re.compile(r"^(?:compute|gpu|training|inference|back-?end|gpu[ -]back-?end|scale-out|east-west)?$", re.I)
"""Roles of the network between GPUs."""
FLOOR = re.compile(r"\b(?:floor|minimum|at least)(?: of)? (\d+)(?: spines)?\b", re.IGNORECASE)
"""What a note says of how few spines its designer allows."""


def floor_of_spines(row: Row) -> int:
    """Fewest spines that a row's designer allows, as its note says; 0 where it says nothing.

    >>> floor_of_spines(Row({"note": "we recommend a minimum of 4 spines"})), floor_of_spines(Row({"note": "4 spines"}))
    (4, 0)
    """
    note = row.text("note")
    match = FLOOR.search(note) if "spine" in note.lower() else None
    return int(match[1]) if match else 0


def unfit(row: Row, catalog: Catalog) -> str:
    """Why a row cannot be designed from its columns; blank when it can."""
    if not COMPUTE.match(role := row.text("role")):
        if role.startswith("scale-up"):
            return "Links inside a scale-up domain are part of the node or rack, not of this fabric."
        return f"A {role} network: the columns do not say how many ports its other side (such as storage servers) has."
    if not published_counts(row):
        return "The source prints no count of switches or cables."
    if "OCS" in row.text("fabric"):
        return "Optical circuit switches patch blocks of chips together; the product designs packet switches."
    if re.search(r"(?<![23]d )\btorus", row.text("topology").lower()):
        return "The topology is a torus of an unknown number of dimensions."
    missing = [name for name, cell in needed(row, catalog).items() if cell is None]
    if missing:
        return f"The columns lack {', '.join(missing)}."
    return ""


def needed(row: Row, catalog: Catalog) -> dict[str, int | None]:
    """The columns a design cannot do without.

    Nodes may be given as GPUs and GPUs per node, ports and their rate by naming a switch of the catalogue.
    """
    columns = {name: row.number(name) for name in NEEDED}
    gpus, each = row.number("n_gpus"), row.number("gpus_per_node")
    if columns["n_nodes"] is None and gpus and each:
        columns["n_nodes"] = -(-gpus // each)
    named = entries_called(row.text("switch_model"), catalog.switches)
    if len(named) == 1 and columns["ports"] is None:
        switch = catalog.switches[named[0]]
        rate = round(switch.port_rate.typical / GIGABIT)
        if columns["port_gbps"] in (None, rate):
            columns |= {"ports": switch.ports, "port_gbps": rate}
    return columns


def scenario(row: Row, catalog: Catalog) -> Scenario | None:
    """The row as a question to the planner; ``None`` where the planner or the catalogue lacks what it names."""
    columns = {name: value or 0 for name, value in needed(row, catalog).items()}
    generation, switch = _generation(row, catalog), _switch(row, catalog)
    per_node = row.number("gpus_per_node") or max(columns["nics_per_node"], 1)
    leaf_taper, spine_taper = tapers(row)
    settings = {
        "gpus": columns["n_nodes"] * per_node,
        "gpus_per_node": per_node,
        "nics_per_node": columns["nics_per_node"],
        "scale_out": generation,
        "switch": switch,
        "topology": layouts.LAYOUTS[layout(row)],
        "planes": row.number("planes") or 1,
        "oversubscription": leaf_taper,
        "spine_oversubscription": spine_taper,
        "nodes_per_unit": row.number("nodes_per_su") or None,
        "management_links": row.number("mgmt_links") or 0,
        "tiers": tiers(row) or None,
        "minimum_spines": max(floor_of_spines(row), 1),
    }
    try:
        return Scenario.model_validate(settings, context={"catalog": catalog}) if generation and switch else None
    except ValidationError:
        return None


def _families(row: Row) -> tuple[str, ...]:
    """The families of network that a row may mean, the likeliest first."""
    text = row.text("fabric").lower()
    named = tuple(family for family in ("infiniband", "slingshot") if family in text)
    return named or (("spectrum-x", "roce") if "spectrum-x" in text else ("roce",))


def _generation(row: Row, catalog: Catalog) -> str:
    """The network generation of a row's family and NIC rate; blank where there is none."""
    rate = parse(f"{row.number('nic_gbps') or 0} Gb/s", "B/s")
    fitting = (
        key
        for family in _families(row)
        for key, entry in catalog.scale_out.items()
        if entry.family == family and entry.port_rate.typical == rate
    )
    return next(fitting, "")


def _switch(row: Row, catalog: Catalog) -> str:
    """The switch that a row names, or one that switches as much: as it is, or with its ports broken out."""
    columns = needed(row, catalog)
    ports, rate = columns["ports"] or 0, parse(f"{columns['port_gbps'] or 0} Gb/s", "B/s")
    family = _families(row)[0] if _families(row)[0] in ("infiniband", "slingshot") else "ethernet"
    model = row.text("switch_model").lower().replace(" ", "-")
    equal = {
        key: (entry.ports != ports, key not in model)
        for key, entry in catalog.switches.items()
        if entry.family == family and entry.ports * entry.port_rate.typical == ports * rate
    }
    return min(equal, key=lambda key: equal[key], default="")


@dataclass(frozen=True)
class Designed:
    """Our design of a row.

    Attributes:
        design: its counts; links are of the rate of a host.
        radix: ports of its switch at the rate of those links [1].
        links_per_cable: between switches [1].
    """

    design: layouts.Design
    radix: int
    links_per_cable: int


def design(row: Row, catalog: Catalog) -> Designed:
    """Our design of a row: the planner's, where it can be asked and builds one."""
    question = scenario(row, catalog)
    of = partial(_planned, row, question, catalog) if question else partial(_from_columns, row, catalog)
    designed = of(tiers(row)) or _from_columns(row, catalog, tiers(row))
    has_spines = "spine" in row.text("topology").lower() or (row.number("spine") or 0) > 0
    tree = layout(row) in (layouts.RAIL_OPTIMIZED, layouts.FAT_TREE)
    if not tiers(row) and designed.design.tiers == 1 and has_spines and tree:
        designed = of(2) or _from_columns(row, catalog, 2)
    return designed


def _planned(row: Row, question: Scenario, catalog: Catalog, count: int) -> Designed | None:
    """The planner's design in so many tiers, or in as few as work; ``None`` where it refuses."""
    built = network_of(question.model_copy(update={"tiers": count or None}), catalog).built
    if built is None:
        return None
    radix = built.choice.radix
    return Designed(built.design, radix, max(radix // (row.number("ports") or radix), 1))


def _from_columns(row: Row, catalog: Catalog, count: int) -> Designed:
    """The design of the columns alone; links between switches are of the rate of a whole port, or of a part of it."""
    nodes, nics, ports, rate, nic = (value or 0 for value in needed(row, catalog).values())
    planes = row.number("planes") or 1
    link = nic / planes
    ways = max(int(rate / link + 1e-9), 1) if link else 1
    split = min(row.number("links_per_cable") or 1, ways)
    leaf_taper, spine_taper = tapers(row)
    radix = ports * split if rate >= link * (1 - 1e-9) else 0
    request = layouts.FabricRequest(
        nodes=nodes,
        rails=nics,
        radix=radix,
        hosts_per_port=ways // split,
        planes=planes,
        oversubscription=leaf_taper,
        spine_oversubscription=spine_taper,
        nodes_per_unit=row.number("nodes_per_su") or 0,
        management_links=row.number("mgmt_links") or 0,
        tiers=count,
        layout=layout(row),
        minimum_spines=floor_of_spines(row),
    )
    return Designed(fabric_design.design(request), radix, row.number("links_per_cable") or 1)


def computed_counts(designed: Designed, per_host_cable: int) -> Counts:
    """Switches and cables of our design; a cable or cage may hold several links."""
    fabric, each = designed.design, designed.links_per_cable
    exact = {
        "leaf": fabric.leaf_switches,
        "spine": fabric.spine_switches,
        "core": fabric.core_switches + fabric.super_core_switches,
        "node_leaf_cables": fabric.node_leaf / per_host_cable,
        "leaf_spine_cables": (fabric.leaf_spine + fabric.peer) / each,
        "spine_core_cables": fabric.spine_core / each,
    }
    return {name: int(np.ceil(value)) for name, value in exact.items() if np.isfinite(value)}


def compare(row: Row, catalog: Catalog) -> Comparison:
    """Design a row and compare what it prints."""
    printed = published_counts(row)
    reason = unfit(row, catalog)
    if reason:
        return Comparison(row, "not_applicable", printed, {}, reason)
    designed = design(row, catalog)
    fabric, radix = designed.design, designed.radix
    if int(fabric.reason) != layouts.BUILT:
        return Comparison(row, "mismatch", printed, {}, _impossible(row, fabric, radix))
    ours = computed_counts(designed, row.number("links_per_cable") or 1)
    compared = {name: ours[name] for name in printed}
    differing = [name for name in printed if printed[name] != compared[name]]
    if not differing:
        approximate = layout(row) in layouts.APPROXIMATE
        return Comparison(row, "exact", printed, compared, "Approximate topology." if approximate else "")
    return Comparison(
        row, "mismatch", printed, compared, " ".join(_why(row, fabric, radix, printed, compared, differing))
    )


def _impossible(row: Row, fabric: layouts.Design, radix: int) -> str:
    """Why the columns describe something that cannot be built."""
    if radix == 0:
        return (
            f"Cannot be built: a {row.text('port_gbps')} Gb/s port is slower than the {row.text('nic_gbps')} Gb/s NIC."
        )
    words = layouts.REASONS[int(fabric.reason)].replace("-", " ")
    return f"Cannot be built as printed: {words} for {tiers(row) or 4} tiers of {radix}-port switches."


def _why(
    row: Row, fabric: layouts.Design, radix: int, printed: Counts, ours: Counts, differing: Sequence[str]
) -> list[str]:
    """What explains each difference."""
    names = {"leaf": "leaf switches", "spine": "spine switches", "core": "core switches"}
    planes = row.number("planes") or 1
    said = []
    for name in differing:
        theirs, mine = printed[name], ours[name]
        what = names.get(name, name.replace("_cables", " cables").replace("_", "-"))
        text = f"{theirs:,} {what} printed, {mine:,} computed"
        if name == "spine" and theirs > mine:
            links = int(fabric.leaf_spine)
            each = links / int(fabric.leaf_switches) if fabric.leaf_switches else 0
            uneven = " and do not divide a leaf's uplinks evenly" if each % (theirs / planes) else ""
            text += (
                f": over-built, {theirs * radix:,} spine ports for {links:,} uplinks{uneven}; the columns name no"
                " reserve for growth and no floor of spines."
            )
        elif name == "spine" and theirs < mine and theirs * radix < fabric.leaf_spine:
            text += f": cannot be built, {theirs * radix:,} spine ports for {int(fabric.leaf_spine):,} uplinks."
        elif name == "spine" and theirs < mine:
            text += ": the printed spines cannot each have the same number of links from every leaf."
        elif name == "core" and theirs > mine:
            text += ": over-built above the spines."
        elif name in SWITCHES and theirs < mine:
            text += ": fewer than whole units, or than the ports, need."
        elif name in SWITCHES:
            text += ": more than whole units need."
        else:
            text += "."
        said.append(text)
    return said


def report(path: Path, catalog: Catalog, leave_one_out: bool = False) -> dict[str, Any]:
    """Compare every row of a file. Nothing is fitted, so there is nothing to leave out."""
    comparisons = [compare(row, catalog) for row in read(path)]
    return {
        "exact": sum(comparison.verdict == "exact" for comparison in comparisons),
        "mismatch": sum(comparison.verdict == "mismatch" for comparison in comparisons),
        "not_applicable": sum(comparison.verdict == "not_applicable" for comparison in comparisons),
        "designs": [
            {
                "id": comparison.row.text("id"),
                "verdict": comparison.verdict,
                "published": comparison.published,
                "computed": comparison.computed,
                "reason": comparison.reason,
                "source": comparison.row.text("source"),
                "source_kind": comparison.row.text("source_kind"),
            }
            for comparison in comparisons
        ],
    }


def text(report: dict[str, Any]) -> str:
    """The report as plain text."""
    counts = ", ".join(f"{report[name]} {name.replace('_', ' ')}" for name in ("exact", "mismatch", "not_applicable"))
    lines = [counts]
    for entry in report["designs"]:
        numbers = " ".join(f"{name}={count}" for name, count in entry["published"].items())
        lines.append(f"{entry['verdict']:<15} {entry['id']:<22} {entry['reason'] or numbers}")
    return "\n".join(lines)
