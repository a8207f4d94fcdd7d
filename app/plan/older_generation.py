"""Whether an older generation of a network without tiers leaves GPUs more than the planned one."""

from collections.abc import Iterator

from app.catalog.entries import ScaleOut
from app.catalog.load import Catalog
from app.catalog.names import TOPOLOGIES
from app.formulas.fabric.placement import network_share
from app.plan.network import Network, design_network
from app.plan.recommendation import on_another
from app.plan.result import Finding
from app.plan.scenario import another_network
from app.units import show

WITHOUT_TIERS = ("mesh", "torus-2d", "torus-3d", "dragonfly")
MORE = 1.05
"""How many times as much another generation leaves where it is worth a word [1]."""


def older_is_quicker(network: Network) -> Iterator[Finding]:
    """That a ring of all GPUs has more of an older generation.

    Faster ports are fewer, and so may be the links from one switch to the next.
    """
    topology = network.request.topology
    if network.built is None or topology not in WITHOUT_TIERS:
        return
    older = {entry.key: network_on(entry.key, network) for entry in older_generations(network)}
    rates = {key: ring_rate(other) for key, other in older.items() if other.built}
    best = max(rates, key=lambda key: rates[key], default=None)
    planned_rate = ring_rate(network)
    if best is None or not rates[best] > planned_rate * MORE:
        return
    planned, name = network.cluster.scale_out, older[best].cluster.scale_out.name
    changes = another_network(best)
    yield Finding(
        "note",
        "older-generation-is-quicker",
        f"On {TOPOLOGIES[topology]} of {planned.name} a ring of all GPUs has {show(planned_rate, 'B/s')} of each, and "
        f"{show(rates[best], 'B/s')} on {name}: fewer, faster links lead from switch to switch.",
        ("scale_out", "topology", "switch"),
        f"Plan {name} beside it, or a tree of switches.",
        {field: changes[field] for field in changes if changes[field] or getattr(network.request, field) is not None},
    )


def older_generations(network: Network) -> Iterator[ScaleOut]:
    """The generations before a network's, the latest first."""
    catalog: Catalog = network.prices.catalog
    entry = network.cluster.scale_out
    while entry.predecessor is not None:
        entry = catalog.scale_out[entry.predecessor]
        yield entry


def network_on(scale_out: str, network: Network) -> Network:
    """The network of the same cluster on another generation."""
    cluster, request = on_another(scale_out, network.cluster, network.request, network.prices.catalog)
    return design_network(cluster, request, network.prices)


def ring_rate(network: Network) -> float:
    """What a ring of all GPUs has of each one's network rate [B/s]."""
    rate = network.cluster.rate_per_gpu
    typical = rate if isinstance(rate, float) else rate.typical
    return typical * float(network_share([(1.0, network.site.gpus)], "ring", network.site))
