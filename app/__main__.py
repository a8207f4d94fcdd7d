"""The command line: serve the pages, answer one scenario, hold the models against measurements, fit their constants."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from urllib.parse import urlencode

from app import __version__
from app.catalog.load import Catalog, load_catalog
from app.catalog.toml_files import CatalogError
from app.web import settings

KINDS = {
    "collectives": "collective_runs",
    "clusters": "whole_clusters",
    "fabric": "design_counts",
    "training": "training_runs",
    "serving": "serving_runs",
}
KEPT = Path(__file__).parent / "validation" / "measurements"
FEWEST_COLUMNS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 when it did what was asked."""
    parser = argparse.ArgumentParser(prog="python -m app", description=__doc__)
    parser.add_argument("--version", action="version", version=f"railyard {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve the pages and the API")
    serve.add_argument("--host", help="address to listen on")
    serve.add_argument("--port", type=_port, help="port to listen on; 0 picks a free one")
    plan = commands.add_parser("plan", help="answer one scenario as JSON")
    plan.add_argument(
        "fields",
        nargs="*",
        metavar="field=value",
        help="such as gpus=512 scale_out=roce-400, as in an address of the API",
    )
    accuracy = commands.add_parser("accuracy", help="predict every row of a file of published results")
    accuracy.add_argument("kind", choices=tuple(KINDS), help="what was measured")
    accuracy.add_argument(
        "file", type=Path, help=f"with the columns of {_shown(KEPT / 'KIND.csv')}; clusters as its clusters.toml"
    )
    accuracy.add_argument("--json", action="store_true", help="print the whole report as JSON")
    accuracy.add_argument("--leave-one-out", action="store_true", help="refit without each system or source in turn")
    accuracy.add_argument(
        "--calibrate",
        type=int,
        default=0,
        metavar="N",
        help="calibrate on every Nth row of a sweep, predict the others",
    )
    fit = commands.add_parser("fit", help="fit the constants to the published measurements")
    fit.add_argument(
        "what",
        choices=("collectives", "training", "serving", "left-out", "ledger"),
        help="whose constants; left-out and ledger write the errors that /accuracy shows of what no fit had seen",
    )
    fit.add_argument("--write", action="store_true", help="write the constants into the catalogue")
    options = parser.parse_args(arguments)
    try:
        status = _run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has enough, as head has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (settings.SettingsError, CatalogError) as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 2
    return status


def _port(text: str) -> int:
    """A port, as the setting takes it."""
    port = int(text)
    if not 0 <= port <= settings.MOST_PORT:
        raise argparse.ArgumentTypeError(f"{port} is no port; they go from 0 to {settings.MOST_PORT}")
    return port


def _run(options: argparse.Namespace) -> int:
    if options.command == "serve":
        from app.web.server import serve as run

        return run(options.host, options.port)
    if options.command == "plan":
        return _plan(options.fields, _catalog())
    if options.command == "fit":
        return _fit(options.what, options.write)
    if options.calibrate and (options.kind != "collectives" or options.calibrate < 2):
        print("railyard: --calibrate takes 2 or more, and collectives", file=sys.stderr)
        return 2
    report_options = {"calibrate_every": options.calibrate} if options.calibrate else {}
    return _accuracy(options, _catalog(), **report_options)


def _catalog() -> Catalog:
    """The catalogue with the operator's overrides, as the service answers with."""
    return load_catalog(settings.load().overrides)


def _plan(fields: Sequence[str], catalog: Catalog) -> int:
    from app.plan.scenario import Scenario
    from app.web import answers, problems, requests
    from app.web.responses import to_json

    pairs = [field.partition("=") for field in fields]
    if bare := [name for name, equals, _ in pairs if not equals]:
        print(f"{bare[0]}: write a field with its value, such as gpus=512", file=sys.stderr)
        return 2
    try:
        given = requests.query(urlencode([(name, value) for name, _, value in pairs]))
        scenario = requests.validate(Scenario, given, catalog, strict=False)
    except problems.ProblemError as error:
        for wrong in error.problem.errors:
            print(f"{wrong.pointer.removeprefix('#/')}: {wrong.detail}", file=sys.stderr)
        return 2
    sys.stdout.write(to_json(answers.plan_answer(scenario, catalog)).decode() + "\n")
    return 0


def _fit(what: str, save: bool) -> int:
    from app.validation import fit

    if what == "left-out":
        fit.write_left_out()
    else:
        makers = {
            "collectives": fit.fit_collectives,
            "training": fit.fit_training,
            "serving": fit.fit_serving,
            "ledger": fit.score_new_sources,
        }
        makers[what](save)
    return 0


def _accuracy(options: argparse.Namespace, catalog: Catalog, **report_options: int) -> int:
    module = import_module(f"app.validation.{KINDS[options.kind]}")
    if not options.file.is_file():
        print(f"{options.file}: no such file", file=sys.stderr)
        return 2
    try:
        _hold_columns(options.kind, options.file)
        report = module.report(options.file, catalog, leave_one_out=options.leave_one_out, **report_options)
    except ValueError as error:
        print(f"{options.file} is no file of {options.kind}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=1, allow_nan=False) if options.json else module.text(report))
    return 0


def _hold_columns(kind: str, file: Path) -> None:
    """Raise ValueError for a file that has not even three columns of what the catalogue keeps of its kind."""
    kept = KEPT / f"{kind}.csv"
    if not kept.exists():
        return
    wanted, given = (path.read_text(encoding="utf-8-sig").partition("\n")[0].strip() for path in (kept, file))
    if len({*wanted.split(",")} & {*given.split(",")}) < FEWEST_COLUMNS:
        raise ValueError(f"its first line has no columns of {_shown(kept)}, such as {wanted[:60].rpartition(',')[0]}")


def _shown(path: Path) -> str:
    """A path of the package as one writes it from the folder that the package stands in."""
    return str(path.relative_to(Path(__file__).parents[1]))


if __name__ == "__main__":
    sys.exit(main())
