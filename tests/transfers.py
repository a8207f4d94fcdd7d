"""A network of links and the transfers over it, simulated: what the closed forms of collectives are held to.

A transfer begins when those that it waits for have ended, and takes a latency for each link of its path before its
bytes flow. All links run at one rate. Those that flow at a time share links by max-min fairness: the link with the
least rate for each of its transfers gives them that, then the next with what is left. Two of 1 B over one link of
1 B/s, and a third that waits for both: 2 s and 1 s.

>>> both = [Transfer(("link",), 1.0), Transfer(("link",), 1.0)]
>>> simulated([*both, Transfer(("link",), 1.0, after=(0, 1))], rate=1.0)
3.0
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple


class Transfer(NamedTuple):
    """Bytes over a path.

    Attributes:
        path: links, one after the other.
        size: bytes [B].
        after: places in the list of the transfers that it waits for.
    """

    path: tuple[Hashable, ...]
    size: float
    after: tuple[int, ...] = ()


def simulated(transfers: Sequence[Transfer], rate: float, latency: float = 0.0) -> float:
    """Time until the last transfer ends [s]; ``latency`` is that of a link [s]."""
    waiting = [len(transfer.after) for transfer in transfers]
    followers = defaultdict(list)
    for place, transfer in enumerate(transfers):
        for earlier in transfer.after:
            followers[earlier].append(place)
    starts = [(latency * len(transfers[place].path), place) for place, count in enumerate(waiting) if not count]
    heapq.heapify(starts)
    left, now = dict[int, float](), 0.0
    while starts or left:
        speeds = _fair([transfers[place].path for place in left])
        ends = [now + size / (rate * speed) for size, speed in zip(left.values(), speeds, strict=True)]
        then = min([*ends, *(when for when, _ in starts[:1])])
        ended = [place for place, end in zip(left, ends, strict=True) if end <= then * (1 + 1e-12)]
        for place, speed in zip(left, speeds, strict=True):
            left[place] -= rate * speed * (then - now)
        now = then
        for place in ended:
            del left[place]
            for follower in followers[place]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    heapq.heappush(starts, (now + latency * len(transfers[follower].path), follower))
        while starts and starts[0][0] <= now * (1 + 1e-12):
            place = heapq.heappop(starts)[1]
            left[place] = transfers[place].size
    return now


def _fair(paths: Sequence[tuple[Hashable, ...]]) -> list[float]:
    """Share of a link's rate that each transfer has."""
    speeds = [1.0] * len(paths)
    room: dict[Hashable, float] = defaultdict(lambda: 1.0)
    open_ = {place for place, path in enumerate(paths) if path}
    while open_:
        load = Counter(link for place in open_ for link in paths[place])
        least = min(room[link] / count for link, count in load.items())
        full = {link for link, count in load.items() if room[link] / count <= least * (1 + 1e-9)}
        settled = {place for place in open_ if not full.isdisjoint(paths[place])}
        for place in settled:
            speeds[place] = least
            for link in paths[place]:
                room[link] -= least
        open_ -= settled
    return speeds


def in_rounds(rounds: Iterable[Iterable[tuple[Hashable, Hashable, tuple[Hashable, ...], float]]]) -> list[Transfer]:
    """Transfers of rounds (from, to, path, bytes): a rank sends once it has sent and received in the round before."""
    found: list[Transfer] = []
    before: dict[Hashable, tuple[int, ...]] = {}
    for each in rounds:
        latest: dict[Hashable, tuple[int, ...]] = defaultdict(tuple)
        for source, target, path, size in each:
            place = len(found)
            found.append(Transfer(path, size, before.get(source, ())))
            latest[source] += (place,)
            latest[target] += (place,)
        before |= latest
    return found


def first_come(times: Sequence[float], chunks: int, back: bool = True) -> float:
    """When the last of some chunks is through, each passing levels in order, and back again.

    A level serves one chunk at a time, whichever came first.
    """
    path = [*enumerate(times), *(reversed(list(enumerate(times))) if back else ())]
    queues: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
    queues[0] = [(0.0, chunk, 0) for chunk in range(chunks)]
    free: dict[int, float] = defaultdict(float)
    served = 0.0
    while any(queues.values()):
        level = min(
            (level for level in queues if queues[level]), key=lambda level: max(free[level], queues[level][0][0])
        )
        ready, chunk, place = heapq.heappop(queues[level])
        free[level] = max(free[level], ready) + path[place][1]
        served = max(served, free[level])
        if place + 1 < len(path):
            heapq.heappush(queues[path[place + 1][0]], (free[level], chunk, place + 1))
    return served
