"""Constants and links of the catalogue at their typical values, for tests of the formulas of a step."""

from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL
from app.formulas.collectives.group_times import Links
from app.formulas.training.arguments import Calibration, Software
from app.plan.communication import of_scenario
from app.plan.job import calibration
from app.plan.job.inputs import first_links
from app.plan.scenario import Scenario


def constants(catalog: Catalog, gpu: str, stack: str) -> tuple[Software, Calibration]:
    """Of a stack on a GPU."""
    trait = calibration.traits(catalog, stack)

    def typical(group: str, name: str) -> float:
        return catalog.training[group][name].typical

    kernel = calibration.kernels(catalog, catalog.gpus[gpu], typical)
    conditions = calibration.Conditions(2.0, trait["vendor_attention"], trait["release"], 1.0, 0.0)
    return calibration.software(trait), calibration.calibration(typical, kernel, conditions)


def links(catalog: Catalog, gpu: str, gpus: int, **asked: object) -> Links:
    """Of so many GPUs, in the nodes they usually come in."""
    return first_links(of_scenario(Scenario(gpu=gpu, gpus=gpus, **asked), catalog).links(TYPICAL))
