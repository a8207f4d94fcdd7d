"""What the reader asks, and what is said when it cannot be understood."""

import json
import pickle
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from pydantic import ValidationError

from app.catalog.entries import marked
from app.catalog.load import ENTRIES, KEY, load_catalog
from app.catalog.names import entries_called
from app.catalog.toml_files import CatalogError
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate
from app.plan.scenario import ClusterRequest, Key, NetworkRequest, Scenario, UnknownKeyError, check_presets
from app.studies.sizing import Question, size

CATALOG = load_catalog()


def complaint(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Scenario.model_validate(fields, context={"catalog": CATALOG})
    return caught.value.errors()[0]["msg"]


def test_a_bare_scenario_is_the_default_cluster() -> None:
    scenario = Scenario()
    assert (scenario.gpu, scenario.gpus, scenario.scale_out, scenario.model) == (
        "h100-sxm",
        1024,
        "infiniband-ndr",
        "llama-3-70b",
    )
    assert scenario.query() == ""


def test_blank_means_the_default_so_that_an_empty_form_field_is_no_error() -> None:
    assert Scenario.model_validate({"gpus": "", "tensor_parallel": " ", "message": ""}) == Scenario()


def test_text_with_a_unit_is_welcome() -> None:
    scenario = Scenario.model_validate({"message": "256 MiB", "training_tokens": "2T", "price_gpu_hour": "3.6 USD/h"})
    assert (scenario.message, scenario.training_tokens, scenario.price_gpu_hour) == (256 * 2**20, 2e12, 0.001)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("gpus", "2,048", 2048),
        ("gpus", "2k", 2000),
        ("global_batch", "1.5 thousand", 1500),
        ("sequence_length", "4Ki", 4096),
        ("oversubscription", "2:1", 2.0),
        ("oversubscription", "3", 3.0),
        ("gpu", "H200", "h200-sxm"),
        ("gpu", "H100 NVL", "h100-nvl"),
        ("gpu", "A100", "a100-sxm"),
        ("model", "Llama 3 8B", "llama-3-8b"),
        ("scale_out", "Infiniband HDR 200", "infiniband-hdr"),
    ],
)
def test_what_people_write_is_read(name: str, text: str, value: Any) -> None:
    assert getattr(Scenario.model_validate({name: text}, context={"catalog": CATALOG}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("gpus", "1.5", "Type a whole number"),
        ("gpus", "1.0001k", "Type a whole number"),
        ("gpus", "100 %", "Type a whole number"),
        ("oversubscription", "two", "such as 2:1"),
        ("oversubscription", "2:0", "such as 2:1"),
        ("price_node", "€290,000", "US dollars"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused(name: str, text: str, advice: str) -> None:
    assert advice in complaint(**{name: text})


@pytest.mark.parametrize(("name", "text"), [("gpus", "1k"), ("oversubscription", "2:1")])
def test_where_numbers_have_a_type_of_their_own_text_is_none(name: str, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Scenario.model_validate({name: text}, strict=True)
    assert caught.value.errors()[0]["type"] in ("int_type", "float_type")


def test_no_two_gpus_are_called_the_same_for_short() -> None:
    short = [entry.short for entry in CATALOG.gpus.values() if entry.short]
    assert len(short) == len(set(short)) == 8


def test_an_unknown_key_is_answered_with_its_neighbours() -> None:
    assert "Did you mean h100-sxm" in complaint(gpu="h100-sxn")
    assert "infiniband-ndr" in complaint(scale_out="infiniband")


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("gpu", "NVIDIA H100", "h100-sxm"),
        ("gpu", "H100 SXM5 80GB", "h100-sxm"),
        ("gpu", "A100-SXM4-40GB", "a100-40g-sxm"),
        ("gpu", "A100 80 GB", "a100-sxm"),
        ("gpu", "AMD MI300X", "mi300x"),
        ("gpu", "NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("gpu", "AMD Instinct MI300X OAM", "mi300x"),
        ("gpu", "Tesla V100", "v100-sxm"),
        ("scale_out", "NDR", "infiniband-ndr"),
        ("scale_out", "RoCE 400", "roce-400"),
        ("model", "Llama-3.3-70B", "llama-3-70b"),
        ("model", "DeepSeek R1", "deepseek-v3"),
        ("model", "deepseek-ai/DeepSeek-R1-0528", "deepseek-v3"),
        ("model", "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen-3-235b-a22b"),
        ("model", "Qwen3 235B", "qwen-3-235b-a22b"),
        ("model", "QwQ-32B", "qwen-2.5-32b"),
        ("model", "GLM 4.6", "glm-4.5"),
        ("model", "Kimi K2 Thinking", "kimi-k2"),
        ("model", "MiniMax-M2.1", "minimax-m2.5"),
        ("model", "Command R", "command-r-35b"),
        ("model", "command r+", "command-r-plus"),
        ("switch", "QM9700", "qm9700"),
    ],
)
def test_an_entry_is_known_by_what_people_call_it(name: str, text: str, key: str) -> None:
    assert getattr(Scenario.model_validate({name: text}, context={"catalog": CATALOG}), name) == key


def test_of_several_models_those_of_that_name_come_first() -> None:
    """Not Llama 3 70B, which DeepSeek-R1-Distill-Llama-70B has the shape of."""
    assert "Did you mean deepseek-v2 or deepseek-v3" in complaint(model="deepseek")


@pytest.mark.parametrize("kind", ENTRIES)
def test_every_name_of_an_entry_is_of_that_entry_alone(kind: str) -> None:
    entries = CATALOG.kind(kind)
    for key, entry in entries.items():
        for name in (key, getattr(entry, "name", key), *getattr(entry, "also", ())):
            assert entries_called(name, entries) == (key,), name


@pytest.mark.parametrize(
    ("text", "gpu", "platform"),
    [
        ("GB200 NVL72", "gb200", "gb200-nvl72"),
        ("DGX H100", "h100-sxm", "dgx-h100"),
        ("p5.48xlarge", "h100-sxm", "aws-p5"),
    ],
)
def test_a_server_in_the_place_of_a_gpu_means_both(text: str, gpu: str, platform: str) -> None:
    named = Scenario.model_validate({"gpu": text}, context={"catalog": CATALOG})
    assert (named.gpu, named.platform) == (gpu, platform)
    assert "is not in the catalogue" in complaint(gpu=text, platform="hgx-b200")


def test_a_name_of_several_entries_is_answered_with_them() -> None:
    assert "Did you mean mixtral-8x7b or mixtral-8x22b?" in complaint(model="Mixtral")
    assert "Did you mean spectrum-x-400 or spectrum-x-800?" in complaint(scale_out="Spectrum-X")


@pytest.mark.parametrize("name", marked(Scenario, Key))
def test_a_scenario_that_never_met_a_catalogue_has_its_keys_checked_by_the_one_it_is_evaluated_with(name: str) -> None:
    example = marked(Scenario, Key)[name].example
    scenario = Scenario.model_validate({name: example + "x"})
    for answer in (evaluate, look_up):
        with pytest.raises(
            UnknownKeyError, match=f"^{name}: “{example}x” is not in the catalogue. Did you mean .*{example}"
        ):
            answer(scenario, CATALOG)


def test_a_candidate_that_never_met_a_catalogue_is_checked_too() -> None:
    with pytest.raises(UnknownKeyError, match=r"^gpu: “h100-sxn” is not in the catalogue\. Did you mean h100-sxm"):
        size(Question(gpu=("h200-sxm", "h100-sxn")), CATALOG)


def test_the_schema_of_a_key_is_open_text_with_an_example_that_is_in_the_catalogue() -> None:
    keys = marked(Scenario, Key)
    assert set(keys) == {
        "gpu",
        "platform",
        "scale_up",
        "scale_out",
        "switch",
        "spine_switch",
        "model",
        "stack",
        "engine",
        "price_book",
        "region",
    }
    for name, key in keys.items():
        assert key.example in key.keys(CATALOG), name
        assert all(re.fullmatch(KEY, known) for known in key.keys(CATALOG)), name
    assert "enum" not in str(Scenario.model_json_schema()["properties"]["gpu"])


@pytest.mark.parametrize(
    "fields",
    [
        {"gpus": "twelve"},
        {"gpus": 0},
        {"gpus": -1},
        {"gpus": 1e30},
        {"gpus": "nan"},
        {"message": "12 bananas"},
        {"message": -1},
        {"message": "nan"},
        {"oversubscription": 0.5},
        {"training_tokens": 0},
        {"nonsense": 1},
        {"precision": "fp2"},
        {"jitter": "inf"},
    ],
)
def test_what_cannot_be_understood_is_refused(fields: dict[str, Any]) -> None:
    assert complaint(**fields)


def test_a_model_of_ones_own_says_what_it_lacks() -> None:
    part = Scenario.model_validate({"layers": 2, "hidden": 128})
    assert part.model == "custom"
    assert part.borrowed() == ("heads", "ffn_hidden", "vocabulary")
    own = Scenario.model_validate({"layers": 2, "hidden": 128, "heads": 4, "vocabulary": 1000, "ffn_hidden": 512})
    assert own.model == "custom"
    assert own.borrowed() == ()


def test_the_query_holds_only_what_differs_and_leads_back_to_the_same_scenario() -> None:
    scenario = Scenario.model_validate(
        {
            "gpus": 512,
            "scale_out": "roce-400",
            "message": "1 GiB",
            "tuned": "false",
            "jitter": 0.02,
            "electricity": 1.5e-8,
        }
    )
    query = scenario.query()
    assert set(dict(parse_qsl(query))) == {"gpus", "scale_out", "message", "tuned", "jitter", "electricity"}
    assert Scenario.model_validate(dict(parse_qsl(query))) == scenario


def test_every_field_has_a_title_and_a_place_on_the_form() -> None:
    for name, field in Scenario.model_fields.items():
        assert field.title, name
        assert isinstance(field.json_schema_extra, dict), name
        assert field.json_schema_extra["group"], name


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("presets", '[superpod-h100.scenario]\ngpus = "twelve"\n', ":2: superpod-h100: gpus: Type a whole number"),
        ("presets", '[superpod-h100.scenario]\ncolour = "red"\n', ":2: superpod-h100: colour: Extra inputs"),
        ("presets", '[superpod-h100.scenario]\ngpu = "h100-sxn"\n', ":2: superpod-h100: gpu: “h100-sxn” is not in the"),
    ],
)
def test_a_preset_that_cannot_be_asked_stops_the_start(tmp_path: Path, file: str, text: str, words: str) -> None:
    (tmp_path / f"{file}.toml").write_text(text)
    with pytest.raises(CatalogError) as raised:
        check_presets(load_catalog(tmp_path))
    assert str(raised.value).startswith(f"{tmp_path / file}.toml{words}")


def test_no_model_of_the_catalogue_is_called_as_one_of_ones_own(tmp_path: Path) -> None:
    shape = CATALOG.files.tables("models")["llama-3-8b"]
    lines = [f"{name} = {json.dumps(value)}" for name, value in shape.items() if not isinstance(value, dict)]
    (tmp_path / "models.toml").write_text("[custom]\n" + "\n".join(lines) + "\n[custom.parameters]\ntypical = 8e9\n")
    with pytest.raises(CatalogError, match=r"models\.toml:1: custom: is what a model of one's own is called"):
        check_presets(load_catalog(tmp_path))


def test_a_model_may_be_given_by_its_size() -> None:
    for text in ("100B", "100b", "100 B", "0.1T"):
        asked = Scenario.model_validate({"model": text}, context={"catalog": CATALOG})
        assert (asked.model, asked.parameters) == ("custom", pytest.approx(100e9)), text
    assert Scenario(parameters=7e9).model == "custom"


@pytest.mark.parametrize("text", ["70B-moe", "8x7B", "1T-a32b"])
def test_a_mixture_of_experts_has_no_shape_by_rule(text: str) -> None:
    said = complaint(model=text)
    assert said.startswith(f"“{text}” is no model of the catalogue")
    assert "of a mixture of experts give the shape" in said


def test_a_size_goes_with_no_preset_no_experts_and_no_other_size() -> None:
    for asked in (
        {"model": "llama-3-8b", "parameters": 9e9},
        {"model": "70B", "experts": 8},
    ):
        assert "of a dense model of your own alone" in complaint(**asked)
    assert "500" in complaint(parameters="1M")


@pytest.mark.parametrize("model", load_catalog().models)
def test_what_a_plan_was_asked_can_be_asked_again_for_every_model(model: str) -> None:
    catalog = load_catalog()
    plan = evaluate(Scenario(model=model, gpus=256), catalog, ())
    asked = {name: value for name, value in plan.scenario.items() if value is not None}
    again = evaluate(Scenario.model_validate(asked, context={"catalog": catalog}), catalog, ())
    assert again.training.step_time == plan.training.step_time
    assert again.memory.total == plan.memory.total


def test_a_copy_of_a_question_has_parts_of_its_own() -> None:
    asked = Scenario(gpus=64)
    part = asked.part(NetworkRequest)
    changed = asked.model_copy(update={"topology": "fat-tree"})
    assert changed.part(NetworkRequest).topology == "fat-tree"
    assert asked.part(NetworkRequest) is part
    assert asked == Scenario(gpus=64)
    assert pickle.loads(pickle.dumps(asked)).part(NetworkRequest) == part


def test_a_part_of_a_question_is_as_if_it_had_been_asked_for_alone() -> None:
    part = Scenario(gpus=64, gpus_per_node=4).part(ClusterRequest)
    alone = ClusterRequest(gpus=64, gpus_per_node=4)
    assert (part, hash(part), repr(part)) == (alone, hash(alone), repr(alone))
    assert part.model_dump() == alone.model_dump()
    assert pickle.loads(pickle.dumps(part)) == part
    assert part.model_copy(update={"gpus": 128}) == ClusterRequest(gpus=128, gpus_per_node=4)
