"""Commands print with --json what docs/schemas says."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from json_outputs import FOLDER, cases, output, problems, schema_of

DOCS = FOLDER.parent
CHECKED = (
    "decisions", "decisions-show", "outcomes", "outcomes-jobs", "why", "workload-add",
    "workload-list", "workload-show", "place", "replay", "mig-show", "mig-plan", "platform-list",
    "bundle-show",
)  # fmt: skip
"""Those that take no second; ``make schemas`` runs all."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[str, ...]]:
    return cases(tmp_path_factory.mktemp("json"))


def test_what_is_printed_is_what_is_documented(made: Mapping[str, tuple[str, ...]]) -> None:
    wrong = []
    for name in CHECKED:
        schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
        wrong += [f"{name}: {one}" for one in problems(output(made[name]), schema)]
    assert wrong == [], "make schemas writes them anew"


def test_every_schema_is_listed_and_every_listed_one_is_there(
    made: Mapping[str, tuple[str, ...]],
) -> None:
    there = {path.name for path in FOLDER.iterdir()}
    assert there == {f"{name}.schema.json" for name in made}
    text = (DOCS / "json.md").read_text()
    assert all(f"schemas/{name}" in text for name in there)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": 1}, []),
        ({"a": "x"}, ["$.a: str, not number"]),
        ({}, ["$.a: missing"]),
        ({"a": 1, "b": 2}, ["$.b: not documented"]),
        ([], ["$: list, not object"]),
    ],
)
def test_what_does_not_fit_is_found(value: object, said: list[str]) -> None:
    assert list(problems(value, schema_of({"a": 3.5}))) == said


def test_lists_and_nulls_are_put_together() -> None:
    found = schema_of([{"a": None}, {"a": 1, "b": "x"}])
    assert found["items"]["properties"]["a"]["type"] == ["null", "number"]
    assert found["items"]["required"] == ["a"]
