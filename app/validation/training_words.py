"""Rows of published training steps in the words of the product: other spellings and names of the same thing."""

import re
from collections.abc import Iterator, Mapping

from app.catalog.load import Catalog
from app.plan.scenario import SHAPE
from app.validation.row_names import (
    GIGABIT,
    dense_size,
    gpu_named,
    model_named,
    network_named,
    rate_of_a_gpu,
    rate_stated,
    word,
)
from app.validation.statistics import number

PRECISIONS = (
    (r"mx-?fp8", "mxfp8"),
    (r"fp8|float8", "fp8"),
    (r"nvfp4|^fp4", "nvfp4"),
    (r"^b(?:f|float)16", "bf16"),
    (r"^(?:fp|float)16|^half|^16|^amp", "fp16"),
)
"""Precisions by what is written of them, the narrowest first: a step in BF16 and FP8 has its products in FP8."""
WORDS: Mapping[str, Mapping[str, str]] = {
    "sharding": {
        **dict.fromkeys(("zero-0", "zero0", "ddp", "no"), "none"),
        **dict.fromkeys(("zero-1", "zero1", "distributed-optimizer"), "optimizer"),
        **dict.fromkeys(("zero-2", "zero2"), "gradients"),
        **dict.fromkeys(("zero-3", "zero3", "fsdp", "fsdp1", "fsdp2", "hsdp", "full-shard"), "parameters"),
    },
    "recompute": {
        **dict.fromkeys(("uniform", "block", "yes", "true", "1", "activation-checkpointing"), "full"),
        **dict.fromkeys(("core", "core-attn", "core-attention"), "selective"),
        **dict.fromkeys(("no", "false", "0", "off"), "none"),
    },
    "dispatcher": {"alltoall": "all-to-all", "allgather": "all-gather", "deep-ep": "deepep", "hybrid-ep": "hybridep"},
    "regime": {},
    "routing": {},
    "graphs": {},
    "attention_kernel": {},
}
"""Other words for what a column may say."""
OF_SHAPE = ("layers", "hidden", "heads")
"""What a row need not state of a model of which the size is known."""
VERSION = re.compile(r"[ _-]v?\d+(?:\.\d+)+\S*$")


def in_words(row: Mapping[str, str], catalog: Catalog) -> tuple[dict[str, str], tuple[str, ...]]:
    """A row in the words of the product, and what of it is taken for something else.

    >>> from app.catalog.load import load_catalog
    >>> book = load_catalog()
    >>> cells, _ = in_words({"gpu": "H100 SXM5 80GB", "scale_out": "HDR200", "sharding": "ZeRO-3"}, book)
    >>> cells["gpu"], cells["scale_out"], cells["gbps_per_gpu"], cells["sharding"]
    ('h100-sxm', 'infiniband', '200', 'parameters')
    """
    cells = {name: (value or "").strip() for name, value in row.items() if isinstance(name, str)}
    gpu = gpu_named(cells.get("gpu", ""), catalog)
    changed = {"gpu": gpu.key or cells.get("gpu", "")}
    changed |= {name: _word(cells[name], others) for name, others in WORDS.items() if cells.get(name)}
    if precision := cells.get("precision", "").lower():
        changed["precision"] = next((name for pattern, name in PRECISIONS if re.search(pattern, precision)), precision)
    if VERSION.search(stack := cells.get("stack", "")):
        changed |= {"stack": VERSION.sub("", stack), "stack_version": cells.get("stack_version") or stack}
    changed |= _network(cells, gpu.key, catalog) | _model(cells, catalog)
    return cells | changed, tuple(filter(None, (gpu.taken, *_taken(changed, cells))))


def _word(text: str, others: Mapping[str, str]) -> str:
    said = word(text)
    return others.get(said, said)


def _network(cells: Mapping[str, str], gpu: str, catalog: Catalog) -> dict[str, str]:
    """The family of network, and the rate for a GPU in Gb/s where a row, or the name of its network, says so."""
    named, rate = network_named(cells.get("scale_out", ""), catalog), rate_stated(cells.get("gbps_per_gpu", ""))
    if rate is None and named.port_rate is not None and gpu:
        rate = rate_of_a_gpu(named, gpu, catalog)
    return {"scale_out": named.family, "gbps_per_gpu": f"{rate / GIGABIT:.9g}" if rate else ""}


def _model(cells: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    """The shape of the catalogue's model that a row names and does not print; of a dense one, its size."""
    if all(number(cells.get(name)) for name in OF_SHAPE):
        return {}
    name = cells.get("model", "")
    if key := model_named(name, catalog):
        listed = {column: getattr(catalog.models[key], column, None) for column in SHAPE}
        return {
            column: str(count)
            for column, count in listed.items()
            if count not in (None, True, False, 0) and not cells.get(column)
        }
    size = "" if number(cells.get("experts")) else dense_size(name)
    return {"size": size} if size else {}


def _taken(changed: Mapping[str, str], cells: Mapping[str, str]) -> Iterator[str]:
    """What stands in for what a row states."""
    if "size" in changed:
        yield f"shape of {cells['model']} by rule from its size"
