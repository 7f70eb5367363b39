"""The registry: names to objects, lazily; two of one name and what fails to import are problems."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.pilot.errors import UsageError
from berth.pilot.plugins import Entry, Registry, installed, public_names, read_groups
from berth.plugin.doctor.examine import examine_packages

ROOT = Path(__file__).resolve().parents[2]
OWN = """\
; a comment
[berth.shapes]
round = collections:OrderedDict
square = json:JSONDecoder.decode

[berth.colours]
red = collections:Counter
"""


@pytest.fixture
def shapes(tmp_path: Path) -> Callable[..., Registry[object]]:
    own = tmp_path / "entry_points.ini"
    own.write_text(OWN)

    def make(*others: Entry, **more: object) -> Registry[object]:
        return Registry("berth.shapes", kind="shape", own=own, others=lambda: others, **more)

    return make


def test_own_names_come_first_then_those_of_others(shapes) -> None:
    registry = shapes(Entry("z", "json:loads", "zed"), Entry("a", "json:dumps", "ay"))
    assert registry.own() == ("round", "square")
    assert registry.names() == ("round", "square", "a", "z")
    assert registry.problems() == ()


def test_an_attribute_of_an_attribute_can_be_named(shapes) -> None:
    assert shapes().load("square").__name__ == "decode"


def test_an_unknown_name_is_refused_with_the_nearest(shapes) -> None:
    with pytest.raises(UsageError, match="there is no shape 'squar'") as refused:
        shapes().load("squar")
    assert refused.value.hint == "did you mean 'square'? known: round, square"


def test_two_packages_with_one_name_are_both_named(shapes) -> None:
    registry = shapes(Entry("oval", "json:loads", "one"), Entry("oval", "json:dumps", "two"))
    text = "the shape 'oval' is declared by 2 packages: one, two; remove all but one"
    with pytest.raises(UsageError, match=text):
        registry.load("oval")
    assert registry.names() == ("round", "square")
    assert [(p.group, p.name, p.text) for p in registry.problems()] == [
        ("berth.shapes", "oval", text)
    ]


def test_two_packages_that_declare_one_object_do_not_conflict(shapes) -> None:
    registry = shapes(Entry("oval", "json:loads", "one"), Entry("oval", "json:loads", "two"))
    assert registry.load("oval").__name__ == "loads"
    assert registry.problems() == ()


def test_a_name_of_berths_own_cannot_be_taken(shapes) -> None:
    registry = shapes(Entry("round", "json:loads", "thief"))
    assert registry.load("round").__name__ == "OrderedDict"
    (problem,) = registry.problems()
    assert problem.text == (
        "the shape 'round' is Berth's own name; that of the package thief is unused"
    )


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("no_such_module_at_all:x", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("json:no_such", "AttributeError: module 'json' has no attribute 'no_such'"),
        ("", "ValueError: Empty module name"),
    ],
)
def test_what_cannot_be_imported_is_named_and_skipped(shapes, target: str, reason: str) -> None:
    registry = shapes(Entry("bad", target, "broken"), Entry("good", "json:loads", "fine"))
    assert set(registry.load_all()) == {"round", "square", "good"}
    (problem,) = registry.problems()
    assert problem.text == f"the shape 'bad' of the package broken cannot be imported: {reason}"
    with pytest.raises(UsageError, match="cannot be imported"):
        registry.load("bad")


def test_only_plugins_whose_names_begin_so_are_imported(shapes) -> None:
    registry = shapes(Entry("red.one", "json:loads", "fine"), Entry("bad", "no_such:x", "broken"))
    assert set(registry.load_all("red.")) == {"red.one"}
    assert "bad" in registry.names(), "it was not tried"


def test_a_module_that_exits_when_imported_is_skipped(shapes, tmp_path, monkeypatch) -> None:
    (tmp_path / "leaves_at_once.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    (problem,) = shapes(Entry("bad", "leaves_at_once:x", "broken")).problems()
    assert problem.text.endswith("cannot be imported: SystemExit: 3")


def test_an_object_without_what_its_kind_needs_is_skipped(shapes) -> None:
    registry = shapes(Entry("bad", "json:loads", "broken"), needs=("area", "__call__"))
    assert set(registry.load_all()) == {"round", "square"}
    (problem,) = registry.problems()
    assert problem.text == "the shape 'bad' of the package broken has no area"


def test_packages_are_found_where_they_are_installed(tmp_path, monkeypatch) -> None:
    for number, text in enumerate(
        ["[berth.shapes]\nnew = json:loads [extra]\n", "[other]\nx = y\n", "\0garbage"]
    ):
        info = tmp_path / f"package{number}-1.0.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(text)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: package{number}\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed.cache_clear()
    try:
        assert installed()["berth.shapes"] == (Entry("new", "json:loads", "package0"),)
    finally:
        installed.cache_clear()


def test_berths_own_are_found_without_a_search_of_the_installed_packages() -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from berth.pilot.plugins import Registry\n"
        f"own = Path({str(ROOT / 'plugin' / 'entry_points.ini')!r})\n"
        "Registry('berth.schedulers', kind='scheduler', own=own).own()\n"
        "print('importlib.metadata' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_every_object_that_berth_declares_can_be_imported() -> None:
    for path in sorted(ROOT.glob("*/entry_points.ini")):
        for group in read_groups(path.read_text()):
            Registry(group, kind="object", own=path, others=tuple).load_all()


def test_the_doctor_names_what_cannot_be_used(shapes) -> None:
    registry = shapes(Entry("bad", "json:no_such", "broken"), Entry("good", "json:loads", "fine"))
    found = list(examine_packages([registry]))
    assert [(f.status.value, f.text) for f in found] == [
        (
            "warn",
            "the shape 'bad' of the package broken cannot be imported: "
            "AttributeError: module 'json' has no attribute 'no_such'",
        ),
        ("ok", "berth.shapes: good"),
    ]


class Sized:
    """A protocol's stand-in: two attributes, one private."""

    size: int

    def grow(self) -> None: ...
    def _hidden(self) -> None: ...


def test_what_a_protocol_needs_are_its_public_names() -> None:
    assert public_names(Sized) == ("grow", "size")


def test_an_abstract_class_and_one_with_another_name_are_skipped(shapes) -> None:
    here = "test_plugins_objects"
    module = type(sys)(here)
    sys.modules[here] = module
    module.Abstract = type(
        "Abstract", (), {"name": "bad", "__abstractmethods__": frozenset({"area"})}
    )
    module.Other = type("Other", (), {"name": "otter"})
    try:
        found = shapes(
            Entry("bad", f"{here}:Abstract", "broken"),
            Entry("other", f"{here}:Other", "broken"),
            needs=("name",),
        ).problems()
    finally:
        del sys.modules[here]
    assert [p.text for p in found] == [
        "the shape 'bad' of the package broken has no area",
        "the shape 'other' of the package broken calls itself 'otter'",
    ]
