"""Uneven stages of a pipeline, as Megatron-Core writes them: `Et*3|(t*4|)*14t*2L`."""

import re
from dataclasses import dataclass
from functools import lru_cache

LONGEST = 100_000
"""Slots that a layout may have, written out: more is no pipeline, and takes long to read."""


class LayoutError(ValueError):
    """A layout that cannot be read; the text says why."""


@dataclass(frozen=True)
class Layout:
    """What each chunk of a pipeline holds, first chunk first.

    Attributes:
        layers: transformer layers, those of multi-token prediction too, of each chunk [1].
        transformer: transformer layers of all chunks without them [1].
    """

    layers: tuple[int, ...]
    transformer: int


@lru_cache(maxsize=256)
def read_layout(text: str) -> Layout:
    """A layout: E embedding, t layer, m multi-token prediction, L loss, `t*4` four layers, `|` next chunk.

    `(..)*14` is repeated. The embedding is the first slot and the loss the last; neither counts as a layer.

    >>> read_layout("Et*2|(t*3|)*2tmL")
    Layout(layers=(2, 3, 3, 2), transformer=9)
    """
    slots = text
    while group := re.search(r"\(([^()]*)\)(?:\*(\d+))?", slots):
        slots = slots[: group.start()] + _repeated(group[1], group[2]) + slots[group.end() :]
        if len(slots) > LONGEST:
            raise LayoutError("it has more layers than any model")
    slots = re.sub(r"([EtmL])\*(\d+)", lambda item: _repeated(item[1], item[2]), slots)
    if not re.fullmatch(r"E?[tm|]*L?", slots) or len(slots) > LONGEST:
        raise LayoutError("one embedding E comes first and one loss L last, with layers t and m between")
    chunks = slots.split("|")
    return Layout(tuple(chunk.count("t") + chunk.count("m") for chunk in chunks), slots.count("t"))


def _repeated(text: str, times: str | None) -> str:
    count = int(times or 1)
    if len(text) * count > LONGEST:
        raise LayoutError("it has more layers than any model")
    return text * count


def chunks_of(text: str | None, layers: int, pipeline: int | None, virtual_pipeline: int | None) -> tuple[int, ...]:
    """Layers of each chunk of a layout that fits the model and the degrees that are given; none where it does not.

    >>> chunks_of("Et*2|t*2L", 4, 2, None), chunks_of("Et*2|t*2L", 5, 2, None), chunks_of(None, 4, 2, None)
    ((2, 2), (), ())
    """
    if text is None or mismatch(text, layers, pipeline, virtual_pipeline):
        return ()
    return read_layout(text).layers


def mismatch(text: str, layers: int, pipeline: int | None, virtual_pipeline: int | None) -> str:
    """Why a layout does not fit the model or the degrees that are given; nothing where it does.

    >>> mismatch("Et*2|t*2L", 5, 2, 1)
    'it has 4 layers, and the model 5'
    >>> mismatch("Et*2|t*2L", 4, 4, 1)
    'it has 2 chunks, and 4 stages of 1 chunk are 4'
    >>> mismatch("Et|t|tL", 3, 2, None), mismatch("Et|t|tL", 3, None, 2), mismatch("Et|t|tL", 3, 3, None)
    ('its 3 chunks do not divide into 2', 'its 3 chunks do not divide into 2', '')
    """
    try:
        layout = read_layout(text)
    except LayoutError as error:
        return str(error)
    chunks = len(layout.layers)
    if layout.transformer != layers:
        return f"it has {layout.transformer:,} layers, and the model {layers:,}"
    if pipeline and virtual_pipeline and pipeline * virtual_pipeline != chunks:
        each = "1 chunk" if virtual_pipeline == 1 else f"{virtual_pipeline:,} chunks"
        return f"it has {chunks:,} chunks, and {pipeline:,} stages of {each} are {pipeline * virtual_pipeline:,}"
    given = pipeline or virtual_pipeline
    return f"its {chunks:,} chunks do not divide into {given:,}" if given and chunks % given else ""
