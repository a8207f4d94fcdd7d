"""What the reader asks of a cluster that serves: a scenario with its load, limits and engine."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from app.catalog.load import Catalog
from app.plan.scenario import Degree, Key, Request, Scenario, Usual, about
from app.units import Dollars, Number, PerSecond, Seconds

EngineKey = Annotated[str, Key("engines", example="vllm")]
WeightFormat = Literal["bf16", "fp8", "nvfp4", "mxfp4", "int4"]
Percentile = Literal["mean", "p90", "p99"]
Arrivals = Literal["steady", "benchmark", "waves", "offline"]
Tokens = Annotated[Number, Field(ge=1, le=1e7)]


def _serving(title: str, description: str, default: Any = None, usual: Usual | None = None, **more: Any) -> Any:
    return Field(default, title=title, description=description, json_schema_extra=about("serving", usual), **more)


class ServingRequest(Request):
    """Who asks for what, how soon it must come, and what answers."""

    input_tokens: Tokens = _serving("Prompt", "Mean tokens of a prompt.", 1024)
    output_tokens: Tokens = _serving("Answer", "Mean tokens of an answer.", 1024)
    request_rate: Annotated[PerSecond, Field(gt=0, le=1e7)] | None = _serving(
        "Requests",
        "Of all users, such as 20/s. Blank: as many as fit.",
        usual=Usual.read("0.1/s", "20/s", "5000/s", "1/s"),
    )
    concurrency: Annotated[Number, Field(gt=0, le=1e8)] | None = _serving(
        "Requests in flight", "On the whole cluster at any time. Blank: from users or requests, else as many as fit."
    )
    users: Annotated[Number, Field(gt=0, le=1e9)] | None = _serving(
        "Users", "Each waits for an answer, thinks, and asks again. Blank: as many as fit."
    )
    think_time: Annotated[Seconds, Field(ge=0, le=1e6)] = _serving(
        "Time to think", "Of a user between an answer and the next question, such as 20 s.", 0.0
    )
    ttft_limit: Annotated[Seconds, Field(gt=0, le=1e5)] | None = _serving(
        "Limit to the first token", "Such as 2 s. Blank: none.", usual=Usual.read("100 ms", "2 s", "60 s", "s")
    )
    tpot_limit: Annotated[Seconds, Field(gt=0, le=100)] | None = _serving(
        "Limit per token", "Such as 40 ms. Blank: none.", usual=Usual.read("3 ms", "40 ms", "500 ms", "s")
    )
    percentile: Percentile = _serving(
        "Limits hold for", "The mean, or the slowest tenth or hundredth of the requests.", "mean"
    )
    serving: Literal["aggregated", "disaggregated"] | None = _serving(
        "Pools", "aggregated: each replica does both; disaggregated: prompts and answers apart. Blank: the better."
    )
    engine: EngineKey | None = _serving("Engine", "Blank: vLLM, with a wider range.")
    weights: WeightFormat | None = _serving("Weights", "Blank: FP8 where the GPU has it, else BF16.")
    kv_cache: Literal["bf16", "fp8"] | None = _serving(
        "Keys and values", "Format of the cache. Blank: the engine's own."
    )
    attention_data_parallel: Degree | None = _serving(
        "Attention data parallel", "Ranks with sequences of their own that share the experts. Blank: find the best."
    )
    max_sequences: Annotated[int, Field(ge=1, le=1_000_000)] | None = _serving(
        "Most sequences", "That one attention rank runs at a time. Blank: the engine's own."
    )
    token_budget: Annotated[int, Field(ge=16, le=10_000_000)] | None = _serving(
        "Token budget", "Most prompt tokens of one step. Blank: the engine's own."
    )
    memory_share: Annotated[Number, Field(gt=0.1, le=1)] | None = _serving(
        "Memory share", "Of a GPU's memory that the engine takes. Blank: the engine's own."
    )
    prefix_hits: Annotated[Number, Field(ge=0, lt=1)] = _serving(
        "Prefix cache", "Share of the prompts' tokens that are cached.", 0.0
    )
    accepted_tokens: Annotated[Number, Field(ge=0, le=16)] = _serving(
        "Accepted tokens", "Further tokens that speculative decoding adds to each step.", 0.0
    )
    headroom: Annotated[Number, Field(gt=0, le=1)] = _serving(
        "Headroom", "Share of what a replica can do that it is asked to, as requests come unevenly.", 0.8
    )
    token_price: Annotated[Dollars, Field(ge=0, le=1e6)] | None = _serving(
        "Price to beat", "Of a million output tokens elsewhere. Blank: none."
    )
    arrivals: Arrivals = _serving(
        "Arrivals",
        "steady: users come when they like; benchmark: a client keeps so many requests in flight; waves: the same, all "
        "equally long; offline: a queue that is never empty.",
        "steady",
    )


class ServingQuestion(ServingRequest, Scenario):
    """A cluster and what it is to serve."""

    model_config = ConfigDict(defer_build=True)

    gpus: int = Field(
        64, ge=1, le=1_000_000, title="GPUs", description="How many GPUs serve the model.",
        json_schema_extra={"group": "cluster"},
    )  # fmt: skip

    def engine_key(self, catalog: Catalog) -> str:
        """The engine that is asked for, or the first of the catalogue."""
        return self.engine or next(iter(catalog.engines))
