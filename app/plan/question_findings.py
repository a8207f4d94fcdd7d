"""What does not fit together in a question, whatever it is asked for, and what to change."""

from collections.abc import Iterator
from math import lcm, prod

from app import units
from app.catalog.entries import Entry
from app.catalog.load import Catalog
from app.plan.cluster import Cluster
from app.plan.findings import not_shipping, of_links
from app.plan.job.inputs import JobRequest, fixed_degrees
from app.plan.job.shape import shape
from app.plan.result import Finding
from app.plan.scenario import MOST_GPUS, ModelRequest, Scenario
from app.plan.site_calibration import read_calibration
from app.plan.unusual_values import unusual_values


def of_question(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Iterator[Finding]:
    """What does not fit together, what is not on sale yet, what is far from usual, what a link was made with."""
    multiple = _gpus_multiple(scenario, catalog) if cluster.gpus % cluster.unit_gpus else 1
    yield from idle_gpus(cluster, multiple)
    yield from of_links(cluster, scenario)
    yield from _slower_network(cluster, catalog)
    yield from _status(cluster)
    yield from _shape(scenario, catalog)
    yield from unusual_values(cluster, scenario, catalog)
    yield from _calibrated(scenario)
    yield from other_catalogue(scenario, catalog)


LOAD = ("request_rate", "concurrency", "users", "ttft_limit", "tpot_limit")
"""Fields that say what a cluster is to serve, and how soon."""


def load_left_out(scenario: Scenario) -> Iterator[Finding]:
    """That a plan which trains was given a load to serve."""
    given = [Scenario.model_fields[name].title or name for name in LOAD if getattr(scenario, name) is not None]
    if given and scenario.workload == "training":
        text = f"This plan trains: what is said of serving is left out ({', '.join(given)})."
        advice = "Ask what the cluster serves."
        yield Finding("note", "load-left-out", text, ("workload",), advice, {"workload": "serving"})


def other_catalogue(scenario: Scenario, catalog: Catalog) -> Iterator[Finding]:
    """That the link of a question was made with another catalogue."""
    if scenario.catalog_version and scenario.catalog_version != catalog.version:
        yield Finding(
            "note",
            "other-catalogue",
            f"This link was made with catalogue {scenario.catalog_version}; these figures are from {catalog.version}.",
            ("catalog_version",),
            "Compare the figures before you rely on the older ones.",
        )


def _calibrated(scenario: Scenario) -> Iterator[Finding]:
    """That transfers are timed as they are at the reader's site."""
    if not scenario.calibration:
        return
    spoken = read_calibration(scenario.calibration).spoken()
    if scenario.profile == "ideal":
        text = f"The textbook knows no calibration: {spoken} is left out."
        advice = "Choose the delivered profile to use it."
        yield Finding("note", "calibration-left-out", text, ("calibration", "profile"), advice)
    else:
        text = f"Transfers are calibrated to your cluster: {spoken}."
        advice = "Clear the calibration to see what such parts usually deliver."
        yield Finding("note", "calibrated", text, ("calibration",), advice, {"calibration": None})


def _slower_network(cluster: Cluster, catalog: Catalog) -> Iterator[Finding]:
    """Where a server's own network cards carry more than the network that is planned."""
    nic_rate, planned = cluster.platform.nic_rate, cluster.scale_out
    if cluster.nodes == 1 or cluster.nics_per_node == 0 or not nic_rate.typical > planned.port_rate.typical:
        return
    alike = (other for other in catalog.scale_out.values() if other.family == planned.family)
    faster = next((other for other in alike if other.port_rate.typical == nic_rate.typical), None)
    yield Finding(
        "note",
        "slower-than-its-cards",
        f"The network cards of {cluster.platform.short_name} carry {nic_rate.typical / units.GIGABIT:,.0f} Gb/s each; "
        f"{planned.name} carries {planned.port_rate.typical / units.GIGABIT:,.0f} Gb/s.",
        ("scale_out", "platform"),
        f"Consider {faster.name}." if faster else "Consider a faster network.",
        {"scale_out": faster.key} if faster else {},
    )


def _gpus_multiple(scenario: Scenario, catalog: Catalog) -> int:
    """What the GPUs are a multiple of by the degrees of parallelism that are given [1].

    Replicas that serve take t a p GPUs, of tensor, attention data and pipeline parallelism; two pools divide apart.
    """
    if scenario.workload == "training":
        request = JobRequest.of(scenario, catalog)
        return fixed_degrees(request, shape(request.model, catalog), catalog).gpus_multiple
    if scenario.serving == "disaggregated":
        return 1
    return prod(
        degree or 1
        for degree in (scenario.tensor_parallel, scenario.attention_data_parallel, scenario.pipeline_parallel)
    )


def idle_gpus(cluster: Cluster, multiple: int = 1) -> Iterator[Finding]:
    """GPUs that stay idle in what is bought: whole nodes, or whole racks where one scale-up domain spans a rack.

    Args:
        cluster: the cluster.
        multiple: what else the GPUs that are advised are a multiple of [1].
    """
    unit, gpus, used, whole = cluster.unit_gpus, cluster.gpus, cluster.used_per_node, cluster.whole_node
    if used < whole:
        servers = "the whole server is" if cluster.nodes == 1 else f"{cluster.nodes:,} whole servers are"
        text = (
            f"{cluster.platform.short_name} is sold with {whole} GPUs: {servers} bought, placed and powered, "
            f"and {whole - used} GPUs of each stay idle."
        )
        advice = "Leave the GPUs of a node blank, or type the price of a smaller server."
        yield Finding("warning", "part-of-node", text, ("gpus_per_node",), advice, {"gpus_per_node": whole})
    odd = gpus % unit
    if not odd:
        return
    kind = "rack" if cluster.unit_nodes > 1 else "node"
    advice, changes = _filling(gpus, unit, multiple, kind)
    bought, lacking = -(-gpus // unit), unit - odd
    left = f"{lacking} of the GPUs stay idle" if lacking > 1 else "one GPU stays idle"
    idle = f"{'is' if bought == 1 else 'are'} bought and {left}."
    some = f"{gpus:,} GPUs do not fill {kind}s" if gpus > 1 else f"One GPU does not fill a {kind}"
    text = f"{some} of {unit}: {bought:,} {kind}{'s' if bought > 1 else ''} {idle}"
    if kind == "rack":
        yield Finding("warning", "partial-rack", text, ("gpus",), advice, changes)
    else:
        yield Finding("warning", "partial-node", text, ("gpus",), advice, changes)


def _filling(gpus: int, unit: int, multiple: int, kind: str) -> tuple[str, dict[str, int]]:
    """Which GPUs to use instead, so that whole nodes or racks are full, and the change that follows it.

    Args:
        gpus: that there are [1].
        unit: of a node or rack [1].
        multiple: what else they are to be a multiple of [1].
        kind: node or rack.

    >>> _filling(1000, 72, 1, "rack")
    ('Use 936 or 1,008 GPUs.', {'gpus': 1008})
    >>> _filling(1000, 72, 40, "rack")
    ('Use 720 or 1,080 GPUs: these fill racks, and the given degrees of parallelism divide them.', {'gpus': 1080})
    """
    step = lcm(unit, multiple)
    fewer = gpus // step * step
    counts = [count for count in (fewer, fewer + step) if 0 < count <= MOST_GPUS]
    if not counts:
        return f"Leave some degrees of parallelism blank: they divide the GPUs of no such {kind}s.", {}
    why = "" if step == unit else f": these fill {kind}s, and the given degrees of parallelism divide them"
    return f"Use {' or '.join(f'{count:,}' for count in counts)} GPUs{why}.", {"gpus": counts[-1]}


def _status(cluster: Cluster) -> Iterator[Finding]:
    """Parts of a cluster that are not on sale yet; those of the network's design see `of_switches`."""
    parts: list[tuple[Entry, str]] = [
        (cluster.gpu, "gpu"),
        (cluster.scale_up, "scale_up"),
        (cluster.scale_out, "scale_out"),
        (cluster.platform, "platform"),
    ]
    if cluster.nic and cluster.nodes > 1 and cluster.nics_per_node > 0:
        parts.append((cluster.nic, "scale_out"))
    yield from not_shipping(parts)


def _shape(request: ModelRequest, catalog: Catalog) -> Iterator[Finding]:
    borrowed = request.borrowed()
    if borrowed:
        stand_in = catalog.models[ModelRequest.model_fields["model"].default]
        titles = ", ".join((ModelRequest.model_fields[name].title or name).lower() for name in borrowed)
        yield Finding(
            "warning",
            "borrowed-shape",
            f"Your own model does not say its {titles}: {stand_in.name}'s stand in.",
            borrowed,
            "Fill them in, or choose a model.",
        )
