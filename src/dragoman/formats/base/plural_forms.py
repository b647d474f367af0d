"""Evaluates the C expression of `Plural-Forms` in the header of a gettext catalog.

    nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2);

The expression comes from outside, so it is never passed to `eval`: a small recursive-descent
parser computes it, with limits on its length and its nesting.
"""

from __future__ import annotations

import re
from operator import add, and_, eq, floordiv, ge, gt, le, lt, mod, mul, ne, or_, sub

_TOKENS = re.compile(r"\d{1,9}|n|[<>=!]=|&&|\|\||[-+*/%<>!?:()]")
# Binary operators by precedence, the weakest first.
_LEVELS = (
    {"||": or_},
    {"&&": and_},
    {"==": eq, "!=": ne},
    {"<": lt, ">": gt, "<=": le, ">=": ge},
    {"+": add, "-": sub},
    {"*": mul, "/": floordiv, "%": mod},
)
_LOGICAL_LEVELS = 2
_MAX_TOKENS = 200
_MAX_DEPTH = 20


def plural_form(expression: str, n: int) -> int | None:
    """Return the index of the plural form for n things; None if the expression is not valid."""
    try:
        return _Parser(expression, n).result()
    except (ArithmeticError, IndexError, ValueError):
        return None


class _Parser:
    """Computes the expression while it parses it."""

    def __init__(self, expression: str, n: int) -> None:
        self._tokens: list[str] = _TOKENS.findall(expression)
        if "".join(self._tokens) != "".join(expression.split()):
            raise ValueError("unknown character")
        if len(self._tokens) > _MAX_TOKENS:
            raise ValueError("too long")
        self._tokens.append("")
        self._position = 0
        self._depth = 0
        self._n = n

    def result(self) -> int:
        value = self._conditional()
        if self._tokens[self._position] or value < 0:
            raise ValueError("not an expression")
        return value

    def _accept(self, *expected: str) -> str:
        token = self._tokens[self._position]
        if token not in expected:
            return ""
        self._position += 1
        return token

    def _conditional(self) -> int:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("too deep")
        value = self._binary(0)
        if self._accept("?"):
            if_true = self._conditional()
            if not self._accept(":"):
                raise ValueError("no alternative")
            if_false = self._conditional()
            value = if_true if value else if_false
        self._depth -= 1
        return value

    def _binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._operand()
        operators = _LEVELS[level]
        left = self._binary(level + 1)
        while operator := self._accept(*operators):
            right = self._binary(level + 1)
            if level < _LOGICAL_LEVELS:
                left, right = bool(left), bool(right)
            left = int(operators[operator](left, right))
        return left

    def _operand(self) -> int:
        if self._accept("!"):
            return int(not self._operand())
        if self._accept("("):
            value = self._conditional()
            if not self._accept(")"):
                raise ValueError("no closing parenthesis")
            return value
        if self._accept("n"):
            return self._n
        token = self._tokens[self._position]
        self._position += 1
        return int(token)
