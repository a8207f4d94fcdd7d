"""The fabric to build: the cheapest that works, never dearer for less of it, and the same when it is asked again."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas.fabric import layouts
from app.plan import auxiliary_networks, cheapest_design, offers
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate
from app.plan.fabric_cost import in_full
from app.plan.leaves import LeafHosts
from app.plan.network import Network, network_of
from app.plan.prices import PriceList
from app.plan.scenario import NetworkRequest, PriceRequest, Scenario
from app.plan.switches import Chosen, candidates, designed

CATALOG = load_catalog()
TYPICAL = CATALOG.typical_only()
NODES = st.one_of(st.integers(2, 300), st.sampled_from([512, 1000, 1024, 2048]))
NETWORKS = st.sampled_from(
    [
        "infiniband-hdr",
        "infiniband-ndr",
        "infiniband-xdr",
        "roce-200",
        "roce-400",
        "roce-800",
        "spectrum-x-400",
        "tcp-400",
    ]
)
TOPOLOGIES = st.sampled_from(["rail-optimized", "fat-tree", "rail-only", "mesh", "torus-2d", "torus-3d", "dragonfly"])
TREES = st.sampled_from(["rail-optimized", "fat-tree", "rail-only"])
SERVERS = st.sampled_from(["h100-sxm", "a100-sxm", "l40s", "gb200", "mi300x", "b200-sxm"])
TAPERS = (1.0, 1.5, 2.0, 3.0, 4.0)


def network(**asked: Any) -> Network:
    return network_of(Scenario(**asked), TYPICAL)


def cost(found: Network) -> float:
    """Price of a network in place: with the building of what it draws [USD]."""
    building = found.prices.rate("infrastructure").typical * float(found.power[0])
    return float(found.cost[0]) + np.nan_to_num(building)


def cluster(gpu: str, nodes: int) -> dict[str, Any]:
    return {"gpu": gpu, "gpus": nodes * CATALOG.platforms[CATALOG.gpus[gpu].platform].gpus_per_node}


@pytest.mark.parametrize(
    ("gpu", "gpus", "scale_out"),
    [
        *(
            ("h100-sxm", gpus, scale_out)
            for gpus in (64, 1024, 2048)
            for scale_out in ("roce-400", "spectrum-x-400", "infiniband-ndr", "infiniband-xdr")
        ),
        ("l40s", 2048, "spectrum-x-400"),
    ],
)
def test_no_switch_on_sale_is_cheaper_than_the_one_chosen(gpu: str, gpus: int, scale_out: str) -> None:
    chosen = cost(network(gpu=gpu, scale_out=scale_out, gpus=gpus))
    for key in CATALOG.scale_out[scale_out].switches:
        if CATALOG.switches[key].status not in ("announced", "projected") and key != "qm9790":
            other = cost(network(gpu=gpu, scale_out=scale_out, gpus=gpus, switch=key))
            assert not other < chosen * (1 - 1e-9), key


def test_parts_that_cost_less_lose_where_the_building_of_what_they_draw_costs_more() -> None:
    # The optics of 48 Q3400-RA, 672 modules, draw 120 kW more than those inside Q3450-LD: $1.32 M of building at $11 a
    # watt, where the parts cost $89 K less.
    asked = {"gpu": "h100-sxm", "gpus": 2048, "scale_out": "infiniband-xdr"}
    chosen, named = network(**asked), network(**asked, switch="q3400-ra")
    assert (chosen.switch, chosen.power[0], named.power[0]) == ("q3450-ld", 216e3, 336e3)
    assert chosen.cost[0] - named.cost[0] == pytest.approx(88_992)
    assert cost(named) - cost(chosen) == pytest.approx(11 * 120e3 - 88_992)
    assert network(**asked, infrastructure=0).switch == "q3400-ra"


def test_a_switch_without_its_manager_is_built_where_it_is_named() -> None:
    # At QM9700's price QM9790 draws 110 W less, but its manager stands elsewhere and is in no price list here.
    assert network().switch == "qm9700"
    assert network(switch="qm9790").switch == "qm9790"


@settings(max_examples=60)
@given(gpu=SERVERS, nodes=NODES, scale_out=NETWORKS, topology=TOPOLOGIES, data=st.data())
def test_a_switch_that_is_named_never_costs_less(
    gpu: str, nodes: int, scale_out: str, topology: str, data: st.DataObject
) -> None:
    on_sale = [
        key
        for key in CATALOG.scale_out[scale_out].switches
        if CATALOG.switches[key].status not in ("announced", "projected") and not CATALOG.switches[key].managed_outside
    ]
    asked = cluster(gpu, nodes) | {"scale_out": scale_out, "topology": topology}
    named = cost(network(**asked, switch=data.draw(st.sampled_from(on_sale))))
    assert not named < cost(network(**asked)) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("taper", "spines", "uplinks"),
    [
        (1.0, 16, 32),
        # 32 leaves of at least 32 / 1.5 = 21 uplinks; 22 divide by 11 spines, 32 · 22 / 64 = 11. 21 took 21 spines.
        (1.5, 11, 22),
        # 32 leaves of 16 uplinks fill 8 spines of 64 ports.
        (2.0, 8, 16),
    ],
)
def test_a_taper_takes_as_few_spines_as_its_uplinks_divide_by(taper: float, spines: int, uplinks: int) -> None:
    found = network(oversubscription=taper)
    assert found.built is not None
    assert (found.built.counts.leaves, found.built.counts.spines, found.built.counts.leaf_up) == (32, spines, uplinks)


def test_half_the_uplinks_cost_less_on_sixteen_nodes() -> None:
    # 8 leaves of 20 hosts and 20 uplinks on 4 spines; at 2 : 1, 8 leaves of 16 hosts and 8 uplinks on 2.
    full, half = (network(gpus=128, scale_out="infiniband-hdr", oversubscription=taper) for taper in (1, 2))
    assert full.built is not None
    assert half.built is not None
    assert (full.built.counts.spines, half.built.counts.spines) == (4, 2)
    assert cost(half) < cost(full)


@pytest.mark.parametrize("topology", ["rail-optimized", "fat-tree"])
def test_a_taper_of_a_thousand_gpus_costs_and_draws_less(topology: str) -> None:
    # 16, 11 and 8 spines, by rail; 1.5 : 1 took 25 and cost more than 1 : 1.
    found = [network(topology=topology, oversubscription=taper) for taper in (1.0, 1.5, 2.0)]
    for narrower, wider in itertools.pairwise(found):
        assert cost(wider) < cost(narrower)
        assert wider.power[0] < narrower.power[0]


def test_half_the_uplinks_of_sixteen_v100_nodes_cost_less() -> None:
    # 64 ports of nodes on four leaves: 64 uplinks on two spines of 40 ports, at 2 : 1 32 on one.
    full, half = (network(gpu="v100-sxm", gpus=128, scale_out="infiniband-hdr", oversubscription=one) for one in (1, 2))
    assert full.built is not None
    assert half.built is not None
    assert (full.built.counts.spines, half.built.counts.spines) == (2, 1)
    assert cost(half) < cost(full)


@pytest.mark.parametrize(("taper", "uplinks", "spines"), [(1.0, 32, 16), (1.25, 28, 16), (1.5, 24, 12), (2.0, 16, 8)])
def test_a_wider_taper_takes_no_more_switches(taper: float, uplinks: int, spines: int) -> None:
    # Four rails of eight leaves over spines of 64 ports. At 1.25:1 25 uplinks would be cheaper by 0.2 %, but 200 links
    # divide evenly over 5 spines of a rail, where the 256 of 1:1 take 4; 28 uplinks take 4.
    found = network(
        gpu="l40", gpus=2048, scale_out="roce-800", spine_policy="rail", nodes_per_unit=32, oversubscription=taper
    )
    assert found.built is not None
    assert (found.built.counts.leaf_up, found.built.counts.spines) == (uplinks, spines)


@pytest.mark.parametrize(("gpu", "scale_out"), [("a100-64g-sxm", "tcp-200"), ("gh200", "infiniband-ndr")])
def test_a_taper_may_be_built_of_the_units_that_are_cheapest_without_one(gpu: str, scale_out: str) -> None:
    # 144 nodes in five units of 30 or six of 28 cost least at 1:1; at 1.25:1 three to five larger ones cost more.
    whole, tapered = (network(gpu=gpu, gpus=576, scale_out=scale_out, oversubscription=taper) for taper in (1.0, 1.25))
    assert cost(tapered) < cost(whole)


@pytest.mark.parametrize(("taper", "spines"), [(1.0, 4), (1.25, 4), (2.0, 2)])
def test_units_that_are_too_large_for_a_leaf_shrink_to_what_a_narrower_taper_has(taper: float, spines: int) -> None:
    # Units of 32 nodes on leaves of 40 ports: 20 at 1 : 1, and no more with a taper, where 26 took 7 spines.
    asked = {"gpu": "mi325x", "gpus": 64, "scale_out": "infiniband-hdr", "nodes_per_unit": 32}
    found = network(**asked, oversubscription=taper)
    assert found.built is not None
    assert (found.built.counts.unit_nodes, found.built.counts.spines) == (20, spines)
    assert cost(found) <= cost(network(**asked))


@settings(max_examples=40)
@given(gpu=SERVERS, nodes=NODES, scale_out=NETWORKS, topology=TOPOLOGIES, planes=st.sampled_from([1, 2]))
@example(gpu="h100-sxm", nodes=38, scale_out="roce-200", topology="rail-optimized", planes=2)  # 19 uplinks: 38 spines
@example(gpu="h100-sxm", nodes=40, scale_out="infiniband-xdr", topology="rail-optimized", planes=2)  # no cable to nodes
def test_a_wider_taper_never_costs_more(gpu: str, nodes: int, scale_out: str, topology: str, planes: int) -> None:
    asked = cluster(gpu, nodes) | {"scale_out": scale_out, "topology": topology, "planes": planes}
    found = [cost(network(**asked, oversubscription=taper)) for taper in TAPERS]
    known = [one for one in found if np.isfinite(one)]
    assert all(wider <= narrower * (1 + 1e-9) for narrower, wider in itertools.pairwise(known))


@settings(max_examples=40)
@given(gpu=SERVERS, nodes=NODES, switch=st.sampled_from([("infiniband-ndr", "qm9700"), ("roce-400", "7060dx5-64s")]))
def test_of_one_switch_a_wider_taper_takes_no_more_of_them(gpu: str, nodes: int, switch: tuple[str, str]) -> None:
    asked = cluster(gpu, nodes) | {"scale_out": switch[0], "switch": switch[1]}
    built = [network(**asked, oversubscription=taper) for taper in (1.0, 1.5, 2.0, 3.0)]
    designs = [one.built.design for one in built if one.built]
    for narrower, wider in itertools.pairwise(designs):
        assert wider.switches <= narrower.switches
        assert wider.switch_links <= narrower.switch_links
    powers = [float(one.power[0]) for one in built if one.built]
    assert all(wider <= narrower * (1 + 1e-9) for narrower, wider in itertools.pairwise(powers))


@settings(max_examples=60)
@given(
    gpu=SERVERS, nodes=NODES, scale_out=NETWORKS, topology=TREES,
)  # fmt: skip
@example(gpu="a100-sxm", nodes=72, scale_out="tcp-100", topology="fat-tree")  # 18 full leaves, 20 share out better
@example(gpu="a100-64g-sxm", nodes=78, scale_out="slingshot-200", topology="rail-optimized")  # 30 divides
@example(gpu="mi455x", nodes=128, scale_out="roce-400", topology="rail-optimized")  # 512 GPUs cost more than 516
@example(gpu="a100-64g-sxm", nodes=1024, scale_out="ultra-ethernet-800", topology="rail-optimized")  # units of 30
def test_a_node_less_is_never_dearer(gpu: str, nodes: int, scale_out: str, topology: str) -> None:
    """Of trees: in a full mesh one more switch leaves fewer whole links between every two."""
    fewer, more = (
        cost(network(**cluster(gpu, count), scale_out=scale_out, topology=topology)) for count in (nodes, nodes + 1)
    )
    assert not more < fewer * (1 - 1e-9)


@settings(max_examples=60)
@given(
    gpu=SERVERS, nodes=NODES, scale_out=NETWORKS, topology=TOPOLOGIES, oversubscription=st.sampled_from([1.0, 1.5, 2.0])
)
@example(gpu="h100-sxm", nodes=2048, scale_out="roce-400", topology="rail-optimized", oversubscription=1.0)  # a chassis
def test_a_resolved_network_asked_again_is_the_same(
    gpu: str, nodes: int, scale_out: str, topology: str, oversubscription: float
) -> None:
    asked = cluster(gpu, nodes) | {
        "scale_out": scale_out, "topology": topology, "oversubscription": oversubscription,
    }  # fmt: skip
    first = network(**asked)
    if first.built:
        again = network(**asked | {name: value for name, value in first.fields().items() if value is not None})
        assert again.built is not None
        assert again.built.counts == first.built.counts
        assert cost(again) == cost(first)


@pytest.mark.parametrize("asked", [{}, {"gpus": 128, "topology": "fat-tree"}, {"scale_out": "roce-400", "gpus": 1200}])
def test_the_scenario_of_an_answer_asked_again_is_the_same_plan(asked: dict[str, Any]) -> None:
    first = evaluate(Scenario(**asked), CATALOG)
    again = evaluate(Scenario.model_validate(first.scenario), CATALOG)
    assert again.fabric.cost == first.fabric.cost
    assert again.fabric.leaf_switches == first.fabric.leaf_switches
    assert again.training.time_to_train == first.training.time_to_train
    assert again.costs.capital == first.costs.capital
    assert again.scenario == first.scenario


@settings(max_examples=60)
@given(
    gpus=st.integers(9, 400_000),
    scale_out=st.sampled_from(["roce-400", "roce-200", "infiniband-xdr", "tcp-400"]),
    topology=st.sampled_from(["rail-optimized", "fat-tree", "rail-only", "mesh", "dragonfly"]),
    spine_oversubscription=st.sampled_from([1.0, 3.0]),
    nodes_per_unit=st.sampled_from([None, 4, 20, 32]),
    spine_policy=st.sampled_from(["shared", "rail"]),
    tiers=st.sampled_from([None, 1, 2, 3, 4]),
    planes=st.sampled_from([1, 2]),
    management_links=st.sampled_from([0, 4]),
)
def test_no_other_switches_and_no_other_leaves_cost_less(**wish: Any) -> None:
    scenario = Scenario(**wish)
    hardware, request = look_up(scenario, TYPICAL), scenario.part(NetworkRequest)
    prices = PriceList.of(scenario.part(PriceRequest), TYPICAL)
    choices = candidates(hardware, request, TYPICAL)
    offered = offers.offers(choices, prices, hardware.platform.key, request.scale_out, request.planes)
    best = np.inf
    for place in offered.places:
        for size in sizes_of_leaves(choices[place].radix, hardware.nodes, hardware.nics_per_node, request):
            design = designed(choices[place].ports, hardware, request, hardware.nodes, **size)
            if int(design.reason) == layouts.BUILT:
                tried = Chosen(choices[place], design)
                best = min(best, in_full(tried, hardware, request, prices).cost)
    chosen = cheapest_design.choose(choices, hardware, request, prices)
    if np.isfinite(best):
        assert in_full(chosen, hardware, request, prices).cost <= best * 1.002


def test_a_network_beside_another_is_priced_with_the_links_that_it_is_built_of() -> None:
    """What is asked of the storage network of an XDR cluster names no generation of its own."""
    scenario = Scenario(gpu="gb300", gpus=1152, scale_out="infiniband-xdr", storage_network=True)
    storage = network_of(scenario, TYPICAL).auxiliary[0]
    hosts = auxiliary_networks._storage(look_up(scenario, TYPICAL), TYPICAL)
    prices = PriceList.of(PriceRequest(), TYPICAL)
    costs = {
        choice.leaf.key: in_full(cheapest_design.choose((choice,), *hosts, prices), *hosts, prices).cost
        for choice in candidates(*hosts, TYPICAL)
    }
    assert storage.switch == min(costs, key=costs.__getitem__)


def test_of_equal_prices_the_fewest_switches_are_built() -> None:
    """Ethernet by the rule of thumb costs the same a port whoever sells it: 8 spines of 576 ports or 16 of 288."""
    cluster = {"gpu": "l40s", "gpus": 8312, "scale_out": "roce-400", "topology": "fat-tree"}
    network = network_of(Scenario(**cluster, price_book="rule-of-thumb"), CATALOG)
    assert network.built is not None
    assert network.built.counts.spines == 8


def sizes_of_leaves(radix: int, nodes: int, rails: int, request: NetworkRequest) -> list[dict[str, int]]:
    """Leaves without a taper: whole, and of as many hosts and uplinks as share them out over as few units."""
    by_rail = request.topology in ("rail-optimized", "rail-only")
    if request.topology not in ("rail-optimized", "rail-only", "fat-tree") or (by_rail and request.nodes_per_unit):
        return [{}]
    hosts = nodes + -(-request.management_links // rails) if by_rail else nodes * rails + request.management_links
    fewest = -(-hosts // -(-hosts // (radix // 2)))
    name = "nodes_per_unit" if by_rail else "leaf_hosts"
    return [{}, *({name: size, "uplinks": size} for size in {fewest, (fewest + radix // 2) // 2} if hosts > radix)]


@pytest.mark.parametrize(
    ("gpus", "leaves", "spines"),
    [
        # 128 nodes in 4 units of 32: 32 leaves of 32 uplinks, ⌈32 × 32 / 64⌉ = 16 spines.
        (1024, 32, 16),
        # 130 nodes in 5 units of 26: 40 leaves of 26 uplinks, ⌈40 × 26 / 64⌉ = 17, and 26 divides 26.
        # Of whole leaves ⌈40 × 32 / 64⌉ = 20 take 32 spines.
        (1040, 40, 26),
        # 65 nodes in 3 units of 22: 24 leaves of 22 uplinks, ⌈24 × 22 / 64⌉ = 9, divisor 11.
        (520, 24, 11),
    ],
)
def test_units_share_their_nodes_out_evenly(gpus: int, leaves: int, spines: int) -> None:
    built = network(gpus=gpus, gpu="h100-sxm").built
    assert built
    assert (built.design.leaf_switches, built.design.spine_switches) == (leaves, spines)
    assert built.design.bisection == gpus / 2


@pytest.mark.parametrize(
    ("topology", "nodes", "more"),
    [
        ("rail-optimized", 8, 9),  # 64 ports for eight rails of eight nodes
        ("fat-tree", 8, 9),
        ("rail-only", 64, 65),  # a switch for each rail
    ],
)
def test_where_one_switch_joins_all_no_other_leaves_are_tried(topology: str, nodes: int, more: int) -> None:
    def tried(nodes: int, **asked: Any) -> int:
        scenario = Scenario(gpus=8 * nodes, topology=topology, oversubscription=2.0, **asked)
        hosts = LeafHosts.of(look_up(scenario, TYPICAL), scenario.part(NetworkRequest))
        return len(hosts.sizes(64, scenario.oversubscription).hosts)

    assert tried(nodes) == 0
    assert min(tried(more), tried(nodes, tiers=2), tried(nodes, management_links=1)) > 10
    assert {cost(network(gpus=8 * nodes, topology=topology, oversubscription=taper)) for taper in TAPERS} == {
        cost(network(gpus=8 * nodes, topology=topology))
    }


@pytest.mark.parametrize(
    ("gpu", "gpus", "scale_out", "taper", "hosts"),
    [
        # 18 trays of four NICs in a rack: 72 hosts of a leaf, or half of them, are within reach of copper.
        ("rubin", 424, "ultra-ethernet-400", 2.0, 72),
        ("gb300", 488, "efa-200", 3.0, 72),
        ("gb200", 1464, "infiniband-ndr", 1.0, 24),
    ],
)
def test_leaves_take_whole_racks_where_copper_then_reaches(
    gpu: str, gpus: int, scale_out: str, taper: float, hosts: int
) -> None:
    asked = {"gpu": gpu, "scale_out": scale_out, "topology": "fat-tree", "oversubscription": taper}
    found, more = network(gpus=gpus, **asked), network(gpus=gpus + 16, **asked)
    assert found.built is not None
    assert found.built.counts.leaf_down == hosts
    medium = found.built.media["node_leaf"]
    assert medium is not None
    assert medium.kind in ("dac", "acc")
    assert cost(found) <= cost(more)


def test_a_dragonfly_of_two_nodes_is_one_switch() -> None:
    # 16 hosts on 64 ports; with 65 hosts five switches of 16 hosts each, in one group.
    found = network(gpus=16, topology="dragonfly")
    assert found.built is not None
    assert found.built.counts.leaves == 1
    assert cost(found) == cost(network(gpus=16))
    more = network(gpus=72, topology="dragonfly")
    assert more.built is not None
    assert more.built.counts.leaves == -(-72 // 16)
    trays = network(gpu="gb200", gpus=16, scale_out="infiniband-gdr", topology="dragonfly")
    assert trays.built is not None
    assert trays.built.counts.leaves == 1  # 72 before, and $2.3 M a port


def test_rails_that_nothing_joins_are_subnets_of_their_own() -> None:
    # 65,536 GPUs in nodes of 8: eight rails of 8,192 ports, of 49,151 addresses each; together they have 65,536.
    apart = evaluate(Scenario(gpus=65536, topology="rail-only"), CATALOG)
    joined = evaluate(Scenario(gpus=65536), CATALOG)
    assert "infiniband-addresses" not in {one.code for one in apart.findings}
    assert apart.fabric.cost is not None
    assert "infiniband-addresses" in {one.code for one in joined.findings}


@pytest.mark.parametrize("asked", [{"gpus": 2048, "topology": "mesh"}, {"gpus": 100_000}])
def test_a_network_that_cannot_be_built_has_no_verdict_in_days(asked: dict[str, Any]) -> None:
    plan = evaluate(Scenario(**asked), CATALOG)
    assert plan.findings[0].severity == "error"
    assert plan.training.time_to_train is None
    assert plan.costs.per_run is None
    assert "cannot be joined" in plan.verdict
    assert "days" not in plan.verdict


@pytest.mark.parametrize(
    "wish",
    [{}, {"topology": "fat-tree"}, {"oversubscription": 2.0}, {"topology": "dragonfly"}, {"spine_policy": "rail"}],
    ids=str,
)
def test_fabrics_that_are_chosen_together_are_those_chosen_alone(
    wish: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware = ("h100-sxm", 2), ("h100-sxm", 17), ("gb200", 130), ("l40s", 64), ("h100-sxm", 600)
    asked = []
    for (gpu, nodes), scale_out in itertools.product(hardware, ("infiniband-ndr", "roce-800")):
        scenario = Scenario(**cluster(gpu, nodes), scale_out=scale_out, **wish)
        found, request = look_up(scenario, TYPICAL), scenario.part(NetworkRequest)
        asked.append((candidates(found, request, TYPICAL), found, request))
    agree_with_those_alone(asked, monkeypatch)


@pytest.mark.parametrize("wish", [{}, {"topology": "fat-tree"}, {"nodes_per_unit": 20}, {"planes": 2}], ids=str)
def test_fabrics_that_networks_of_other_tapers_share_are_those_chosen_alone(
    wish: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaves of as many hosts and links up are designed once for all tapers; too wide a taper leaves none."""
    asked = []
    for scale_out, taper in itertools.product(("infiniband-ndr", "spectrum-x-400"), (1.0, 1.6, 1.7, 2.0, 3.0, 64.0)):
        scenario = Scenario(**cluster("h100-sxm", 131), scale_out=scale_out, oversubscription=taper, **wish)
        found, request = look_up(scenario, TYPICAL), scenario.part(NetworkRequest)
        asked.append((candidates(found, request, TYPICAL), found, request))
    agree_with_those_alone(asked, monkeypatch)


@pytest.mark.parametrize(
    "wish", [{}, {"topology": "fat-tree"}, {"topology": "dragonfly"}, {"nodes": 1030, "spine_policy": "rail"}], ids=str
)
def test_fabrics_of_many_tapers_are_those_of_each_alone(wish: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many the switches are few that are tried, most sizes of leaves are left out, and tapers share the rest."""
    asked = []
    for scale_out, step in itertools.product(("infiniband-xdr", "roce-400"), range(30)):
        fields = {name: value for name, value in wish.items() if name != "nodes"}
        hosts = cluster("h100-sxm", wish.get("nodes", 128))
        scenario = Scenario(**hosts, scale_out=scale_out, oversubscription=1 + step / 11, **fields)
        found, request = look_up(scenario, TYPICAL), scenario.part(NetworkRequest)
        asked.append((candidates(found, request, TYPICAL), found, request))
    agree_with_those_alone(asked, monkeypatch)


def agree_with_those_alone(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold what is chosen together, all at once and in portions, against what is chosen one by one."""
    prices = PriceList.of(PriceRequest(), TYPICAL)
    cheapest_design._KEPT.clear()
    together = cheapest_design.choose_all(asked, prices)
    monkeypatch.setattr(cheapest_design, "MOST_TOGETHER", 40)
    cheapest_design._KEPT.clear()
    in_portions = cheapest_design.choose_all(asked, prices)
    assert [choice for choice, _, _ in in_portions] == [choice for choice, _, _ in together]
    for (choices, found, request), (choice, design, _) in zip(asked, together, strict=True):
        cheapest_design._KEPT.clear()
        alone, its_design, _ = cheapest_design.choose(choices, found, request, prices)
        assert alone is choice
        np.testing.assert_array_equal(its_design, design)
