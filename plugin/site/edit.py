"""One key of a site file changed in its text: comments and all other lines stay as they are."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from berth.pilot.documents import validate, write_text
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.load import build_site

_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")


def with_line(lines: list[str], table: str, key: str, line: str) -> list[str]:
    """Lines with ``line`` in the table (empty: before all tables), in place of the one that has
    its key."""
    heads = [(i, m.group(1)) for i, text in enumerate(lines) if (m := _HEADER.match(text))]
    spans = [(-1, ""), *heads]
    for index, (start, name) in enumerate(spans):
        if name != table:
            continue
        end = spans[index + 1][0] if index + 1 < len(spans) else len(lines)
        for at in range(start + 1, end):
            if re.match(rf"\s*{re.escape(key)}\s*=", lines[at]):
                return [*lines[:at], line, *lines[at + 1 :]]
        return [*lines[: start + 1], line, *lines[start + 1 :]]
    first = next((i for i, name in heads if name.startswith(f"{table}.")), len(lines))
    return [*lines[:first], *([""] if first == len(lines) else []), f"[{table}]", line,
            *([""] if first < len(lines) else []), *lines[first:]]  # fmt: skip


def edited(text: str, table: str, key: str, value: str | list[str], path: Path) -> str:
    """The site file's text with ``table.key`` set to ``value``.

    Raises UsageError where it is written too unusually to be changed line by line, DocumentError
    where the result would be no site file.
    """
    lines = with_line(text.splitlines(), table, key, f"{key} = {json.dumps(value)}")
    changed = "\n".join(lines) + "\n"
    wanted = tomllib.loads(text)
    place: dict[str, Any] = wanted
    for name in filter(None, table.split(".")):
        place = place.setdefault(name, {})
    place[key] = value
    try:
        after = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        after = {}
    if after != wanted:
        raise UsageError(
            f"{path} is written in a way that cannot be changed line by line",
            hint=f"write there yourself: {table}{'.' * bool(table)}{key} = {json.dumps(value)}",
        )
    build_site(validate(after, SiteDocument, source=path), path)
    return changed


def edit(path: Path, table: str, key: str, value: str | list[str]) -> None:
    """Change the file itself. Raises UsageError and DocumentError; the file is then as it was."""
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(path, f"cannot be read: {error}") from None
    try:
        write_text(path, edited(text, table, key, value, path))
        path.chmod(mode & 0o7777)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="ask whoever owns the file"
        ) from None
