"""Mutants of the submit path, by Cosmic Ray's operators, as JSON lines: in its own environment.

    python mutants.py [--sample N] [--seed S] MODULE...

Those that differ in annotations alone, which are never evaluated, are left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names


class _Bare(ast.NodeTransformer):
    """Without annotations and docstrings."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = ast.Constant(None)
        self.generic_visit(node)
        return node


def _bare(source: str) -> str:
    """Empty: it is no Python, as where the ``*`` before keywords was taken for an operator."""
    try:
        return ast.dump(_Bare().visit(ast.parse(source)))
    except SyntaxError:
        return ""


def places(path: Path) -> Iterator[tuple[str, int]]:
    """Operators and the number of each of their places in a module."""
    tree = get_ast(path.read_text())
    for name in operator_names():
        kind = get_operator(name)
        if kind.arguments():
            continue
        operator = kind()
        found = sum(1 for node in ast_nodes(tree) for _ in operator.mutation_positions(node))
        yield from ((name, occurrence) for occurrence in range(found))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sample", type=int, help="so many of all, drawn evenly")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("modules", nargs="+", type=Path)
    given = options.parse_args()
    every = [(path, *place) for path in given.modules for place in places(path)]
    order = random.Random(given.seed).sample(every, len(every))  # noqa: S311 - no secret
    wanted = given.sample or len(order)
    print(f"{len(every)} mutants of {len(given.modules)} modules", file=sys.stderr)
    bare = {path: _bare(path.read_text()) for path in given.modules}
    for path, name, occurrence in order:
        if not wanted:
            return
        before = path.read_text()
        after = mutate_code(before, get_operator(name)(), occurrence)
        if after is None or _bare(after) in ("", bare[path]):
            continue
        wanted -= 1
        print(json.dumps({"module": str(path), "operator": name, "source": after}), flush=True)


if __name__ == "__main__":
    main()
