"""Where the sources of measurements are: their names for people, and addresses made of what their rows cite."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tomli

from app.catalog.load import Catalog

MEASUREMENTS = Path(__file__).parent / "measurements"
REPOSITORY = r"(?P<repository>[\w.-]+/[\w.-]+)"
ADDRESSES = (
    (rf"github issue {REPOSITORY}#(?P<number>\d+)", "https://github.com/{repository}/issues/{number}"),
    (rf"github PR {REPOSITORY}#(?P<number>\d+)", "https://github.com/{repository}/pull/{number}"),
    (r"gist (?P<gist>\w+/\w+)", "https://gist.github.com/{gist}"),
    (r"pastebin (?P<key>\w+)", "https://pastebin.com/{key}"),
    (r".*arXiv (?P<number>\d{4}\.\d{5})", "https://arxiv.org/abs/{number}"),
    (rf"{REPOSITORY}:(?P<path>\S+)$", "https://github.com/{repository}/blob/HEAD/{path}"),
    (rf"{REPOSITORY} commit (?P<commit>\w+)", "https://github.com/{repository}/commit/{commit}"),
    (rf"{REPOSITORY} (?P<tag>v[\d.]+) (?P<path>\S+)", "https://github.com/{repository}/blob/{tag}/{path}"),
    (rf"{REPOSITORY} (?P<path>\S+) @(?P<commit>\w+)", "https://github.com/{repository}/blob/{commit}/{path}"),
    (rf"{REPOSITORY} (?P<path>[\w./-]+\.\w+)", "https://github.com/{repository}/blob/HEAD/{path}"),
)
"""How sources are cited, and the address that each way stands for; the first that fits."""


@dataclass(frozen=True)
class Citation:
    """A source as it is cited, and its address; blank where it has none."""

    text: str
    address: str = ""


def address(cited: str) -> str:
    """The address of a source as rows cite it; blank where the citation holds none.

    >>> address("Narayanan et al. SC21 (arXiv 2104.04473) Table 2")
    'https://arxiv.org/abs/2104.04473'
    >>> address("coreweave/nccl-tests:README.md"), address("github(wutz mpi-operator notes)")
    ('https://github.com/coreweave/nccl-tests/blob/HEAD/README.md', '')
    """
    for pattern, template in ADDRESSES:
        if match := re.match(pattern, cited):
            return template.format(**match.groupdict())
    return ""


@cache
def names() -> Mapping[str, str]:
    """The sources of training steps by group, in words."""
    return tomli.loads((MEASUREMENTS / "names.toml").read_text(encoding="utf-8"))


@cache
def serving_names() -> Mapping[str, str]:
    """Who measured serving, in words."""
    return tomli.loads((MEASUREMENTS / "serving_names.toml").read_text(encoding="utf-8"))


def measured_by(source: str, catalog: Catalog) -> str:
    """Who measured an operating point of serving, and of which model.

    >>> from app.catalog.load import load_catalog
    >>> measured_by("inferencex/llama-3-70b/h100-sxm", load_catalog())
    'InferenceX, Llama 3 70B on H100 SXM'
    >>> measured_by("mlperf-inference/v5.1", load_catalog())
    'MLPerf Inference, v5.1'
    """
    who, *of = source.split("/")
    known = {key: entry.name for entries in (catalog.models, catalog.gpus) for key, entry in entries.items()}
    what = " on ".join(known.get(part, part) for part in of)
    return ", ".join(filter(None, (serving_names().get(who, who), what)))


@cache
def citations(file: str, column: str) -> Mapping[str, Citation]:
    """The first source of each value of a column of a file of measurements."""
    first: dict[str, Citation] = {}
    with (MEASUREMENTS / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            cited = row["source"]
            first.setdefault(row[column], Citation(_short(cited), address(cited)))
    return first


def _short(cited: str) -> str:
    """A citation without what it says in passing.

    >>> _short("github(wutz mpi-operator notes)"), _short("LLaMA paper (arXiv 2302.13971) s2.4")
    ('wutz mpi-operator notes', 'LLaMA paper')
    """
    return cited.removeprefix("github(").split(" (")[0].split(";")[0].rstrip(")")
