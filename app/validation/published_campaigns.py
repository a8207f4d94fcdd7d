"""A plan beside its published campaign: which part of the difference is the step's, and which the campaign's."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from app import units
from app.catalog.load import Catalog
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.validation.whole_clusters import CLUSTERS, HOUR, Entry, read

GROUPS = ("cluster", "network", "model", "shape", "parallelism", "software")
"""The fields that make two questions the same run."""
STEP = ("step_gpu_hours", "step_time", "mfu", "token_rate")
"""The figures that say how long published steps took."""


@dataclass(frozen=True)
class PublishedCampaign:
    """A published run and ours. Hours are those of all GPUs; what no source prints is ``None``."""

    name: str
    sources: tuple[str, ...]
    steps: float
    published_steps: float
    campaign: float | None
    published_campaign: float | None

    @property
    def step_ratio(self) -> float:
        """Ours over the published, of the steps alone [1]."""
        return self.steps / self.published_steps

    @property
    def campaign_ratio(self) -> float | None:
        """Ours over the published, of what the campaign adds to its steps [1]."""
        if self.campaign is None or self.published_campaign is None:
            return None
        return self.campaign / self.steps / (self.published_campaign / self.published_steps)


@lru_cache(maxsize=2)
def _presets(catalog: Catalog) -> Mapping[str, Entry]:
    """The published runs that a preset asks for, by what they ask. Kept: reading the file takes 20 ms."""
    entries, _ = read(CLUSTERS, catalog)
    runs = (entry for entry in entries.values() if entry.preset and {figure.of for figure in entry.figures} & set(STEP))
    return {_asked(entry.question(catalog)): entry for entry in runs}


def _asked(scenario: Scenario) -> str:
    return scenario.only(*GROUPS).query()


def published_campaign(scenario: Scenario, plan: Plan, catalog: Catalog) -> PublishedCampaign | None:
    """The published run that a scenario asks for, beside its plan; ``None`` where nobody published one."""
    entry, training = _presets(catalog).get(_asked(scenario)), plan.training
    if entry is None or training.productive_time is None or training.step_time is None:
        return None
    printed = {
        figure.of: units.parse(figure.published, "s" if figure.of == "step_time" else "1") for figure in entry.figures
    }
    gpu_hours = scenario.gpus / HOUR
    steps = training.productive_time.typical * gpu_hours
    ours = {
        "step_time": training.step_time.typical,
        "mfu": training.mfu.typical if training.mfu else None,
        "token_rate": training.tokens_per_second.typical / scenario.gpus if training.tokens_per_second else None,
    }
    step_figure = next(name for name in STEP if name in printed)
    if step_figure == "step_gpu_hours":
        published = printed[step_figure]
    elif step_figure == "step_time":
        published = steps * printed[step_figure] / (ours[step_figure] or float("nan"))
    else:
        published = steps * (ours[step_figure] or float("nan")) / printed[step_figure]
    return PublishedCampaign(
        name=entry.name,
        sources=tuple(dict.fromkeys(figure.source for figure in entry.figures)),
        steps=steps,
        published_steps=published,
        campaign=training.campaign_time.typical * gpu_hours if training.campaign_time else None,
        published_campaign=printed.get("gpu_hours"),
    )
