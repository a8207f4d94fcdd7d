"""Which ranks form the groups of a training step.

Ranks are numbered with tensor parallelism fastest, then context, then the other ranks that share a layer's experts;
after these the replicas and last the stages of a pipeline, or the stages and last the replicas. Neighbouring ranks
stand on the same node, neighbouring nodes below the same switches.

Sources: Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC21, section 3; the order
of ranks in Megatron-LM, ``megatron/core/parallel_state.py`` (``tp-cp-ep-dp-pp``; ``tp-cp-ep-pp-dp`` with
``--use-tp-pp-dp-mapping``), in torchtitan and in DeepSpeed (the first), and of Llama 3 (the second).
"""

from __future__ import annotations

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.fabric.placement import Axis
from app.formulas.training.arguments import Parallelism


def inner_ranks(parallelism: Parallelism) -> Array:
    """Ranks of a stage that stay neighbours whatever the order, max(t·c, e·t_e) [1].

    >>> inner_ranks(Parallelism(tensor=2.0, expert=8.0, data=16.0))
    8.0
    """
    return maximum(parallelism.tensor * parallelism.context, parallelism.expert * parallelism.expert_tensor)


def stage_stride(parallelism: Parallelism) -> Array:
    """Ranks from a GPU to that of the next pipeline stage: all of a stage, t·c·d, or those that stay neighbours [1].

    >>> stage_stride(Parallelism(tensor=8.0, data=32.0)), stage_stride(Parallelism(8.0, data=32.0, stages_first=1.0))
    (256.0, 8.0)
    """
    p = parallelism
    stage = p.tensor * p.context * p.data
    return where(p.stages_first > 0, inner_ranks(p), stage) if any_(p.stages_first > 0) else stage


def copies(parallelism: Parallelism, stride: Array, count: Array) -> list[Axis]:
    """Ranks of a stage that hold the same parameters, as axes of stride and size [1].

    Args:
        parallelism: the degrees.
        stride: ranks from one to the next, t for dense parameters, e·t_e for experts; from one group that shares them
            to the next so many times that [1].
        count: how many there are [1].

    8 replicas, 2 ranks apart, of which stages come between every 4:

    >>> copies(Parallelism(2.0, pipeline=4.0, expert=8.0, data=8.0, stages_first=1.0), 2.0, 8.0)
    [(2.0, 4.0), (32.0, 2.0)]
    """
    if not any_(parallelism.stages_first > 0):
        return [(stride, count)]
    near = minimum(maximum(inner_ranks(parallelism) / stride, 1.0), count)
    near = where(parallelism.stages_first > 0, near, count)
    beyond = maximum(inner_ranks(parallelism), stride) * parallelism.pipeline
    return [(stride, near), (beyond, count / near)]


def layer_axes(parallelism: Parallelism) -> dict[str, list[Axis]]:
    """The groups of a layer by name, each as the strides and sizes of its axes [1].

    >>> layer_axes(Parallelism(tensor=8.0, context=2.0))["context_parallel"]
    [(8.0, 2.0)]
    """
    p = parallelism
    return {
        "tensor_parallel": [(1.0, p.tensor)],
        "context_parallel": [(p.tensor, p.context)],
        "expert_parallel": [(1.0, p.expert * p.expert_tensor)],
    }


def axes_of(parallelism: Parallelism) -> dict[str, list[Axis]]:
    """The groups of a step by name, each as the strides and sizes of its axes [1].

    >>> axes_of(Parallelism(tensor=8.0, pipeline=4.0, data=32.0))["pipeline_parallel"]
    [(256.0, 4.0)]
    """
    p = parallelism
    return {
        **layer_axes(p),
        "pipeline_parallel": [(stage_stride(p), p.pipeline)],
        "data_parallel": copies(p, p.tensor, p.replicas),
    }
