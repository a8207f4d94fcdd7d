"""The registry of formulas: complete, sourced, and legible as MathML."""

import ast
import xml.etree.ElementTree as ElementTree
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.plan import result
from app.plan.band import declaration
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report import mathml, method
from app.report.equations import GROUPS, Formula, Symbol
from tests import reachable

TESTS = Path(__file__).parents[1]
ANSWERS = ("app.plan.", "app.studies.", "app.report.", "app.web.")
"""Where answers are made and shown. The page itself rests on everything that it lists; the checks make no answers."""
NO_FORMULAS = {
    # Arithmetic on numbers and arrays alike, and records with some fields changed.
    "arrays.any_", "arrays.between", "arrays.changes", "arrays.counted_off", "arrays.distinct", "arrays.grouped",
    "arrays.maximum", "arrays.minimum", "arrays.rounded", "arrays.shared", "arrays.typical_of", "arrays.where",
    "records.but", "records.each_but", "records.quickly_made",
    "fabric.ceil_divide", "fabric.ceil_of_ratio", "fabric.floor_of_ratio", "fabric.logical_not",
    # Choices between formulas that are listed, and collections of what they give.
    "collectives.choose", "collectives.compare", "collectives.shortest", "fabric.design_direct", "fabric.design_tree",
    "fabric.sampled_links", "fabric.taper_fits", "training.all_worth", "training.best", "training.best_of",
     "training.by_search", "training.enough", "training.exchanged_by", "training.families_of", "training.few",
     "training.given", "training.layer_axes", "training.layer_groups", "training.limit_of_lowest",
     "training.lowest_of_each", "training.of_rank", "training.promising_timed", "training.quickest_timed",
     "training.quickest_together", "training.time_of_rank",
    # What divides, and so can be run.
    "training.batch_divides", "training.divisors", "training.experts_divide", "training.gpus_divide",
    "training.heads_divide", "training.heads_exchange", "training.pairs_up", "training.sequence_divides",
    "training.shape_is_possible", "training.staged",
    # Columns of configurations.
    "training.blocks", "training.columns_at", "training.distinct", "training.joined", "training.written_out",
    # What is kept of formulas that are listed.
    "collectives.known_group_of", "collectives.known_pair_of",
    # Networks, machines and jobs side by side.
    "fabric.longest_runs", "fabric.stands_of", "training.alike", "training.link_rows", "training.row",
    "training.rows_of", "training.stacked", "training.stacked_links",
}  # fmt: skip
"""Public functions of the formulas that compute no quantity of the field."""


def key(name: reachable.Name) -> str:
    return f"{name.module.split('.')[2]}.{name.name}"


def keys_reached(*rooms: str) -> set[str]:
    """The public functions of the formulas that the code of some rooms rests on, as the page names them."""
    names = reachable.reached(rooms, past=("app.validation", "app.report.method"))
    return {key(name) for name in names & reachable.public_functions("app.formulas")}


def declared() -> set[str]:
    """The formulas that results name where they are declared."""
    records = [kind for kind in vars(result).values() if is_dataclass(kind)]
    declarations = [declaration(entry) for kind in records for entry in fields(kind)]
    return {entry.formula for entry in declarations if entry and entry.formula}


def listed(*, bounds: bool) -> set[str]:
    return {formula.key for formula in method.formulas().values() if (formula.group == "bounds") is bounds}


def test_every_formula_that_reaches_an_answer_is_on_the_page():
    assert keys_reached(*ANSWERS) - NO_FORMULAS - listed(bounds=False) == set()


def test_every_formula_on_the_page_reaches_an_answer():
    whole_plan = {formula.key for formula in method.formulas().values() if formula.group == "ranges"}
    assert listed(bounds=False) - keys_reached(*ANSWERS) - declared() - whole_plan == set()


def test_no_answer_rests_on_a_bound_and_tests_rest_on_each():
    used = {
        name
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [node.attr] if isinstance(node, ast.Attribute) else [node.id] if isinstance(node, ast.Name) else []
        )
    }
    assert listed(bounds=True) & keys_reached(*ANSWERS) == set()
    assert {name for name in listed(bounds=True) if name.partition(".")[2] not in used} == set()


@pytest.mark.parametrize("subject", ["collectives", "fabric", "transformer", "training", "serving", "costs"])
def test_no_public_function_of_the_formulas_is_left_without_use(subject: str):
    every = {key(name) for name in reachable.public_functions(f"app.formulas.{subject}")}
    assert every - keys_reached(*ANSWERS, "app.validation.") - listed(bounds=True) == set()


def test_what_is_called_no_formula_is_reached_and_not_on_the_page():
    assert keys_reached(*ANSWERS) >= NO_FORMULAS
    assert NO_FORMULAS & set(method.formulas()) == set()


def test_a_name_says_one_function_of_a_subject():
    keys = sorted(key(name) for name in reachable.public_functions("app.formulas"))
    assert keys == sorted(set(keys))


def test_every_result_names_a_formula_of_the_page():
    assert declared() <= set(method.formulas())


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(),
        Scenario(profile="ideal", algorithm="ring"),
        Scenario(profile="ideal", algorithm="tree"),
        Scenario(profile="ideal", algorithm="recursive-halving-doubling"),
        Scenario(profile="ideal", algorithm="hierarchical"),
        Scenario(profile="ideal", in_network_reduction=True),
    ],
    ids=lambda scenario: f"{scenario.profile}-{scenario.algorithm}",
)
def test_every_explanation_names_a_formula_of_the_page(scenario: Scenario):
    explanations = evaluate(scenario, load_catalog()).explanations
    assert explanations
    assert {explanation.formula for explanation in explanations.values()} <= set(method.formulas())


@pytest.mark.parametrize("formula", method.formulas().values(), ids=lambda formula: formula.key)
def test_a_formula_has_equation_words_and_source(formula: Formula):
    assert formula.title
    assert formula.text
    assert formula.source
    assert formula.group in GROUPS
    for equation in formula.mathml:
        root = ElementTree.fromstring(equation)
        assert root.tag.endswith("math")
        assert "".join(root.itertext()).strip()


def test_words_and_symbols_come_from_the_docstring():
    ring = method.formulas()["collectives.ring_all_reduce"]
    assert "2(n - 1) times" in ring.text[1]
    assert Symbol("latency", "time before the first byte of a step arrives, α", "s") in ring.symbols
    assert "Patarasuk" in ring.source


def test_a_formula_of_one_record_has_its_fields_for_symbols():
    design = method.formulas()["fabric.design"]
    assert Symbol("rails", "hosts a node has in each plane, R", "1") in design.symbols


def test_no_paragraph_of_the_page_announces_an_example_that_is_not_shown():
    announced = [text for formula in method.formulas().values() for text in formula.text if text.endswith(":")]
    assert announced == []


def test_a_formula_is_found_by_the_name_of_its_function():
    assert method.find("ring-all-reduce") is method.formulas()["collectives.ring_all_reduce"]
    assert method.find("no-such-formula") is None


def test_fractions_roots_and_scripts_nest():
    assert mathml.inline(r"\frac{x_1^2}{\sqrt{y}}") == (
        "<mfrac><msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup><msqrt><mi>y</mi></msqrt></mfrac>"
    )


@pytest.mark.parametrize("wrong", [r"\frac{a}", "{a", "a}", r"\sqroot{a}", "a_"])
def test_a_misspelt_formula_is_an_error(wrong: str):
    with pytest.raises(mathml.MathError):
        mathml.inline(wrong)


@given(st.text(alphabet="abcxyz0189 +-/()_^{}<>&αβ⌈⌉", max_size=30))
def test_whatever_renders_is_well_formed(tex: str):
    try:
        rendered = mathml.render(tex)
    except mathml.MathError:
        return
    ElementTree.fromstring(rendered)
