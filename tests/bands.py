"""Reading plans in tests."""

from dataclasses import fields, is_dataclass
from typing import Any

from app.plan.band import Band


def typical(band: Band | None) -> float:
    assert band is not None
    return band.typical


def bands(part: Any, path: str = "plan") -> list[tuple[str, Band]]:
    """Every band of a plan, by its path."""
    if isinstance(part, Band):
        return [(path, part)]
    if is_dataclass(part):
        return [found for entry in fields(part) for found in bands(getattr(part, entry.name), f"{path}.{entry.name}")]
    if isinstance(part, tuple):
        return [found for index, item in enumerate(part) for found in bands(item, f"{path}[{index}]")]
    return []
