"""The command line answers as the service does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import __version__
from app.__main__ import main
from app.catalog.load import FOLDER, load_catalog
from tests.conftest import ROOT

MEASUREMENTS = FOLDER.parent / "validation" / "measurements"


@pytest.fixture
def overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILYARD_OVERRIDES", str(tmp_path))
    return tmp_path


def test_a_plan_is_made_with_the_operators_overrides(overrides: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (overrides / "prices.toml").write_text(
        '[market.prices.gpu-hour-h100]\ntypical = "1 USD/h"\nunit = "USD/s"\nsource = "railyard-estimate"\n'
    )
    assert main(["plan", "gpus=512"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["catalog_version"] == load_catalog(overrides).version != load_catalog().version
    rent = plan["costs"]["rental"]["typical"] / plan["training"]["time_to_train"]["typical"]
    assert rent == pytest.approx(512 / 3600)


def test_accuracy_is_of_the_catalogue_with_the_operators_overrides(
    overrides: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["accuracy", "collectives", str(MEASUREMENTS / "collectives.csv")]
    assert main(arguments) == 0
    changed = capsys.readouterr().out
    (overrides / "collectives.toml").write_text(
        '[nvlink.usable_4]\nunit = "1"\ntypical = 0.1\nsource = "railyard-estimate"\n'
    )
    assert main(arguments) == 0
    assert capsys.readouterr().out != changed


@pytest.mark.parametrize("arguments", [["plan"], ["accuracy", "fabric", str(MEASUREMENTS / "fabric.csv")]])
def test_a_wrong_override_is_named_and_nothing_is_answered(
    overrides: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    (overrides / "gpus.toml").write_text('[h100-sxm]\npower = "12 bananas"\n')
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{overrides / 'gpus.toml'}:2: h100-sxm" in said.err


def test_a_file_of_another_kind_is_refused_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accuracy", "clusters", str(MEASUREMENTS / "fabric.csv")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "fabric.csv is no file of clusters: " in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["collectives", "fabric", "training", "serving"])
def test_a_table_without_the_columns_is_refused_and_not_skipped_row_by_row(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.csv").write_text("name,price\nH100,30000\n")
    assert main(["accuracy", kind, str(tmp_path / "notes.csv")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"notes.csv is no file of {kind}: its first line has no columns of" in said.err


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("gpus=twelve", "gpus: Type a whole number, for example 1024 or 16k.\n"),
        ("gpuss=8", "gpuss: There is no such field. The nearest is “gpus”; /docs lists all.\n"),
        ("512", "512: write a field with its value, such as gpus=512\n"),
        ("gpus= ", "gpus: Type a value, or leave the field out for its default.\n"),
    ],
)
def test_a_wrong_field_is_answered_as_the_service_does(
    field: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", field]) == 2
    assert capsys.readouterr() == ("", said)


def test_a_field_that_is_given_twice_is_refused_as_in_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "gpus=512", "gpus=1024"]) == 2
    assert capsys.readouterr() == ("", "gpus: Give this field once.\n")


def test_a_plan_that_serves_has_the_measurements_nearest_to_it_as_in_the_interface(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "workload=serving", "gpus=8", "gpu=h100-sxm"]) == 0
    assert json.loads(capsys.readouterr().out)["serving"]["nearest"]


def test_a_blank_field_has_its_default_as_in_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "gpus="]) == 0
    assert json.loads(capsys.readouterr().out)["scenario"]["gpus"] == 1024


def test_a_folder_of_overrides_that_is_not_there_is_named(
    overrides: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILYARD_OVERRIDES", str(overrides / "none"))
    assert main(["plan"]) == 2
    said = capsys.readouterr().err
    assert "RAILYARD_OVERRIDES" in said
    assert said.endswith(f": {overrides / 'none'} is not a folder\n")


def test_a_port_beyond_the_last_is_refused_and_not_taken_for_another(capsys: pytest.CaptureFixture[str]) -> None:
    # 99,999 is 34,463 in sixteen bits, where the server listened.
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "--port", "99999"])
    assert stopped.value.code == 2
    assert "99999 is no port" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"railyard {__version__}\n"


def test_a_reader_that_has_enough_ends_it_without_a_word() -> None:
    """As in `python -m app plan | head -n 1`: nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "app", "plan"]
    ended = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")
