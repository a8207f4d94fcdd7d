"""The training constants of the catalogue at their typical values, for tests of the formulas of a step."""

from app.catalog.load import Catalog
from app.formulas.training.arguments import Calibration, Software
from app.plan.job import calibration


def constants(catalog: Catalog, gpu: str, stack: str) -> tuple[Software, Calibration]:
    """Of a stack on a GPU."""
    trait = calibration.traits(catalog, stack)

    def typical(group: str, name: str) -> float:
        return catalog.training[group][name].typical

    kernel = calibration.kernels(catalog, catalog.gpus[gpu], typical)
    conditions = calibration.Conditions(2.0, trait["vendor_attention"], trait["release"], 1.0, 0.0)
    return calibration.software(trait), calibration.calibration(typical, kernel, conditions)
