"""What a board asks of a plan."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.band import Draws
from app.studies.board_brief import BriefQuestion, brief, not_included
from app.studies.odds import chance

CATALOG = load_catalog()
WAY = {"tensor_parallel": 4, "pipeline_parallel": 2, "micro_batch": 1}


def made(**fields: object) -> BriefQuestion:
    return BriefQuestion.model_validate({"gpus": 256, **WAY, **fields}, context={"catalog": CATALOG})


def test_quantity_times_price_is_the_cost_and_the_lines_are_the_capital() -> None:
    found = brief(made(), CATALOG)
    assert found.plan.costs.capital is not None
    assert [line.name for line in found.lines] == ["nodes", "fabric", "infrastructure"]
    assert found.lines[0].quantity == 32  # 256 GPUs, 8 a server
    assert (found.lines[1].quantity, found.plan.fabric.cost_per_host_port.typical) == (256, found.lines[1].each)
    for line in found.lines:
        assert line.quantity * line.each == pytest.approx(line.cost.typical)
    assert sum(line.cost.typical for line in found.lines) == pytest.approx(found.plan.costs.capital.typical)


def test_of_racks_that_are_not_filled_every_server_is_counted() -> None:
    # 100 GPUs need 25 servers of 4; two racks of 18 are bought.
    found = brief(made(gpu="gb200", gpus=100, tensor_parallel=2, pipeline_parallel=1, global_batch=100), CATALOG)
    assert found.lines[0].quantity == 36
    priced = next(line for line in found.plan.cluster.bill_of_materials if line.role == "node")
    assert found.lines[0].cost.typical == pytest.approx(priced.cost.typical)


@pytest.mark.parametrize(
    ("networks", "missing"),
    [
        ((), "the storage and management networks"),
        (("storage_network",), "the management networks"),
        (("management_network",), "the storage network"),
    ],
)
def test_each_network_that_is_not_planned_is_said_to_be_left_out(networks: tuple[str, ...], missing: str) -> None:
    plan = brief(made(**dict.fromkeys(networks, True)), CATALOG).plan
    assert not_included(plan).rpartition("; ")[2] == missing


def test_a_chance_belongs_to_a_limit() -> None:
    found = brief(made(), CATALOG)
    assert found.time_chance is None
    assert found.money_chance is None
    capital, time = found.plan.costs.capital, found.plan.training.time_to_train
    assert capital is not None
    assert time is not None
    at_ends = [brief(made(budget=end, deadline=late), CATALOG) for end, late in zip(
        (capital.low, capital.high), (time.low, time.high), strict=True)]  # fmt: skip
    # Low and high are the ends of the range that holds four cases of five.
    assert [one.money_chance for one in at_ends] == [pytest.approx(0.1, abs=0.02), pytest.approx(0.9, abs=0.02)]
    assert [one.time_chance for one in at_ends] == [pytest.approx(0.1, abs=0.05), pytest.approx(0.9, abs=0.05)]


def test_the_models_own_error_spreads_each_draw() -> None:
    # All draws at 1, an error of ±10 % that holds 80 %: half stay below 1, nine tenths below exp(0.1).
    exact = Draws(np.ones(257), residual=0.1)
    assert chance(exact, 1.0) == pytest.approx(0.5)
    assert chance(exact, float(np.exp(0.1))) == pytest.approx(0.9)
    assert chance(Draws(np.full(257, np.nan)), 1.0) is None


def test_two_other_plans_say_what_speaks_for_and_against_them() -> None:
    network, size = brief(made(), CATALOG).alternatives
    assert network.name == "RoCE on 400 Gb/s Ethernet"
    assert "scale_out=roce-400" in network.query
    assert size.name == "512 GPUs"
    assert size.why.startswith("It takes 49")  # twice the GPUs, half the time but for more stragglers
    assert size.why.endswith("more to buy.")
    assert network.why.endswith("less to buy, a difference smaller than the uncertainty of prices.")


def test_a_plan_that_cannot_run_is_said_to_be_none() -> None:
    found = brief(
        made(model="llama-3-405b", gpus=8, tensor_parallel=1, pipeline_parallel=1, deadline="90 days"), CATALOG
    )
    assert found.time_chance is None
    assert all("cannot run" in one.why for one in found.alternatives)
    assert found.risks == ()
