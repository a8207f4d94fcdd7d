"""What moves when a tree of switches grows: links to other switches, and what early switches cost."""

from __future__ import annotations

from app.formulas.arrays import Array, maximum, where


def moved_uplinks(links: Array, reached: Array, reached_later: Array) -> Array:
    """Links between two tiers that go to another switch after growth, n (1 - s/S), none where s ≥ S.

    A switch spreads its links evenly over those that it reaches above it. When these grow from s to S, each keeps s/S
    of what it had, and the rest moves to the new ones.

    Args:
        links: between the two tiers before growth, n [1].
        reached: switches above that one below reaches, s [1].
        reached_later: the same after growth, S [1].

    Returns:
        Links [1].

    Source: even spreading as in NVIDIA DGX SuperPOD RA-11333 tables 3 and 4.

    32 leaves of 64 uplinks over 16 spines that become 64 move three of four:

    >>> moved_uplinks(2048, 16, 64), moved_uplinks(2048, 64, 64)
    (1536.0, 0.0)
    """
    return links * maximum(1 - reached / where(reached_later > 0, reached_later, 1), 0)


def displaced(links: Array, switches: Array, ports: Array) -> Array:
    """Links from below that find no port on their old switches after growth, n - S d, none below zero.

    A switch whose every port faced down gives some of them up for links to a new tier above it.

    Args:
        links: that end at the switches before growth, n [1].
        switches: those, S [1].
        ports: that each has for links from below after growth, d [1].

    Returns:
        Links [1].

    Source: arithmetic.

    32 spines without cores take 64 links each, and with cores 32:

    >>> displaced(2048, 32, 32), displaced(64, 1, 64)
    (1024, 0)
    """
    return maximum(links - switches * ports, 0)


def present_value(now: Array, later: Array, interest: Array, years: Array) -> Array:
    """What two payments are worth today, C1 + C2 (1 + i)^-n [USD].

    Args:
        now: paid today, C1 [USD].
        later: paid after some years, C2 [USD].
        interest: of a year, i [1].
        years: until the second, n [1].

    Source: Brealey, Myers, Allen, "Principles of corporate finance", chapter 2.

    >>> float(present_value(100.0, 110.0, 0.1, 1.0))
    200.0
    """
    return now + later * (1 + interest) ** -years
