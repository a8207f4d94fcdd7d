"""What a network has left when a part of it fails and the rest takes its traffic."""

from app.formulas.arrays import Array, maximum


def taper_without(hosts: Array, uplinks: Array, failed: Array) -> Array:
    """Taper of a leaf that has lost some of its links up, max(h/(u - f), 1).

    Args:
        hosts: hosts below the leaf, h [1].
        uplinks: its links up, each as fast as a host's, u [1].
        failed: those that are lost, f [1].

    Returns:
        Taper [1]; no host sends faster than its own link. Endless where no link is left.

    Source: Leiserson, "Fat-trees", IEEE Trans. Computers C-34(10), 1985 (capacity of a channel is that of its wires).

    >>> float(taper_without(32.0, 32.0, 2.0)), float(taper_without(24.0, 32.0, 2.0))
    (1.0666666666666667, 1.0)
    """
    left = maximum(uplinks - failed, 0.0)
    return maximum(hosts / maximum(left, 1e-300), 1.0)


def links_of_a_switch(ports_down: Array, leaves: Array) -> Array:
    """Links that a leaf has to one switch above it, max(⌊d/l⌋, 1) [1].

    Args:
        ports_down: links that the switch takes from below, d [1].
        leaves: leaves that share it, l [1].

    Source: Railyard; a spine's ports are dealt out evenly to the leaves below it.

    >>> float(links_of_a_switch(64, 32)), float(links_of_a_switch(64, 96))
    (2.0, 1.0)
    """
    return maximum(ports_down // maximum(leaves, 1), 1.0)
