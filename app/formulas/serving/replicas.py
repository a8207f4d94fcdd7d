"""How many replicas have room in a cluster whose scale-up domains hold each stage of them whole."""

from __future__ import annotations

import numpy as np

from app.formulas.arrays import Array, maximum, minimum, where
from app.formulas.serving.serving_arguments import Layout


def replicas_placed(gpus: Array, layout: Layout, domain: Array) -> Array:
    """Replicas that GPUs have room for, r = min(⌊n/(t·a·p)⌋, ⌊⌈n/D⌉·⌊D/(t·a)⌋/p⌋).

    Each stage stands whole in a domain, and those of a pipeline may stand in several. Stages that are larger than a
    domain take several, and are bound by the first alone.

    Args:
        gpus: of the cluster, n [1].
        layout: of a replica.
        domain: GPUs that reach one another over the scale-up link, D [1].

    Returns:
        Replicas [1].

    Source: counted.

    >>> float(replicas_placed(576.0, Layout(attention_data=32.0), 72.0))  # two in each of eight racks, not 18
    16.0
    """
    whole, in_domains = np.floor(gpus / layout.gpus), np.ceil(gpus / domain) * np.floor(domain / layout.stage)
    return where(layout.stage <= domain, minimum(whole, np.floor(in_domains / layout.pipeline)), whole)


def gpus_filled(gpus: Array, layout: Layout, other: Layout, domain: Array) -> Array:
    """GPUs that replicas of two layouts fill at most, min(n, ⌈n/D⌉·s·⌊D/s⌋).

    What is left of a domain beside stages of the smaller size s is idle.

    Args:
        gpus: of the cluster, n [1].
        layout: of the one replicas.
        other: of the others.
        domain: GPUs that reach one another over the scale-up link, D [1].

    Returns:
        GPUs [1]; all where a stage is larger than a domain.

    Source: counted; exact where the one size divides the other.

    >>> float(gpus_filled(144.0, Layout(tensor=4.0), Layout(attention_data=16.0), 72.0))
    144.0
    >>> float(gpus_filled(144.0, Layout(tensor=16.0), Layout(attention_data=32.0), 72.0))
    128.0
    """
    filled = np.ceil(gpus / domain) * (domain - domain % minimum(layout.stage, other.stage))
    return where(maximum(layout.stage, other.stage) <= domain, minimum(gpus, filled), gpus)


def domains_needed(replicas: Array, layout: Layout, domain: Array) -> Array:
    """Domains that so many replicas need, ⌈r·p/⌊D/(t·a)⌋⌉.

    Args:
        replicas: r [1].
        layout: of one of them.
        domain: GPUs that reach one another over the scale-up link, D [1].

    Returns:
        Domains [1]; one where a stage is larger than a domain, whose GPUs alone bind it.

    Source: counted.

    >>> float(domains_needed(5.0, Layout(attention_data=32.0), 72.0))  # two in each
    3.0
    """
    each = maximum(np.floor(domain / layout.stage), 1.0)
    return where(layout.stage <= domain, np.ceil(replicas * layout.pipeline / each), 1.0)


def gpus_in_domains(gpus: Array, domains: Array, domain: Array) -> Array:
    """GPUs of a cluster that has some in so many domains, max(n, (d - 1)·D + 1).

    Args:
        gpus: that are used, n [1].
        domains: over which they stand, d [1].
        domain: GPUs that reach one another over the scale-up link, D [1].

    Returns:
        GPUs [1].

    Source: counted.

    >>> float(gpus_in_domains(96.0, 2.0, 72.0)), float(gpus_in_domains(128.0, 3.0, 72.0))
    (96.0, 145.0)
    """
    return maximum(gpus, (domains - 1) * domain + 1)
