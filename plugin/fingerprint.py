"""The fingerprint of a batch script: unchanged when only the submission's options change.

The script is brought into a normal form first (docs/protocol.md):
- line ends become ``\\n``, and trailing blanks are removed;
- the shebang is reduced to the interpreter's name and its options;
- empty lines and whole-line comments (including all ``#SBATCH`` and ``# flux:``) are removed;
- a line after one that ends in a backslash, and everything from the first here-document (``<<``)
  on, is kept unchanged, because a ``#`` there may belong to the program.

The script's arguments are part of the fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath


@lru_cache(maxsize=64)  # one request needs it twice; jobs repeat scripts
def normalised(script: str) -> str:
    """Return the script in its normal form, with ``\\n`` after each line."""
    kept: list[str] = []
    verbatim = False
    for number, line in enumerate(script.replace("\r\n", "\n").split("\n")):
        text = line.rstrip()
        if number == 0 and text.startswith("#!"):
            kept.append(_shebang(text))
            continue
        continues = bool(kept) and kept[-1].endswith("\\")
        if not verbatim and not continues:
            bare = text.lstrip()
            if not bare or bare[0] == "#":
                continue
            verbatim = "<<" in text
        kept.append(text)
    while kept and not kept[-1]:
        kept.pop()
    return "\n".join(kept) + "\n"


def fingerprint(script: str, arguments: Sequence[str] = ()) -> str:
    """Return ``sha256:`` and the digest of the script's normal form with its arguments."""
    hashed = hashlib.sha256(normalised(script).encode("utf-8", "surrogatepass"))
    for argument in arguments:
        hashed.update(b"\0" + argument.encode("utf-8", "surrogatepass"))
    return "sha256:" + hashed.hexdigest()


def _shebang(line: str) -> str:
    """Return a shebang line with the interpreter's bare name: ``#!bash -l`` for ``#!/bin/bash -l``
    and ``#!/usr/bin/env bash -l``.
    """
    words = line[2:].split()
    if not words:
        return "#!"
    name = PurePosixPath(words[0]).name
    if name == "env" and len(words) > 1:
        words = words[2:] if words[1] == "-S" and len(words) > 2 else words[1:]
        name = PurePosixPath(words[0]).name
    return " ".join(["#!" + name, *words[1:]])
