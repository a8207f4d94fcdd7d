"""What the formulas of a training step take: rates of a GPU, the job, the parallelism, the software, the constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.records import but


@dataclass(frozen=True, eq=False)
class GpuRates:
    """What the step needs to know of the machine, per GPU.

    Attributes:
        matrix_peak: dense 16-bit matrix rate of the datasheet [FLOP/s].
        linear_peak: dense matrix rate at the precision of the linear layers [FLOP/s].
        memory_bandwidth: [B/s].
        memory_capacity: bytes a program can use [B].
        multiprocessors: SMs or compute units that share one matrix product [1].
        clock: share of the datasheet's clock that the power limit allows [1].
        scale_up_domain: GPUs that reach one another over the scale-up link [1].
        host_rate: to the host's memory, in one direction; without limit where nothing is offloaded [B/s].
        host_memory: what of the host's memory bandwidth one GPU's optimizer state gets [B/s].
    """

    matrix_peak: Array
    linear_peak: Array
    memory_bandwidth: Array
    memory_capacity: Array
    multiprocessors: Array
    clock: Array
    scale_up_domain: Array
    host_rate: Array = np.inf
    host_memory: Array = np.inf


@dataclass(frozen=True)
class Job:
    """What one step computes.

    Attributes:
        sequence_length: tokens in a sequence, s [1].
        global_batch: sequences in a step, B [1].
        linear_bytes: bytes of an operand of the linear layers: 2, 1 (FP8) or 0.5 (FP4) [B].
        gradient_bytes: bytes of a gradient when it is reduced: 4 or 2 [B].
        moment_bytes: bytes of each of Adam's two moments: 4, or 2 where they are kept in 16 bits [B].
        weight_bytes: bytes of a weight that is not sharded: 2, or 1 where FP8 weights alone are kept [B].
        scaled: 1 if the loss is scaled against underflow, as FP16 training does, else 0 [1].
        imbalance: tokens of the busiest rank's experts over the average: 1 if routing is balanced or capped [1].
        offload_activations, offload_optimizer: 1 if the host's memory holds them, else 0 [1].
        causal: 1 if the attention mask is causal, else 0 [1].
    """

    sequence_length: Array
    global_batch: Array
    linear_bytes: Array = 2.0
    gradient_bytes: Array = 4.0
    moment_bytes: Array = 4.0
    weight_bytes: Array = 2.0
    scaled: Array = 0.0
    imbalance: Array = 1.0
    offload_activations: Array = 0.0
    offload_optimizer: Array = 0.0
    causal: Array = 1.0


RING, ALL_GATHER, ALL_TO_ALL = 0.0, 1.0, 2.0
"""How the ranks of context parallelism exchange keys and values, or heads."""


@dataclass(frozen=True)
class Parallelism:
    """How the step is spread over the GPUs; one GPU where nothing else is said.

    Attributes:
        tensor, pipeline, virtual_pipeline, context, expert, data: degrees t, p, v, c, e, d [1].
        expert_tensor: GPUs over which each expert is cut, t_e [1].
        micro_batch: sequences, b [1].
        sharding: 0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters (ZeRO stages; 3 is FSDP) [1].
        sharding_group: ranks over which that state is spread, at most d·c [1].
        sequence_parallel: 1 if norms and residuals are split over the tensor-parallel ranks, else 0 [1].
        recompute: share of the layers whose whole forward pass is repeated [1].
        recompute_core: 1 if only the attention core (or the cheap operators) is recomputed, else 0 [1].
        bubble: bubble of the schedule relative to 1F1B; a third for zero-bubble [1].
        stages_first: 1 if the stages of a pipeline are neighbours and replicas apart, 0 the other way round [1].
        bidirectional: 1 if micro-batches enter the pipeline from both ends (DualPipe), else 0 [1].
        context_exchange: how context parallelism exchanges: 0 a ring, 1 an all-gather, 2 an all-to-all [1].
        causal_balance: 1 if its ranks have equal shares of causal attention, 0 if one piece of the sequence each [1].
        deepest, beside_head: layers on the deepest stage and on the head's, as a layout has them; 0: even stages [1].
    """

    tensor: Array = 1.0
    pipeline: Array = 1.0
    virtual_pipeline: Array = 1.0
    context: Array = 1.0
    expert: Array = 1.0
    data: Array = 1.0
    expert_tensor: Array = 1.0
    micro_batch: Array = 1.0
    sharding: Array = 0.0
    sharding_group: Array = 1.0
    sequence_parallel: Array = 0.0
    recompute: Array = 0.0
    recompute_core: Array = 0.0
    bubble: Array = 1.0
    stages_first: Array = 0.0
    bidirectional: Array = 0.0
    context_exchange: Array = RING
    causal_balance: Array = 1.0
    deepest: Array = 0.0
    beside_head: Array = 0.0

    def stage_layers(self, depth: Array) -> tuple[Array, Array]:
        """Layers on the deepest stage and on the head's: of even stages ⌈L/p⌉ and ⌊L/p⌋, else as the layout has [1].

        Args:
            depth: layers, L [1].

        Source: Narayanan et al., SC21, section 2.2; NVIDIA, Megatron-Core, ``pipeline_model_parallel_layout``.

        >>> [float(layers) for layers in Parallelism(pipeline=4.0).stage_layers(10.0)]
        [3.0, 2.0]
        >>> [float(layers) for layers in Parallelism(pipeline=4.0, deepest=3.0, beside_head=1.0).stage_layers(10.0)]
        [3.0, 1.0]
        """
        deep, shallow = np.ceil(depth / self.pipeline), np.floor(depth / self.pipeline)
        if not any_(self.deepest > 0):
            return deep, shallow
        laid_out = self.deepest > 0
        return where(laid_out, self.deepest, deep), where(laid_out, self.beside_head, shallow)

    @property
    def ranks(self) -> Array:
        """GPUs in use, t·p·c·d [1]."""
        return self.tensor * self.pipeline * self.context * self.data

    @property
    def of_a_replica(self) -> Parallelism:
        """The same of a replica by itself: what its layers take does not depend on how many others there are."""
        return but(self, data=1.0, sharding_group=1.0)

    @property
    def replicas(self) -> Array:
        """GPUs that hold the same dense parameters, d·c [1]."""
        return self.data * self.context

    @property
    def expert_replicas(self) -> Array:
        """GPUs that hold the same experts, t·c·d/(e·t_e) [1]."""
        return maximum(self.ranks / (self.pipeline * self.expert * self.expert_tensor), 1)

    @property
    def stages_held(self) -> Array:
        """Stages whose parameters a GPU holds: two where micro-batches enter from both ends [1]."""
        return 1 + self.bidirectional

    @property
    def sharers(self) -> Array:
        """Replicas over which sharded state is spread [1]."""
        return minimum(self.sharding_group, self.replicas)

    @property
    def expert_sharers(self) -> Array:
        """GPUs that hold the same experts over which their state is spread: those of a group of replicas [1].

        Source: NVIDIA, Megatron-Core, ``num_distributed_optimizer_instances``; torchtitan, ``ParallelDims``.

        >>> Parallelism(expert=8.0, data=64.0, sharding_group=32.0).expert_sharers
        4.0
        """
        return maximum(self.expert_replicas * self.sharers / self.replicas, 1)

    def scatters_gradients(self, software: Software) -> Array:
        """1 where each rank keeps only its part of the gradients, reduced after every micro-batch [1].

        Only among several replicas, without a pipeline, and only where the stack does so: Megatron's distributed
        optimizer, whatever it is asked to shard, adds gradients up whole and reduces them once a step.

        Source: DeepSpeed allows no more than optimizer sharding with a pipeline; NVIDIA, Megatron-LM,
        ``distrib_optimizer``.

        >>> Parallelism(sharding=2.0, data=8.0).scatters_gradients(Software(reduces_each=1.0))
        1.0
        >>> Parallelism(sharding=2.0, data=8.0, pipeline=4.0).scatters_gradients(Software(reduces_each=1.0))
        0.0
        """
        if not any_(software.reduces_each > 0):
            return 0.0
        alone = (self.sharding == 2) & (self.pipeline <= 1) & (self.replicas > 1)
        return where(alone, software.reduces_each, 0.0)

    @property
    def selective_recompute(self) -> Array:
        """Share of the layers of which the cheap part alone is repeated [1]."""
        return self.recompute_core * (1 - self.recompute)

    def tokens(self, job: Job) -> Array:
        """Tokens of a micro-batch on one rank, T = b·s/c [1]."""
        return self.micro_batch * job.sequence_length / self.context

    def micro_batches(self, job: Job) -> Array:
        """Micro-batches of a replica in one step, m = B/(d·b) [1]."""
        return job.global_batch / (self.data * self.micro_batch)


@dataclass(frozen=True)
class Software:
    """The stack, as properties that a reader can check. Each is 1 for yes and 0 for no, or a share between.

    Attributes:
        fused: elementwise operators are fused (compiled, Transformer Engine, hand-written) [1].
        flash: the attention core never writes its scores to memory [1].
        overlap_tensor: tensor-parallel communication runs under the matrix products [1].
        async_tensor: at least that of the input's gradient does, under the product for the weights [1].
        fused_accumulation: the gradients of several micro-batches are added up inside that product [1].
        overlap_data: gradients are reduced under the backward pass, weights gathered under the forward pass [1].
        overlap_pipeline: stages send while they compute [1].
        overlap_expert: the all-to-all of one micro-batch runs under the computation of another [1].
        staged_expert: it does so only where a stage holds several model chunks, whose micro-batches alternate [1].
        deduplicates: a token goes once to each domain that has any of its experts (DeepEP, HybridEP), not once for each
            of these experts [1].
        gathers_tokens: every rank gets every token of its group, not those of its experts alone [1].
        dispatch_bytes: bytes of a value on its way to an expert; back it has 2 [B].
        fused_experts: routing, activation and conversion of experts are fused into their products [1].
        untuned: the run is an example or a check, not tuned for speed [1].
        graphs: launches are recorded once (CUDA graphs) [1].
        flat_sharding: parameters are gathered in one flat ring over one network card, as in 2021 [1].
        selective_linear: share of the linear work that "selective" recomputation repeats (0 in Megatron) [1].
        selective_memory: share of the activations that it saves (0 in Megatron with a flash kernel) [1].
        selective_modules: it repeats norms, activation functions and the widening of latent attention, and keeps none
            of what they give (Megatron-Core since 2025) [1].
        selective_low: what repeated activation functions start from is kept in 8 bits where products are in FP8 [1].
        reduces_each: sharded gradients are reduced after every micro-batch, so that no rank holds them whole [1].
        gathered_layers: layers whose sharded parameters are gathered at a time: 2 under FSDP, part of one where each
            module gathers its own [1].
        logit_bytes: bytes of each logit with its gradient: 6 where the loss is fused, else 12 [B].
        dropout: dropout masks are kept [1].
    """

    fused: Array = 1.0
    flash: Array = 1.0
    overlap_tensor: Array = 1.0
    async_tensor: Array = 1.0
    fused_accumulation: Array = 1.0
    overlap_data: Array = 1.0
    overlap_pipeline: Array = 1.0
    overlap_expert: Array = 0.0
    staged_expert: Array = 0.0
    deduplicates: Array = 1.0
    gathers_tokens: Array = 0.0
    dispatch_bytes: Array = 2.0
    fused_experts: Array = 0.0
    untuned: Array = 0.0
    graphs: Array = 0.0
    flat_sharding: Array = 0.0
    selective_linear: Array = 0.0
    selective_memory: Array = 0.0
    selective_modules: Array = 0.0
    selective_low: Array = 0.0
    reduces_each: Array = 0.0
    gathered_layers: Array = 2.0
    logit_bytes: Array = 12.0
    dropout: Array = 0.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """Constants of the model for one GPU, precision and stack.

    Each equals itself alone, so that what follows from it can be kept.

    Attributes:
        linear: share of the peak that a large linear layer reaches [1].
        head: the same for the 16-bit output head [1].
        depth_half: depth K of a product M×N×K at which half of the efficiency is gone, K₀ [1].
        wave: cost of the last, partly filled wave of tiles [1].
        tile: rows and columns of the output tile that one multiprocessor works on [1].
        attention: share of the peak of the flash forward kernel, causal work counted [1].
        attention_half: sequence length at which half of that is gone, s₀ [1].
        attention_backward: backward over forward work of the flash kernel [1].
        narrow_head: width under which a head counts as small [1].
        small_head: efficiency of small heads relative to wider ones [1].
        unfused_attention: share of the peak of attention as batched products [1].
        softmax_traffic: scale of the bytes each score costs without a flash kernel [1].
        memory: share of the memory bandwidth that elementwise kernels reach [1].
        elementwise: scale of the elementwise bytes of a fused stack [1].
        unfused: how many times more an unfused stack moves [1].
        quantize: scale of the bytes that FP8 and FP4 conversion costs [1].
        scale_out: pace of an exchange across the network beside computation, over its pace alone [1].
        exposed_tensor, exposed_context, exposed_pipeline, exposed_data, exposed_expert: share of that communication
            that remains visible when the stack overlaps it [1].
        exposed_gather: the same for parameters that are gathered layer by layer [1].
        hiding: share of the computation under which gradients can be exchanged [1].
        bucket: bytes that data parallelism exchanges at a time [B].
        head_imbalance: share of the head's time by which the last stage is the slowest [1].
        head_spared: the same where that stage has fewer layers, relative to `head_imbalance` [1].
        expert_scale_up: time of a dispatcher inside a domain over that of the library's all-to-all [1].
        grouped, grouped_low: efficiency of grouped products relative to linear layers, 16-bit and below [1].
        permute: scale of the bytes of routing tokens [1].
        fused_experts: share of the experts' elementwise bytes that is left where they are fused [1].
        host_layer, host_expert: time the host needs to launch a layer, dense and mixture of experts [s].
        host_untuned: the latter in a run that is not tuned [s].
        expert_launch: time that each expert on a GPU adds to a layer, forward and backward, for its own kernels [s].
        graph_host: share of the host's and of each expert's launches that CUDA graphs leave [1].
        optimizer_traffic: bytes read and written for each parameter updated [B].
        scaling_traffic: further bytes where 16-bit gradients are scaled against underflow [B].
        optimizer_overhead: fixed time at the end of a step [s].
        straggler, straggler_walk: spread of a node's step, in proportion to its time T and to √T [1], [√s].
        slow_node: by how much one node is slower than the others; 0 where none is [1].
        context_memory: bytes outside the allocator: CUDA context, communication buffers [B].
        fragmentation: share by which reserved memory exceeds allocated memory [1].
    """

    linear: Array
    head: Array
    depth_half: Array
    wave: Array
    tile: Array
    attention: Array
    attention_half: Array
    attention_backward: Array
    narrow_head: Array
    small_head: Array
    unfused_attention: Array
    softmax_traffic: Array
    memory: Array
    elementwise: Array
    unfused: Array
    quantize: Array
    scale_out: Array
    exposed_tensor: Array
    exposed_context: Array
    exposed_pipeline: Array
    exposed_data: Array
    exposed_expert: Array
    exposed_gather: Array
    hiding: Array
    bucket: Array
    head_imbalance: Array
    head_spared: Array
    expert_scale_up: Array
    grouped: Array
    grouped_low: Array
    permute: Array
    fused_experts: Array
    host_layer: Array
    host_expert: Array
    host_untuned: Array
    expert_launch: Array
    graph_host: Array
    optimizer_traffic: Array
    scaling_traffic: Array
    optimizer_overhead: Array
    straggler: Array
    straggler_walk: Array
    slow_node: Array
    context_memory: Array
    fragmentation: Array
