"""Draw docstrings and sentences of the documentation by a fixed seed, for fresh eyes to read.

    python benchmarks/sentences.py [--seed 29] [--count 40]

A reader who has not seen the code says of each whether it was understood at first reading. The bar
is 38 of 40 of both kinds.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("pilot", "predictor", "policies", "plugin")


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield where each docstring of the product stands, and its first paragraph."""
    for path in sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                name = getattr(node, "name", "module")
                if text and not text.startswith("See "):
                    place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)} {name}"
                    yield place, " ".join(text.split("\n\n")[0].split())


def sentences() -> Iterator[tuple[str, str]]:
    """Yield sentences of the documentation's prose: no tables, code or lists of links."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for paragraph in text.split("\n\n"):
            if not re.match(r"[#|>!\s:`<-]", paragraph):
                for sentence in re.split(r"(?<=[.?!]) +", " ".join(paragraph.split())):
                    if len(sentence.split()) >= 6:
                        yield path.name, sentence


def main() -> None:
    """Print what was drawn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args()
    drawn = random.Random(options.seed)  # noqa: S311 - a sample, the same each time
    for title, pool in (("Docstrings", docstrings()), ("Sentences", sentences())):
        print(f"{title}:")
        for place, text in drawn.sample(list(pool), options.count):
            print(f"  {place}\n    {text}")


if __name__ == "__main__":
    main()
