"""Values far from what is met in practice: mostly a number whose unit was left out or mistaken."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from math import isclose, log
from typing import Any

from app import units
from app.catalog.estimate import Estimate
from app.catalog.load import LEASE, MARKET, Catalog
from app.plan.cluster import Cluster, look_up
from app.plan.prices import PriceList
from app.plan.result import Finding
from app.plan.scenario import Scenario, Usual

FAR = 10.0
"""How many times outside the usual range a value is before it is called unusual."""
TIDY = 5
"""Significant digits of a number that somebody typed; one that comes of a conversion has more."""
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "s": ("ms", "s", "min", "h", "days", "weeks", "months", "years"),
    "1/s": ("/h", "/day", "/year"),
    "W": ("kW", "MW", "GW"),
    "B": ("GB", "TB", "PB"),
    "B/s": ("MB/s", "GB/s", "TB/s", "Gb/s"),
    "USD": ("k", "M", "B"),
    "USD/J": ("USD/kWh", "USD/MWh", "USD/kW-month"),
    "USD/s": ("USD/h", "USD/day", "USD/month", "USD/year"),
    "1": ("%", "k", "M", "B", "T"),
}
"""What people write after the number of a quantity, by its base unit."""
PER = {"USD/s": "a second", "USD/J": "a joule", "1/s": "a second"}
"""What a rate in its base unit is per."""


def unusual_values(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Iterator[Finding]:
    """Prices, rates and durations that lie ten times or more outside what is usual, and what was probably meant.

    Zero is no such value: it says that there are no failures, or that nothing is paid.
    """
    fields = vars(scenario)
    for name in _with_usual_range(type(scenario)):
        value = fields[name]
        if not isinstance(value, float) or value <= 0:
            continue
        if (usual := _usual(name, cluster, scenario, catalog)) and _far(value, usual):
            yield _finding(name, _title(name, scenario), value, usual)


def unusual_among(
    name: str, values: Callable[[], Iterable[float]], scenarios: Sequence[Scenario], catalog: Catalog
) -> Finding | None:
    """The first of the values that a field takes in turn which is far from usual for each of some scenarios.

    Where nothing is usual the values are not asked for: there may be many.
    """
    usuals = [_usual(name, look_up(scenario, catalog), scenario, catalog) for scenario in scenarios]
    ranges = [usual for usual in usuals if usual]
    if not ranges or len(ranges) < len(usuals):
        return None
    far = (value for value in values() if value > 0 and all(_far(value, usual) for usual in ranges))
    value = next(far, None)
    return None if value is None else _finding(name, _title(name, scenarios[0]), value, ranges[0])


def unusual_for_all(question: Scenario, candidates: Iterable[Scenario], catalog: Catalog) -> list[Finding]:
    """Values of a question about several clusters that are far from usual for every one."""
    clusters = [look_up(candidate, catalog) for candidate in candidates]
    by_cluster = [{finding.fields: finding for finding in unusual_values(each, question, catalog)} for each in clusters]
    return [finding for fields, finding in by_cluster[0].items() if all(fields in others for others in by_cluster)]


def _far(value: float, usual: Usual) -> bool:
    """Whether a value is unusual: ten times outside the range, or more."""
    return value * FAR <= usual.low or value >= usual.high * FAR


def _title(name: str, scenario: Scenario) -> str:
    """What people call a field."""
    return type(scenario).model_fields[name].title or name


# What is usual -------------------------------------------------------------------------------------------------------


def _usual(name: str, cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    """The usual range of a field: that of a constant of the catalogue, or its own; ``None`` where it has none."""
    if name in CATALOGUED:
        return CATALOGUED[name](cluster, scenario, catalog)
    return _declared(type(scenario)).get(name)


@cache
def _declared(kind: type[Scenario]) -> Mapping[str, Usual]:
    """The ranges that fields declare."""
    about: dict[str, Any] = {name: field.json_schema_extra for name, field in kind.model_fields.items()}
    said = {name: each.get("usual") for name, each in about.items() if isinstance(each, dict)}
    return {name: usual for name, usual in said.items() if isinstance(usual, Usual)}


@cache
def _with_usual_range(kind: type[Scenario]) -> tuple[str, ...]:
    """The fields that may have a usual range, as they stand in a question."""
    return tuple(name for name in kind.model_fields if name in CATALOGUED or name in _declared(kind))


def _span(estimates: Iterable[Estimate | None], catalog: Catalog) -> Usual | None:
    """From the least to the greatest of some estimates; ``None`` where there is none above zero."""
    positive = [estimate for estimate in estimates if estimate and estimate.typical > 0]
    if not positive:
        return None
    middle = sorted(positive, key=lambda estimate: estimate.typical)[len(positive) // 2]
    kind, edition, _ = positive[0].key.split(".", 2)
    return Usual(
        min(estimate.typical if estimate.low is None else estimate.low for estimate in positive),
        middle.typical,
        max(estimate.typical if estimate.high is None else estimate.high for estimate in positive),
        middle.unit,
        catalog.prices[edition].name if kind == "prices" else "",
    )


def _node(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    """Of this server; of all where nobody publishes its price."""
    book = PriceList.of(scenario, catalog).published()
    return _span([book.node(cluster.platform, cluster.gpus_per_node)], catalog) or _span(
        (book.node(platform, platform.gpus_per_node) for platform in catalog.platforms.values()), catalog
    )


def _nic(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    book = PriceList.of(scenario, catalog).published()
    return _span([book.nic(cluster.nic, cluster.scale_out.family)], catalog)


def _switch(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    """Of the switch asked for; of all that the network may be built of where none is."""
    book = PriceList.of(scenario, catalog).published()
    keys = [scenario.switch] if scenario.switch else cluster.scale_out.switches
    return _span((book.switch(catalog.switches[key]) for key in keys), catalog) or _span(
        map(book.switch, catalog.switches.values()), catalog
    )


def _optic(kinds: tuple[str, ...], cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    """Of all modules or cables of some kinds; the market's where an edition counts them as part of the port."""
    book = PriceList.of(scenario, catalog).published()
    optics = [optic for optic in catalog.optics.values() if optic.kind in kinds]
    return _span(map(book.optic, optics), catalog) or _span(map(book.published(MARKET).optic, optics), catalog)


def _rent(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    """Of this GPU; of all where nobody publishes its rent."""
    book = PriceList.of(scenario, catalog).published()
    return _span([book.gpu_hour(cluster.gpu.key)], catalog) or _span(map(book.gpu_hour, catalog.gpus), catalog)


def _lease(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    """Of all GPUs that anybody leases."""
    book = PriceList.of(scenario, catalog).published()
    return _span((book.contract(LEASE, gpu) for gpu in catalog.gpus), catalog)


def _rate(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    return _span((network.port_rate for network in catalog.scale_out.values()), catalog)


def _storage(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    return _span([PriceList.of(scenario, catalog).published().storage()], catalog)


def _electricity(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    return _span([PriceList.of(scenario, catalog).published().electricity()], catalog)


def _site(name: str, cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    return _span([catalog.operations["site"][name]], catalog)


def _hosting(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    return _span([catalog.operations["ownership"]["colocation"]], catalog)


def _failures(name: str, cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Usual | None:
    return _span([catalog.training["failures"][name]], catalog)


CATALOGUED: Mapping[str, Callable[[Cluster, Scenario, Catalog], Usual | None]] = {
    "network_rate": _rate,
    "failure_rate": partial(_failures, "rate"),
    "restart_time": partial(_failures, "restart"),
    "price_node": _node,
    "price_nic": _nic,
    "price_switch": _switch,
    "price_transceiver": partial(_optic, ("transceiver",)),
    "price_cable": partial(_optic, ("fibre",)),
    "price_copper_cable": partial(_optic, ("dac", "acc", "aoc")),
    "price_storage": _storage,
    "price_gpu_hour": _rent,
    "lease": _lease,
    "colocation": _hosting,
    "electricity": _electricity,
    "spares": partial(_site, "spares"),
    "support": partial(_site, "support"),
    "infrastructure": partial(_site, "infrastructure"),
}
"""Fields whose usual range is that of a constant of the catalogue; other fields declare their own."""


# What was probably meant ---------------------------------------------------------------------------------------------


def _finding(name: str, title: str, value: float, usual: Usual) -> Finding:
    bare, meant = _meant(value, usual)
    called = f"{title} price" if name.startswith("price_") and usual.unit == "USD" else title
    shown = units.show(value, usual.unit, 4)
    if bare and usual.unit in PER:
        amount = units.show(value, "USD", 4) if usual.unit.startswith("USD") else _text(value)
        read = f"{_text(value)} was read as {amount} {PER[usual.unit]}, that is {shown}"
    elif bare:
        read = f"{_text(value)} was read as {shown}" if shown != _text(value) else f"{shown} was taken as it stands"
    else:
        read = f"{shown} is far from what is met in practice"
    practice = f"the {usual.book} book’s range is" if usual.book else "usual is"
    return Finding(
        "warning",
        "unusual-value",
        f"{called}: {read}; {practice} {_span_text(usual)}.",
        (name,),
        f"Use {meant}, if that was meant." if meant else "Check the number and its unit.",
        {name: meant} if meant else {},
    )


def _span_text(usual: Usual) -> str:
    """The usual range for people: in one unit where the ends are near each other."""
    low, high, unit = usual.low, usual.high, usual.unit
    if low == high:
        return units.show(low, unit)
    if high <= 60 * low:
        return units.show_span(low, high, unit)
    return f"{units.show(low, unit)}–{units.show(high, unit)}"


def _meant(value: float, usual: Usual) -> tuple[bool, str]:
    """Whether a value looks like a number without its unit, and the text that was probably meant; blank if unknown.

    The number is given each unit that people write; it may itself have been typed with another of them, where that
    makes it about as short as it can be. What falls into the usual range goes first, then what is at least not unusual.

    >>> rent = Usual.read("1.99 USD/h", "2.95 USD/h", "5 USD/h", "USD/s")
    >>> [_meant(units.parse(text, "USD/s"), rent) for text in ("2.95", "21500 USD/h", "300 USD/h")]
    [(True, '2.95 USD/h'), (False, '21500 USD/year'), (False, '')]

    Two weeks are 336 hours, which nobody types:

    >>> _meant(units.parse("2 weeks", "s"), Usual.read("3 years", "5 years", "8 years", "s"))
    (False, '')
    """
    spellings = [text for text in SPELLINGS[usual.unit] if text != "%" or usual.high <= 1]
    worths = {text: units.parse(f"1 {text}", usual.unit) for text in spellings}

    def nearest(number: float, fits: Callable[[float], bool]) -> str:
        """The text, of those whose value fits, with the value nearest to the typical one."""
        texts = [_written(number, text, worth, usual.unit) for text, worth in worths.items()]
        read = {text: units.parse(text, usual.unit) for text in texts}
        fitting = [text for text in texts if fits(read[text])]
        return min(fitting, key=lambda text: abs(log(read[text] / usual.typical)), default="")

    def met(read: float) -> bool:
        return usual.low <= read * (1 + 1e-9) and read <= usual.high * (1 + 1e-9)

    typed = sorted((number for worth in (1.0, *worths.values()) if _tidy(number := value / worth)), key=_length)
    short = [number for number in typed if _length(number) <= _length(typed[0]) + 1]
    bare = [value] if value in short else []
    shorter = [number for number in short if not bare or _length(number) < _length(value)]
    for numbers, fits in ((bare, met), (shorter, met), (bare, lambda read: not _far(read, usual))):
        for number in numbers:
            if text := nearest(number, fits):
                return numbers is bare, text
    return False, ""


def _tidy(number: float) -> bool:
    return isclose(number, float(f"{number:.{TIDY}g}"), rel_tol=1e-12)


def _length(number: float) -> int:
    """Characters that one types for a number."""
    return len(_text(number))


def _text(number: float) -> str:
    return f"{float(f'{number:.{TIDY + 3}g}'):.12g}".replace("e-0", "e-").replace("e+", "e")


def _written(number: float, unit: str, worth: float, base: str) -> str:
    """A number with its unit, as one would type it: money in full, counts with their letter."""
    if base == "USD":
        return f"{_text(number * worth)} USD"
    return f"{_text(number)}{unit}" if base == "1" and unit != "%" else f"{_text(number)} {unit}"
