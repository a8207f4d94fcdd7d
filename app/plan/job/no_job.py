"""The job of a cluster that trains nothing: every result of training, and no number in it."""

from dataclasses import fields

import numpy as np

from app.plan.result import Bottleneck, Memory, Storage, Training

NO_TIME = np.full(1, np.nan)
"""What a run takes that there is none of [s]."""

TRAINING: Training = Training(
    parallelism=None,
    searched=0,
    feasible=0,
    step_time=None,
    time_to_train=None,
    parts=(),
    groups=(),
    mfu=None,
    hfu=None,
    tokens_per_second=None,
    steps=0.0,
    availability=np.nan,
    straggler=np.nan,
    parameters=0.0,
    active_parameters=0.0,
    flops_per_token=0.0,
    alternatives=(),
    cloud=(),
    productive_time=None,
    campaign_time=None,
    range_rests_on=(),
)
MEMORY: Memory = Memory(parts=(), total=None, capacity=None, headroom=None, fits=None)
STORAGE: Storage = Storage(**{entry.name: None for entry in fields(Storage)})
BOTTLENECK: Bottleneck = Bottleneck(resource=None, share=None, what_if=())
