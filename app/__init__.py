"""Railyard: a sizing calculator for GPU clusters.

As a library:

    >>> from app import Scenario, evaluate, load_catalog
    >>> plan = evaluate(Scenario(gpus=512), load_catalog())
    >>> plan.cluster.nodes
    64
"""

__version__ = "0.23.0"

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.report.sweep_rows import sweep
from app.studies.sweep import Grid

__all__ = ["Grid", "Plan", "Scenario", "__version__", "evaluate", "load_catalog", "sweep"]
