"""A grid of scenarios, row by row."""

import pickle
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from math import ceil, isfinite
from multiprocessing import get_context
from random import Random
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.catalog.load import load_catalog
from app.plan.band import Band
from app.plan.declarations import value_of
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies import parallel_sweep, plan_columns
from app.studies import sweep as sweeps
from app.studies.sweep import RESULTS, Grid, Sweep, columns, sweep


def test_a_grid_has_the_product_of_its_values_and_the_last_field_varies_fastest() -> None:
    grid = Grid(base={"model": "llama-3-8b"}, grid={"gpus": [64, 128], "scale_out": ["infiniband-ndr", "roce-400"]})
    rows = list(sweep(grid, load_catalog()))
    assert grid.points() == 4
    assert [(row["gpus"], row["scale_out"]) for row in rows] == [
        (64, "infiniband-ndr"),
        (64, "roce-400"),
        (128, "infiniband-ndr"),
        (128, "roce-400"),
    ]
    assert all(list(row) == columns(grid) for row in rows)


def test_a_row_is_the_typical_plan_of_its_scenario() -> None:
    row = next(sweep(Grid(base={"model": "llama-3-8b"}, grid={"gpus": [256]}), load_catalog()))
    plan = evaluate(Scenario(model="llama-3-8b", gpus=256), load_catalog())
    assert plan.training.step_time is not None
    assert row["training.step_time"] == pytest.approx(plan.training.step_time.typical)
    assert row["error"] == ""


def test_a_server_may_stand_among_the_gpus_of_a_grid() -> None:
    grid = Grid(
        base={"model": "llama-3-8b", "gpus": 144},
        grid={"gpu": ["GB200 NVL72", "h100-sxm", "DGX H100"]},
        results=["costs.capital"],
    )
    named = Scenario(model="llama-3-8b", gpus=144, gpu="gb200", platform="gb200-nvl72")
    plans = [evaluate(named, load_catalog()), evaluate(Scenario(model="llama-3-8b", gpus=144), load_catalog())]
    prices = [row["costs.capital"] for row in sweep(grid, load_catalog())]
    assert prices[:2] == [pytest.approx(plan.costs.capital.typical) for plan in plans]
    assert prices[2] > prices[1]  # a DGX costs more than the server that is meant otherwise


def test_any_result_of_a_plan_can_be_a_column() -> None:
    names = ("fabric.leaf_switches", "all_reduce.algorithm", "training.parallelism.tensor_parallel", "all_reduce.time")
    grid = Grid(base={"model": "llama-3-8b"}, grid={"gpus": [256]}, results=list(names))
    row = next(sweep(grid, load_catalog()))
    plan = evaluate(Scenario(model="llama-3-8b", gpus=256), load_catalog())
    assert list(row) == ["gpus", *names, "error"]
    assert row["fabric.leaf_switches"] == plan.fabric.leaf_switches
    assert row["all_reduce.algorithm"] == plan.all_reduce.algorithm
    assert row["training.parallelism.tensor_parallel"] == plan.training.parallelism.tensor_parallel
    assert row["all_reduce.time"] == pytest.approx(plan.all_reduce.time.typical)


def test_a_result_that_no_plan_has_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(ValidationError, match=r"Did you mean fabric\.leaf_switches"):
        Grid(grid={"gpus": [8]}, results=["fabric.leafswitches"])


def test_a_column_of_another_name_has_the_same_numbers_as_in_the_usual_columns() -> None:
    usual = next(sweep(Grid(grid={"gpus": [256]}), load_catalog()))
    whole = next(sweep(Grid(grid={"gpus": [256]}, results=[*RESULTS, "cluster.nodes"]), load_catalog()))
    assert whole["cluster.nodes"] == 32
    assert {name: whole[name] for name in RESULTS} == pytest.approx({name: usual[name] for name in RESULTS})


def test_what_cannot_be_answered_is_a_row_with_the_reason() -> None:
    rows = list(sweep(Grid(base={}, grid={"gpus": [8, -1]}), load_catalog()))
    assert rows[0]["training.step_time"] is None
    assert rows[0]["error"]
    assert "greater than" in rows[1]["error"]


def test_rows_come_one_by_one() -> None:
    many = Grid(base={}, grid={"gpus": list(range(1, 100_001)), "global_batch": list(range(1, 100_001))})
    assert many.points() == 10**10
    assert next(sweep(many, load_catalog()))["gpus"] == 1


def test_the_columns_of_a_sweep_may_be_asked_for_in_json() -> None:
    grid = Grid.model_validate({"grid": {"gpus": [8]}, "results": ["cluster.nodes"]}, strict=True)
    assert columns(grid) == ["gpus", "cluster.nodes", "error"]


def test_an_unknown_key_is_a_row_with_those_there_are() -> None:
    rows = list(sweep(Grid(base={"model": "llama-3-8b"}, grid={"gpu": ["h100-sxm", "no-such"]}), load_catalog()))
    assert [row["gpu"] for row in rows] == ["h100-sxm", "no-such"]
    assert rows[0]["error"] == ""
    assert rows[1]["error"].startswith("gpu: “no-such” is not in the catalogue")
    assert rows[1]["training.step_time"] is None


def test_columns_of_prices_are_the_plans_of_each() -> None:
    """Nodes at 200 and 300 thousand dollars, energy at three prices, a rent and a life, beside single plans."""
    grid = Grid(
        base={"model": "llama-3-8b", "price_gpu_hour": "2 USD/h"},
        grid={"gpus": [64, 512], "price_node": [2e5, 3e5], "electricity": ["0.05 USD/kWh", 3e-8, "$0.2/kWh"]},
    )
    rows = list(sweep(grid, load_catalog()))
    assert len(rows) == 12
    for row in rows:
        asked = {name: row[name] for name in grid.grid}
        alone = next(sweep(Grid(base=grid.base | asked, grid={"topology": ["rail-optimized"]}), load_catalog()))
        assert {name: row[name] for name in RESULTS} == {
            name: pytest.approx(alone[name], rel=1e-12) for name in RESULTS
        }
    dearer = {row["price_node"]: row["costs.capital"] for row in rows if row["gpus"] == 64}
    assert dearer[3e5] - dearer[2e5] == pytest.approx(8 * 1e5)  # eight nodes


def test_a_price_that_is_none_spoils_its_own_rows_alone() -> None:
    grid = Grid(base={"model": "llama-3-8b"}, grid={"gpus": [64, -8], "price_node": [2e5, -1, "much", 3e5]})
    rows = list(sweep(grid, load_catalog()))
    assert [row["price_node"] for row in rows] == [2e5, -1, "much", 3e5] * 2
    assert [bool(row["error"]) for row in rows] == [False, True, True, False] + [True] * 4
    assert [row["costs.capital"] is None for row in rows] == [False, True, True, False] + [True] * 4


def test_a_blank_price_is_the_books() -> None:
    rows = list(sweep(Grid(base={"model": "llama-3-8b"}, grid={"price_node": [None, 2e5]}), load_catalog()))
    book = next(sweep(Grid(base={"model": "llama-3-8b"}, grid={"gpus": [1024]}), load_catalog()))
    assert rows[0]["costs.capital"] == book["costs.capital"] != rows[1]["costs.capital"]


def test_a_sweep_on_two_processes_has_the_rows_of_one_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_sweep, "LEAST", 2)
    grid = Grid(base={"model": "llama-3-8b"}, grid={"gpus": [64, 128, -1], "price_node": [2e5, 2.5e5, 3e5]})
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        rows = list(parallel_sweep.sweep(grid, load_catalog(), processes))
    assert rows == list(sweep(grid, load_catalog()))


def test_threads_keep_what_was_worked_out_each_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_sweep, "LEAST", 3)
    grids = [
        Grid(base={"model": model}, grid={"gpus": [64, 128, 192, 256], "price_node": [2e5, 2.5e5, 3e5, None]})
        for model in ("llama-3-8b", "llama-2-7b")
    ]
    with ThreadPoolExecutor(4) as threads:
        for grid in grids:
            assert list(parallel_sweep.sweep(grid, load_catalog(), threads)) == list(sweep(grid, load_catalog()))


def test_what_a_part_takes_along_has_a_name_that_dask_need_not_make_of_all_of_it() -> None:
    one, same, other = (
        parallel_sweep._Packed.of(Grid(grid={"gpus": sizes})).__dask_tokenize__()
        for sizes in ([64, 128], [64, 128], [64, 256])
    )
    assert one == same != other
    assert len(one) < 64


def test_a_worker_keeps_one_catalogue_for_all_sweeps() -> None:
    catalog = load_catalog()
    sent = parallel_sweep._packed(catalog)
    sweeps = [
        parallel_sweep._sweep(parallel_sweep._Packed.of(Grid(grid={"gpus": [gpus]})), pickle.loads(pickle.dumps(sent)))
        for gpus in (64, 128)
    ]
    assert sweeps[0].catalog is sweeps[1].catalog is not catalog
    assert len(sent.content) < 150_000


@pytest.mark.parametrize(
    ("points", "parts"),
    [
        (7, 1),
        (1000, 3),  # none is smaller than 256
        (100_000, 32),
        (10_000_000, 313),  # of 640,000 values in 20 columns at most: 32,000 rows
    ],
)
def test_parts_are_alike(points: int, parts: int) -> None:
    grid = Grid(grid={"pue": [1.1] * ceil(points / 10_000), "price_node": [2e5] * min(points, 10_000)})
    sizes = [*parallel_sweep.in_parts(lambda _, first, end: end - first, grid, load_catalog())]
    assert len(sizes) == parts
    assert sum(sizes) == points
    assert max(sizes) - min(sizes) <= 1


def test_a_long_sweep_is_asked_for_as_it_is_read() -> None:
    class Counting(ProcessPoolExecutor):
        asked: list[Future[Any]]

        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            done: Future[Any] = Future()
            part = len(self.asked)
            done.set_result(pickle.dumps([(part,)] * len(columns(grid))))
            self.asked.append(done)
            return done

    executor = Counting(1)
    executor.asked = []
    grid = Grid(grid={"gpus": list(range(8, 8008)), "price_node": list(range(1000, 5096))})
    rows = parallel_sweep.sweep(grid, load_catalog(), executor)
    assert [next(rows)["gpus"], next(rows)["gpus"]] == [0, 1]
    assert len(executor.asked) == parallel_sweep.AHEAD + 1


@pytest.mark.parametrize(
    ("base", "workloads", "served"),
    [({}, [], False), ({"workload": "serving"}, [], True), ({}, ["training", "serving"], True)],
)
def test_a_grid_any_of_whose_points_serves_has_columns_of_serving(
    base: dict[str, str], workloads: list[str], served: bool
) -> None:
    grid = Grid(base=base, grid={"gpus": [64], **({"workload": workloads} if workloads else {})})
    assert ("serving.users" in grid.results) is served
    assert ("training.step_time" in grid.results) is not served


@pytest.mark.parametrize("base", [{"workload": "serving"}, {"failure_rate": "1 /s"}])
def test_a_result_that_is_no_number_is_null_as_everywhere_else(base: dict[str, Any]) -> None:
    results = ["training.availability", "training.straggler", "costs.capital", "verdict"]
    (row,) = sweep(Grid(base={"model": "llama-3-8b", **base}, grid={"gpus": [16]}, results=results), load_catalog())
    assert row["training.availability"] is None
    assert [name for name in results if isinstance(row[name], float) and not isfinite(row[name])] == []


def test_a_row_without_a_network_has_no_time_of_the_run() -> None:
    # two tiers of tapered units of four nodes do not join 1,024 nodes; a step says how the GPUs would do
    asked = {"gpu": "b300-sxm", "model": "deepseek-v3", "nodes_per_unit": 4, "nics_per_node": 1, "oversubscription": 2}
    asked |= {"tiers": 2, "scale_out": "tcp-100"}
    times = ("training.time_to_train", "training.productive_time", "training.campaign_time")
    money = ("costs.per_run", "costs.rental")
    large = next(
        sweep(Grid(base=asked, grid={"gpus": [8192]}, results=["training.step_time", *times, *money]), load_catalog())
    )
    alone = evaluate(Scenario(**asked, gpus=8192), load_catalog())
    assert [value_of(alone, name) for name in times] == [None] * 3
    assert alone.training.step_time is not None
    assert large["training.step_time"] == pytest.approx(alone.training.step_time.typical)
    assert [large[name] for name in (*times, *money)] == [None] * 5


@pytest.mark.parametrize(("workload", "result"), [("training", "all_reduce.time"), ("serving", "serving.tpot")])
def test_a_calibrated_cluster_can_be_swept(workload: str, result: str) -> None:
    base = {"workload": workload, "calibration": "1.4~0.05,0.97~0.01,1.1~0.12"}
    row = next(sweep(Grid(base=base, grid={"gpus": [64]}, results=[result]), load_catalog()))
    alone = value_of(evaluate(Scenario.model_validate({**base, "gpus": 64}), load_catalog()), result)
    assert row["error"] == ""
    assert row[result] == pytest.approx(alone.typical)


GIVEN = {
    "model": "llama-3-8b", "tensor_parallel": 4, "pipeline_parallel": 2, "virtual_pipeline": 1, "context_parallel": 1,
    "expert_parallel": 1, "micro_batch": 1, "sharding": "optimizer", "recompute": "none", "sequence_parallel": True,
}  # fmt: skip


def _alone(asked: dict[str, Any], results: Sequence[str] = RESULTS) -> dict[str, Any]:
    """The typical results of a single plan, and its errors."""
    plan = evaluate(Scenario.model_validate(asked), load_catalog().typical_only(), include=())
    values = {name: value_of(plan, name) for name in results}
    typical = {name: value.typical if isinstance(value, Band) else value for name, value in values.items()}
    return typical | {"errors": [finding.message for finding in plan.findings if finding.severity == "error"]}


def _each_row_is_its_plan(base: dict[str, Any], grid: dict[str, list[Any]], results: Sequence[str] = RESULTS) -> None:
    rows = list(sweep(Grid(base=base, grid=grid, results=list(results)), load_catalog()))
    for row in rows:
        alone = _alone({**base, **{name: row[name] for name in grid}}, results)
        assert {name: row[name] for name in results} == {
            name: pytest.approx(alone[name], rel=1e-9) if isinstance(alone[name], float) else alone[name]
            for name in results
        }
        assert row["error"] in (alone["errors"] or [""])


def test_jobs_in_which_all_is_given_are_columns_of_one() -> None:
    """Of 16 rows some divide, some fit no memory, some neither; stages are more than GPUs allow in the last."""
    grid = {"sequence_length": [4096, 131072], "global_batch": [64, 100], "tensor_parallel": [1, 8], "jitter": [0, 0.1]}
    _each_row_is_its_plan(GIVEN | {"gpus": 128}, grid)
    rows = list(sweep(Grid(base=GIVEN | {"gpus": 128}, grid=grid), load_catalog()))
    assert {bool(row["error"]) for row in rows} == {True, False}


def test_the_few_ways_to_run_jobs_whose_other_degrees_are_given_are_columns_too() -> None:
    """Of experts, stages' chunks and shares of a sequence each row takes the quickest; some fit no memory."""
    base = {"model": "mixtral-8x7b", "gpus": 64, "micro_batch": 1, "pipeline_parallel": 2, "global_batch": 128}
    grid = {
        "sequence_length": [4096, 524288],
        "tensor_parallel": [1, 4],
        "sharding": [None, "none"],
        "recompute": [None, "none"],
    }
    _each_row_is_its_plan(base, grid)
    errors = [row["error"] for row in sweep(Grid(base=base, grid=grid), load_catalog())]
    assert {bool(error) for error in errors} == {True, False}


def test_a_sweep_may_vary_what_is_searched_and_what_is_given_together() -> None:
    grid = {"micro_batch": [None, 2], "global_batch": [None, 64], "failure_rate": [None, "1e-4 /h"], "pue": [1.1, 1.4]}
    _each_row_is_its_plan(GIVEN | {"gpus": 64}, grid)


def test_hardware_that_varies_slowest_or_fastest_is_each_rows_own() -> None:
    grid = {
        "electricity": [2e-8, 3e-8],
        "gpus": [16, 32],
        "model": ["llama-3-8b", "13B"],
        "gpu": ["h100-sxm", "h200-sxm"],
    }
    _each_row_is_its_plan(
        {name: value for name, value in GIVEN.items() if name != "model"} | {"global_batch": 64}, grid
    )


def test_counts_and_words_of_the_hardware_are_columns_too() -> None:
    names = ("fabric.leaf_switches", "fabric.switch", "fabric.latency", "fabric.share_of_capital", "cluster.racks")
    _each_row_is_its_plan(GIVEN | {"global_batch": 64}, {"gpus": [64, 512], "price_node": [2e5, 3e5]}, names)


def test_tapers_that_come_to_the_same_fabric_are_each_their_plan() -> None:
    """And one that leaves no uplink, with ports for spare nodes and a network beside, however flows are spread."""
    grid = {"load_balancing": [None, "hashing"], "oversubscription": [*(1 + n / 50 for n in range(24)), 64.0]}
    base = GIVEN | {"gpus": 512, "global_batch": 512, "spare_nodes": 2, "management_network": True}
    _each_row_is_its_plan(base, grid, sorted(plan_columns.COLUMNS))
    together = plan_columns.PlanColumns(base, grid, RESULTS, load_catalog())
    together.of(np.array([[0, place] for place in range(24)]))
    assert len({*together.sites.values()}) < 24


def test_every_result_that_columns_have_is_that_of_the_plan() -> None:
    """Searched and given, of a message or the usual one, with an algorithm that there is not."""
    grid = {"message": [None, "1 GB"], "micro_batch": [None, 1], "algorithm": [None, "hierarchical"], "gpus": [64]}
    base = {"model": "llama-3-8b", "global_batch": 128, "tensor_parallel": 2, "pipeline_parallel": 2}
    _each_row_is_its_plan(base | {"sharding": "optimizer", "recompute": "none"}, grid, sorted(plan_columns.COLUMNS))


def test_other_results_are_read_from_whole_plans() -> None:
    names = ("bottleneck.resource", "training.parallelism.sharding", "memory.fits", "costs.capital")
    assert not plan_columns.COLUMNS.issuperset(names)
    _each_row_is_its_plan({"model": "llama-3-8b"}, {"gpus": [64, 128], "scale_out": ["infiniband-ndr"]}, names)


def test_what_cannot_be_run_says_so_in_the_words_of_its_plan() -> None:
    grid = {
        "gpus": [256, 72],
        "failure_rate": [0, "1 /h"],
        "site_power": ["1 MW", "10 kW"],
        "pipeline_parallel": [2, 64],
    }
    base = GIVEN | {"global_batch": 64}
    errors = [row["error"] for row in sweep(Grid(base=base, grid=grid), load_catalog())]
    _each_row_is_its_plan(base, grid)
    for words in ("do not divide", "No parallelism", "makes no progress", "over its limit"):
        assert any(words in error for error in errors), words


@pytest.mark.parametrize(
    ("base", "grid"),
    [
        ({}, {"tensor_parallel": [3, 4, 16], "pipeline_parallel": [2, 96]}),
        ({"context_parallel": None, "sharding": None}, {"tensor_parallel": [3, 4], "expert_parallel": [None, 1, 8]}),
        ({"micro_batch": None}, {"context_parallel": [1, 4, 96], "sequence_length": [96, 4096]}),
        ({"model": "mixtral-8x7b"}, {"expert_parallel": [2, 4, 16], "sharding_group": [None, 5, 8]}),
        ({}, {"kv_heads": [7, 8], "tensor_parallel": [1, 2]}),
        ({"context_exchange": "all-to-all"}, {"context_parallel": [1, 2, 16], "tensor_parallel": [2, 4]}),
        ({"virtual_pipeline": None}, {"pipeline_parallel": [1, 48], "virtual_pipeline": [1, 2]}),
    ],
)
def test_degrees_that_do_not_divide_the_model_are_refused_in_the_words_of_the_plan(
    base: dict[str, Any], grid: dict[str, list[Any]]
) -> None:
    """Given, searched and searched among few: 192 GPUs divide by 3, 32 heads, 8 experts and 32 layers do not."""
    everything = GIVEN | {"gpus": 192, "global_batch": 192} | base
    _each_row_is_its_plan(everything, grid)
    errors = [row["error"] for row in sweep(Grid(base=everything, grid=grid), load_catalog())]
    assert {bool(error) for error in errors} == {True, False}


def test_fields_that_do_not_go_together_are_rows_with_the_reason() -> None:
    grid = {"model": ["llama-3-8b", "custom", "no-such"], "parameters": [None, 7e9], "gpus": [64, 0]}
    rows = list(sweep(Grid(grid=grid), load_catalog()))
    assert [bool(row["error"]) for row in rows] == [False, True, True, True, False, True, False, True] + [True] * 4
    assert "greater than" in rows[1]["error"]
    assert "leave them blank" in rows[2]["error"]
    assert "not in the catalogue" in rows[8]["error"]


CLUSTERS: dict[str, list[Any]] = {
    "gpus": [8, 16, 72, 256, 264, 1000, 1024, 1032, 2048, 4096, 16384, 33000, 262144],
    "scale_out": ["infiniband-ndr", "roce-400", "spectrum-x-400", "ultra-ethernet-400", "tcp-100"],
    "oversubscription": [1, 1.5, 2, 3, 63, 64],
    "topology": ["rail-optimized", "fat-tree", "rail-only", "mesh", "torus-3d", "dragonfly"],
    "tiers": [None, 2, 3],
    "planes": [1, 2],
    "spare_nodes": [0, 3],
    "storage_network": [False, True],
    "management_network": [False, True],
    "rack_power": [None, "9 kW", "20 kW", "45 kW"],
    "site_power": [None, "2 MW"],
    "price_node": [None, 250_000],
    "jitter": [0, 0.014, 0.1],
    "slow_node": [0, 0.2],
    "link_rate_left": [1, 0.5],
    "degraded_link": ["node-leaf", "leaf-spine"],
    "load_balancing": [None, "hashing", "adaptive"],
    "placement": ["contiguous", "scattered"],
    "gpu": ["h100-sxm", "gb200", "b200-sxm"],
    "gpus_per_node": [None, 4],
    "nics_per_node": [None, 0, 4],
    "scale_up_domain": [None, 144, 1152],
    "failure_rate": [None, 0],
    "restart_time": [None, "1 h"],
    "storage_bandwidth": [None, "100 GB/s"],
    "availability": [None, 0.9],
    "profile": ["calibrated", "ideal"],
    "micro_batch": [1, 2],
    "global_batch": [256, 1000],
}
"""Fields of a cluster and its network, and of a job on it."""


@pytest.mark.parametrize("seed", range(12))
def test_clusters_at_random_are_each_their_plan(seed: int) -> None:
    """Of any number of GPUs on networks of any kind, such as cannot be built too, beside networks and spares or not."""
    draw = Random(seed)
    varied = ["gpus", *draw.sample([name for name in CLUSTERS if name != "gpus"], 3)]
    usual = {name: values[0] for name, values in CLUSTERS.items() if name not in varied}
    unusual = {name: draw.choice(CLUSTERS[name]) for name in draw.sample([*usual], 4)}
    grid = {name: draw.sample(CLUSTERS[name], 5 if name == "gpus" else 2) for name in varied}
    _each_row_is_its_plan(GIVEN | usual | unusual, grid, sorted(plan_columns.COLUMNS) if seed % 3 == 0 else RESULTS)


@pytest.mark.parametrize("beside", ["storage_network", "management_network"])
@pytest.mark.parametrize(
    "prices", [{"price_book": ["market", "rule-of-thumb"]}, {"price_switch": [10_000, 20_000]}, {"spares": [0, 0.1]}]
)
def test_networks_beside_a_single_node_are_priced_anew_at_every_price(
    beside: str, prices: dict[str, list[Any]]
) -> None:
    """One node needs no network to others, which told networks of other prices apart."""
    _each_row_is_its_plan(GIVEN | {"gpus": 8, "global_batch": 64, beside: True}, prices)


def test_a_long_sweep_keeps_no_more_than_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_columns, "MOST_KEPT", 3)
    together = plan_columns.PlanColumns(GIVEN, {"gpus": [8 * n for n in range(1, 9)]}, RESULTS, load_catalog())
    few = [together.of(np.array([[place]]))["costs.capital"] for place in range(8)]
    assert len(together.sites) <= 3
    assert len(together.jobs) <= 3
    again = plan_columns.PlanColumns(GIVEN, {"gpus": [8 * n for n in range(1, 9)]}, RESULTS, load_catalog())
    assert [value for (value,) in few] == again.of(np.arange(8)[:, None])["costs.capital"]


@pytest.mark.parametrize(
    ("portion", "row", "sizes"),
    [
        (6e-3, 1e-4, [64, 936]),  # what a portion takes however few rows it has says nothing of more
        (8e-3, 1e-2, [64, 24, 24, 24]),  # 242 ms of the 250 at 10 ms a row, as far as what came before tells
        (8e-3, 4e-4, [64, 604, 332]),
        (8e-3, 3e-4, [64, 936]),  # 806 would leave 130, less than a quarter as many
    ],
)
def test_as_many_rows_are_worked_out_together_as_there_is_time_for(
    portion: float, row: float, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def answered(columns: plan_columns.PlanColumns, places: Any) -> dict[str, list[Any]]:
        clock[0] += portion + row * len(places)
        return {name: [None] * len(places) for name in (*columns.results, "error")}

    monkeypatch.setattr(sweeps, "thread_time", lambda: clock[0])
    monkeypatch.setattr(plan_columns.PlanColumns, "of", answered)
    grid = Grid(base=GIVEN, grid={"gpus": [8 * n for n in range(1, 1001)]})
    parts = Sweep(grid, load_catalog()).batches()
    assert [len(next(parts)[0]) for _ in sizes] == sizes
