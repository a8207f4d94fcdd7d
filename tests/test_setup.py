"""The repository as a stranger finds it: locks, rooms, deployment files, README."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from app.web import settings

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements.lock", "requirements-dev.lock")


@pytest.mark.parametrize("name", LOCKS)
def test_locks_hold_versions_and_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"(https?|file|git\+\w+)://|--(extra-)?index-url|--find-links|^-e ", text, re.MULTILINE)
    pins = re.findall(r"^([\w.-]+(?:\[[\w,-]+\])?)==", text, re.MULTILINE)
    blocks = re.split(r"^(?=[\w.-]+(?:\[[\w,-]+\])?==)", text, flags=re.MULTILINE)[1:]
    assert len(pins) == len(blocks) > 20
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_development_lock_holds_the_same_versions_as_the_product() -> None:
    pinned = [dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE)) for name in LOCKS]
    assert pinned[0].items() <= pinned[1].items()


def test_every_dependency_is_locked() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locked = (ROOT / "requirements.lock").read_text()
    for requirement in project["project"]["dependencies"]:
        name = re.split(r"[<>=; ]", requirement)[0]
        assert re.search(rf"^{re.escape(name)}(\[[\w,-]+\])?==", locked, re.MULTILINE), name


def test_no_two_modules_share_a_name() -> None:
    names = Counter(path.stem for path in (ROOT / "app").rglob("*.py") if not path.stem.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_nothing_needed_only_now_and_then_is_loaded_at_start() -> None:
    seldom = "plotly", "xlsxwriter", "scipy", "pydantic.v1"
    code = f"import sys, app.web.server; print(*(m for m in {seldom} if m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_the_compose_file_fits_its_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, "deploy/compose.yaml"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_kubernetes_manifests_fit_their_schemas() -> None:
    import kubernetes_validate

    documents = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()))
    assert {one["kind"] for one in documents} >= {"Deployment", "Service", "HorizontalPodAutoscaler"}
    for one in (*documents, *yaml.safe_load_all((ROOT / "deploy/dask.yaml").read_text())):
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_deployments_only_set_what_there_is() -> None:
    known = {f"{settings.PREFIX}{name}".upper() for name in settings.Settings.model_fields}
    for path in (ROOT / "deploy/compose.yaml", ROOT / "deploy/kubernetes.yaml", ROOT / "Dockerfile"):
        assert set(re.findall(r"RAILYARD_[A-Z_]+", path.read_text())) - {"RAILYARD_PORT"} <= known, path


def settings_table() -> str:
    """The table of the README, from the settings themselves."""
    rows = ["| variable | default | what |", "|---|---|---|"]
    for name, field in settings.Settings.model_fields.items():
        default = field.default
        shown = (
            "" if default in (None, "", ()) else f"`{str(default).lower() if isinstance(default, bool) else default}`"
        )
        rows.append(f"| `{settings.PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(rows)


def test_the_readme_lists_every_setting() -> None:
    written = re.search(r"<!-- settings -->\n(.*?)\n?<!-- /settings -->", (ROOT / "README.md").read_text(), re.DOTALL)
    assert written is not None
    assert written[1] == settings_table()


def test_no_page_or_script_names_another_host() -> None:
    for path in [
        *(ROOT / "templates").rglob("*.html"),
        *(ROOT / "static").rglob("*.js"),
        *(ROOT / "static").rglob("*.css"),
    ]:
        found = re.findall(r"(?:src|href|url|fetch|import)\W{1,3}(https?:)?//[^\s\"')]+", path.read_text())
        assert not found, path


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"RAILYARD_PORT": "eighty"}, "RAILYARD_PORT='eighty'"),
        ({"RAILYARD_PRT": "80"}, "RAILYARD_PRT: no such setting"),
        ({"RAILYARD_OVERRIDES": "/nowhere"}, "/nowhere is not a folder"),
        ({"RAILYARD_ROOT_PATH": "railyard/"}, "RAILYARD_ROOT_PATH"),
        ({"RAILYARD_TIME_LIMIT": "0"}, "RAILYARD_TIME_LIMIT"),
        ({"RAILYARD_EMBED_ORIGINS": "wiki.example; script-src *"}, "wiki.example; script-src * is not a site"),
    ],
)
def test_a_wrong_setting_stops_the_start(
    variables: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(settings.SettingsError, match=re.escape(sentence)):
        settings.load()


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILYARD_CORS_ORIGINS", "https://a.example, https://b.example")
    monkeypatch.setenv("RAILYARD_OVERRIDES", str(tmp_path))
    monkeypatch.setenv("RAILYARD_SERVICE_HOST", "10.0.0.1")  # what Kubernetes adds is no mistake of the operator
    found = settings.load()
    assert found.cors_origins == ("https://a.example", "https://b.example")
    assert found.overrides == tmp_path
