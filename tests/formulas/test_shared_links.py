"""The ideal forms of collectives against a simulation, transfer by transfer, on networks of links.

Messages are 1 B a rank and links carry 1 B/s, so that times are shares of S/B; the forms are proportional to it.
"""

import itertools
from functools import partial
from random import Random

import numpy as np
import pytest

from app.formulas.collectives import ideal, shared_links
from app.formulas.fabric.load_balancing import hashed_share
from app.formulas.fabric.placement import halving_share
from tests.transfers import Transfer, first_come, in_rounds, simulated

Path = tuple[object, ...]


def switch(source: int, target: int) -> Path:
    """Out of one port and into another."""
    return (("out", source), ("in", target))


def ring(size: int, source: int, target: int) -> Path:
    """The shorter way round, clockwise where both are as long."""
    ahead = (target - source) % size
    step, hops = (1, ahead) if ahead <= size - ahead else (-1, size - ahead)
    return tuple(((source + step * hop) % size, step) for hop in range(hops))


def mesh(source: int, target: int) -> Path:
    """A link of their own."""
    return ((source, target),)


def torus(sides: tuple[int, ...], source: int, target: int, clockwise: bool = True) -> Path:
    """Dimension by dimension; straight across one way or the other."""
    here, there, path = list(np.unravel_index(source, sides)), np.unravel_index(target, sides), []
    for axis, side in enumerate(sides):
        ahead = (there[axis] - here[axis]) % side
        forward = ahead < side - ahead or (clockwise and 2 * ahead == side)
        for _ in range(ahead if forward else side - ahead):
            path.append((tuple(map(int, here)), axis, forward))
            here[axis] = (here[axis] + (1 if forward else -1)) % side
    return tuple(path)


def spine(leaf: int, uplinks: int, source: int, target: int) -> Path:
    """Up the uplink of the host's own number and down to the same on the other side."""
    if source // leaf == target // leaf:
        return switch(source, target)
    up = (source // leaf, "up", source % uplinks), (target // leaf, "down", source % uplinks)
    return (("out", source), *up, ("in", target))


def ring_rounds(ranks, path, size, rounds):
    """Each rank to the next, so many times."""
    return [[(rank, (rank + 1) % ranks, path(rank, (rank + 1) % ranks), size) for rank in range(ranks)]] * rounds


def halving_rounds(ranks, path, size):
    """Halving distances from the nearest partner on, then doubling back."""
    halves = [
        [(rank, rank ^ 2**step, path(rank, rank ^ 2**step), size / 2 ** (step + 1)) for rank in range(ranks)]
        for step in range(int(np.log2(ranks)))
    ]
    return [*halves, *reversed(halves)]


def all_pairs(ranks, path, size):
    """Each rank to every other at once."""
    return [[(one, two, path(one, two), size / ranks) for one, two in itertools.permutations(range(ranks), 2)]]


PLACES = {"switch": lambda _ranks: switch, "ring": lambda ranks: partial(ring, ranks), "mesh": lambda _ranks: mesh}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_rings_keep_their_links_busy_wherever_they_run(place, ranks):
    """2(n - 1) rounds of S/n: nothing else is on a link. A gather has half of them."""
    path = PLACES[place](ranks)
    hops = 2 if place == "switch" else 1
    for form, rounds in ((ideal.ring_all_reduce, 2 * ranks - 2), (ideal.ring_all_gather, ranks - 1)):
        time = simulated(in_rounds(ring_rounds(ranks, path, 1 / ranks, rounds)), 1.0, latency=0.01)
        assert float(form(1.0, ranks, hops * 0.01, 1.0)) == pytest.approx(time)


@pytest.mark.parametrize("ranks", [4, 8, 16, 32])
def test_halving_doubling_has_a_switch_to_itself_and_shares_a_ring(ranks):
    """On a ring each of 2log₂n steps has 2^i pairs with S/2^(i + 1) bytes on a link: S/2 each, over 2^i hops."""
    rounds = partial(halving_rounds, ranks, size=1.0)
    alone = simulated(in_rounds(rounds(path=switch)), 1.0, latency=0.01)
    assert float(ideal.halving_doubling_all_reduce(1.0, ranks, 0.02, 1.0)) == pytest.approx(alone)
    shared = simulated(in_rounds(rounds(path=partial(ring, ranks))), 1.0, latency=0.01)
    assert float(shared_links.ring_halving_doubling_all_reduce(1.0, ranks, 0.01, 1.0)) == pytest.approx(shared)


@pytest.mark.parametrize("chunks", [1, 2, 8, 32])
@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_halving_doubling_on_a_full_mesh_takes_another_link_each_step(ranks, chunks):
    """Scattered and then gathered in chunks, first come first served on each step's link; one chunk as by transfers."""
    steps = [1 / 2 ** (step + 1) / chunks for step in range(int(np.log2(ranks)))]
    time = 2 * first_come(steps, chunks, back=False)
    assert float(shared_links.mesh_halving_doubling_all_reduce(1.0, ranks, 0.0, 1.0, chunks)) == pytest.approx(time)
    if chunks == 1:
        assert simulated(in_rounds(halving_rounds(ranks, mesh, 1.0)), 1.0) == pytest.approx(time)


@pytest.mark.parametrize("ranks", [3, 8, 16])
def test_all_at_once_on_a_full_mesh_is_one_share_on_each_link(ranks):
    time = simulated(in_rounds(all_pairs(ranks, mesh, 1.0)), 1.0, latency=0.01)
    assert float(shared_links.direct_exchange(1.0, ranks, 0.01, 1.0)) == pytest.approx(time)


@pytest.mark.parametrize("sides", [(5,), (8,), (4, 4), (5, 3), (6, 4), (3, 3, 3)])
def test_an_all_to_all_on_a_torus_takes_what_its_longest_side_does(sides):
    """Half of the bytes to the ranks straight across go each way; a link of the longest side carries a/8 of S."""
    ranks = int(np.prod(sides))
    each_way = [torus_pairs(sides, ranks, clockwise) for clockwise in (True, False)]
    time = simulated([Transfer(path, 0.5 / ranks) for paths in each_way for path in paths], 1.0)
    assert float(shared_links.torus_all_to_all(1.0, sides, 0.0, 1.0)) == pytest.approx(time, rel=0.02)


def torus_pairs(sides, ranks, clockwise):
    return [torus(sides, one, two, clockwise) for one, two in itertools.permutations(range(ranks), 2)]


def torus_rounds(sides, order, forward, size):
    """Reduce-scatter in each dimension of an order, by rings one way round, and gather on the way back."""
    ranks = int(np.prod(sides))
    rounds, held = [], size
    for axis in order:
        held /= sides[axis]
        rounds += [[_next(sides, rank, axis, forward, held) for rank in range(ranks)]] * (sides[axis] - 1)
    return [*rounds, *reversed(rounds)]


def _next(sides, rank, axis, forward, size):
    place = list(np.unravel_index(rank, sides))
    link = (tuple(map(int, place)), axis, forward)
    place[axis] = (place[axis] + (1 if forward else -1)) % sides[axis]
    return rank, int(np.ravel_multi_index(place, sides)), (link,), size


@pytest.mark.parametrize("sides", [(8,), (4, 4), (8, 4), (4, 4, 4)])
def test_every_dimension_and_direction_of_a_torus_takes_a_share_of_an_all_reduce(sides):
    """2D shares at once, each of which begins with another dimension; a phase ends with its slowest share."""
    dimensions, shares = len(sides), []
    for first, forward in itertools.product(range(dimensions), (True, False)):
        order = [(first + step) % dimensions for step in range(dimensions)]
        shares.append(torus_rounds(sides, order, forward, 1 / (2 * dimensions)))
    together = [list(itertools.chain(*each)) for each in itertools.zip_longest(*shares, fillvalue=[])]
    if len(set(sides)) == 1:
        time = simulated(in_rounds(together), 1.0, latency=0.01)
        assert float(shared_links.torus_all_reduce(1.0, sides, 0.01, 1.0)) == pytest.approx(time)
        bound = 2 * (1 - 1 / np.prod(sides)) / (2 * dimensions)
        assert float(shared_links.torus_all_reduce(1.0, sides, 0.0, 1.0)) == pytest.approx(bound)
    else:  # a share may go on before the others, never later than they
        alone = [in_rounds(share) for share in shares]
        offsets = itertools.accumulate(map(len, alone), initial=0)
        free = [
            transfer._replace(after=tuple(place + offset for place in transfer.after))
            for part, offset in zip(alone, offsets, strict=False)
            for transfer in part
        ]
        assert simulated(free, 1.0) <= float(shared_links.torus_all_reduce(1.0, sides, 0.0, 1.0)) * (1 + 1e-9)


LEVELS = [(1.0, 1.5), (1.5, 0.5), (1.0, 1.0), (3.0, 0.05), (1.0, 0.5, 0.25), (0.2, 0.5, 1.0), (1.0, 3.0, 2.0)]


@pytest.mark.parametrize("chunks", [1, 2, 4, 16, 64])
@pytest.mark.parametrize("times", LEVELS)
def test_levels_overlap_as_chunk_by_chunk(times, chunks):
    """Each level serves one chunk at a time, scatters and gathers first come first served."""
    found, few = float(shared_links.overlapped_levels(times, chunks)), len(times) > 2 and 1 < chunks < 16
    assert found == pytest.approx(first_come(times, chunks), rel=0.2 if few else 1e-9)
    assert found <= 2 * chunks * sum(times) * (1 + 1e-9)
    gathered = first_come(times, chunks, back=False)
    assert float(shared_links.overlapped_gathers(times, chunks)) == pytest.approx(gathered)


@pytest.mark.parametrize("chunks", [1, 4, 64])
@pytest.mark.parametrize(("sides", "rates"), [((4, 4), (1.0, 1.0)), ((8, 4), (4.0, 1.0)), ((4, 4, 2), (4.0, 1.0, 0.5))])
def test_a_hierarchical_all_reduce_is_its_rings_one_level_after_the_other(sides, rates, chunks):
    """Rings inside and between, transfer by transfer for one chunk; then the chunks of all levels in turn."""
    ranks = int(np.prod(sides))
    scatters = shared_links.ring_scatters(1 / chunks, sides, 0.0, rates)
    alone = []
    for axis, side in enumerate(sides):
        held = 1 / chunks / np.prod(sides[: axis + 1])
        level = [[_next(sides, rank, axis, True, held) for rank in range(ranks)]] * (side - 1)
        alone.append(simulated(in_rounds(level), rates[axis]))
    assert scatters == pytest.approx(alone)
    time = float(shared_links.overlapped_levels(scatters, chunks))
    assert time == pytest.approx(first_come(alone, chunks), rel=0.01)


@pytest.mark.parametrize("uplinks", [8, 4, 2])
@pytest.mark.parametrize(("ranks", "leaf"), [(32, 8), (16, 8), (64, 8)])
def test_leaves_and_spines_leave_halving_doubling_and_an_all_to_all_what_the_taper_lets_through(ranks, leaf, uplinks):
    """Near partners first, only S(1/m - 1/n) leaves a leaf each way; of an all-to-all (n - m)/n."""
    taper, path = leaf / uplinks, partial(spine, leaf, uplinks)
    share = float(halving_share(float(ranks), [(float(leaf), taper)]))
    time = simulated(in_rounds(halving_rounds(ranks, path, 1.0)), 1.0)
    assert float(ideal.halving_doubling_all_reduce(1.0, ranks, 0.0, share)) == pytest.approx(time)
    crossing = (ranks - leaf) / ranks * taper
    if ranks < 64:
        time = simulated(in_rounds(all_pairs(ranks, path, 1.0)), 1.0)
        assert max(1 - 1 / ranks, crossing) == pytest.approx(time, rel=0.05)


def test_hashed_uplinks_cost_halving_doubling_a_fifth():
    """Each step across 4 leaves of 16 on 16 uplinks waits for its fullest link: formula 2.26, drawn 2.41; 1.97 even."""
    ranks, leaf, random = 64, 16, Random(7)

    def hashed(source, target):
        if source // leaf == target // leaf:
            return switch(source, target)
        up = random.randrange(leaf)
        return (("out", source), (source // leaf, "up", up), (target // leaf, "down", up), ("in", target))

    drawn = [simulated(in_rounds(halving_rounds(ranks, hashed, 1.0)), 1.0) for _ in range(3)]
    left = float(hashed_share(float(leaf), 1.0, leaf, 2 * ranks / leaf))
    share = float(halving_share(float(ranks), [(float(leaf), 1 / left)]))
    time = float(ideal.halving_doubling_all_reduce(1.0, ranks, 0.0, share))
    assert time == pytest.approx(np.mean(drawn), rel=0.1)
    assert 1.1 < time / float(ideal.halving_doubling_all_reduce(1.0, ranks, 0.0, 1.0)) < 1.25
