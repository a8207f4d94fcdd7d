"""What each group of a step sends where: the tiers it crosses, the bytes, the rate that it has there, the time."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from app.formulas import transformer
from app.formulas.arrays import Array
from app.formulas.fabric.placement import group_size, members
from app.formulas.training import arguments, groups, traffic
from app.plan.job.inputs import StepInputs
from app.plan.result import GroupTraffic

UNHIDDEN = arguments.Software(
    overlap_tensor=0.0, async_tensor=0.0, overlap_data=0.0, overlap_pipeline=0.0, overlap_expert=0.0
)
"""A stack that hides nothing."""
AS_THEY_ARE = (
    "scale_up",
    "scale_out",
    "expert_scale_up",
    "expert_scale_out",
    "scale_up_latency",
    "scale_out_latency",
    "hop",
)
"""The constants that make bytes a time."""


def group_traffic(
    inputs: StepInputs, par: arguments.Parallelism | None, exposed: Mapping[str, float]
) -> Iterator[GroupTraffic]:
    """The groups of a configuration that send anything, with what shows of each in the step [s]."""
    if par is None:
        return
    site, gpu = inputs.site, inputs.hardware
    shown = {f"exposed_{name}": 1.0 for name in ("tensor", "context", "pipeline", "data", "expert")}
    calibration = replace(inputs.calibration, **shown, exposed_gather=0.0, hiding=0.0)
    every_byte = replace(
        calibration, **{name: 0.0 if name.endswith(("latency", "hop")) else 1.0 for name in AS_THEY_ARE}
    )
    anywhere = replace(par, **dict.fromkeys(groups.SHARES, 1.0))
    times = _alone(inputs, gpu, par, calibration)
    near = _alone(inputs, _links(gpu, 1.0, np.inf), anywhere, every_byte)
    far = _alone(inputs, _links(gpu, np.inf, 1.0), anywhere, every_byte)
    for name, axes in groups.axes_of(par).items():
        size, time = float(group_size(axes)), float(times[name])
        if size <= 1 or not time > 0:
            continue
        local = float(members(axes, site.domain))
        share = float(getattr(par, f"{name.removesuffix('_parallel')}_network"))
        scale_up, scale_out = traffic.link_rates(gpu, local, calibration, share)
        inside = [float(members(axes, unit)) for unit in (site.domain, site.leaf, site.pod)]
        crossed = next((tier for tier, there in zip(TIERS, inside, strict=False) if there >= size), TIERS[-1])
        yield GroupTraffic(
            group=name,
            ranks=round(size),
            ranks_inside=round(local),
            crosses=crossed,
            sent_inside=float(near[name]) if local > 1 else 0.0,
            sent=float(far[name]),
            bandwidth=float(scale_out if crossed != TIERS[0] else scale_up),
            time=time,
            exposed=exposed.get(name, 0.0),
        )


TIERS = ("scale_up", "leaf", "spine", "core")
"""Where a group stays: in a domain, below a leaf, below the spines of a pod, anywhere."""


def _links(gpu: arguments.GpuRates, scale_up: float, scale_out: float) -> arguments.GpuRates:
    """A GPU with links of these rates [B/s]: at 1 B/s a time is the bytes that a link carries, at infinity none."""
    return replace(gpu, scale_up_bandwidth=np.float64(scale_up), scale_out_bandwidth=np.float64(scale_out))


def _alone(
    inputs: StepInputs, gpu: arguments.GpuRates, par: arguments.Parallelism, calibration: arguments.Calibration
) -> dict[str, Array]:
    """What the exchanges of each kind of group would take in a step if nothing hid them [s]."""
    shape, job, rest = inputs.shape, inputs.job, (gpu, par, UNHIDDEN, calibration)
    deep = np.ceil(shape.depth / par.pipeline)
    micro_batches = par.micro_batches(job)
    layers = micro_batches * deep
    held = transformer.held_parameters(shape, par.tensor, par.pipeline, par.expert, par.expert_tensor, deep)
    gathers = layers * traffic.parameter_gather_time(0.0, held, job, *rest)
    return {
        "tensor_parallel": layers * traffic.tensor_parallel_time(shape, job, *rest),
        "context_parallel": layers * traffic.context_parallel_time(shape, job, gpu, par, calibration),
        "expert_parallel": layers * traffic.expert_parallel_time(shape, job, *rest),
        "pipeline_parallel": micro_batches * traffic.pipeline_parallel_time(shape, job, *rest),
        "data_parallel": gathers + traffic.data_parallel_time(0.0, held, job, *rest),
    }
