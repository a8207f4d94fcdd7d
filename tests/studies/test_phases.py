"""Growing in phases: what is bought first, what moves later, and what each order of building costs."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.band import Draws
from app.plan.network import network_of
from app.plan.scenario import Scenario
from app.plan.total_cost import ownership
from app.studies.phases import Growth, Phase, Phases, phases

CATALOG = load_catalog()


def grown(to: int, after: float | None = None, interest: float | None = None, **fields) -> Phases[Draws]:
    scenario = Scenario.model_validate(fields, context={"catalog": CATALOG})
    network = network_of(scenario, CATALOG)
    owned = ownership(network, network.prices)
    return phases(scenario, owned, Growth(to, after, interest), CATALOG)


def orders(found: Phases[Draws]) -> dict[str, Phase[Draws]]:
    return {phase.order: phase for phase in found.orders}


def switches(phase: Phase[Draws]) -> tuple[int, int, int]:
    return phase.leaf_switches, phase.spine_switches, phase.core_switches


def test_two_tiers_that_stay_two_need_the_spines_of_the_end():
    """32 leaves of 64 uplinks fill 16 spines; 8,192 take 64, so three of four of the 2,048 uplinks move."""
    found = orders(grown(8192, gpus=2048, scale_out="roce-400", switch="sn5600"))
    assert switches(found["later"]) == (32, 16, 0)
    assert switches(found["ready"]) == (32, 64, 0)
    assert switches(found["whole"]) == (128, 64, 0)
    assert [phase.links_moved for phase in found.values()] == [1536, 0, 0]
    assert found["ready"].ports_free == 48 * 128  # spines beyond those that today fills
    more = found["ready"].now.typical - found["later"].now.typical
    assert more == pytest.approx(48 * 51_999 * 1.03, rel=0.05)  # boxes and spares; as many modules either way


def test_two_tiers_that_become_three_give_half_of_each_spine_up():
    """32 spines of 64 links each keep 32 of them: 1,024 move. The pods of the end have 64 spines, and 128 cores."""
    found = grown(8192, gpus=2048, switch="qm9700")
    assert (found.tiers, found.tiers_later) == (2, 3)
    by_order = orders(found)
    assert switches(by_order["later"]) == (64, 32, 0)
    assert by_order["later"].links_moved == 1024
    assert switches(by_order["ready"]) == (64, 64, 128)
    assert by_order["ready"].links_moved == 0
    assert switches(by_order["pods"]) == (64, 64, 32)
    assert by_order["pods"].links_moved == 1536  # 2,048 links of 32 cores, of 128 at the end


def test_switches_above_the_cores_count_among_them():
    """32 nodes in four tiers: 8 leaves, 8 spines, 8 cores with 32 links up each, and 4 switches above them."""
    found = orders(grown(1024, gpus=256, switch="qm9700", tiers=4))
    assert switches(found["later"]) == (8, 8, 8 + 4)


def test_a_pod_of_the_end_needs_no_core_yet():
    """1,024 GPUs are one of eight pods: 32 leaves over 32 spines whose other half stays free."""
    found = orders(grown(8192, gpus=1024, switch="qm9700"))
    assert switches(found["ready"]) == (32, 32, 0)
    assert found["ready"].ports_free == 32 * 32
    assert "pods" not in found


def test_leaves_that_cannot_reach_the_spines_of_the_end_are_not_ready_to_grow():
    """Leaves of 22 uplinks to as many spines, of the 51 that leaves of the end reach."""
    asked = {"gpu": "h200-sxm", "scale_out": "spectrum-x-400", "topology": "fat-tree", "oversubscription": 1.5}
    found = orders(grown(8192, gpus=2048, **asked))
    assert "ready" not in found
    assert found["later"].links_moved > 0


def test_one_switch_that_becomes_a_leaf_gives_up_half_of_its_hosts():
    assert orders(grown(1024, gpus=64, switch="qm9700"))["later"].links_moved == 32


def test_what_is_paid_now_and_later_is_the_network_of_the_end():
    for phase in grown(8192, gpus=2048).orders:
        assert phase.now.typical + phase.later.typical == pytest.approx(47.6e6, rel=0.02)
        assert np.all(phase.later.values >= 0)


def test_waiting_is_worth_more_the_dearer_money_is():
    """$30 M a year later at 10 % are worth $27.3 M today."""
    dear, cheap = (grown(8192, gpus=2048, interest=rate, after=365.25 * 86400) for rate in (0.3, 0.0))
    assert dear.cheapest == "later"
    assert orders(cheap)["ready"].total.typical <= orders(cheap)["later"].total.typical
    for order, phase in orders(dear).items():
        later = phase.later.typical + phase.moving.typical + phase.idle.typical
        assert phase.total.typical == pytest.approx(phase.now.typical + later / 1.3), order


def test_a_crew_moves_sixty_links_an_hour_while_the_cluster_stands():
    later = orders(grown(8192, gpus=2048, scale_out="roce-400", switch="sn5600"))["later"]
    assert later.standstill.typical == pytest.approx(1536 / 60 * 3600)
    assert later.moving.typical == pytest.approx(1536 * 150)
    # 25.6 h of 2,048 GPUs at some $1.5 an hour
    assert later.idle.typical == pytest.approx(25.6 * 2048 * 1.5, rel=0.2)


@pytest.mark.parametrize(
    ("to", "fields", "said"),
    [
        (8192, {"topology": "torus-2d", "gpus": 512}, "not modelled"),
        (512, {"gpus": 1024}, "no more than"),
        (1_000_000, {"gpus": 64}, "cannot be built"),
        (64, {"gpus": 8}, "none is needed"),
    ],
)
def test_where_there_is_nothing_to_choose_the_answer_says_why(to: int, fields: dict, said: str):
    found = grown(to, **fields)
    assert said in found.reason
    assert found.orders == ()


def test_no_order_is_cheapest_where_a_standstill_has_no_price():
    found = grown(4096, gpu="mi300a", gpus=1024)
    assert np.isnan(orders(found)["later"].total.typical)
    assert found.cheapest == ""


def test_no_order_moves_fewer_links_for_more_growth():
    moved = [orders(grown(to, gpus=512, switch="qm9700"))["later"].links_moved for to in (1024, 2048, 4096, 16384)]
    assert moved == sorted(moved)
    assert moved[-1] > 0
