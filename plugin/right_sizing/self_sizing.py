"""Scripts whose commands take what their job was given: a smaller request would change their run.

A JVM's heap, ``samtools sort``'s buffers, STAR's and GATK's limits follow the allocation. What the
list (``self_sizing.json``) does not know, and what a script hides in another, is not found.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

_WORD = re.compile(r"[^\s;&|()`'\"$<>={}\[\]]+")
_SUFFIX = re.compile(r"\.(?:sh|py|pl|jar|exe|bin)$")


def sizes_itself(script: str) -> str | None:
    """What in the script sizes itself, as it is called there; None: nothing that is known."""
    commands, following, variables = _known()
    for variable in variables:
        if variable in script:
            return variable
    for line in script.splitlines():
        text = line.lstrip()
        if text.startswith("#"):
            continue
        words: list[str] = _WORD.findall(text)
        for place, word in enumerate(words):
            called = word.rpartition("/")[2]
            name = _SUFFIX.sub("", called).lower()
            if name in commands or called.endswith(".jar"):
                return called
            if name in following and not following[name].isdisjoint(words[place + 1 :]):
                return called
    return None


@cache
def _known() -> tuple[frozenset[str], dict[str, frozenset[str]], tuple[str, ...]]:
    text = resources.files(__package__).joinpath("self_sizing.json").read_text(encoding="utf-8")
    read = json.loads(text)
    return (
        frozenset(one.lower() for one in read["commands"]),
        {name: frozenset(words) for name, words in read["with"].items()},
        tuple(read["variables"]),
    )
