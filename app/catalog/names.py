"""What a field and a number of the catalogue are called."""

from typing import Any

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog


def words(field: str) -> str:
    """A field's name as words.

    >>> words("memory_bandwidth"), words("port_rate")
    ('Memory bandwidth', 'Port rate')
    """
    text = field.replace("_", " ").replace("-", " ")
    for plain in ("gpu", "pue", "nic", "fp16", "bf16", "fp8", "fp4", "pcie", "ll128"):
        text = " ".join(word.upper() if word == plain else word for word in text.split(" "))
    return text[:1].upper() + text[1:]


def input_name(estimate: Estimate, catalog: Catalog) -> str:
    """What one number of the catalogue is called where its entry is not in sight."""
    kind, _, rest = estimate.key.partition(".")
    entry, _, field = rest.rpartition(".")
    record: Any = catalog.kind(kind).get(entry)
    owner = getattr(record, "name", "") or words(entry or field)
    name = words(field) if entry else ""
    return f"{owner}: {name if name[1:2].isupper() else name[:1].lower() + name[1:]}" if name else owner
