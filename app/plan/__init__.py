"""The place where hardware and maths meet: a scenario and the catalogue in, one frozen plan out."""

from app.plan.evaluation import evaluate

__all__ = ["evaluate"]
