"""No figure of an answer of any kind moves unnoticed; which are right is for other tests to say."""

from urllib.parse import parse_qsl

import numpy as np
import pytest

from app import Scenario
from tests import every_figure

ADVICE = (
    "`python -m tests.every_figure QUESTION` shows the figures of an answer. Where only fields are new, keep them with "
    "`python -m tests.every_figure --write`. Where figures were meant to move, raise __version__ in app/__init__.py "
    "and the version in pyproject.toml, run `python -m tests.answers --write`, and say in CHANGELOG.md what it prints."
)


@pytest.mark.parametrize("question", every_figure.kept(), ids=lambda question: str(question)[:100])
def test_no_figure_moves_unnoticed(question: str) -> None:
    moved = every_figure.moved(question)
    assert not moved, f"{moved}. {ADVICE}"


def test_answers_of_every_kind_are_kept() -> None:
    assert {question.partition("?")[0] for question in every_figure.kept()} == set(every_figure.KINDS)
    assert all(every_figure.kept().values())


def test_every_field_of_the_form_and_each_choice_of_it_is_asked_about() -> None:
    asked = {pair for question in every_figure.kept() for pair in parse_qsl(question.partition("?")[2])}
    for name, declared in Scenario.model_json_schema()["properties"].items():
        assert name in {field for field, _ in asked}
        kinds = (declared, *declared.get("anyOf", ()))
        boolean = any(kind.get("type") == "boolean" for kind in kinds)
        choices = {"true", "false"} if boolean else {choice for kind in kinds for choice in kind.get("enum", ())}
        assert {(name, choice) for choice in choices - {str(declared.get("default")).lower()}} <= asked


def test_one_figure_changed_among_thousands_moves_their_sum() -> None:
    values = np.geomspace(1e-6, 1e12, 5000)
    whole = every_figure.sum_of(values)
    changed = values.copy()
    changed[4321] *= 1 + 1e-4
    assert abs(every_figure.sum_of(changed) - whole) > every_figure.SAME * len(values)
    changed = values.copy()
    changed[[7, 8]] = changed[[8, 7]]
    assert abs(every_figure.sum_of(changed) - whole) > every_figure.SAME * len(values)
    assert abs(every_figure.sum_of(values * (1 + 1e-12)) - whole) < every_figure.SAME * len(values)
