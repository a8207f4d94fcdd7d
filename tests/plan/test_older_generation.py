"""An older generation of a network without tiers that leaves GPUs more."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate, evaluate_network
from app.plan.network import network_of
from app.plan.older_generation import older_is_quicker, ring_rate
from app.plan.scenario import Scenario

CATALOG = load_catalog()
DRAGONFLY = {"gpu": "b200-sxm", "gpus": 512, "topology": "dragonfly", "model": "deepseek-v3"}


@pytest.mark.parametrize(
    ("scale_out", "older"), [("roce-800", "roce-400"), ("roce-1600", "roce-400"), ("infiniband-xdr", "infiniband-ndr")]
)
def test_an_older_generation_on_which_rings_are_quicker_is_named_and_trains_quicker(scale_out: str, older: str) -> None:
    asked = Scenario(**DRAGONFLY | {"gpus": 256}, scale_out=scale_out)
    plan = evaluate(asked, CATALOG, ())
    (finding,) = [one for one in plan.findings if one.code == "older-generation-is-quicker"]
    assert dict(finding.changes) == {"scale_out": older}
    other = evaluate(asked.model_copy(update=dict(finding.changes)), CATALOG, ())
    assert plan.training.step_time is not None
    assert other.training.step_time is not None
    assert other.training.step_time.typical < plan.training.step_time.typical
    assert "older-generation-is-quicker" not in {one.code for one in other.findings}
    assert finding in evaluate_network(asked, CATALOG).findings


def test_what_was_asked_of_the_newer_network_alone_goes_back_to_its_default() -> None:
    key = network_of(Scenario(**DRAGONFLY, scale_out="roce-800"), CATALOG).switch
    network = network_of(Scenario(**DRAGONFLY, scale_out="roce-800", switch=key), CATALOG)
    (finding,) = older_is_quicker(network)
    assert dict(finding.changes) == {"scale_out": "roce-400", "switch": None}


@pytest.mark.parametrize("changes", [{"topology": "rail-optimized"}, {"gpus": 8}, {"scale_out": "roce-100"}])
def test_nothing_is_said_of_trees_of_one_node_or_of_the_oldest(changes: dict[str, object]) -> None:
    assert not list(older_is_quicker(network_of(Scenario(**DRAGONFLY | {"scale_out": "roce-800"} | changes), CATALOG)))


def test_a_ring_inside_one_node_has_the_whole_rate() -> None:
    network = network_of(Scenario(gpus=8), CATALOG)
    assert ring_rate(network) == pytest.approx(50e9)
