"""Charts of serving: throughput of a GPU, and cost of clusters, against the speed of a user."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.catalog.load import Catalog
from app.catalog.names import listed
from app.plan.serving_result import NearestPoint, Serving, ServingPoint
from app.report.charts import style
from app.report.charts.curve_charts import Point, by_network, lines
from app.report.charts.style import LEGEND, MUTED, Figure, Values, annotation, figure, nothing, plain
from app.studies.curve import Curve, Floats, Mark, Series
from app.studies.serving_domains import ServingDomains, Speeds
from app.studies.serving_sizing import ServeSizing
from app.units import percent, show
from app.validation.citations import measured_by


def serving_front(serving: Serving, look: str, catalog: Catalog, limit: float | None = None) -> Figure:
    """What a GPU gives against what a user gets, with its range; ``limit`` is the time per token allowed [s]."""
    front = serving.front
    drawn = lines(
        Curve(
            key="front",
            title=_title(serving),
            subtitle="Output tokens a second of a GPU, by the best layout and load, against tokens a second of a user",
            x_name="Tokens a second of a user",
            x_unit="1/s",
            y_name="Output tokens a second of a GPU",
            y_unit="1/s",
            series=(_series(front, serving, look),) if front else (),
            plan_point=_own(serving),
            marks=(Mark(1 / limit, f"limit {show(limit, 's')} a token"),) if limit else (),
        ),
        height=400,
    )
    if serving.front and serving.nearest:
        return replace(drawn, data=(*drawn.data, _dots(serving.nearest, catalog)))
    return drawn


def _dots(nearest: Sequence[NearestPoint], catalog: Catalog) -> Values:
    """Published measurements, as open points."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [1 / point.measured for point in nearest],
        "y": [point.throughput for point in nearest],
        "text": [plain(f"{measured_by(point.source, catalog)}: measured") for point in nearest],
        "marker": {"size": 8, "color": MUTED, "symbol": "circle-open"},
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
    }


def _series(front: Sequence[ServingPoint], serving: Serving, look: str) -> Series:
    """The front from slow to fast, with the relative range of the answer's own throughput."""
    typical = np.array([point.throughput for point in front][::-1])
    band = serving.output_tokens_per_second_per_gpu
    low, high = (band.low / band.typical, band.high / band.typical) if band else (1.0, 1.0)
    speed = np.array([point.interactivity for point in front][::-1])
    return Series("Best", look, speed, typical, typical * low, typical * high, strong=True)


def _own(serving: Serving) -> tuple[float, float] | None:
    """Where the answer itself lies."""
    speed, rate = serving.interactivity, serving.output_tokens_per_second_per_gpu
    return (speed.typical, rate.typical) if speed and rate else None


def _title(serving: Serving) -> str:
    """What twice the answer's speed for a user would cost in throughput; where it is beyond reach, both speeds."""
    front, plan_point = serving.front, _own(serving)
    if not front:
        return "The model does not fit"
    speed, _, rate, _ = _points(front)
    if plan_point is None:
        return f"A user gets {speed[-1]:.0f} tokens a second at most, and {speed[0]:.0f} where a GPU gives most"
    if not speed[0] <= plan_point[0] <= speed[-1] / 2:
        return f"A user gets {speed[-1]:.0f} tokens a second at most, and {plan_point[0]:.0f} in your plan"
    now, twice = (
        math.exp(np.interp(math.log(at), np.log(speed), np.log(rate))) for at in (plan_point[0], 2 * plan_point[0])
    )
    return f"Answers twice as quick as your plan's cost {percent(1 - twice / now)} of a GPU's throughput"


LOOKS = ("nvlink", "infiniband", "muted")
"""Of the question's own domain and those beside it."""


def domains(answer: ServingDomains, catalog: Catalog) -> Figure:
    """Nodes and racks: what a GPU of each gives against what a user gets."""
    series = [
        Series(
            f"{catalog.gpus[variant.gpu].name}, {variant.scale_up_domain}",
            look,
            *_points(variant.front),
            strong=not place,
        )
        for place, (variant, look) in enumerate(zip(answer.domains, LOOKS, strict=False))
        if variant.front
    ]
    return lines(
        Curve(
            key="domains",
            title=rack_pays(answer, catalog),
            subtitle="Output tokens a second of a GPU against tokens a second of a user, by GPU and scale-up domain",
            x_name="Tokens a second of a user",
            x_unit="1/s",
            y_name="Output tokens a second of a GPU",
            y_unit="1/s",
            series=tuple(series),
        )
    )


def _points(front: Sequence[ServingPoint]) -> tuple[Floats, Floats, Floats, Floats]:
    """Speeds from slow to fast, and the throughput at each, thrice: it has no range."""
    rates = np.array([point.throughput for point in front][::-1])
    return np.array([point.interactivity for point in front][::-1]), rates, rates, rates


def rack_pays(answer: ServingDomains, catalog: Catalog) -> str:
    """At which speeds of a user a rack pays, in a sentence."""
    small, *larger = sorted(answer.domains, key=lambda variant: variant.scale_up_domain)
    if not larger:
        return "Throughput against speed"
    rack = f"{catalog.gpus[larger[-1].gpu].name} in domains of {larger[-1].scale_up_domain}"
    node = f"{catalog.gpus[small.gpu].name} in domains of {small.scale_up_domain}"
    if any(point.cost is None for variant in (small, larger[-1]) for point in variant.front):
        return f"{rack} beside {node}: a price is missing"
    if not answer.rack_pays:
        return f"Tokens cost less on {node} than on {rack} at any speed of a user"
    if answer.rack_pays == (Speeds(None, None),):
        return f"Tokens cost less on {rack} than on {node} at any speed of a user"
    speeds = listed([_in_words(stretch) for stretch in answer.rack_pays])
    return f"Tokens cost less on {rack} than on {node} {speeds} a second of a user"


def _in_words(speeds: Speeds) -> str:
    """A stretch of speeds.

    >>> _in_words(Speeds(None, 20.4)), _in_words(Speeds(20.4, 35)), _in_words(Speeds(41, None))
    ('below 20', 'between 20 and 35', 'above 41')
    """
    if speeds.above is None:
        return f"below {speeds.below:.0f}"
    return f"above {speeds.above:.0f}" if speeds.below is None else f"between {speeds.above:.0f} and {speeds.below:.0f}"


def candidates(sizing: ServeSizing, catalog: Catalog) -> Figure:
    """Clusters that carry a load, their cost against the speed of a user; a point's custom data is its query."""
    subtitle = "Cost of a million output tokens at this load, against tokens a second each"
    priced = [candidate for candidate in sizing.candidates if candidate.per_million_output_tokens]
    if not priced:
        return nothing(sizing.message or "No candidate has a price.", subtitle)
    best = priced[0]
    kept = set(map(id, sizing.front))
    priced.sort(key=lambda candidate: id(candidate) in kept)  # what none beats is drawn over the others
    if len(kept) < len(priced):
        subtitle += "; hollow points are beaten in both"
    speed = [candidate.interactivity for candidate in priced]
    cost = [candidate.per_million_output_tokens or 0.0 for candidate in priced]
    names = [f"{candidate.gpus:,} × {catalog.gpus[candidate.gpu].name}" for candidate in priced]
    points = [
        Point(
            candidate.scale_out,
            candidate.interactivity,
            price,
            f"{plain(name)}<br>{show(price, 'USD')}",
            candidate.query,
            id(candidate) in kept,
        )
        for candidate, name, price in zip(priced, names, cost, strict=True)
    ]
    title = (
        f"{best.gpus:,} × {catalog.gpus[best.gpu].name} cost least: {show(best.per_million_output_tokens, 'USD')} a "
        f"million tokens at {best.interactivity:.0f} a second each"
    )
    middle = math.sqrt(min(speed) * max(speed))
    named: dict[str, Values] = {}  # once: the same cluster on another network stands beside it
    for candidate, name, price in zip(priced, names, cost, strict=True):
        if id(candidate) in kept:  # a name goes where there is room for it
            side, shift = ("left", 9) if candidate.interactivity < middle else ("right", -9)
            place: Values = {"yanchor": "bottom", "yshift": 8}
            if candidate is best:
                place = {"yanchor": "middle", "xshift": shift}
            at = math.log10(candidate.interactivity), math.log10(price)
            named.setdefault(name, annotation(name, *at, side, **place))
    return figure(
        title,
        subtitle,
        [*by_network(points, catalog)],
        height=400,
        x=style.logarithmic("Tokens a second of a user", min(speed) / 1.2, max(speed) * 1.2, "1/s"),
        y=style.logarithmic("Cost of a million output tokens", min(cost) / 1.2, max(cost) * 1.2, "USD"),
        annotations=[*named.values()],
        **LEGEND,
    )
