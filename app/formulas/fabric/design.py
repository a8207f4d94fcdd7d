"""The smallest fabric that carries a cluster: what is asked, whether it can be built, and its counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from app.formulas.arrays import Array, any_, maximum, where
from app.formulas.fabric.direct import design_direct
from app.formulas.fabric.layouts import (
    DRAGONFLY,
    FAT_TREE,
    MOST_OF_ANYTHING,
    RAIL_ONLY,
    RAIL_OPTIMIZED,
    TWO_SWITCH,
    Design,
    FabricRequest,
    Floats,
    ceil_divide,
    nan_unless,
)
from app.formulas.fabric.tree import design_tree


def modules_needed(links: Array, links_per_module: Array, boxes: Array = 1) -> Array:
    """Modules at one side of some links, filled box by box, ceil(links per box / links per module) each.

    Args:
        links: links that end on this side, spread evenly over the boxes [1].
        links_per_module: 2 for a twin-port module [1].
        boxes: nodes or switches they end in [1].

    Source: RA-11333 table 8: 127 nodes of 8 links hold 508 twin modules, 48 switches of 64 links hold 1,536.

    >>> int(modules_needed(127 * 8, 2, 127)), int(modules_needed(48 * 64, 2, 48))
    (508, 1536)
    """
    boxes = maximum(boxes, 1)
    fuller = links % boxes
    each = links // boxes
    return fuller * ceil_divide(each + 1, links_per_module) + (boxes - fuller) * ceil_divide(each, links_per_module)


def _asked(value: ArrayLike) -> Any:
    """A number as Python has it, or an array."""
    if isinstance(value, int | float):
        return value
    array = np.asarray(value)
    return array if array.ndim else array.item()


def _whole(value: ArrayLike, least: int = -MOST_OF_ANYTHING) -> Array:
    """Whole numbers of a size that can be computed with; what is not a number counts as none."""
    if isinstance(value, int):
        return max(least, min(value, MOST_OF_ANYTHING))
    asked = _asked(value)
    if isinstance(asked, np.ndarray):
        counts: Floats = np.maximum(
            np.nan_to_num(np.clip(asked, -MOST_OF_ANYTHING, MOST_OF_ANYTHING), nan=0.0).astype(np.int64), least
        )
        return counts
    return max(least, int(min(asked, MOST_OF_ANYTHING))) if asked == asked else max(least, 0)


def _real(value: ArrayLike) -> Array:
    asked = _asked(value)
    return asked.astype(np.float64) if isinstance(asked, np.ndarray) else float(asked)


def design(
    nodes: ArrayLike,
    rails: ArrayLike,
    radix: ArrayLike,
    *,
    spine_radix: ArrayLike = 0,
    core_radix: ArrayLike = 0,
    hosts_per_port: ArrayLike = 1,
    planes: ArrayLike = 1,
    oversubscription: ArrayLike = 1.0,
    spine_oversubscription: ArrayLike = 1.0,
    nodes_per_unit: ArrayLike = 0,
    management_links: ArrayLike = 0,
    minimum_spines: ArrayLike = 0,
    rail_spines: ArrayLike = False,
    tiers: ArrayLike = 0,
    layout: ArrayLike = RAIL_OPTIMIZED,
) -> Design:
    """The smallest fabric that carries a cluster.

    1. Management links take leaf ports, so the leaves are sized for N + ceil(M / R) nodes.
    2. A unit is min(nodes_per_unit, d) nodes; there are SU = ceil(slots / unit) units, each built whole.
    3. L = R · SU leaves (rail-optimized), or ceil(hosts / d) (plain fat tree), each with u = floor(unit / o) uplinks.
    4. Two tiers when L <= k: S = the smallest divisor of u that is not below ceil(L u / k).
    5. Three tiers otherwise: S = ceil(L u / d2), C = ceil(S u2 / k), with d2 : u2 the spine's taper.
    6. Links: N R + M, L u, S u2; everything times the planes.

    With rail-dedicated spines, rule 4 holds for each rail by itself, and rule 5 for groups of leaves of one rail whose
    spines share the cores.

    Args:
        nodes: nodes, N [1].
        rails: hosts a node has in each plane, R [1].
        radix: ports of a leaf at the speed of a link between switches, k [1].
        spine_radix, core_radix: the same for other spines and cores; 0 means as the tier below [1].
        hosts_per_port: hosts that share a leaf port by breakout; 2 for 200 Gb/s hosts on 400 Gb/s ports [1].
        planes: equal independent networks [1].
        oversubscription, spine_oversubscription: taper at the leaf and, with three tiers or more, at the spine [1].
        nodes_per_unit: nodes of a scalable unit; 0 means as many as the leaf's ports allow [1].
        management_links: fabric-manager links that take host ports, M [1].
        minimum_spines: fewest spines of a plane, for what remains when one fails [1].
        rail_spines: whether each rail has spines of its own.
        tiers: 1 to 4; 0 means the fewest that suffice [1].
        layout: index into ``LAYOUTS``.

    Source: NVIDIA DGX SuperPOD RA-11333 tables 3 and 4 and its footnote on nodes that make room for UFM; for rule 4
    see `smallest_divisor`.

    128 nodes of 8 rails on 64-port switches: 4 units of 32, 32 leaves, 16 spines, 1,024 links at both levels.

    >>> superpod = design(128, 8, 64)
    >>> [int(x) for x in (superpod.leaf_switches, superpod.spine_switches, superpod.node_leaf, superpod.leaf_spine)]
    [32, 16, 1024, 1024]

    127 nodes and 4 management links need the same switches:

    >>> superpod = design(127, 8, 64, management_links=4)
    >>> [int(x) for x in (superpod.leaf_switches, superpod.spine_switches, superpod.node_leaf, superpod.leaf_spine)]
    [32, 16, 1020, 1024]
    """
    leaf_radix = _whole(radix, 0)
    middle_radix, top_radix = _whole(spine_radix), _whole(core_radix)
    middle_radix = where(middle_radix > 0, middle_radix, leaf_radix)
    kind, own_spines = _whole(layout), _whole(rail_spines) != 0
    plain, only = kind == FAT_TREE, kind == RAIL_ONLY
    request = FabricRequest(
        nodes=_whole(nodes),
        rails=_whole(rails, 0),
        radix=leaf_radix,
        spine_radix=middle_radix,
        core_radix=where(top_radix > 0, top_radix, middle_radix),
        hosts_per_port=_whole(hosts_per_port, 1),
        planes=_whole(planes, 1),
        oversubscription=_real(oversubscription),
        spine_oversubscription=_real(spine_oversubscription),
        nodes_per_unit=_whole(nodes_per_unit),
        management_links=_whole(management_links, 0),
        minimum_spines=_whole(minimum_spines, 0),
        tiers=_whole(tiers),
        layout=kind,
        plain=plain,
        only=only,
        apart=only | (own_spines & nan_unless(plain)),
    )
    direct = (request.layout >= TWO_SWITCH) & (request.layout <= DRAGONFLY)
    if not any_(direct):
        return design_tree(request)
    other = design_direct(request) if request.shape else design_direct(request).at(0)
    if not any_(nan_unless(direct)):
        return other
    return Design(*(np.where(direct, *values) for values in zip(other, design_tree(request), strict=True)))
