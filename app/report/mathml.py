"""Formulas as MathML, from a small part of TeX.

Known: ``\\frac{a}{b}``, ``\\sqrt{a}``, ``\\text{words}``, scripts ``x_i^2``, braces for groups. A run of letters is one
name; everything else stands for itself. A misspelt command is an error.

>>> render("T = 2 n \\\\frac{S}{B}")[-62:]
'<mn>2</mn><mi>n</mi><mfrac><mi>S</mi><mi>B</mi></mfrac></math>'
"""

import re
from html import escape

_TOKEN = re.compile(r"\\[A-Za-z]+|[A-Za-z]+|[0-9][0-9.,]*[0-9]|[0-9]|\s+|.", re.DOTALL)
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_FENCES = frozenset("()[]⌈⌉⌊⌋|")


class MathError(ValueError):
    """A formula is misspelt."""


def render(tex: str) -> str:
    """A ``math`` element, set as a block."""
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{inline(tex)}</math>'


def inline(tex: str) -> str:
    """The inside of a ``math`` element."""
    texts: list[str] = []

    def keep(match: re.Match[str]) -> str:
        texts.append(match[1])
        return f"\x00{len(texts) - 1}\x00"

    reader = TexParser(_tokens(_TEXT.sub(keep, tex)), texts)
    rendered = "".join(reader.row(""))
    if reader.rest():
        raise MathError(f"unbalanced braces in {tex!r}")
    return rendered


def _tokens(tex: str) -> list[str]:
    return [match[0] for match in re.finditer(r"\x00\d+\x00|" + _TOKEN.pattern, tex, re.DOTALL) if match[0].strip()]


class TexParser:
    def __init__(self, tokens: list[str], texts: list[str]) -> None:
        self.tokens = tokens
        self.texts = texts
        self.place = 0

    def rest(self) -> bool:
        return self.place < len(self.tokens)

    def peek(self) -> str:
        return self.tokens[self.place] if self.rest() else ""

    def take(self) -> str:
        token = self.peek()
        self.place += 1
        return token

    def row(self, end: str) -> list[str]:
        """Everything up to ``end``, an element each."""
        parts: list[str] = []
        while self.rest() and self.peek() != end:
            if self.peek() == "}":
                raise MathError("a brace closes that was not opened")
            parts.append(self.scripted())
        return parts

    def group(self) -> str:
        """One argument: a braced group, or a single atom."""
        if self.peek() != "{":
            return self.atom()
        self.take()
        inside = self.row("}")
        if self.take() != "}":
            raise MathError("a brace is not closed")
        return inside[0] if len(inside) == 1 else f"<mrow>{''.join(inside)}</mrow>"

    def scripted(self) -> str:
        """An atom with the scripts that follow it."""
        base = self.group()
        scripts: dict[str, str] = {}
        while self.peek() in ("_", "^"):
            script = self.take()
            scripts[script] = self.group()
        below, above = scripts.get("_", ""), scripts.get("^", "")
        if below and above:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        if below:
            return f"<msub>{base}{below}</msub>"
        return f"<msup>{base}{above}</msup>" if above else base

    def atom(self) -> str:
        sign = self.take()
        if not sign:
            raise MathError("the formula breaks off")
        if sign[0] == "\x00":
            words = self.texts[int(sign.strip("\x00"))].replace(" ", "\u00a0")  # plain spaces collapse at the ends
            return f"<mtext>{escape(words)}</mtext>"
        if sign == "\\frac":
            return f"<mfrac>{self.group()}{self.group()}</mfrac>"
        if sign == "\\sqrt":
            return f"<msqrt>{self.group()}</msqrt>"
        if sign[0] == "\\":
            raise MathError(f"unknown command {sign}")
        if sign[0].isdigit():
            return f"<mn>{sign}</mn>"
        if sign[0].isalpha() or sign in "∞":
            return f"<mi>{sign}</mi>"
        stretch = ' stretchy="false"' if sign in _FENCES else ""
        return f"<mo{stretch}>{escape(sign.replace('-', '−'))}</mo>"
