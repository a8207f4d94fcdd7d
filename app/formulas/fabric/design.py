"""The smallest fabric that carries a cluster: what is asked, whether it can be built, and its counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, maximum
from app.formulas.fabric.direct import DIRECT, design_direct
from app.formulas.fabric.layouts import Design, FabricRequest, ceil_divide
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


def design(request: FabricRequest) -> Design:
    """The smallest fabric that carries a cluster.

    1. Management links take leaf ports, so the leaves are sized for N + ceil(M / R) nodes.
    2. A unit is min(nodes_per_unit, d) nodes; there are SU = ceil(slots / unit) units, each built whole.
    3. L = R · SU leaves (rail-optimised), or ceil(hosts / d) (plain fat tree), each with u = ceil(unit / o) uplinks.
    4. Two tiers when L <= k: S = the smallest divisor of u that is not below ceil(L u / k).
    5. Three tiers otherwise: S = ceil(L u / d2), C = ceil(S u2 / k), with d2 : u2 the spine's taper.
    6. Links: N R + M, L u, S u2; everything times the planes.

    With rail-dedicated spines, rule 4 holds for each rail by itself, and rule 5 for groups of leaves of one rail whose
    spines share the cores.

    Args:
        request: what the fabric is to carry, and of which switches; numbers or arrays.

    Source: NVIDIA DGX SuperPOD RA-11333 tables 3 and 4 and its footnote on nodes that make room for UFM; for rule 4
    see `smallest_divisor`.

    128 nodes of 8 rails on 64-port switches: 4 units of 32, 32 leaves, 16 spines, 1,024 links at both levels.

    >>> superpod = design(FabricRequest(nodes=128, rails=8, radix=64))
    >>> [int(x) for x in (superpod.leaf_switches, superpod.spine_switches, superpod.node_leaf, superpod.leaf_spine)]
    [32, 16, 1024, 1024]

    127 nodes and 4 management links need the same switches:

    >>> superpod = design(FabricRequest(nodes=127, rails=8, radix=64, management_links=4))
    >>> [int(x) for x in (superpod.leaf_switches, superpod.spine_switches, superpod.node_leaf, superpod.leaf_spine)]
    [32, 16, 1020, 1024]
    """
    request = request.in_whole_numbers()
    topologies = np.unique(request.layout).tolist() if isinstance(request.layout, np.ndarray) else [request.layout]
    direct = [topology for topology in topologies if topology in DIRECT]
    if not direct:
        return design_tree(request)
    if len(topologies) == 1:
        return design_direct(request, direct[0])
    layout = np.broadcast_to(request.layout, request.shape)
    parts: list[tuple[NDArray[np.bool_], Callable[[FabricRequest], Design]]] = [
        (layout == topology, partial(design_direct, layout=topology)) for topology in direct
    ]
    parts.append((np.isin(layout, direct, invert=True), design_tree))
    counts: list[NDArray[Any]] = []
    for rows, design_of in parts:
        some = design_of(request.at(rows))
        counts = counts or [np.empty(request.shape, dtype=field.dtype) for field in some]
        for whole, part in zip(counts, some, strict=True):
            whole[rows] = part
    return Design(*counts)
