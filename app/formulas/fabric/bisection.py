"""Inside a node or a rack: the least capacity between halves, switches of a domain, and what a slot's link carries."""

from __future__ import annotations

from app.formulas.arrays import Array, where


def scale_up_bisection(gpus: Array, bandwidth: Array) -> Array:
    """Bisection of a switched scale-up domain, one way: half its GPUs send at full rate, g/2 · B [B/s].

    Args:
        gpus: GPUs in the domain, g [1].
        bandwidth: of one GPU in one direction, B [B/s].

    Source: NVIDIA quotes both directions: HGX H100 with 8 GPUs of 900 GB/s both ways has 3.6 TB/s, so 1.8 TB/s one way.

    >>> float(scale_up_bisection(8, 450e9))
    1800000000000.0
    """
    return gpus // 2 * bandwidth


def mesh_bisection(members: Array, bandwidth: Array) -> Array:
    """Bisection of a full mesh, one way: each of one half has a link to each of the other [B/s].

    Args:
        members: GPUs (or switches) in the mesh [1].
        bandwidth: of one link in one direction [B/s].

    Source: 8 MI300X with 64 GB/s a link: 4 · 4 links, 1.02 TB/s.

    >>> float(mesh_bisection(8, 64e9))
    1024000000000.0
    """
    return members // 2 * (members - members // 2) * bandwidth


def scale_up_chips(gpus: Array, links: Array, ports: Array) -> Array:
    """Switch chips of a scale-up domain at full rate: n·ℓ/k in one tier, 3·n·ℓ/k in two.

    Args:
        gpus: GPUs of the domain, n [1].
        links: of each GPU, ℓ [1].
        ports: of a chip, k; one tier joins k GPUs, two join k²/2 [1].

    Returns:
        Chips [1].

    Source: Leiserson 1985, counted for two tiers: a leaf has k/2 links down and as many up. An NVL72 has 18 chips.

    >>> scale_up_chips(72, 18, 72), scale_up_chips(144, 18, 72), scale_up_chips(576, 18, 72)
    (18, 108, 432)
    """
    tiers: Array = where(gpus > ports, 3, 1)
    return -(-tiers * gpus * links // ports)


def slot_use(network: Array, storage: Array, link: Array, payload: Array) -> Array:
    """What NICs and storage ask of a GPU's PCIe link at most, over what that carries, (N + S)/(ηB).

    Args:
        network: its share of the compute network's ports, one direction, N [B/s].
        storage: its share of the storage network's ports, S [B/s].
        link: the link's rate in one direction, B [B/s].
        payload: share of it that is payload, η [1].

    Returns:
        Share; above 1 one waits for the other [1].

    Source: Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018 (headers).

    400 Gb/s of network and a quarter of that of storage on 63 GB/s:

    >>> round(slot_use(50e9, 12.5e9, 63e9, 0.89), 3)
    1.115
    """
    return (network + storage) / (link * payload)
