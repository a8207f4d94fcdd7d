"""Parameters, work and memory of transformers, against published shapes and the papers' own examples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas import transformer
from app.formulas.transformer import Kept, Shape
from app.plan.job.shape import shape_of

LLAMA_8B = Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)
GPT_175B = Shape(96, 12288, 96, 128, 96, 49152, 0, 51200)
DEEPSEEK = shape_of(load_catalog().models["deepseek-v3"], prediction=False)

shapes = st.builds(
    lambda layers, heads, head_dim, shared, ffn, gated, vocabulary, tied, experts: Shape(
        float(layers),
        float(heads * head_dim),
        float(heads),
        float(head_dim),
        float(max(heads // shared, 1)),
        float(ffn),
        float(gated),
        float(vocabulary),
        float(tied),
        float(experts),
        float(min(2, experts)),
        float(ffn // 2),
        0.0,
        0.0 if experts else float(layers),
    ),
    st.integers(1, 128),
    st.integers(1, 128),
    st.sampled_from([64, 80, 128]),
    st.sampled_from([1, 4, 8]),
    st.integers(128, 65536),
    st.booleans(),
    st.integers(1000, 260000),
    st.booleans(),
    st.sampled_from([0, 8, 64]),
)


def test_llama_3_8b_has_eight_billion_parameters():
    # Attention 2·4096² + 2·4096·1024 = 41,943,040; feed-forward 3·4096·14336 = 176,160,768; norms 2·4096;
    # 32 of these, 2·128256·4096 of embeddings and a last norm.
    assert transformer.parameters(LLAMA_8B) == 32 * (41_943_040 + 176_160_768 + 8192) + 2 * 128256 * 4096 + 4096


def test_only_the_chosen_experts_are_active():
    # DeepSeek-V3 prints 671 B in all and 37 B active.
    assert float(transformer.parameters(DEEPSEEK)) == pytest.approx(671e9, rel=0.01)
    assert float(transformer.active_parameters(DEEPSEEK)) == pytest.approx(36.7e9, rel=0.01)


def test_three_layers_of_four_of_a_hybrid_have_linear_attention():
    # Qwen 3.5 27B: 48 layers of 5,120·(2·16 + 3·48)·128 and 16 with a gate, 5,120·256·(3·24 + 2·4), a block of
    # 3·5,120·17,408 and two norms in each of the 64, two embeddings of 248,320 and a last norm.
    hybrid = shape_of(load_catalog().models["qwen-3.5-27b"])
    attention = 48 * 115_343_360 + 16 * 104_857_600
    others = 64 * (267_386_880 + 2 * 5120) + 2 * 248_320 * 5120 + 5120
    assert float(transformer.parameters(hybrid)) == attention + others
    # its core: a quarter of 2·(8,192/2)·24·2·256, and three quarters of 8·48·128², however long the sequence
    assert float(transformer.attention_flops(hybrid, 8192)) == 0.25 * 100_663_296 + 0.75 * 6_291_456
    longer = transformer.attention_flops(hybrid, 16384) - transformer.attention_flops(hybrid, 8192)
    assert float(longer) == 0.25 * 100_663_296


def test_training_takes_six_times_the_parameters_and_the_attention():
    # 6 FLOP a parameter, the input embedding not counted, and 6·L·h·s of causal attention.
    matrices = 8_030_261_248 - 128256 * 4096 - 65 * 4096
    assert transformer.training_flops(LLAMA_8B, 8192) == pytest.approx(6 * matrices + 6 * 32 * 4096 * 8192)


def test_the_published_formula_of_the_megatron_papers():
    # 72·B·s·L·h²·(1 + s/6h + V/12hL) for a whole batch, full attention: Korthikanti 2022, appendix A.
    s, h, layers, v = 2048, 12288, 96, 51200
    published = 72 * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * h * layers))
    assert s * float(transformer.training_flops(GPT_175B, s, causal=0)) == pytest.approx(published)


@pytest.mark.parametrize(
    ("tensor", "sequence_parallel", "unfused", "per_hidden"),
    [
        (1, 0, 0, 34),  # table 2 with a flash kernel: 34·s·b·h
        (8, 0, 0, 10 + 24 / 8),  # tensor parallelism leaves 10
        (8, 1, 0, 34 / 8),  # sequence parallelism divides that too
        (1, 0, 1, 34 + 5 * 96 * 2048 / 12288),  # unfused attention keeps 5·H·s
    ],
)
def test_activations_of_a_layer_as_in_korthikanti(tensor, sequence_parallel, unfused, per_hidden):
    kept = transformer.layer_activations(
        GPT_175B, 2048, tensor, sequence_parallel, 1, Kept(unfused_attention=unfused, dropout=1)
    )
    assert float(kept) / 12288 == pytest.approx(per_hidden)


def test_interleaving_keeps_more_micro_batches_alive():
    # 1 + (p - 1)/(p·v) = 1 + 7/16 times eight.
    assert transformer.micro_batches_in_flight(64, 8, 2) == 8 * (1 + 7 / 16)
    # Never more than there are.
    assert transformer.micro_batches_in_flight(4, 8, 2) == 4


@pytest.mark.parametrize(("pipeline", "chunks"), [(8, 1), (8, 2), (4, 5)])
def test_stages_hold_what_they_warm_up_with(pipeline: int, chunks: int):
    # Stage i runs 2·(p - i - 1) + (v - 1)·p chunks forward before the first of them comes back, and one more then.
    first, last = (2 * (pipeline - stage - 1) + (chunks - 1) * pipeline + 1 for stage in (0, pipeline - 1))
    beside_head = transformer.micro_batches_beside_head(64.0, pipeline, chunks)
    assert beside_head == pytest.approx(last / chunks)
    if chunks > 1:  # without, a stage may not run two ahead
        assert transformer.micro_batches_in_flight(64.0, pipeline, chunks) == pytest.approx(first / chunks)


def test_experts_are_spread_over_their_ranks():
    whole = transformer.held_parameters(DEEPSEEK, 1, 1, 1, 1, 61)
    spread = transformer.held_parameters(DEEPSEEK, 1, 1, 64, 1, 61)
    assert float(spread.expert) == pytest.approx(float(whole.expert) / 64)
    assert float(spread.dense) == pytest.approx(float(whole.dense))


@given(shapes)
def test_held_parameters_of_one_gpu_are_the_whole_model(shape: Shape):
    held = transformer.held_parameters(shape, 1, 1, 1, 1, shape.layers)
    # All but the last norm.
    assert float(held.dense + held.expert) == pytest.approx(float(transformer.parameters(shape) - shape.hidden))


@given(shapes, st.sampled_from([512, 4096, 131072]))
def test_causal_attention_never_takes_more_work(shape: Shape, sequence: int):
    assert transformer.training_flops(shape, sequence, 1.0) <= transformer.training_flops(shape, sequence, 0.0)
    assert transformer.training_flops(shape, sequence, 1.0) >= 6 * (
        transformer.active_parameters(shape) - 2 * shape.vocabulary * shape.hidden - 3 * shape.layers * shape.hidden
    )


@given(st.lists(shapes, min_size=2, max_size=5), st.sampled_from([1024, 8192]))
def test_arrays_equal_scalars(models: list[Shape], sequence: int):
    together = Shape(**{name: np.array([getattr(one, name) for one in models]) for name in Shape.__dataclass_fields__})
    for formula in (transformer.parameters, transformer.active_parameters, transformer.head_flops):
        assert np.allclose(formula(together), [formula(one) for one in models], rtol=1e-12)
    flops = transformer.training_flops(together, sequence)
    assert np.allclose(flops, [transformer.training_flops(one, sequence) for one in models], rtol=1e-12)
