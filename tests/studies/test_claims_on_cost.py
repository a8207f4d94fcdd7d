"""When an article's claim on cost is called true, on costs of ports made up for it."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.scenario import Scenario
from app.studies import network_costs
from app.studies.network_costs import ArticleClaim, ClaimRow
from app.studies.port_cost import PortCurve

CATALOG = load_catalog()
SIZES = np.array(network_costs.CLAIMED, float)
NAMES = {key: CATALOG.scale_out[key].name for key in ("infiniband-ndr", "roce-400", "infiniband-xdr", "roce-800")}
UNKNOWN = np.nan


def ports(scale_out: str, costs: list[float]) -> PortCurve:
    """A network whose ports cost so much at the sizes that articles speak of."""
    entry = CATALOG.scale_out[scale_out]
    draws = (np.array(costs) * SIZES)[:, None] * np.ones(3)  # one port for each GPU
    return PortCurve(
        scale_out,
        entry.name,
        entry.family,
        entry.port_rate.typical,
        SIZES,
        draws,
        *[SIZES] * 5,
        ("",) * len(SIZES),
        (),
        (),
    )


def claims(
    ndr: list[float], roce: list[float], *, thumb: tuple[list[float], list[float]] | None = None,
    xdr: list[float] | None = None, newer: list[float] | None = None,
) -> dict[str, ArticleClaim]:  # fmt: skip
    market = [ports("infiniband-ndr", ndr), ports("roce-400", roce)]
    market += [ports("infiniband-xdr", xdr or ndr), ports("roce-800", newer or roce)]
    first, second = thumb or (ndr, roce)
    articles = [ports("infiniband-ndr", first), ports("roce-400", second)]
    made = network_costs._claims({"market": market, "rule-of-thumb": articles}, Scenario(), CATALOG)
    return {claim.says: claim for claim in made}


def verdict(words: str, found: dict[str, ArticleClaim]) -> str:
    (claim,) = (claim for says, claim in found.items() if words in says)
    return claim.verdict


@pytest.fixture(scope="module")
def count() -> int:
    return len(SIZES)


@pytest.mark.parametrize(
    ("ratios", "expected"), [((2, 3), "yes"), ((1.99, 3), "partly"), ((1, 1.99), "no"), ((1.5, 2), "partly")]
)
def test_several_times_is_twice_and_more_at_every_size(ratios: tuple[float, float], expected: str, count: int) -> None:
    spread = list(np.linspace(*ratios, count) * 1000)
    found = claims(spread, [1000.0] * count, thumb=([5000.0] * count, [1000.0] * count))
    assert verdict("several times", found) == expected
    (claim,) = (claim for says, claim in found.items() if "several" in says)
    assert f"costs {ratios[0]:.2f} to {ratios[1]:.2f} times" in claim.finding
    assert "give 5.00 to 5.00" in claim.finding
    assert {row.ratio for row in claim.rows if row.edition == "rule-of-thumb"} == {5.0}


def test_cheaper_at_scale_is_judged_above_the_second_size_by_both_generations(count: int) -> None:
    roce = [1000.0] * count
    small = [2000.0, 2000.0]  # up to the second size a dearer port decides nothing

    def judged(ndr: float, xdr: float) -> str:
        return verdict("lower at scale", claims(small + [ndr] * (count - 2), roce, xdr=small + [xdr] * (count - 2)))

    assert judged(900, 900) == "yes"
    assert judged(1000, 900) == "partly"  # as dear is not lower
    assert judged(1100, 900) == "partly"
    assert judged(1100, 1000) == "no"


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.03, "yes"), (1.021, "yes"), (1.019, "partly"), (0.981, "partly"), (0.979, "no")]
)
def test_small_clusters_are_judged_by_the_smallest_size_to_two_per_cent(
    ratio: float, expected: str, count: int
) -> None:
    dear = [1000.0 * ratio, *[9000.0] * (count - 1)]
    found = claims(dear, [1000.0] * count)
    assert verdict("small clusters", found) == expected
    (claim,) = (claim for says, claim in found.items() if "small clusters" in says)
    assert {row.gpus for row in claim.rows} == {network_costs.CLAIMED[0]}
    assert f"costs {ratio:.2f} times" in claim.finding


@pytest.mark.parametrize(("least", "expected"), [(1900.0, "yes"), (2000.0, "yes"), (2001.0, "no")])
def test_a_port_of_two_thousand_dollars_is_judged_by_the_cheapest(least: float, expected: str, count: int) -> None:
    found = claims([9000.0] * count, [least, *[5000.0] * (count - 1)])
    assert verdict("RoCE port", found) == expected
    (claim,) = (claim for says, claim in found.items() if "RoCE port" in says)
    card = CATALOG.prices["market"].prices["connectx-7"].typical
    assert [row.ratio for row in claim.rows if row.edition == "market"] == pytest.approx(
        [least / card, *[5000 / card] * (count - 1)]
    )


def test_nvlink_is_dearer_only_if_a_gigabyte_a_second_of_it_is(count: int) -> None:
    # A rack's links cost some $2.3 a GB/s of a GPU; a GPU of 50 GB/s that pays $100 for its ports pays $2.
    price = CATALOG.prices["market"].prices
    found = claims([5000.0] * count, [1000.0] * count)
    (claim,) = (claim for says, claim in found.items() if "NVLink" in says)
    assert claim.verdict == "no"
    nvlink = claim.rows[0].first
    assert nvlink == pytest.approx(price["nvlink-nvl72"].typical / 72 / 900 if "nvlink-nvl72" in price else nvlink)
    for row in claim.rows:
        assert row.second == pytest.approx(5000 / 50)
        assert row.ratio == pytest.approx(nvlink / 100)
    assert nvlink is not None
    dearer = claims([nvlink * 50 * 0.99] * count, [1000.0] * count)
    assert verdict("NVLink", dearer) == "yes"
    assert verdict("NVLink", claims([nvlink * 50 * 1.01] * count, [1000.0] * count)) == "no"


def test_what_cannot_be_built_has_no_ratio(count: int) -> None:
    found = claims([UNKNOWN, *[3000.0] * (count - 1)], [1000.0, UNKNOWN, *[1000.0] * (count - 2)])
    (claim,) = (claim for says, claim in found.items() if "several" in says)
    market = [row for row in claim.rows if row.edition == "market"]
    assert market[0] == ClaimRow("market", network_costs.CLAIMED[0], None, 1000.0, None)
    assert market[1] == ClaimRow("market", network_costs.CLAIMED[1], 3000.0, None, None)
    assert {row.ratio for row in market[2:]} == {3.0}
    assert claim.verdict == "yes"
    assert "small clusters" not in " ".join(found)


def test_networks_for_nothing_have_no_ratio(count: int) -> None:
    found = claims([0.0] * count, [0.0] * count)
    assert verdict("NVLink", found) == "yes"
    assert {row.ratio for claim in found.values() for row in claim.rows if row.second == 0} == {None}
    assert not [claim.finding for claim in found.values() if "nan" in claim.finding]
