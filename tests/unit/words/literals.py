"""What the programs say to people, read from their source: every string and template that is prose."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("relay_operator", "relay_localcloud", "relay_cli", "relay_client", "relay_kube", "relay_wire")
_WORD = re.compile(r"(?<![\w/.{<-])[A-Za-z][a-z'-]*(?![\w(/=])")
_PROSE_WORDS = 3
_PAGES = ("operator/relay_operator/crds/reference.py",)
"""What writes pages; their sentences are not messages."""
_CODE = re.compile(
    r"\b(SELECT|INSERT|UPDATE|CREATE|ALTER|DROP|PRAGMA|NULL|EXISTS|OR REPLACE)\b"  # SQL
    r"|has\(|\bself[.[ ]|oldSelf"  # CEL
    r"|>/dev/null"  # shell
    r"|\(\?P<|\{\{|\r\n|-src |^<!--|\blocal function\b|\w\[|^@\("
)


@dataclass(frozen=True, slots=True)
class Literal:
    """A string of the source; `text` is a template if it is an f-string: {expression} stands for what is filled in."""

    place: str
    pieces: tuple[str, ...]
    """Text, expression, text, ...: every second piece is the source of what is filled in."""
    called: str
    """The function that it is an argument of, at any depth; empty if none."""

    @property
    def text(self) -> str:
        return "".join(f"{{{piece}}}" if at % 2 else piece for at, piece in enumerate(self.pieces))

    @property
    def words(self) -> list[str]:
        """Those of the text itself."""
        return _WORD.findall("{}".join(self.pieces[::2]))

    @property
    def filled(self) -> Iterator[tuple[str, str, str]]:
        """All that stands before each expression, the expression, and what stands behind it."""
        for at in range(1, len(self.pieces), 2):
            yield "{}".join(self.pieces[:at:2]), self.pieces[at], self.pieces[at + 1]


def of(node: ast.expr, place: str, called: str) -> Literal | None:
    """The literal that an expression is; None if it is something else."""
    match node:
        case ast.Constant(value=str(text)):
            return Literal(place, (text,), called)
        case ast.JoinedStr(values=values):
            pieces = [""]
            for value in values:
                if isinstance(value, ast.FormattedValue):
                    pieces += [ast.unparse(value.value), ""]
                elif isinstance(value, ast.Constant):
                    pieces[-1] += str(value.value)
            return Literal(place, tuple(pieces), called)
    return None


@cache
def sources() -> tuple[tuple[str, str], ...]:
    """Path below the root, and source, of every module."""
    files = sorted(file for package in PACKAGES for file in (ROOT / "operator" / package).rglob("*.py"))
    return tuple((str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")) for file in files)


def _literals(path: str, tree: ast.AST, called: str = "") -> Iterator[Literal]:
    """All but docstrings; `called` is the call that they are an argument of."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(tree, ast.Expr) and isinstance(node, ast.Constant):
            continue
        literal = of(node, f"{path}:{node.lineno}", called) if isinstance(node, ast.expr) else None
        if literal is not None:
            yield literal
        inner = _called(node) if isinstance(node, ast.Call) else called
        for child in node.values if isinstance(node, ast.JoinedStr) else (node,):
            if not isinstance(child, ast.Constant):
                yield from _literals(path, child, inner)


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def is_prose(literal: Literal) -> bool:
    """Whether people read it: some words, and not the syntax of another language."""
    page = literal.place.startswith(_PAGES)
    return (
        not page
        and literal.called != "compile"
        and len(literal.words) >= _PROSE_WORDS
        and not _CODE.search(literal.text)
    )


def of_source(path: str, source: str) -> tuple[Literal, ...]:
    """All literals of a module but its docstrings."""
    return tuple(dict.fromkeys(_literals(path, ast.parse(source))))


@cache
def all_of_them() -> tuple[Literal, ...]:
    """Those of every module."""
    return tuple(literal for path, source in sources() for literal in of_source(path, source))
