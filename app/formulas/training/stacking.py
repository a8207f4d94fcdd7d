"""Several jobs or clusters as one whose numbers are columns: what is timed together, is timed in one call.

Source: Railyard.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from app.formulas.arrays import Array
from app.formulas.collectives.group_times import Links
from app.formulas.collectives.ideal import Machine
from app.formulas.fabric.placement import PINNED, Tier
from app.formulas.records import but
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism
from app.formulas.training.memory import Memory

Part = TypeVar("Part", GpuRates, Job, Machine, Parallelism, Calibration)
Row = TypeVar("Row", Parallelism, Memory)
Places = NDArray[np.int64]
NO_TIER = Tier(unit=np.inf, spread=1.0, neighbour=1.0)
"""A tier of the size of the cluster, which nothing leaves: what networks of fewer tiers than others have there."""


def alike(links: Links, exchanging: bool) -> Hashable:
    """What links have in common whose other numbers can be columns of one call.

    Networks that bind no flows to links are alike whatever their tiers.

    Args:
        links: of a cluster.
        exchanging: whether groups of the job send all to all, of which a hash binds flows to links.

    Returns:
        What has to be the same [1].

    >>> from app.formulas.training.examples import LINKS
    >>> fours = but(LINKS, interconnect=but(LINKS.interconnect, domain=4.0))
    >>> alike(LINKS, True) == alike(fours, True)
    True
    """
    joining, site = links.interconnect, links.site
    hashed = (exchanging or site.scattered or site.balancing == "hashing") and site.balancing in PINNED
    bound = hashed or (site.planes > 1 and site.balancing in PINNED)
    bins = [(tier.uplinks, tier.others, tier.leaves) for tier in site.tiers] if hashed else []
    tiers = tuple(each if any(each[:2]) else None for each in bins)
    degraded = id(site) if any(tier.links < np.inf for tier in site.tiers) else None
    flows = (site.balancing, site.planes, site.flows) if bound else ()
    kept = id(joining.library), joining.ideal, joining.bridge is None
    return *kept, site.scattered, site.rails_apart, degraded, flows, tiers


def stacked(parts: Sequence[Part], further: int = 0) -> Part:
    """A record each of whose numbers is one for all, or an array with one of each, in its own unit [s, B, B/s, 1].

    Args:
        parts: the records.
        further: axes of an array after that of the parts, such as one for draws [1].

    >>> stacked([Job(4096.0, 8.0), Job(4096.0, 16.0)]).global_batch
    array([ 8., 16.])
    """
    if all(part is parts[0] for part in parts):
        return parts[0]
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return but(
        parts[0], **{name: _column(column, further) for name, column in zip(vars(parts[0]), columns, strict=True)}
    )


def stacked_links(links: Sequence[Links], further: int = 0) -> Links:
    """The same of links that are `alike`, each number in its own unit [s, B/s, 1].

    Args:
        links: the links of each cluster.
        further: as for `stacked`; with any, all have one interconnect [1].

    >>> from app.formulas.training.examples import LINKS
    >>> fours = but(LINKS, interconnect=but(LINKS.interconnect, domain=4.0))
    >>> stacked_links([LINKS, fours]).interconnect.domain
    array([8., 4.])
    """
    return _links(links, partial(_column, further=further))


def rows_of(part: Part, places: Places | slice) -> Part:
    """The record at some places of its arrays, each number in its own unit [s, B, B/s, 1].

    >>> rows_of(stacked([Job(4096.0, 8.0), Job(4096.0, 16.0)]), np.array([1, 0, 1])).global_batch
    array([16.,  8., 16.])
    """
    arrays = {name: value[places] for name, value in vars(part).items() if isinstance(value, ndarray)}
    return but(part, **arrays) if arrays else part


def row(part: Row, index: int) -> Row:
    """One configuration out of arrays of them, or what it holds, each number in its own unit [1, B].

    >>> row(Parallelism(tensor=np.array([8.0, 4.0]), pipeline=2.0), 1) == Parallelism(tensor=4.0, pipeline=2.0)
    True
    """
    arrays = {name: float(column[index]) for name, column in vars(part).items() if isinstance(column, ndarray)}
    return but(part, **arrays) if arrays else part


def link_rows(links: Links, places: Places) -> Links:
    """The same of links, each number in its own unit [s, B/s, 1].

    >>> from app.formulas.training.examples import LINKS
    >>> fours = but(LINKS, interconnect=but(LINKS.interconnect, domain=4.0))
    >>> link_rows(stacked_links([LINKS, fours]), np.array([1, 1])).interconnect.domain
    array([4., 4.])
    """
    return _links([links], lambda values: _taken(values[0], places))


def _links(links: Sequence[Links], column: Callable[[Sequence[Any]], Any]) -> Links:
    """Links whose numbers are made of those of some."""
    sites = [each.site for each in links]
    first = max(links, key=lambda each: len(each.site.tiers))
    by_height = zip_longest(*(site.tiers for site in sites), fillvalue=NO_TIER)
    tiers = tuple(
        tier._replace(**{
            name: column([getattr(each, name) for each in alike_tiers])
            for name in ("unit", "spread", "neighbour", "hosts")
        })
        for tier, alike_tiers in zip(first.site.tiers, by_height, strict=True)
    )  # fmt: skip
    places = {name: column([getattr(site, name) for site in sites]) for name in ("gpus", "domain", "leaf", "pod")}

    def together(parts: Sequence[Machine]) -> Machine:
        numbers = [vars(part) for part in parts]
        return Machine(**{name: column([of_one[name] for of_one in numbers]) for name in numbers[0]})

    site, joining = first.site._replace(**places, tiers=tiers), [each.interconnect for each in links]
    if len(links) > 1 and all(each is joining[0] for each in joining):
        return Links(joining[0], site)
    bridges = [each.bridge for each in joining if each.bridge is not None]
    several = but(
        joining[0],
        machine=together([each.machine for each in joining]),
        bridge=together(bridges) if bridges else None,
        inside_rate=column([each.inside_rate for each in joining]),
        inside_hop=column([each.inside_hop for each in joining]),
        domain=column([each.domain for each in joining]),
    )
    return Links(several, site)


def _column(values: Sequence[Array], further: int = 0) -> Any:
    """The value that all have, or an array of them with so many axes after its own."""
    if values.count(values[0]) == len(values):
        return values[0]
    return np.array(values, float).reshape(-1, *(1,) * further)


def _taken(value: Any, places: Places | slice) -> Any:
    return value[places] if isinstance(value, ndarray) else value
