"""Why a job divides in no way: the first rule that what is asked for breaks, in words."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from app.formulas.training import divisibility
from app.formulas.training.divisibility import divisors
from app.formulas.training.fixed_degrees import FixedDegrees
from app.formulas.transformer import Shape
from app.plan.job.inputs import JobSetup
from app.plan.result import Finding


class BrokenRule(NamedTuple):
    """A rule that no configuration keeps, in words; the fields it is about; advice, blank where there is none yet."""

    text: str
    fields: tuple[str, ...]
    advice: str = ""

    def finding(self, changes: Mapping[str, int] | None = None) -> Finding:
        """The rule as what keeps a plan from running, with changes that follow the advice."""
        return Finding("error", "does-not-divide", self.text, self.fields, self.advice, changes or {})


def rule_broken_by(setup: JobSetup) -> BrokenRule:
    """The first rule that a job as it is asked breaks."""
    job = setup.inputs.job
    sizes = setup.request.batch, int(job.sequence_length)
    return broken_rule(setup.inputs.shape, setup.fixed, setup.cluster.gpus, *sizes)


def broken_rule(shape: Shape, fixed: FixedDegrees, gpus: int, size: int, length: int) -> BrokenRule:
    """The first rule that the given numbers break.

    Args:
        shape: the model.
        fixed: degrees that are given.
        gpus: that train [1].
        size: sequences of a step [1].
        length: tokens of a sequence [1].

    >>> from app.formulas.training.examples import MODEL
    >>> broken_rule(MODEL, FixedDegrees(tensor=8), 12, 64, 4096).text
    '8 × 1 × 1 GPUs of a replica do not divide 12 GPUs.'
    >>> broken_rule(MODEL, FixedDegrees(tensor=3), 12, 64, 4096).text
    "3 ranks of tensor parallelism do not divide the model's 10 attention heads and 10 key-value heads."
    """
    return Rules.of(shape, fixed, length).broken(gpus, size)


class Rules(NamedTuple):
    """What given degrees ask of the GPUs and of the batch, whatever these are.

    Attributes:
        fixed: degrees that are given.
        possible: whether there can be such a model.
        of_model: the rules of the model that they break.
    """

    fixed: FixedDegrees
    possible: bool
    of_model: tuple[BrokenRule, ...]

    @staticmethod
    def of(shape: Shape, fixed: FixedDegrees, length: int) -> "Rules":
        """Those of a model, with sequences of so many tokens [1]."""
        of_model = (*shape_rules(shape), *_model_rules(shape, fixed, length))
        return Rules(fixed, divisibility.shape_is_possible(shape), of_model)

    def broken(self, gpus: int, size: int) -> BrokenRule:
        """The first rule that so many GPUs break, and so many sequences of a step [1]."""
        fixed = self.fixed
        t, p, c, b = fixed.tensor or 1, fixed.pipeline or 1, fixed.context or 1, fixed.micro_batch or 1
        replicas = gpus // (t * p * c)
        if self.of_model and not self.possible:
            return self.of_model[0]
        if gpus % (t * p * c):
            all_gpus = f"{gpus:,} GPUs" if gpus > 1 else "a single GPU"
            text = f"{t} × {p} × {c} GPUs of a replica do not divide {all_gpus}."
            about = ("tensor_parallel", "pipeline_parallel", "context_parallel", "gpus")
            return BrokenRule(text, about, "Choose degrees whose product divides the GPUs.")
        if self.of_model:
            return self.of_model[0]
        if None not in (fixed.tensor, fixed.pipeline, fixed.context) and not fixed.shares(replicas * c):
            text = f"Groups of {fixed.sharding_group:,} that share one copy do not divide {replicas * c:,} replicas."
            return BrokenRule(text, ("sharding_group",), "Choose a group that divides the replicas, or leave it blank.")
        if replicas * b > size and fixed.tensor and fixed.pipeline:
            text = f"{replicas:,} replicas of {b} sequences need more than the global batch of {size:,}."
            return BrokenRule(text, ("global_batch", "micro_batch"), "Raise the global batch or the degrees.")
        text = f"No parallelism divides {gpus:,} GPUs, a global batch of {size:,} and the model's layers and heads."
        return BrokenRule(text, ("gpus", "global_batch", "tensor_parallel", "pipeline_parallel", "micro_batch"))


def shape_rules(shape: Shape) -> Iterator[BrokenRule]:
    """What makes a shape one of no model.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import MODEL
    >>> [rule.text for rule in shape_rules(replace(MODEL, kv_heads=4))]
    ['10 attention heads do not share 4 key-value heads evenly.']
    """
    heads, kv_heads, experts = int(shape.heads), int(shape.kv_heads), int(shape.experts)
    if kv_heads and heads % kv_heads:
        text = f"{heads:,} attention heads do not share {kv_heads:,} key-value heads evenly."
        advice = f"Use a multiple of {kv_heads:,} heads, or {_one_of(divisors(heads))} key-value heads."
        yield BrokenRule(text, ("heads", "kv_heads"), advice)
    if experts and shape.experts_per_token > experts:
        text = f"A token cannot go to {int(shape.experts_per_token):,} experts of a layer: it has {experts:,}."
        yield BrokenRule(text, ("experts", "experts_per_token"), f"Use at most {experts:,} experts of a token.")


def heads_rule(shape: Shape, tensor: int) -> Iterator[BrokenRule]:
    """That tensor parallelism cuts heads."""
    if not divisibility.heads_divide(shape, tensor):
        heads, kv_heads = int(shape.heads), int(shape.kv_heads)
        text = (
            f"{tensor:,} ranks of tensor parallelism do not divide the model's {heads:,} attention heads and "
            f"{kv_heads:,} key-value heads."
        )
        whole = [degree for degree in divisors(heads) if divisibility.heads_divide(shape, degree)]
        yield BrokenRule(text, ("tensor_parallel",), f"Use {_one_of(whole)}.")


def _model_rules(shape: Shape, fixed: FixedDegrees, length: int) -> Iterator[BrokenRule]:
    """What of the given degrees does not divide the model or its sequences."""
    t, p, v = fixed.tensor or 1, fixed.pipeline or 1, fixed.virtual_pipeline or 1
    c, e = fixed.context or 1, fixed.expert or 1
    yield from heads_rule(shape, t)
    if fixed.pipeline and not divisibility.staged(shape, p, v, len(fixed.chunks)):
        layers = int(shape.depth)
        stages = f"{p:,} pipeline stages" if v == 1 else f"{p:,} pipeline stages of {v:,} chunks"
        about = ("pipeline_parallel", "virtual_pipeline")
        if p == 1:
            yield BrokenRule(
                f"{v:,} chunks of a stage take turns among stages, and there is one.", about, "Use more stages."
            )
        else:
            text = f"{stages} are more than the model's {layers:,} layers."
            yield BrokenRule(text, about, f"Use at most {layers:,}.")
    if not divisibility.pairs_up(p, fixed.bidirectional):
        text = f"DualPipe enters the pipeline from both ends, which {p:,} stages do not allow."
        yield BrokenRule(text, ("pipeline_parallel", "schedule"), "Use an even number of stages.")
    if not divisibility.sequence_divides(length, c, fixed.causal_balance):
        each = "two pieces of whole tokens" if fixed.causal_balance else "whole tokens"
        text = f"A sequence of {length:,} tokens does not leave {each} to each of {c:,} ranks of context parallelism."
        yield BrokenRule(text, ("context_parallel", "sequence_length"), "Use a lower degree, or a longer sequence.")
    if not divisibility.heads_exchange(shape, t, c, fixed.context_exchange):
        text = (
            f"An all-to-all leaves whole heads to each rank of tensor and context parallelism, and {t:,} × {c:,} ranks "
            f"do not divide the model's {int(shape.heads):,}."
        )
        exchanging = ("context_parallel", "tensor_parallel", "context_exchange")
        yield BrokenRule(text, exchanging, "Use lower degrees, or another exchange of context parallelism.")
    if not divisibility.experts_divide(shape, e):
        experts = int(shape.experts)
        text = f"{e:,} ranks of expert parallelism do not divide the model's {experts:,} experts."
        yield BrokenRule(text, ("expert_parallel",), f"Use {_one_of(divisors(experts))}.")


def _one_of(numbers: Iterable[int]) -> str:
    """Numbers to choose from, in words.

    >>> _one_of([1, 2, 4]), _one_of([1])
    ('1, 2 or 4', '1')
    """
    *most, last = (f"{number:,}" for number in numbers)
    return f"{', '.join(most)} or {last}" if most else last


def experts_unused(shape: Shape, degree: int | None) -> Iterator[Finding]:
    """That a degree of expert parallelism is given to a model without experts."""
    if degree and degree > 1 and not shape.experts:
        yield Finding(
            "warning",
            "expert-parallel-unused",
            f"The model has no experts to spread over {degree:,} ranks: the plan takes an expert-parallel degree of 1.",
            ("expert_parallel", "model"),
            "Leave the degree blank, or choose a mixture of experts.",
            {"expert_parallel": 1},
        )
