"""The registry of formulas: complete, sourced, and legible as MathML."""

import ast
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.report import mathml, method

FORMULAS = Path(method.__file__).parents[1] / "formulas"
MODULES = ("collectives", "fabric", "transformer", "training", "costs")
HELPERS = {
    # Choices between formulas that are listed, and the plumbing of arrays.
    "collectives": {"group", "choose", "compare", "collective_time", "all_reduce", "all_gather", "reduce_scatter",
                    "all_to_all", "broadcast"},
    "fabric": {"ceil_divide", "floor_of_ratio", "logical_not", "design_tree", "design_direct"},
}  # fmt: skip


def public_functions(module: str) -> set[str]:
    places = [FORMULAS.joinpath(*place.split(".")).with_suffix(".py") for place in method.PLACES[module]]
    return {
        node.name
        for place in places
        for node in ast.parse(place.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    } - HELPERS.get(module, set())


@pytest.mark.parametrize("module", MODULES)
def test_every_formula_of_a_module_is_on_the_page(module: str):
    listed = {key.partition(".")[2] for key in method.formulas()}
    assert public_functions(module) <= listed


@pytest.mark.parametrize("formula", method.formulas().values(), ids=lambda formula: formula.key)
def test_a_formula_has_equation_words_and_source(formula: method.Formula):
    assert formula.title
    assert formula.text
    assert formula.source
    assert formula.group in method.GROUPS
    for equation in formula.mathml:
        root = ElementTree.fromstring(equation)
        assert root.tag.endswith("math")
        assert "".join(root.itertext()).strip()


def test_words_and_symbols_come_from_the_docstring():
    ring = method.formulas()["collectives.ring_all_reduce"]
    assert "2(n - 1) times" in ring.text[1]
    assert method.Symbol("latency", "time before the first byte of a step arrives, α", "s") in ring.symbols
    assert "Patarasuk" in ring.source


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
