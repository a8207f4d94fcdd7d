"""What the reader asks of a cluster that serves: a scenario whose workload is serving."""

from typing import Literal

from pydantic import ConfigDict, Field

from app.plan.scenario import MOST_GPUS, Count, Scenario, about


class ServingQuestion(Scenario):
    """A cluster and what it is to serve."""

    model_config = ConfigDict(defer_build=True)

    gpus: Count = Field(
        64, ge=1, le=MOST_GPUS, title="GPUs", description="How many GPUs serve the model.",
        json_schema_extra=about("cluster"),
    )  # fmt: skip
    workload: Literal["serving"] = Field(
        "serving", title="Workload", description="The model answers users.", json_schema_extra=about("serving")
    )

    @classmethod
    def of(cls, scenario: Scenario) -> "ServingQuestion":
        """A scenario that serves as such a question, which says only what differs from this one's defaults."""
        return cls.model_construct(**vars(scenario))
