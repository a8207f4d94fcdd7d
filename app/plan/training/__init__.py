"""The training job of a plan: catalogue entries to the numbers of ``app.training`` and ``app.search``, and back.

Read in this order; each module uses those before it:

- `shapes`, `constants`, `cards`, `stacks`: a model, the constants, a GPU and the software, each by itself;
- `inputs`, `degrees`: a scenario as what the step model and the search take;
- `parts`: what a step is made of; `candidates`: every way to run it;
- `interruptions`, `results`, `findings`, `explanations`: what the plan says of it;
- `job`: all of it together.
"""

from app.plan.training.candidates import searched
from app.plan.training.cards import PRECISION_BYTES, card, links, peaks
from app.plan.training.constants import Kernels, Reading, architecture_group, calibration, kernels, residual
from app.plan.training.degrees import SHARDING
from app.plan.training.inputs import numbers
from app.plan.training.job import TrainingDraft, draft, time_on
from app.plan.training.parts import RESOURCES
from app.plan.training.shapes import gradient_bytes, shape, shape_of
from app.plan.training.stacks import DEFAULT_STACK, software, stack_key, traits

__all__ = [
    "DEFAULT_STACK",
    "PRECISION_BYTES",
    "RESOURCES",
    "SHARDING",
    "Kernels",
    "Reading",
    "TrainingDraft",
    "architecture_group",
    "calibration",
    "card",
    "draft",
    "gradient_bytes",
    "kernels",
    "links",
    "numbers",
    "peaks",
    "residual",
    "searched",
    "shape",
    "shape_of",
    "software",
    "stack_key",
    "time_on",
    "traits",
]
