"""What fabrics cost at least before they are designed: those that are left out for it are never the cheapest."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas.fabric import layouts
from app.plan import cheapest_design, tried_fabrics
from app.plan.cables import floor_of
from app.plan.cheapest_design import choose_all
from app.plan.cluster import Cluster, look_up
from app.plan.fabric_cost import in_full
from app.plan.least_cost import LeastCosts, least_of_switches
from app.plan.leaves import LeafHosts
from app.plan.offers import Offers, offers
from app.plan.prices import PriceList
from app.plan.scenario import NetworkRequest, PriceRequest, Scenario
from app.plan.switches import Chosen, candidates, designed_together, requested
from app.plan.tried_leaves import Options, TriedLeaves

TYPICAL = load_catalog().typical_only()
PRICES = PriceList.of(PriceRequest(), TYPICAL)
NETWORKS = st.sampled_from(["infiniband-ndr", "infiniband-xdr", "roce-400", "spectrum-x-400"])
WISHES = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from(["h100-sxm", "l40s", "gb200"]),
        "gpus": st.one_of(st.integers(1, 40), st.integers(1, 1500)).map(lambda units: 72 * units),
        "scale_out": NETWORKS,
        "topology": st.sampled_from(["rail-optimized", "rail-optimized", "fat-tree", "rail-only"]),
        "oversubscription": st.one_of(st.sampled_from([1.0, 1.25, 2.0, 4.0]), st.floats(1.0, 12.0)),
        "spine_oversubscription": st.sampled_from([1.0, 1.0, 2.0]),
        "planes": st.sampled_from([1, 1, 2]),
        "nodes_per_unit": st.sampled_from([None, None, 20, 32]),
        "management_links": st.sampled_from([0, 4]),
        "minimum_spines": st.sampled_from([1, 1, 4]),
        "spine_policy": st.sampled_from(["shared", "shared", "rail"]),
        "tiers": st.sampled_from([None, None, 2, 3, 4]),
    }
)


def wanted(wish: dict[str, Any]) -> tuple[Cluster, NetworkRequest]:
    """A cluster, and what is asked of its network."""
    scenario = Scenario(**wish)
    return look_up(scenario, TYPICAL), scenario.part(NetworkRequest)


def options_of(cluster: Cluster, request: NetworkRequest, offered: Offers) -> Options:
    """What may be built for a cluster."""
    hosts = LeafHosts.of(cluster, request)
    sizes = {ports: hosts.sizes(ports[0], request.oversubscription) for ports in offered.ports}
    return Options(requested((0, 0), cluster, request), offered, sizes, cluster.platform.nodes_per_rack)


@given(WISHES, st.data())
def test_no_fabric_costs_less_than_its_leaves_cost_at_least(wish: dict[str, Any], data: st.DataObject) -> None:
    cluster, request = wanted(wish)
    offered = offers(
        candidates(cluster, request, TYPICAL), PRICES, cluster.platform.key, request.scale_out, wish["planes"]
    )
    place = data.draw(st.integers(0, len(offered.ends) - 1), label="place")
    choice, _ = offered.ends[place]
    options = options_of(cluster, request, offered)
    sizes = options.sizes[choice.ports]
    tried = TriedLeaves.of([options])
    least = LeastCosts([options], tried, floor_of(TYPICAL, 1), PRICES)
    many = len(sizes.own) + len(sizes.hosts)
    total = least.total[least.begins[place] :][:many]
    row, zero = data.draw(st.integers(0, many - 1), label="size"), np.zeros(1, np.int64)
    kept = np.arange(len(tried.hosts)) == tried.begins[tried.lists_of(zero, [choice], zero)[0]] + row
    one = tried.at([0], kept)
    lists, leaves = one.each()
    designs = designed_together(one.fabrics(one.kind[lists], leaves))
    built = [designs.at(at) for at in np.flatnonzero(designs.reason == layouts.BUILT)]
    costs = [in_full(Chosen(choice, design), cluster, request, PRICES).cost for design in built]
    assert all(total[row] <= cost * (1 + 1e-12) for cost in costs)
    assert np.isfinite(total[row]) == bool(built)


@given(st.lists(WISHES, min_size=1, max_size=3))
def test_the_cheapest_of_those_that_may_be_is_the_cheapest_of_all(wishes: list[dict[str, Any]]) -> None:
    asked = []
    for wish in wishes:
        cluster, request = wanted(wish)
        asked.append((candidates(cluster, request, TYPICAL), cluster, request))
    with pytest.MonkeyPatch.context() as patch:
        chosen = []
        for much in (0, np.inf):
            for name in ("MUCH", "MUCH_TOGETHER", "MUCH_AMONG_OTHERS"):
                patch.setattr(cheapest_design, name, much)
            cheapest_design._KEPT.clear()
            chosen.append(choose_all(asked, PRICES))
    for found, of_all in zip(*chosen, strict=True):
        assert (found.choice, found.lengths) == (of_all.choice, of_all.lengths)
        np.testing.assert_array_equal(found.design, of_all.design)


@given(WISHES, st.lists(st.floats(1.0, 12.0), min_size=2, max_size=6, unique=True))
def test_among_the_switches_that_tapers_leave_is_the_cheapest_of_all(wish: dict[str, Any], tapers: list[float]) -> None:
    asked = []
    for taper in tapers:
        cluster, request = wanted({**wish, "oversubscription": taper})
        asked.append((candidates(cluster, request, TYPICAL), cluster, request))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cheapest_design, "MANY_SWITCHES", 1)
        patch.setattr(cheapest_design, "TAPERS_ALIKE", 3)
        chosen = []
        for many, as_cheap in ((1, 1.0), (1, 1.25), (np.inf, 1.0)):
            patch.setattr(cheapest_design, "MANY_TAPERS", many)
            patch.setattr(cheapest_design, "AS_CHEAP", as_cheap)
            cheapest_design._KEPT.clear()
            chosen.append(choose_all(asked, PRICES))
    for *among_few, of_all in zip(*chosen, strict=True):
        for found in among_few:
            assert (found.choice, found.lengths) == (of_all.choice, of_all.lengths)
            np.testing.assert_array_equal(found.design, of_all.design)


@given(WISHES, st.floats(0.0, 1.0))
def test_no_fabric_of_a_narrower_taper_costs_less_than_switches_do_at_least(wish: dict[str, Any], share: float) -> None:
    cluster, request = wanted(wish)
    narrower = request.model_copy(update={"oversubscription": 1 + share * (request.oversubscription - 1)})
    choices = candidates(cluster, request, TYPICAL)
    offered = offers(choices, PRICES, cluster.platform.key, request.scale_out, wish["planes"])
    (least,) = least_of_switches([options_of(cluster, request, offered)], floor_of(TYPICAL, 1), PRICES)
    for place, bound in zip(offered.places, least.tolist(), strict=True):
        chosen = choose_all([((choices[place],), cluster, narrower)], PRICES)[0]
        if chosen.design.reason == layouts.BUILT:
            assert bound <= in_full(chosen, cluster, narrower, PRICES).cost * (1 + 1e-12)


def test_of_ten_thousand_fabrics_a_few_are_designed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, request = wanted({"gpu": "h100-sxm", "gpus": 2056, "scale_out": "roce-400", "oversubscription": 2.36})
    choices = candidates(cluster, request, TYPICAL)
    tried = []
    design = tried_fabrics.designed_together

    def counted(fabrics: layouts.FabricRequest) -> layouts.Design:
        tried.append(sum(fabrics.shape))
        return design(fabrics)

    monkeypatch.setattr(tried_fabrics, "designed_together", counted)
    cheapest_design._KEPT.clear()
    choose_all([(choices, cluster, request)], PRICES)
    offered = offers(choices, PRICES, cluster.platform.key, request.scale_out, 1)
    assert TriedLeaves.of([options_of(cluster, request, offered)]).many > 5_000
    assert sum(tried) < 500
