"""The job of a cluster that trains nothing: every result of training, and no number in it."""

from dataclasses import fields

import numpy as np

from app.plan.band import Draws
from app.plan.result import Bottleneck, Memory, Storage, Training

NOTHING = Draws(np.full(1, np.nan))

TRAINING: Training[Draws] = Training(
    parallelism=None,
    searched=0,
    feasible=0,
    step_time=NOTHING,
    time_to_train=NOTHING,
    parts=(),
    groups=(),
    mfu=NOTHING,
    hfu=NOTHING,
    tokens_per_second=NOTHING,
    steps=0.0,
    availability=np.nan,
    straggler=np.nan,
    parameters=0.0,
    active_parameters=0.0,
    flops_per_token=0.0,
    alternatives=(),
    cloud=(),
    productive_time=NOTHING,
    campaign_time=NOTHING,
    range_rests_on=(),
)
MEMORY: Memory[Draws] = Memory(parts=(), total=NOTHING, capacity=NOTHING, headroom=NOTHING, fits=None)
STORAGE: Storage[Draws] = Storage(**{entry.name: NOTHING for entry in fields(Storage)})
BOTTLENECK: Bottleneck[Draws] = Bottleneck(resource=None, share=None, what_if=())
