"""Which degrees divide a model and a cluster.

Ranks get whole heads, experts, layers, tokens and micro-batches, or there is nothing to time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from app.formulas.training.arguments import ALL_TO_ALL
from app.formulas.transformer import Shape

Counts = Any
"""Integers, or arrays of them."""
Flags = Any
"""Booleans, or arrays of them."""


def shape_is_possible(shape: Shape) -> bool:
    """Whether heads and experts of a model can be: H mod K = 0, and no token goes to more experts than there are.

    Args:
        shape: the model, with H heads, K key-value heads and E experts [1].

    Source: Ainslie et al., "GQA", 2023, section 2.2; Shazeer et al., "Outrageously large neural networks", 2017,
    section 2.1.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import MODEL
    >>> shape_is_possible(MODEL), shape_is_possible(replace(MODEL, kv_heads=4))  # 10 heads
    (True, False)
    """
    even = int(shape.heads) % max(int(shape.kv_heads), 1) == 0
    return even and (not shape.experts or float(shape.experts_per_token) <= float(shape.experts))


def heads_divide(shape: Shape, tensor: Counts) -> Flags:
    """Whether ranks of tensor parallelism get whole heads, H mod t = 0; fewer key-value heads than ranks are copied.

    Args:
        shape: the model, with H heads [1].
        tensor: tensor-parallel degree, t [1].

    Source: Shoeybi et al., "Megatron-LM", 2019, section 3; NVIDIA, Megatron-Core, ``num_query_groups``.

    >>> import numpy as np
    >>> from app.formulas.training.examples import MODEL
    >>> heads_divide(MODEL, np.array([2, 3, 5, 20]))  # of 10 heads
    array([ True, False,  True, False])
    """
    heads, kv_heads = int(shape.heads), max(int(shape.kv_heads), 1)
    return (heads % tensor == 0) & ((kv_heads % tensor == 0) | (tensor % kv_heads == 0))


def heads_exchange(shape: Shape, tensor: Counts, context: Counts, exchange: float) -> Flags:
    """Whether an all-to-all leaves each rank of context parallelism whole heads, H mod (t c) = 0; others need not.

    Args:
        shape: the model, with H heads [1].
        tensor, context: tensor and context-parallel degree, t and c [1].
        exchange: how context parallelism exchanges, as in `Parallelism` [1].

    Source: Jacobs et al., "DeepSpeed Ulysses", 2023, section 3.

    >>> import numpy as np
    >>> from app.formulas.training.examples import MODEL
    >>> heads_exchange(MODEL, 2, np.array([1, 5, 10]), ALL_TO_ALL)  # of 10 heads
    array([ True,  True, False])
    """
    return (exchange != ALL_TO_ALL) | (context == 1) | (int(shape.heads) % (tensor * context) == 0)


def sequence_divides(length: Counts, context: Counts, balanced: bool) -> Flags:
    """Whether ranks of context parallelism get whole tokens: s mod c = 0, or s mod 2c = 0 of two pieces that balance.

    Args:
        length: tokens of a sequence, s [1].
        context: context-parallel degree, c [1].
        balanced: whether each has a piece of the start and one of the end.

    Source: Llama team, "The Llama 3 herd of models", 2024, section 3.3.2.

    >>> import numpy as np
    >>> sequence_divides(64, np.array([1, 24, 32, 64]), balanced=True)
    array([ True, False,  True, False])
    """
    return (context == 1) | (length % (context * (2 if balanced else 1)) == 0)


def experts_divide(shape: Shape, expert: Counts) -> Flags:
    """Whether ranks of expert parallelism get whole experts, E mod e = 0; a dense model has none to spread.

    Args:
        shape: the model, with E experts [1].
        expert: expert-parallel degree, e [1].

    Source: Lepikhin et al., "GShard", 2020, section 3.

    >>> import numpy as np
    >>> from app.formulas.training.examples import EXPERTS
    >>> experts_divide(EXPERTS, np.array([2, 3, 16]))  # of 8
    array([ True, False, False])
    """
    return int(shape.experts) % expert == 0


def pairs_up(pipeline: Counts, bidirectional: bool) -> Flags:
    """Whether stages can be entered from both ends, which takes an even number of them; or need not be.

    Args:
        pipeline: stages, p [1].
        bidirectional: whether they are to be.

    Source: DeepSeek-AI, "DeepSeek-V3", 2024, section 3.2.1.

    >>> import numpy as np
    >>> pairs_up(np.array([1, 2, 3]), bidirectional=True)
    array([ True,  True, False])
    """
    return (not bidirectional) | (pipeline == 1) | (pipeline % 2 == 0)


def staged(shape: Shape, pipeline: Counts, virtual_pipeline: Counts, laid: int) -> Flags:
    """Whether the layers can be so many chunks of so many stages, with one each for the embedding and the head.

    Args:
        shape: the model, with L layers: p v is L + 2 at most [1].
        pipeline, virtual_pipeline: stages and chunks of each, p and v [1].
        laid: chunks of a layout that is given, or 0 [1].

    Source: NVIDIA, Megatron-Core, ``pipeline_model_parallel_layout``.

    >>> import numpy as np
    >>> from app.formulas.training.examples import MODEL
    >>> staged(MODEL, np.array([12, 13, 1]), np.array([1, 1, 2]), 0)  # of 10 layers
    array([ True, False, False])
    """
    if laid:
        return (laid % pipeline == 0) & (virtual_pipeline == laid // pipeline)
    deep_enough = pipeline <= (int(shape.depth) + 2) // virtual_pipeline
    return ((virtual_pipeline == 1) | (pipeline > 1)) & deep_enough


def gpus_divide(
    gpus: Counts, tensor: Counts, pipeline: Counts, context: Counts, spans: Counts
) -> tuple[Counts, Flags, Flags]:
    """Whether degrees multiply to a cluster, n mod (t p c) = 0, and its ranks hold whole sets of experts.

    Args:
        gpus: GPUs that train, n [1].
        tensor, pipeline, context: their degrees, t, p and c [1].
        spans: ranks that hold all experts once [1].

    Returns:
        Replicas d, rounded down [1]; whether the degrees multiply to the cluster; whether d t c ranks divide into
        groups of experts.

    Source: Narayanan et al., "Efficient large-scale language model training on GPU clusters", 2021, section 3.

    >>> gpus_divide(24, 2, np.array([1, 3, 5]), 1, 8)  # of 24 ranks, 8 and 4
    (array([12,  4,  2]), array([ True,  True, False]), array([ True,  True, False]))
    """
    model = tensor * pipeline * context
    data = gpus // model
    return data, gpus % model == 0, data * tensor * context % spans == 0


def batch_divides(batch: Counts, data: Counts, pipeline: Counts, micro_batch: Counts) -> tuple[Flags, Flags]:
    """Whether a batch divides into micro-batches of its replicas, and those into rounds of an interleaved schedule.

    Floats divide ten times as fast as integers, and exactly where the integers do: these are far below 2**53.

    Args:
        batch: sequences of a step [1].
        data: replicas [1].
        pipeline: stages [1].
        micro_batch: sequences of a micro-batch [1].

    Source: Narayanan et al., "Efficient large-scale language model training on GPU clusters", 2021, section 2.2.

    >>> batch_divides(24, 2, 4, np.array([1, 3, 5]))  # 12, 4 and 2.4 micro-batches a replica
    (array([ True,  True, False]), array([ True,  True, False]))
    """
    each = batch / np.maximum(data * micro_batch, 1)
    rounds = each / pipeline
    even = each == np.floor(each)
    return even, even & (rounds == np.floor(rounds))


def divisors(number: int) -> list[int]:
    """All divisors, ascending [1].

    Source: trial division up to the root.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return list(_divisors(number))


@lru_cache(maxsize=1024)
def _divisors(number: int) -> tuple[int, ...]:
    low = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return tuple(low + [number // i for i in reversed(low) if i * i != number])
