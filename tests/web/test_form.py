"""The form: controls made from a scenario's fields, and texts that read back as the value they were written from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import units
from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario, group_of
from app.studies.sizing import Question
from app.web import form, templating

CATALOG = load_catalog()


def control(name: str, *pairs: tuple[str, str], resolved: dict[str, Any] | None = None) -> form.Control:
    made = form.form(form.bind(pairs, CATALOG), CATALOG, resolved)
    return next(one for group in made.groups for one in (*group.first, *group.rest) if one.name == name)


def test_every_field_of_a_scenario_is_a_control_in_a_group() -> None:
    made = form.form(form.bind([], CATALOG), CATALOG)
    names = [one.name for group in made.groups for one in (*group.first, *group.rest)]
    served = {name for name, group in group_of(Scenario).items() if group == "serving"} - {"workload"}
    assert sorted(names) == sorted(set(Scenario.model_fields) - served)
    assert {one.name for group in made.groups for one in group.first} == form.FIRST


def test_a_field_of_the_catalogue_offers_its_entries_in_families() -> None:
    families = dict(control("scale_out").options)
    assert "infiniband-ndr" in [option.value for option in families["InfiniBand"]]
    assert {"Ethernet with RoCE", "Ethernet with TCP"} <= families.keys()


def test_what_goes_with_the_rest_of_the_plan_comes_first() -> None:
    scenario = Scenario().model_dump() | {"platform": "hgx-h100", "scale_up": "nvlink-4"}
    blank, first, *_ = control("switch", resolved=scenario).options
    assert blank[1][0].value == ""
    assert first[0] == "For InfiniBand NDR 400"
    assert "qm9700" in [option.value for option in first[1]]


def test_a_blank_choice_names_what_stands_for_it() -> None:
    resolved = Scenario().model_dump() | {"scale_up": "nvlink-4", "sequence_parallel": True}
    assert control("scale_up", resolved=resolved).options[0][1][0].label == "Automatic: NVLink 4"
    assert control("sequence_parallel", resolved=resolved).options[0][1][0].label == "Automatic: Yes"


def test_only_fields_that_ask_for_something_are_marked_and_unfolded() -> None:
    assert not control("gpus").changed
    assert control("gpus", ("gpus", "64")).changed
    groups = {group.key: group for group in form.form(form.bind([("tensor_parallel", "8")], CATALOG), CATALOG).groups}
    assert groups["parallelism"].open
    assert not groups["prices"].open


def test_a_part_named_as_people_call_it_is_the_choice_in_its_list() -> None:
    assert control("gpu", ("gpu", "B200")).value == "b200-sxm"
    assert control("gpus", ("gpus", "2k")).value == "2k"


def test_errors_come_in_the_order_of_the_form() -> None:
    made = form.form(form.bind([("price_nic", "cheap"), ("gpus", "0"), ("colour", "red")], CATALOG), CATALOG)
    assert [name for name, _, _ in made.errors] == ["gpus", "price_nic", ""]
    assert "more than" in made.errors[0][2] or "at least 1" in made.errors[0][2]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("training_tokens", 15e12, "15T"),
        ("message", 268435456.0, "268435456"),  # 256 MiB has no round decimal prefix
        ("electricity", 0.08 / 3.6e6, "$0.08/kWh"),
        ("lifetime", 4 * 365.25 * 86400.0, "4 years"),
        ("price_switch", 35000.0, "$35K"),
        ("oversubscription", 2.0, "2:1"),
    ],
)
def test_values_are_written_as_one_types_them(name: str, value: float, text: str) -> None:
    written = form.texts(Scenario(**{name: value})).get(name, "15T" if name == "training_tokens" else "")
    assert getattr(Scenario(**{name: written}), name) == pytest.approx(value, rel=1e-12)
    assert written == text


@given(st.floats(1e-12, 1e15), st.sampled_from(sorted(units.UNITS)))
def test_what_is_written_reads_back_as_the_same(value: float, unit: str) -> None:
    assert units.parse(form.written(value, unit), unit) == pytest.approx(value, rel=1e-12)


def test_a_question_takes_several_candidates() -> None:
    asked = form.bind([("gpu", "h100-sxm"), ("gpu", "b200-sxm")], CATALOG, kind=Question, repeatable=frozenset({"gpu"}))
    assert asked.scenario is not None
    assert asked.scenario.gpu == ("h100-sxm", "b200-sxm")
    chosen = form.choices(asked, CATALOG, "gpu")
    assert chosen.chosen == ("b200-sxm", "h100-sxm")  # as the boxes stand, newest first
    assert any(option.value == "h200-sxm" for _, options in chosen.groups for option in options)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("attention_kernel", ["Unfused", "Flash (open kernel)", "TE fused (Transformer Engine)", "SDPA (PyTorch)"]),
        ("dispatcher", ["All-to-all", "All-gather", "DeepEP", "HybridEP"]),
        ("congestion_control", ["ECN", "The network’s own", "None"]),
        ("media", ["Copper", "AEC", "AOC", "Fibre", "LRO", "LPO"]),
        ("offload", ["None", "Activations", "Optimizer", "Activations and optimizer"]),
    ],
)
def test_choices_are_in_words(name: str, labels: list[str]) -> None:
    automatic, *choices = [option.label for _, options in control(name).options for option in options]
    assert automatic == "Automatic"
    assert choices == labels


def test_what_the_software_does_is_folded_away() -> None:
    groups = {group.key: group for group in form.form(form.bind([], CATALOG), CATALOG).groups}
    assert not groups["software"].first
    assert not groups["software"].open


def test_a_ratio_is_shown_as_one(client):
    assert form.shown("oversubscription", 2.0, CATALOG) == "2:1"
    assert client.get("/?oversubscription=2").status_code == 200
    wrong = client.get("/api/v1/plan?oversubscription=1:2").json()["errors"][0]
    assert wrong == {"pointer": "#/oversubscription", "detail": "Type a ratio of 1:1 or more, such as 2:1."}


def test_lists_begin_with_the_newest_that_is_on_sale() -> None:
    made = form.form(form.bind([], CATALOG), CATALOG)
    gpus = next(control for group in made.groups for control in group.first if control.name == "gpu")
    (vendor, cards), *_ = gpus.options
    assert vendor == "NVIDIA"
    years = [CATALOG.gpus[card.value].year or 0 for card in cards]
    sold = [year for card, year in zip(cards, years, strict=True) if CATALOG.gpus[card.value].status == "shipping"]
    assert sold == sorted(sold, reverse=True)
    assert years[: len(sold)] == sold  # what is announced stands below
    assert len(sold) < len(years)


def test_a_model_given_by_its_size_is_a_shape_of_ones_own_with_its_parameters() -> None:
    assert control("model", ("model", "100B")).value == "custom"
    assert control("parameters", ("model", "100B")).value == "100B"
    assert control("model", ("layers", "40")).value == "custom"


QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "gpus": st.sampled_from(["64", "64.0", "1k", "twelve", "0"]),
        "gpu": st.sampled_from(["gb200", "MI300X", "no-such"]),
        "scale_out": st.sampled_from(["roce-400", "infiniband-ndr"]),
        "electricity": st.sampled_from(["0.08 USD/kWh", "3e-8", "3E-8"]),
        "tuned": st.sampled_from(["true", "yes", "0", "1"]),
        "oversubscription": st.sampled_from(["2", "2:1", "2.0"]),
    },
)


@given(several=st.lists(QUERIES, min_size=2, max_size=4))
def test_a_control_that_was_kept_is_what_it_would_be_if_made_anew(several: list[dict[str, str]]) -> None:
    def drawn(query: dict[str, str]) -> list[str]:
        bound = form.bind(query.items(), CATALOG)
        resolved = evaluate(bound.scenario, CATALOG).scenario if bound.scenario else None
        return [
            templating.control(field)
            for group in form.form(bound, CATALOG, resolved).groups
            for field in (*group.first, *group.rest)
        ]

    kept = [drawn(query) for query in several]
    for query, before in zip(several, kept, strict=True):
        form._control_of.cache_clear()
        templating.control.cache_clear()
        assert drawn(query) == before


def test_fields_that_did_not_change_are_not_drawn_again() -> None:
    def fields(**asked: str) -> dict[str, form.Control]:
        groups = form.form(form.bind(asked.items(), CATALOG), CATALOG).groups
        return {field.name: field for group in groups for field in (*group.first, *group.rest)}

    one, other = fields(gpus="64"), fields(gpus="128")
    assert {name for name in one if one[name] is not other[name]} == {"gpus"}
    assert templating.control(one["gpu"]) is templating.control(other["gpu"])


def test_a_year_is_shown_without_thousands() -> None:
    assert form.shown("software_date", 2024.3, CATALOG) == "2024.3"
    assert form.shown("training_tokens", 2024.0, CATALOG) == "2,024"
