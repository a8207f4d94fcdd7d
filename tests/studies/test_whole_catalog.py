"""The whole catalogue as a cloud: which clusters are in it, which keep the limits, and what their plans say."""

from collections.abc import Iterator
from urllib.parse import parse_qsl

import pytest

from app.catalog.estimate import EARLY
from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.network import networks_of
from app.plan.scenario import Scenario
from app.studies import whole_catalog
from app.studies.sizing import run_together
from app.studies.whole_catalog import Cloud, CloudQuestion, Spot, networks_for, sizes, sold, work_ahead

CATALOG = load_catalog()
DAY = 86_400.0
JOB = {"gpu": ["h100-sxm", "gb200"], "model": "llama-3-8b", "training_tokens": 1e12, "gpus": 256}


def asked(**fields: object) -> CloudQuestion:
    return CloudQuestion.model_validate(JOB | fields)


def ask(**fields: object) -> Cloud:
    return whole_catalog.whole_catalog(asked(**fields), CATALOG)


def spots(**fields: object) -> list[Spot]:
    return [*whole_catalog.spots(ask(**fields), asked(**fields), CATALOG)]


@pytest.fixture
def nothing_kept() -> Iterator[None]:
    """As after a start."""
    whole_catalog._JOBS.clear()
    yield
    whole_catalog._JOBS.clear()


def test_each_gpu_is_tried_in_numbers_that_double_and_halfway_on_its_networks_with_each_taper() -> None:
    """8, 16, 24, 32 … 256 H100 and 72, 144, 216 GB200, on thirteen networks, at three tapers: 13 × 13 × 3 clusters."""
    found, every = ask(), spots()
    assert found.considered == 13 * 13 * 3
    assert found.complete
    assert {spot.gpus for spot in every if spot.gpu == "h100-sxm"} == {8, 16, 24, 32, 48, 64, 96, 128, 192, 256}
    assert {spot.gpus for spot in every if spot.gpu == "gb200"} == {72, 144, 216}
    assert {spot.oversubscription for spot in every} == {1.0, 2.0, 4.0}


def test_networks_are_those_on_sale_that_are_half_to_twice_as_fast_as_the_cards_of_the_platform() -> None:
    """An HGX H100 comes with ports of 400 Gb/s: EDR is slower than half, 1.6 Tb/s more than twice, EFA is rented."""
    assert networks_for("h100-sxm", CATALOG) == (
        "infiniband-hdr",
        "infiniband-ndr200",
        "infiniband-ndr",
        "infiniband-xdr",
        "roce-200",
        "roce-400",
        "roce-800",
        "spectrum-x-400",
        "spectrum-x-800",
        "ultra-ethernet-400",
        "tcp-200",
        "tcp-400",
        "slingshot-200",
    )
    assert {spot.scale_out for spot in spots(scale_out=["efa-400", "roce-400"], gpu=["h100-sxm"])} == {
        "efa-400",
        "roce-400",
    }


def test_of_all_gpus_on_sale_more_than_twenty_thousand_clusters_are_tried() -> None:
    units = {gpu: whole_catalog.unit_of(gpu, CATALOG) for gpu in sold(CATALOG)}
    counts = {gpu: len([*sizes(unit, CloudQuestion().gpus)]) for gpu, unit in units.items()}
    assert sum(count * len(networks_for(gpu, CATALOG)) * 3 for gpu, count in counts.items()) > 24_000


def test_a_point_is_the_plan_of_its_address() -> None:
    """Money and power exactly; the time at most a little longer, where another network's ways to run were timed."""
    for spot in spots()[::29]:
        plan = evaluate(Scenario.model_validate(dict(parse_qsl(spot.query))), CATALOG)
        assert plan.costs.capital is not None
        assert plan.training.time_to_train is not None
        assert spot.cost == pytest.approx(plan.costs.capital.typical, rel=1e-9)
        assert spot.power == pytest.approx(plan.cluster.power.typical, rel=1e-9)
        assert plan.training.time_to_train.typical <= spot.time_to_train * (1 + 1e-9)
        assert plan.training.time_to_train.typical > spot.time_to_train * 0.98


def test_over_sockets_a_cluster_runs_in_ways_of_its_own() -> None:
    """In the best ways of RDMA, 4,096 H200 over TCP took twice as long as their plan."""
    own = {"model": "llama-3-70b", "training_tokens": 15e12, "gpus": 4096, "gpu": ["h200-sxm"]}
    slow = next(spot for spot in spots(**own, scale_out=["tcp-400"]) if spot.gpus == 4096)
    plan = evaluate(Scenario.model_validate(dict(parse_qsl(slow.query))), CATALOG)
    assert plan.training.time_to_train is not None
    assert plan.training.time_to_train.typical == pytest.approx(slow.time_to_train, rel=0.02)


def test_rows_are_what_each_size_by_itself_takes_and_costs() -> None:
    """The numbers of a size, with its usual networks and tapers alone, are those of the cloud, to the last digit."""
    every = {(spot.scale_out, spot.gpus, spot.oversubscription): spot for spot in spots(gpu=["h100-sxm"])}
    plain = Scenario.model_validate(JOB | {"gpu": "h100-sxm"})
    for gpus in (8, 64, 192):
        kinds = [(network, taper) for network in ("infiniband-ndr", "roce-400") for taper in (1.0, 2.0, 4.0)]
        line = [
            plain.model_copy(update={"scale_out": network, "gpus": gpus, "oversubscription": taper})
            for network, taper in kinds
        ]
        catalog = CATALOG.typical_only()
        for (network, taper), outcome in zip(
            kinds, run_together([line], [networks_of(line, catalog)], catalog)[0], strict=True
        ):
            spot = every[network, gpus, taper]
            assert outcome is not None
            assert (spot.time_to_train, *spot_figures(spot)) == pytest.approx(outcome[:5], rel=1e-9)
            assert spot.parallelism == outcome.parallelism


def spot_figures(spot: Spot) -> tuple[float, float, float, float]:
    return spot.capital, spot.rental, spot.run, spot.power


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize(
    "narrower",
    [
        {"budget": 12e6, "deadline": 10 * DAY},
        {"budget_kind": "run", "budget": 3e5},
        {"power_limit": 1e5},
        {"gpu": ["gb200"]},
        {"scale_out": ["roce-400", "infiniband-hdr"]},
        {"gpus": 100},
    ],
    ids=["limits", "kind of cost", "power", "GPU", "networks", "size"],
)
def test_what_was_worked_out_is_narrowed_down_to_what_would_be_worked_out_anew(
    narrower: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    anew, every = ask(**narrower), spots(**narrower)
    ask()
    monkeypatch.setattr(whole_catalog, "_work_out", None)  # nothing more is
    assert ask(**narrower).front == anew.front
    assert spots(**narrower) == every
    again = ask(**narrower)
    assert (again.meeting, again.considered, again.complete) == (anew.meeting, anew.considered, True)


def test_the_front_is_of_those_that_keep_every_limit_and_no_other_beats_in_both() -> None:
    limits = {"deadline": 10 * DAY, "budget": 12e6}
    found, every = ask(**limits), spots(**limits)
    keeping = [spot for spot in every if spot.time_to_train <= 10 * DAY and spot.cost <= 12e6]
    assert keeping == [spot for spot in every if spot.meets]
    assert 0 < found.meeting == len(keeping) < len(found.clusters) == len(every)
    for spot in found.front:
        assert spot.query in {one.query for one in keeping}
        assert not any(other.cost < spot.cost and other.time_to_train < spot.time_to_train for other in keeping)
    assert found.front == whole_catalog.front_of(keeping)


def test_gpus_that_time_does_not_suffice_for_are_left_out_and_counted() -> None:
    gpus = ["h100-sxm", "h200-sxm", "b200-sxm"]
    question = CloudQuestion.model_validate({"gpu": gpus, "model": "llama-3-8b", "training_tokens": 1.1e12, "gpus": 32})
    begun, whole = (whole_catalog.whole_catalog(question, CATALOG, seconds) for seconds in (0, 60))
    assert (begun.done, begun.gpus, begun.complete) == (1, 3, False)
    assert {*begun.clusters.rows["gpu"].tolist()} == {[*CATALOG.gpus].index("h100-sxm")}
    assert whole.complete
    assert len({*whole.clusters.rows["gpu"].tolist()}) == 3


def test_gpus_whose_servers_nobody_prices_come_last_and_the_newest_of_the_others_first() -> None:
    gpus = [CATALOG.gpus[key] for key in sold(CATALOG)]
    priced = [CATALOG.platforms[gpu.platform].price is not None for gpu in gpus]
    assert priced == sorted(priced, reverse=True)
    years = [gpu.year or 0 for gpu, known in zip(gpus, priced, strict=True) if known]
    assert years == sorted(years, reverse=True)
    assert len(ask(gpu=[gpus[-1].key], gpus=64).clusters) == 0


def test_gpus_that_cannot_be_bought_are_asked_for_by_name_alone() -> None:
    sold = whole_catalog.sold(CATALOG)
    announced = [key for key, gpu in CATALOG.gpus.items() if gpu.status in EARLY]
    assert announced
    assert not set(announced) & set(sold)
    assert ask(gpu=announced[:1], gpus=1152).considered > 0


@pytest.mark.usefixtures("nothing_kept")
def test_the_first_visit_finds_what_was_worked_out_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_catalog, "sold", lambda _: ("l4",))
    steps = work_ahead(CATALOG)
    next(steps)
    visited = whole_catalog.whole_catalog(CloudQuestion(), CATALOG, stopped=lambda: True)
    assert 0 < visited.considered == whole_catalog.TOGETHER * len(networks_for("l4", CATALOG)) * 3
    assert not visited.complete
    assert len([*steps]) == 5  # 8, 16, … 16,384: 22 sizes, four at each step, the last step two
    assert whole_catalog.whole_catalog(CloudQuestion(), CATALOG, stopped=lambda: True).complete


@pytest.mark.usefixtures("nothing_kept")
def test_the_clusters_of_the_last_jobs_are_kept_in_some_fifty_bytes_each() -> None:
    for tokens in range(1, 2 * whole_catalog.MOST_JOBS):
        ask(gpu=["h100-sxm"], gpus=8, training_tokens=tokens * 1e12)
    assert len(whole_catalog._JOBS) == whole_catalog.MOST_JOBS
    job = [*whole_catalog._JOBS.values()][-1]
    (kept,) = job.kept.values()
    assert kept.rows.nbytes == 13 * 3 * 53
    assert len(kept.ways) == 1  # over any network the node runs the same way
