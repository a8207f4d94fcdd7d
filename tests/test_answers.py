"""The model version says which figures one has: they do not move without it.

The figures kept are what the model gave, not what is right: this is a regression test.
"""

import copy

import pytest

from tests import answers


@pytest.fixture(scope="module")
def today() -> tuple[str, answers.Answers]:
    return answers.asked(answers.kept()["answers"])


def test_no_figure_moves_while_the_model_version_stays(today: tuple[str, answers.Answers]) -> None:
    kept = answers.kept()
    version, figures = today
    message = answers.advice(kept["model_version"], version, answers.moved(kept["answers"], figures))
    assert not message, message


def test_the_kept_scenarios_are_many_and_mostly_computable() -> None:
    kept = answers.kept()
    assert kept["figures"] == list(answers.FIGURES)
    assert "" in kept["answers"]
    assert len(kept["answers"]) >= 200
    for place, figure in enumerate(answers.FIGURES):
        known = sum(row[place] is not None for row in kept["answers"].values())
        assert known > 0.6 * len(kept["answers"]), figure


def test_a_moved_figure_is_named_with_how_far_it_moved(today: tuple[str, answers.Answers]) -> None:
    version, figures = today
    doctored = copy.deepcopy(figures)
    place = answers.FIGURES.index("fabric.cost")
    low, typical, high = doctored[""][place]
    doctored[""][place] = [low, typical * 1.01, high]
    one = answers.moved(doctored, figures)
    assert [(change.figure, change.scenarios, change.query) for change in one] == [("fabric.cost", 1, "")]
    assert one[0].most == pytest.approx(0.01 / 1.01)
    assert "raise __version__" in answers.advice(version, version, one)
    assert "--write" in answers.advice("0.0.1", version, one)


def test_a_figure_that_can_no_longer_be_computed_has_moved(today: tuple[str, answers.Answers]) -> None:
    _, figures = today
    doctored = copy.deepcopy(figures)
    doctored[""][0] = None
    assert [change.figure for change in answers.moved(doctored, figures)] == [answers.FIGURES[0]]


def test_rounding_to_the_digits_of_the_file_is_no_move() -> None:
    assert answers.difference(1.000000000, 1.0000000004) < answers.SAME
    assert answers.difference([1.0, 2.0, 3.0], [1.0, 2.0, 3.00000001]) > answers.SAME


def test_the_figures_may_move_with_the_version_and_the_file_with_them(today: tuple[str, answers.Answers]) -> None:
    version, figures = today
    assert not answers.advice(version, version, answers.moved(figures, figures))
    assert "is of model version 0.0.1" in answers.advice("0.0.1", version, [])
