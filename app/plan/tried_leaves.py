"""The leaves that are tried for several clusters, in columns."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import counted_off, distinct
from app.formulas.fabric import layouts, tree
from app.formulas.records import but
from app.plan.leaves import Leaves, Sizes, fabrics_of, links_up
from app.plan.offers import Offers
from app.plan.switches import SwitchPair

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Ports = tuple[int, int]


class Options(NamedTuple):
    """What may be built for a cluster.

    Attributes:
        request: what is asked of a fabric, but for its switches, leaves and taper.
        offered: switches.
        sizes: the leaves that may be tried, by ports of the switches.
        nodes_per_rack: nodes that stand in a rack [1].
    """

    request: layouts.FabricRequest
    offered: Offers
    sizes: Mapping[Ports, Sizes]
    nodes_per_rack: int


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kinds of fabrics, by their numbers.

    Attributes:
        asked, ports: what is asked of fabrics but for their switches, leaves and taper, and the ports of switches.
        each: of which of these, and of which ports, each kind is.
    """

    asked: Sequence[layouts.FabricRequest]
    ports: Sequence[Ports]
    each: Sequence[tuple[int, int]]

    @cached_property
    def _columns(self) -> layouts.FabricRequest:
        """What is asked of each kind: a column, or a number where all are alike."""
        request, port = np.array(self.each).T
        radix, above = (_column(ends, port) for ends in zip(*self.ports, strict=True))
        asked = (_column(values, request) for values in zip(*self.asked, strict=True))
        return layouts.FabricRequest(*asked)._replace(radix=radix, spine_radix=above)

    def of(self, kind: int) -> layouts.FabricRequest:
        """What is asked of fabrics of a kind, in numbers."""
        request, port = self.each[kind]
        radix, above = self.ports[port]
        return self.asked[request]._replace(radix=radix, spine_radix=above)

    def requests(self, kind: Integers) -> layouts.FabricRequest:
        """What is asked of fabrics of some kinds, a number where it is the same of all."""
        if len(self.each) == 1:
            return self.of(0)
        columns = self._columns
        return layouts.FabricRequest(*(its[kind] if isinstance(its, np.ndarray) else its for its in columns))


@dataclass(frozen=True, eq=False)
class TriedLeaves:
    """Leaves of some clusters in lists, one for each cluster and the switches of some ports.

    Attributes:
        kinds: the kinds of fabrics that are built of them.
        cluster, port, kind: of each list the number of its cluster, which ports its switches have, and the number of
            its kind.
        nodes_per_rack: nodes that stand in a rack of each list's cluster [1].
        place: of each size the place of its list.
        hosts, fewest, step, ways, taper: of each size the hosts, 0 for the taper's own leaves; the fewest links up that
            are tried, 0 for as few as the taper has, the step from one to the next, and how many are; and the taper.
    """

    kinds: Kinds
    cluster: Integers
    port: Integers
    kind: Integers
    nodes_per_rack: Integers
    place: Integers
    hosts: Integers
    fewest: Integers
    step: Integers
    ways: Integers
    taper: Floats

    @staticmethod
    def of(several: Sequence[Options]) -> "TriedLeaves":
        """Those of clusters, by their numbers."""
        requests: dict[layouts.FabricRequest, int] = {}
        different = {id(options.request): options.request for options in several}
        numbers_of = {key: requests.setdefault(request, len(requests)) for key, request in different.items()}
        ports: dict[Ports, int] = {}
        numbers: dict[tuple[int, int], int] = {}
        columns, lists = list[tuple[int, int, int, int]](), list[Sizes]()
        for number, options in enumerate(several):
            its_request = numbers_of[id(options.request)]
            for its_ports, sizes in options.sizes.items():
                port = ports.setdefault(its_ports, len(ports))
                kind = numbers.setdefault((its_request, port), len(numbers))
                columns.append((number, port, kind, options.nodes_per_rack))
                lists.append(sizes)
        own = np.array([len(its.own) for its in lists])
        counts = own + [len(its.hosts) for its in lists]
        place = np.repeat(np.arange(len(lists)), counts)
        blank = counted_off(counts) < own[place]
        hosts, taper = np.zeros(len(place), np.int64), np.array([its.taper for its in lists])[place]
        hosts[~blank] = np.concatenate([its.hosts for its in lists])
        taper[blank] = [*chain(*(its.own for its in lists))]
        up = links_up(hosts, taper, np.array([its.radix for its in lists])[place])
        fewest, ways = np.where(blank, 0, up.fewest), np.where(blank, 1, up.many)
        cluster, port, kind, racks = np.array(columns).T
        leaves = place, hosts, fewest, up.step, ways, taper
        return TriedLeaves(Kinds([*requests], [*ports], [*numbers]), cluster, port, kind, racks, *leaves)

    def at(self, clusters: Sequence[int], kept: Booleans | None = None) -> "TriedLeaves":
        """Those of some clusters, numbered anew; of these the sizes of a mask, if not all."""
        number = np.full(int(self.cluster.max()) + 1, -1)
        number[clusters] = np.arange(len(clusters))
        mine = number[self.cluster] >= 0
        some = np.flatnonzero(mine[self.place] if kept is None else kept & mine[self.place])
        if kept is not None:
            mine = np.zeros_like(mine)
            mine[self.place[some]] = True
        lists = np.flatnonzero(mine)
        sizes = {name: getattr(self, name)[some] for name in ("hosts", "fewest", "step", "ways", "taper")}
        return but(
            self,
            cluster=number[self.cluster[lists]],
            port=self.port[lists],
            kind=self.kind[lists],
            nodes_per_rack=self.nodes_per_rack[lists],
            place=(np.cumsum(mine) - 1)[self.place[some]],
            **sizes,
        )

    @cached_property
    def many(self) -> Integers:
        """Leaves that are tried for each cluster [1]."""
        return self.many_of(np.ones(len(self.place), np.bool_))

    def many_of(self, kept: Booleans) -> Integers:
        """Those of sizes of a mask [1]."""
        return np.bincount(self.cluster[self.place], self.ways * kept, int(self.cluster[-1]) + 1).astype(np.int64)

    @cached_property
    def fits(self) -> Booleans:
        """Whether the taper of each list leaves a port for an uplink."""
        tapers = self.taper[self.begins]
        return np.asarray((tapers >= 1) & tree.taper_fits(self.radix, tapers))

    @property
    def ports(self) -> Sequence[Ports]:
        """The ports of switches, by their numbers."""
        return self.kinds.ports

    @property
    def radix(self) -> NDArray[Any]:
        """Ports of a leaf of each list [1]."""
        return np.array([radix for radix, _ in self.ports])[self.port]

    @cached_property
    def begins(self) -> Integers:
        """Where the sizes of each list begin."""
        return np.searchsorted(self.place, np.arange(len(self.cluster)))

    def lists_of(self, cluster: Integers, choices: Sequence[SwitchPair], offer: Integers) -> Integers:
        """The places of the lists of some clusters and switches, by the places of these among some choices."""
        port = np.array([self.ports.index(choice.ports) for choice in choices])
        return np.asarray(self._lists[cluster, port[offer]])

    @cached_property
    def _lists(self) -> Integers:
        """The place of the list of each cluster, for switches of each ports; -1 where there is none."""
        lists = np.full((int(self.cluster[-1]) + 1, len(self.ports)), -1)
        lists[self.cluster, self.port] = np.arange(len(self.cluster))
        return lists

    def requests(self, kind: Integers) -> layouts.FabricRequest:
        """What is asked of fabrics of some kinds, a number where it is the same of all."""
        return self.kinds.requests(kind)

    def fabrics(self, kind: Integers, leaves: Leaves) -> layouts.FabricRequest:
        """Fabrics of some kinds and leaves, in columns; one alone in numbers."""
        return fabrics_of(self.kinds.of(kind[0]) if len(kind) == 1 else self.requests(kind), leaves)

    @cached_property
    def shared(self) -> "SharedSizes":
        """The different sizes: leaves of as many hosts and fewest links up share what is built of them, where lists
        differ in their tapers alone. The leaves of tapers' own are one size.

        >>> request, hosts = layouts.FabricRequest(nodes=64, rails=8, radix=32), np.array([8, 4])
        >>> tapers = [{(32, 32): Sizes(32, taper, hosts)} for taper in (2.0, 2.2, 1.9)]
        >>> shared = TriedLeaves.of([Options(request, None, sizes, 4) for sizes in tapers]).shared
        >>> shared.list.tolist(), shared.size.tolist(), shared.leaves.fewest.tolist()
        ([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 2, 3], [4, 2, 5, 3])
        """
        begin = self.hosts > 0
        begin[self.begins] = True
        begins, number = np.flatnonzero(begin), np.cumsum(begin) - 1
        lists, hosts = self.place[begins], self.hosts[begins]
        if len({*self.kind.tolist()}) == len(self.kind):
            return SharedSizes(lists, np.arange(len(begins)), copy(self), number)  # itself would be a ring
        _, site = distinct((self.kind, self.nodes_per_rack), len(self.kind))
        own = self._taper_of(lists, hosts, self.taper[self.begins][lists])
        first, which = distinct((site[lists], hosts, self.fewest[begins], own), len(begins))
        is_first = np.zeros(len(begins), np.bool_)
        is_first[first] = True
        place, kept = np.cumsum(is_first) - 1, is_first[number]
        leaves = self.at(range(int(self.cluster[-1]) + 1), kept)
        return SharedSizes(lists, place[first][which], leaves, place[number[kept]])

    @property
    def many_more(self) -> Integers:
        """Leaves that are tried for each cluster and for none before it [1]."""
        its = self.shared.leaves
        return np.bincount(its.cluster[its.place], its.ways, int(self.cluster[-1]) + 1).astype(np.int64)

    def each(self) -> tuple[Integers, Leaves]:
        """All leaves, one after another, and the place of the list of each."""
        if self.ways.max() == 1:
            return self.place, Leaves(self.hosts, self.fewest, self.taper)
        columns: tuple[NDArray[Any], ...] = self.place, self.hosts, self.taper, self.fewest, self.step
        place, hosts, taper, fewest, step = (np.repeat(column, self.ways) for column in columns)
        return place, Leaves(hosts, fewest + counted_off(self.ways) * step, taper)

    def different(self, kind: Integers, place: Integers, leaves: Leaves) -> tuple[Integers, Integers]:
        """Of leaves of some kinds and lists where each different one is first, and which of these each is.

        Leaves of equal hosts and links up make the same fabric whatever taper they were tried for, as long as it fits.

        >>> request, hosts = layouts.FabricRequest(nodes=64, rails=8, radix=32), np.array([8])
        >>> options = [
        ...     Options(request, None, {(32, 32): Sizes(32, taper, hosts)}, 4) for taper in (2.0, 1.9)
        ... ]
        >>> tried = TriedLeaves.of(options)
        >>> place, leaves = tried.each()
        >>> leaves.hosts.tolist(), leaves.up.tolist()
        ([8, 8, 8, 8, 8, 8, 8, 8, 8], [4, 5, 6, 7, 8, 5, 6, 7, 8])
        >>> tried.different(tried.kind[place], place, leaves)[1].tolist()
        [0, 1, 2, 3, 4, 1, 2, 3, 4]
        """
        if len({*self.kind.tolist()}) == len(self.kind):
            return np.arange(len(place)), np.arange(len(place))
        taper = self._taper_of(place, leaves.hosts, leaves.taper)
        return distinct((kind, leaves.hosts, leaves.up, taper), len(taper))

    def _taper_of(self, place: Integers, hosts: Integers, taper: Floats) -> Integers:
        """Numbers of the tapers of leaves of some lists, where these are tapers' own or fit none; 0 where others come
        to the same.
        """
        bound = (hosts == 0) | ~self.fits[place]
        number = np.zeros(len(bound), np.int64)
        number[bound] = 1 + np.unique(taper[bound], return_inverse=True)[1]
        return number


class SharedSizes(NamedTuple):
    """Sizes that lists of leaves share.

    Attributes:
        list, size: of each size of each list the place of the list, and which of the different ones it is.
        leaves: the different ones, each in the first list that has it.
        number: which of them each of these is.
    """

    list: Integers
    size: Integers
    leaves: TriedLeaves
    number: Integers


def _column(values: Sequence[Any], which: Integers) -> Any:
    """Which of some values each has, or the one that all have."""
    return values[0] if len(set(values)) == 1 else np.array(values)[which]
