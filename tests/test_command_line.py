"""The command line answers as the service does."""

import json
from pathlib import Path

import pytest

from app import __version__
from app.__main__ import main
from app.catalog.load import FOLDER, load_catalog

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


def test_a_folder_of_overrides_that_is_not_there_is_named(
    overrides: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILYARD_OVERRIDES", str(overrides / "none"))
    assert main(["plan"]) == 2
    assert "RAILYARD_OVERRIDES" in capsys.readouterr().err


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
