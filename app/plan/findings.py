"""Findings about the hardware as such, before anything is computed."""

from collections.abc import Iterator

from app.catalog import Catalog
from app.plan.hardware import Hardware
from app.plan.parts import Finding
from app.plan.unusual_values import unusual_values
from app.scenario import Scenario


def of_hardware(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> Iterator[Finding]:
    """What does not fit together, what is not on sale yet, what is far from usual, what a link was made with."""
    yield from _nodes(hardware)
    yield from _links(hardware, scenario)
    yield from _status(hardware)
    yield from _shape(scenario, catalog)
    yield from unusual_values(hardware, scenario, catalog)
    if scenario.catalog_version and scenario.catalog_version != catalog.version:
        yield Finding(
            "note",
            "other-catalogue",
            f"This link was made with catalogue {scenario.catalog_version}; these figures are from {catalog.version}.",
            ("catalog_version",),
            "Compare the figures before you rely on the older ones.",
        )


def _nodes(hardware: Hardware) -> Iterator[Finding]:
    odd = hardware.gpus % hardware.gpus_per_node
    if odd:
        fewer, more = hardware.gpus - odd, hardware.gpus - odd + hardware.gpus_per_node
        yield Finding(
            "warning",
            "partial-node",
            f"{hardware.gpus:,} GPUs do not fill nodes of {hardware.gpus_per_node}: {hardware.nodes:,} nodes are "
            f"bought and {more - hardware.gpus} of their GPUs stay idle.",
            ("gpus",),
            f"Use {fewer:,} or {more:,} GPUs.",
            {"gpus": more},
        )


def _links(hardware: Hardware, scenario: Scenario) -> Iterator[Finding]:
    if hardware.gpu.key not in hardware.platform.gpus:
        yield Finding(
            "warning",
            "unusual-platform",
            f"{hardware.platform.name} is not sold with {hardware.gpu.name}.",
            ("platform", "gpu"),
            "Leave the server blank to take the GPU's usual platform.",
        )
    own = {hardware.gpu.scale_up, hardware.gpu.pcie, hardware.platform.pcie}
    if hardware.scale_up.key not in own:
        yield Finding(
            "warning",
            "other-scale-up",
            f"{hardware.gpu.name} has no {hardware.scale_up.name}; the plan shows what it would do.",
            ("scale_up",),
            "Leave the scale-up link blank to take the GPU's own.",
        )
    limit = hardware.scale_up.largest_domain
    if (scenario.scale_up_domain or 0) > limit:
        yield Finding(
            "error",
            "domain-too-large",
            f"{hardware.scale_up.name} joins at most {limit} GPUs in one domain, not {scenario.scale_up_domain}.",
            ("scale_up_domain",),
            f"Use at most {limit}.",
            {"scale_up_domain": limit},
        )
    if hardware.nodes > 1 and hardware.nics_per_node == 0:
        yield Finding(
            "error",
            "no-network",
            f"{hardware.nodes} nodes without a NIC cannot reach one another.",
            ("nics_per_node",),
            "Use at least one NIC per node.",
            {"nics_per_node": 1},
        )


def _status(hardware: Hardware) -> Iterator[Finding]:
    parts = (hardware.gpu, hardware.scale_up, hardware.scale_out, hardware.platform)
    fields = ("gpu", "scale_up", "scale_out", "platform")
    early = [
        (part, field) for part, field in zip(parts, fields, strict=True) if part.status in ("announced", "projected")
    ]
    if early:
        names = " and ".join(f"{part.name} ({part.status})" for part, _ in early)
        yield Finding(
            "note",
            "not-shipping",
            f"Not on sale yet: {names}. Figures that rest on it are the vendor's plans.",
            tuple(field for _, field in early),
        )


def _shape(scenario: Scenario, catalog: Catalog) -> Iterator[Finding]:
    borrowed = scenario.borrowed()
    if borrowed:
        stand_in = catalog.models[Scenario.model_fields["model"].default]
        titles = ", ".join((Scenario.model_fields[name].title or name).lower() for name in borrowed)
        yield Finding(
            "warning",
            "borrowed-shape",
            f"Your own model does not say its {titles}: {stand_in.name}'s stand in.",
            borrowed,
            "Fill them in, or choose a model.",
        )
