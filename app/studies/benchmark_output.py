"""What benchmarks of collectives print: nccl-tests and rccl-tests as text or JSON, OSU, ib_write_bw."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite

from app import units
from app.plan.scenario import MOST_GPUS

MOST_ROWS = 4000
LONGEST_LINE = 500
MOST_OBJECTS = 50_000
LARGEST = units.parse("1 PB", "B")
PORT = "port"
"""What ``ib_write_bw`` measures in place of a collective: one port."""

_ROW = re.compile(
    r"(?<!\d)(?P<size>\d{1,16})\s+\d{1,16}\s+(?P<type>float|half|double|bfloat16|u?int\d{0,2}|u?char|f8\w*|fp8\w*)"
    r"\s+(?P<sum>\w+)\s+(?P<rest>[-\d.eE+\s/NAnaif]+)$"
)
_RANK = re.compile(r"#\s+Rank\s+(\d+)\b[^#]*?\bon\s+(\S+)\s+device")
_START = re.compile(r"#\s*nThread\b|#\s*Collective test starting|#\s*OSU\b|#bytes\s+#iterations")
_NAMES = (
    (re.compile(r"all[-_ ]?reduce", re.I), "all-reduce"), (re.compile(r"all[-_ ]?gather", re.I), "all-gather"),
    (re.compile(r"reduce[-_ ]?scatter", re.I), "reduce-scatter"),
    (re.compile(r"all[-_ ]?to[-_ ]?all", re.I), "all-to-all"),
    (re.compile(r"broadcast|bcast", re.I), "broadcast"), (re.compile(r"\breduce(?:_perf|\b)", re.I), "reduce"),
)  # fmt: skip
_OTHER = re.compile(r"\bsend_?recv\w*|\b(?:gather|scatter|hypercube)\w*|(?<=#)\s*OSU\b.*", re.IGNORECASE)
"""Programs that time something else than a collective of these."""
_NAMED = re.compile(r"\b\w+_perf\b|#\s*OSU\b.*", re.IGNORECASE)
_OSU_ROW = re.compile(r"^\s*(\d{1,12})\s+(\d+(?:\.\d+)?)(?:\s+[\d.]+)*\s*$")
_PORT_ROW = re.compile(r"^\s*(\d{1,12})\s+\d+\s+(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)\s+\d+(?:\.\d+)?\s*$")


@dataclass
class Output:
    """One table of one benchmark.

    Attributes:
        collective: one of ``COLLECTIVES``, ``PORT``, or what a program is called that times neither.
        ranks: GPUs that took part; 0 where the text does not say [1].
        hosts: nodes they stood in; 0 where the text does not say [1].
        allowed: the fewest and the most that its bandwidths allow as they are printed, where nothing else names them.
        rows: message [B] and out-of-place time [s].
    """

    collective: str = ""
    ranks: int = 0
    hosts: int = 0
    allowed: tuple[float, float] | None = None
    rows: list[tuple[float, float]] = field(default_factory=list)


def ranks_about(ranks: int, allowed: tuple[float, float] | None, gpus: int, node: int) -> int:
    """GPUs that took part in a test, where bandwidths tell them: as many as a cluster has, if that may be, else those
    of whole nodes of so many [1].

    >>> ranks_about(61, (58.0, 65.0), 64, 8), ranks_about(61, (58.0, 63.0), 128, 8), ranks_about(61, None, 64, 8)
    (64, 64, 61)
    """
    if not allowed:
        return ranks
    if allowed[0] <= gpus <= allowed[1]:
        return gpus
    return max(round(ranks / node), 1) * node if ranks > node else ranks


def read(text: str) -> tuple[list[Output], str]:
    """The tables of a text, one after the other, and what is wrong where there is none.

    >>> line = " 1048576  262144  float  sum  -1  60.0  17.48  32.77  0  59.0  17.77  33.32  0"
    >>> [output.rows for output in read(line)[0]]
    [[(1048576.0, 6e-05)]]
    """
    outputs, problem = _of_json(text) if text.lstrip()[:1] in ("{", "[") else ([], "")
    with_rows = [output for output in outputs if output.rows]
    if not with_rows:  # mpirun's prefix of a line, [1,0], begins as a list of JSON does
        with_rows = [output for output in _of_text(text) if output.rows]
        problem = "" if with_rows else problem
    if not with_rows and not problem:
        problem = (
            "No line of results was found. Paste what all_reduce_perf or another test printed, with sizes and times."
        )
    return with_rows, problem


# Text ----------------------------------------------------------------------------------------------------------------


def _of_text(text: str) -> Iterator[Output]:
    """The tables of plain text; lines may carry a prefix of mpirun or of a scheduler."""
    output, hosts, ranks, kind, count = Output(), set[str](), set[int](), "nccl", 0
    for line in text.splitlines():
        if len(line) > LONGEST_LINE or not line.strip():
            continue
        starts, named, rank = _START.search(line), _NAMED.search(line), _RANK.search(line)
        if (starts or named or rank) and output.rows:
            yield output
            output, hosts, ranks = Output(), set(), set()
        if starts:
            kind = "osu" if "OSU" in line else _port_kind(line) if "#bytes" in line else "nccl"
        if named:
            output.collective = _measured(named[0]) or output.collective
        if rank:
            ranks.add(int(rank[1]))
            hosts.add(rank[2])
            output.ranks, output.hosts = len(ranks), len(hosts)
        row = _row(line, kind, output) if count < MOST_ROWS else None
        if row:
            output.rows.append(row)
            count += 1
    yield output


_PORT_RATES = {PORT: units.parse("1 MiB/s", "B/s"), "port in bits": units.parse("1 Gb/s", "B/s")}
"""What perftest counts rates in [B/s]: its MB in powers of two, and bits where it is told to report them."""


def _port_kind(head: str) -> str:
    """What the rates of a table of perftest are, by its head."""
    return "port in bits" if "Gb/sec" in head else PORT


def _collective(text: str) -> str:
    return next((name for pattern, name in _NAMES if pattern.search(text)), "")


def _measured(text: str) -> str:
    """What a program measures: a collective, or what it is called itself where it is known to time none.

    >>> _measured("reduce_scatter_perf"), _measured("sendrecv_perf"), _measured("# OSU MPI-CUDA Latency Test v7.3")
    ('reduce-scatter', 'sendrecv_perf', 'OSU MPI-CUDA Latency Test v7.3')
    """
    other = _OTHER.search(text)
    return _collective(text) or (other[0].strip() if other else "")


def _row(line: str, kind: str, output: Output) -> tuple[float, float] | None:
    """Message and time of a line, if it is one of results."""
    if kind == "osu":
        match = _OSU_ROW.match(line)
        return _kept(match[1], match[2]) if match else None
    if kind in _PORT_RATES:
        match = _PORT_ROW.match(line)
        if match is None or float(match[3]) <= 0:
            return None
        output.collective = PORT
        rate = float(match[3]) * _PORT_RATES[kind]
        return _kept(match[1], float(match[1]) / rate * 1e6)
    match = _ROW.search(line.rstrip())
    if match is None:
        return None
    cells = match["rest"].split()
    if len(cells) in (5, 9) and re.fullmatch(r"-?\d+", cells[0]):  # the root, which older versions lack
        cells = cells[1:]
    _guess(output, match["sum"], cells)
    return _kept(match["size"], cells[0]) if cells else None


def _guess(output: Output, summed: str, cells: list[str]) -> None:
    """Collective and ranks by the bus bandwidth over the algorithm bandwidth, where nothing names them.

    Both are printed with few decimals: of the rows the one counts that tells the ranks most nearly.
    """
    try:
        algorithm, bus = float(cells[1]), float(cells[2])
    except (IndexError, ValueError):
        return
    if not (algorithm > 1 and isfinite(bus / algorithm)):
        return
    factor = bus / algorithm
    if not output.collective:
        output.collective = (
            "all-reduce" if factor > 1.01 else "broadcast" if factor > 0.99 and summed == "none"
            else "all-reduce" if factor > 0.99 else "all-gather" if summed == "none" else "reduce-scatter"
        )  # fmt: skip
    if output.hosts or output.collective in ("broadcast", "reduce"):
        return
    whole = 2 if output.collective == "all-reduce" else 1
    up, down = (_half_a_digit(cell) for cell in cells[1:3])
    left = [
        max(whole - each, 1e-9) for each in (factor, (bus - down) / (algorithm + up), (bus + down) / (algorithm - up))
    ]
    ranks, fewest, most = (whole / each for each in left)
    if output.allowed is None or most / fewest < output.allowed[1] / output.allowed[0]:
        output.allowed = fewest, most
        output.ranks = round(ranks) if left[0] > 0.002 else 0


def _half_a_digit(cell: str) -> float:
    """Half of what the last digit of a number stands for.

    >>> _half_a_digit("12.25"), _half_a_digit("7")
    (0.005, 0.5)
    """
    return 0.5 * 10.0 ** -len(cell.partition(".")[2])


def _kept(size: object, microseconds: object) -> tuple[float, float] | None:
    """A row in base units, if it can be one."""
    try:
        message, time = float(str(size)), float(str(microseconds))
    except ValueError:
        return None
    if not (0 < message <= LARGEST and 0 < time < 1e10):
        return None
    return message, units.parse(f"{time} us", "s")


# JSON ----------------------------------------------------------------------------------------------------------------


def _of_json(text: str) -> tuple[list[Output], str]:
    """The tables of JSON, one document or one a line: every object that has a size and a time is a row."""
    try:
        lines = text.splitlines()
        documents = (
            [json.loads(line) for line in lines if line.strip()]
            if text.lstrip()[:1] == "{" and _lined(lines)
            else [json.loads(text)]
        )
    except (ValueError, RecursionError):
        return [], "This looks like JSON and cannot be read as such. Paste the whole of it, or the plain table."
    outputs: dict[tuple[str, int, int], Output] = {}
    stack: list[tuple[object, Mapping[str, object]]] = [(document, {}) for document in reversed(documents)]
    count = seen = 0
    while stack and count < MOST_ROWS and seen < MOST_OBJECTS:
        node, above = stack.pop()
        seen += 1
        if isinstance(node, list):
            stack.extend((child, above) for child in reversed(node))
        elif isinstance(node, dict):
            fields = _plain_keys(node)
            settings = {**above, **_settings(fields)}
            count += _json_row(fields, settings, outputs)
            stack.extend((v, settings) for v in reversed(list(node.values())) if isinstance(v, dict | list))
    return list(outputs.values()), ""


NAMED = ("collective", "coll", "operation", "test", "name", "benchmark")
RANKS = ("ranks", "nranks", "numranks", "worldsize", "ngpus", "gpus")
NODES = ("nodes", "nnodes", "numnodes", "hosts", "nhosts")
EACH_NODE = ("gpuspernode", "rankspernode", "ppn")


def _plain_keys(node: Mapping[str, object]) -> dict[str, object]:
    """An object by the letters of its keys alone: nRanks, n_ranks and "n ranks" are one."""
    return {_letters(name): value for name, value in node.items()}


@lru_cache(maxsize=256)
def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _settings(fields: Mapping[str, object]) -> dict[str, object]:
    """What an object says of the rows below it: its own plain values, and those of a header or config beside them.

    A list of devices, each with its rank and host, says how many there are of both; a command line, what was run.
    """
    settings: dict[str, object] = {}
    for value in fields.values():
        if isinstance(value, dict) and not {"time", "timeus"} & value.keys():
            below = _plain_keys(value)
            settings |= {name: below[name] for name in (*NAMED, *RANKS, *NODES, *EACH_NODE) if name in below}
        elif isinstance(value, list) and value:
            settings |= _listed(value)
    return settings | {name: value for name, value in fields.items() if not isinstance(value, dict | list)}


def _listed(values: list[object]) -> dict[str, object]:
    """What a list of devices or of a command's words says."""
    if isinstance(values[0], str):
        program = next((word for word in values if isinstance(word, str) and _NAMED.search(word)), "")
        return {"test": program} if program else {}
    if not (isinstance(values[0], dict) and "rank" in values[0]):
        return {}
    devices = [device for device in values[:MOST_OBJECTS] if isinstance(device, dict)]
    ranks = {str(device.get("rank")) for device in devices}
    hosts = {str(device.get("hostname", device.get("host", device.get("node", "")))) for device in devices} - {""}
    counts: dict[str, object] = {"ranks": len(ranks), "nodes": len(hosts)}
    return {name: count for name, count in counts.items() if count}


def _lined(lines: list[str]) -> bool:
    return sum(line.lstrip().startswith("{") and line.rstrip().endswith("}") for line in lines) > 1


def _json_row(
    fields: Mapping[str, object], settings: Mapping[str, object], outputs: dict[tuple[str, int, int], Output]
) -> int:
    """Put an object that is a row to its table."""
    placed = fields.get("outofplace")
    time = (
        placed.get("time", placed.get("time_us"))
        if isinstance(placed, dict)
        else _first(fields, "time", "timeus", "latencyus")
    )
    size = _first(fields, "size", "bytes", "sizebytes", "messagesize")
    row = (
        _kept(size, time)
        if size is not None and time is not None and fields.get("inplace") not in (1, True, "1")
        else None
    )
    if row is None:
        return 0
    collective = next(
        filter(None, (_measured(str(settings[name])) for name in NAMED if name in settings)), "all-reduce"
    )
    ranks, nodes = _whole(settings, *RANKS), _whole(settings, *NODES)
    place = collective, ranks or nodes * _whole(settings, *EACH_NODE), nodes
    outputs.setdefault(place, Output(*place)).rows.append(row)
    return 1


def _first(fields: Mapping[str, object], *names: str) -> object:
    return next((fields[name] for name in names if name in fields), None)


def _whole(settings: Mapping[str, object], *names: str) -> int:
    """The first of some values that is a count, else 0."""
    counts = (settings[name] for name in names if name in settings)
    return next((value for value in counts if type(value) is int and 0 < value <= MOST_GPUS), 0)
