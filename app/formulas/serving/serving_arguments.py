"""What the formulas of serving take: the model with its formats, rates of a GPU, layout, load, constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.formulas.arrays import Array, maximum, where
from app.formulas.collectives.group_times import Links
from app.formulas.transformer import Shape


@dataclass(frozen=True)
class ServedModel:
    """A model as an engine holds it.

    Attributes:
        shape: the transformer.
        dense_bytes: bytes of a weight outside the routed experts, w [B].
        expert_bytes: bytes of a weight of a routed expert, w_x [B].
        kv_bytes: bytes of one number in the cache of keys and values, y [B].
        sparse_keys: keys that sparse attention reads for a query, 0 where it reads all [1].
    """

    shape: Shape
    dense_bytes: Array = 2.0
    expert_bytes: Array = 2.0
    kv_bytes: Array = 2.0
    sparse_keys: Array = 0.0


@dataclass(frozen=True)
class ServingRates:
    """What a step needs to know of the machine, per GPU.

    Attributes:
        memory_bandwidth: [B/s].
        memory_capacity: bytes a program can use [B].
        dense_peak: dense matrix rate in the format of the weights outside the routed experts [FLOP/s].
        expert_peak: the same in the format of the experts [FLOP/s].
        attention_peak: dense 16-bit matrix rate [FLOP/s].
        scale_up: the scale-up link, one direction [B/s].
        domain: GPUs that reach one another over it [1].
        scale_out: share of the network, one direction [B/s].
        network_hop: time of a hop over the network, over that of InfiniBand, which the constants are of [1].
        links: the links of the cluster as groups that leave a domain meet them; none where no group does.
    """

    memory_bandwidth: Array
    memory_capacity: Array
    dense_peak: Array
    expert_peak: Array
    attention_peak: Array
    scale_up: Array
    domain: Array
    scale_out: Array
    network_hop: Array = 1.0
    links: Links | None = None

    @property
    def reach(self) -> Array:
        """GPUs that meet without the network: a domain, or several that are joined inside a node [1]."""
        return maximum(self.links.interconnect.domain, self.domain) if self.links else self.domain

    def link_rate(self, group: Array) -> Array:
        """What one GPU sends to others of its group: over the scale-up link, or what is beyond its end [B/s]."""
        return where(group <= self.domain, self.scale_up, self.rate_beyond(group))

    def rate_beyond(self, group: Array) -> Array:
        """What one GPU of a group sends out of its domain: over what joins a node's, else the network [B/s]."""
        if not self.links:
            return self.scale_out
        return where(group <= self.reach, self.links.interconnect.inside_rate, self.scale_out)


@dataclass(frozen=True)
class Layout:
    """How one replica spreads over GPUs: t·a·p of them.

    Attributes:
        tensor: GPUs that share each layer of an attention rank, t [1].
        attention_data: attention ranks, each with sequences of its own, a [1].
        expert: GPUs that the routed experts are dealt out to, e [1].
        pipeline: stages, p [1].
    """

    tensor: Array = 1.0
    attention_data: Array = 1.0
    expert: Array = 1.0
    pipeline: Array = 1.0

    @property
    def stage(self) -> Array:
        """GPUs of a stage of a replica, t·a [1]."""
        return self.tensor * self.attention_data

    @property
    def gpus(self) -> Array:
        """GPUs of a replica, t·a·p [1]."""
        return self.stage * self.pipeline

    @property
    def expert_tensor(self) -> Array:
        """GPUs that share one expert, t·a/e [1]."""
        return maximum(self.stage / self.expert, 1.0)


@dataclass(frozen=True)
class ServingLoad:
    """What one replica is asked.

    Attributes:
        input_tokens: mean length of a prompt, s_i [1].
        output_tokens: mean length of an answer, s_o [1].
        concurrency: sequences in flight in one replica, C [1].
        token_budget: most prompt tokens of one step [1].
        prefix_hits: share of a prompt that the cache already holds, g [1].
        accepted_tokens: further tokens that speculation adds to each step [1].
        prompts_alone: 1 if the engine runs prompts in steps of their own, 0 if it mixes them with decoding [1].
        burst: share of the requests that come all at once, at the start of a benchmark [1].
        waves: 1 if all requests are equally long and each follows the end of another, else 0 [1].
        in_process: 1 if nothing but the model is waited for, as in an offline benchmark, else 0 [1].
    """

    input_tokens: Array
    output_tokens: Array
    concurrency: Array
    token_budget: Array
    prefix_hits: Array = 0.0
    accepted_tokens: Array = 0.0
    prompts_alone: Array = 0.0
    burst: Array = 0.0
    waves: Array = 0.0
    in_process: Array = 0.0

    @property
    def prompt(self) -> Array:
        """Tokens of a prompt that are computed, (1 - g)·s_i, at least one [1]."""
        return maximum((1 - self.prefix_hits) * self.input_tokens, 1.0)

    @property
    def cached(self) -> Array:
        """Tokens of a prompt that the cache already holds, g·s_i [1]."""
        return self.input_tokens - self.prompt

    @property
    def prompt_keys(self) -> Array:
        """Keys that a token of a prompt that is computed sees on average: those cached, and half of the others [1]."""
        return self.cached + self.prompt / 2

    @property
    def context(self) -> Array:
        """Keys that a decoding sequence sees on average, s_i + s_o/2 [1]."""
        return self.input_tokens + self.output_tokens / 2


@dataclass(frozen=True, eq=False)
class ServingConstants:
    """Constants of the model for one GPU, format, engine and family of models.

    Attributes:
        memory: share of the memory bandwidth that dense weights are read at [1].
        expert_memory: the same of experts' weights [1].
        dense_compute: share of the peak of dense products [1].
        expert_compute: share of the peak of grouped products [1].
        half_tokens: tokens at which dense products reach half of that, m_h [1].
        expert_imbalance: tokens of the fullest GPU over the mean, σ [1].
        expert_tile: tokens that filling up an expert's last tile costs, m_x [1].
        expert_spread: tokens that choose experts independently, of all tokens [1].
        expert_half_width: width of an expert's slice at which grouped products reach half their rate, f_h [1].
        elementwise_traffic: what norms, rotations, activations and quantising move, over the least they can [1].
        kv_memory: share of the memory bandwidth that keys and values are read at [1].
        attention_compute: share of the 16-bit peak of decoding attention [1].
        latent_compute: the same of latent attention in its absorbed form [1].
        prompt_attention: the same of the prompt's attention [1].
        reduce_latency: time of the smallest all-reduce of two GPUs, λ [s].
        reduce_doubling: what each doubling of the group adds, μ [s].
        one_shot: share of the link that an all-reduce in one shot reaches, ε₁ [1].
        two_shot: the same in two shots, ε₂ [1].
        two_shot_latency: what the second shot adds, λ₂ [s].
        network_latency: what a transfer between domains adds [s].
        dispatch_latency: time of the smallest dispatch or combine of tokens, λ_a [s].
        dispatch_rate: share of the link that they reach, ε_a [1].
        layer_time: launches of a layer that no product hides [s].
        expert_layer_time: what routing adds in a layer of experts [s].
        latent_layer_time: what latent attention adds [s].
        step_time: time of the host for each step [s].
        sequence_time: time of the host for each sequence of a rank and step [s].
        first_token_time: time outside the model before the first token [s].
        interference: decoding steps' delay by prompts over what all prompts take, ψ [1].
        synchronisation: exponent of the attention ranks that wait for one another [1].
        queueing: time that prompts wait for prompts, over that of a queue with fixed service [1].
        steps_ahead: steps that have begun or been prepared when a request comes, w [1].
        correction: what engine, family and architecture together differ by [1].
        memory_share: share of the memory that an engine takes, φ [1].
        reserved_memory: bytes for activations, graphs and libraries, R [B].
        acceptance: share of the drafted tokens that are accepted [1].
    """

    memory: Array
    expert_memory: Array
    dense_compute: Array
    expert_compute: Array
    half_tokens: Array
    expert_imbalance: Array
    expert_tile: Array
    expert_spread: Array
    expert_half_width: Array
    elementwise_traffic: Array
    kv_memory: Array
    attention_compute: Array
    latent_compute: Array
    prompt_attention: Array
    reduce_latency: Array
    reduce_doubling: Array
    one_shot: Array
    two_shot: Array
    two_shot_latency: Array
    network_latency: Array
    dispatch_latency: Array
    dispatch_rate: Array
    layer_time: Array
    expert_layer_time: Array
    latent_layer_time: Array
    step_time: Array
    sequence_time: Array
    first_token_time: Array
    interference: Array
    synchronisation: Array
    queueing: Array
    steps_ahead: Array
    correction: Array
    memory_share: Array
    reserved_memory: Array
    acceptance: Array


def smooth_cube(first: Array, second: Array) -> Array:
    """The smooth maximum of two times that a kernel hides under one another, x ⊕ y = (x³ + y³)^(1/3).

    Returns:
        Time [s].

    Source: Railyard's; the exponent is what fits 5,000 timed kernels of each GPU best.

    >>> float(smooth_cube(1.0, 0.0)), round(float(smooth_cube(1.0, 1.0)), 2)
    (1.0, 1.26)
    """
    return np.cbrt(first * first * first + second * second * second)
