"""Sources of measurements: each has a name for people, and most an address."""

import csv

import pytest

from app.validation.citations import MEASUREMENTS, address, citations, names


def rows(file: str) -> list[dict[str, str]]:
    with (MEASUREMENTS / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_every_source_of_training_steps_has_a_name_and_no_name_is_left_over() -> None:
    assert set(names()) == {row["group"] for row in rows("training")} == set(citations("training", "group"))


@pytest.mark.parametrize(("file", "share"), [("training", 1.0), ("collectives", 0.75)])
def test_sources_have_addresses(file: str, share: float) -> None:
    """Some runs of collectives were found by their words alone, in notes that name no place."""
    found = [address(row["source"]).startswith("https://") for row in rows(file)]
    assert sum(found) >= share * len(found)


@pytest.mark.parametrize(
    ("cited", "expected"),
    [
        ("github issue NVIDIA/nccl-tests#309", "https://github.com/NVIDIA/nccl-tests/issues/309"),
        ("gist cswinter/3bc2cbcc7c94", "https://gist.github.com/cswinter/3bc2cbcc7c94"),
        ("AMD-AGI/Primus commit 3574848a (2026-03-09) message", "https://github.com/AMD-AGI/Primus/commit/3574848a"),
        (
            "NVIDIA/dgxc-benchmarking v25.04.02 llama3.1/README.md",
            "https://github.com/NVIDIA/dgxc-benchmarking/blob/v25.04.02/llama3.1/README.md",
        ),
        (
            "pytorch/torchtitan docs/performance.md @157a12c56 (2024-04)",
            "https://github.com/pytorch/torchtitan/blob/157a12c56/docs/performance.md",
        ),
    ],
)
def test_an_address_is_made_of_what_is_cited(cited: str, expected: str) -> None:
    assert address(cited) == expected
