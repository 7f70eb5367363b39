"""Edits a site file's text: comments, order and spaces stay unchanged."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, Table

from berth.pilot.documents import validate
from berth.pilot.errors import UsageError
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.load import build_site


@dataclass(frozen=True)
class KeyChange:
    """A new value for one key of the site file; ``table``: its dotted name, empty for top-level
    keys.
    """

    table: str
    key: str
    value: str | float | list[str]
    comment: str = ""

    @property
    def name(self) -> str:
        """Return the key's full name, such as ``policy.weights.wait``."""
        return f"{self.table}.{self.key}".lstrip(".")

    @property
    def tables(self) -> list[str]:
        """Return the names of the key's tables, the outermost first."""
        return self.table.split(".") if self.table else []


def changed_text(
    text: str,
    change: Callable[[tomlkit.TOMLDocument], None],
    wanted: Mapping[str, object],
    by_hand: str,
) -> str:
    """Return the file's text after the function ``change`` has edited it; parsed, the result must
    equal ``wanted``.

    Raises UsageError, whose hint is ``by_hand``, where the file cannot be changed safely.
    """
    try:
        document = tomlkit.parse(text if text.endswith("\n") else text + "\n")
        change(document)
        changed = tomlkit.dumps(document)
        after = tomllib.loads(changed)
    except (TOMLKitError, tomllib.TOMLDecodeError, AttributeError, TypeError):
        changed, after = "", {}
    if after != wanted:
        raise UsageError(
            "the site file is written in a way that cannot be changed safely",
            hint=f"write there yourself: {by_hand}",
        )
    return changed if changed.endswith("\n") else changed + "\n"


def insert_after(table: Any, key: str, new: str, value: object) -> None:
    """Insert a key (or table) after ``key`` in a tomlkit table; at the end where tomlkit cannot
    insert.

    At the end, the new line would come after comments that belong to the next table.
    """
    item = tomlkit.item(value)
    try:
        _lines(table)._insert_after(key, new, item)
        item.trivia.trail = "\n"
    except (AttributeError, TOMLKitError):
        table[new] = value


def _lines(table: Any) -> Any:
    """Return the tomlkit container of a table's keys, comments and blank lines, in their order."""
    return table if isinstance(table, Container) else table.value


def with_settings(text: str, settings: Sequence[KeyChange], path: Path) -> str:
    """Return the site file's text with these settings.

    Raises UsageError, with what to write by hand, where the text is written too unusually to be
    changed safely, and DocumentError where the result would not be a valid site file.
    """
    wanted = tomllib.loads(text)
    for setting in settings:
        table: dict[str, Any] = wanted
        for name in setting.tables:
            table = table.setdefault(name, {})
        table[setting.key] = setting.value

    def change(document: tomlkit.TOMLDocument) -> None:
        for setting in settings:
            _put(document, setting)

    by_hand = "; ".join(f"{setting.name} = {json.dumps(setting.value)}" for setting in settings)
    changed = changed_text(text, change, wanted, by_hand)
    build_site(validate(wanted, SiteDocument, source=path), path)
    return changed


def _put(document: tomlkit.TOMLDocument, setting: KeyChange) -> None:
    table: Any = document
    for name in setting.tables:
        if name not in table:
            new_table = tomlkit.table()
            new_table.trivia.indent = "\n"
            _add(table, name, new_table)
        table = table[name]
    is_inline = isinstance(table, InlineTable)
    if setting.key in table or is_inline:
        table[setting.key] = setting.value
    else:
        _add(table, setting.key, setting.value)
    if setting.comment:
        on_line = table if is_inline else _lines(table).item(setting.key)
        on_line.comment(setting.comment).trivia.comment_ws = "  "


def _add(table: Any, new: str, value: object) -> None:
    """Add a line after the table's last key, before its subtables."""
    lines = [key for key, held in table.items() if not isinstance(held, Table | AoT)]
    if lines:
        insert_after(table, lines[-1], new, value)
    else:
        table[new] = value
