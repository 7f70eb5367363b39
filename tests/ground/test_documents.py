"""Documents: strict, bounded, and each refusal one sentence that names the key."""

from __future__ import annotations

import json
import os
import stat
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_speed import million_steps_s

from berth.pilot.documents import (
    MAX_DOCUMENT_BYTES,
    has_deeper_key,
    parse_json,
    read_json,
    read_toml,
    to_json,
    write_bytes,
    write_json,
    write_text,
)
from berth.pilot.errors import DocumentError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile

GOOD: dict[str, Any] = {
    "schema": "berth.profile/1",
    "name": "stream",
    "platform": "local",
    "workload": {"command": ["./stream"]},
    "runtime": {"median_s": 1.5, "spread_s": 0.1, "repeats_s": [1.5, 1.4, 1.6]},
    "peak_memory_bytes": 1_000_000,
    "counters": {"instructions": {"value": 5e9, "quality": "measured", "source": "perf"}},
    "provenance": {"created": "2026-01-01T00:00:00Z", "berth_version": "0.1.0"},
}


def refusal(**changes: Any) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse_json(json.dumps(GOOD | changes), Profile, source="p.json")
    return caught.value


def test_a_good_profile_is_read_and_written_back_the_same(tmp_path: Path) -> None:
    profile = parse_json(json.dumps(GOOD), Profile, source="p.json")
    write_json(tmp_path / "p.json", profile)
    assert read_json(tmp_path / "p.json", Profile) == profile
    assert profile.value("instructions") == 5e9
    assert profile.value("loads") is None


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"schema": "berth.profile/2"}, "schema", "newer Berth"),
        ({"schema": "berth.site/1"}, "schema", "not"),
        ({"schema": None}, "schema", "missing"),
        ({"platfrm": "x"}, "platfrm", "not a known key"),
        ({"peak_memory_bytes": -1}, "peak_memory_bytes", "greater than 0"),
        ({"peak_memory_bytes": "12"}, "peak_memory_bytes", "valid number"),
        ({"name": "../etc"}, "name", "pattern"),
        ({"runtime": {"median_s": 1, "spread_s": 0, "repeats_s": []}}, "runtime.repeats_s", ""),
        ({"workload": []}, "workload", "object"),
        ({"counters": {"x": {"value": 1, "quality": "guessed", "source": "s"}}},
         "counters.x.quality", "measured"),
        ({"counters": {"x": {"value": 1, "quality": "missing", "source": "s"}}},
         "counters.x", "missing counter"),
        ({"counters": {str(i): GOOD["counters"]["instructions"] for i in range(2001)}},
         "counters", "2000"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_key_and_the_problem(
    changes: dict[str, Any], key: str, words: str
) -> None:
    error = refusal(**changes)
    assert error.key == key
    assert words in error.message
    assert error.exit_status == 2
    assert "\n" not in error.message


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "berth.profile/" + "9" * 5000},
        {"schema": "x" * 5000 + "/1"},
        {"y" * 5000: 1},
        {"one\ntwo": 1},
        {"name": "x" * 5000},
        {"name": "\ud800"},
    ],
    ids=lambda changes: str(changes)[:30],
)
def test_a_refusal_is_one_short_line_whatever_the_file_says(changes: dict[str, Any]) -> None:
    error = refusal(**changes)
    assert len(error.message) < 1100
    assert error.message.isprintable()


DEEP_KEYS = [
    "x." * 1800 + "y = 1",
    "[" + "x." * 1800 + "y]",
    'a = {b = """""""", ' + "x." * 31 + "y = 1}",
    " . ".join(["x", '"a.b"', "'c'", *"defg"] * 8) + " = 1",
    "s = 'an end' # of a line\n" + "x." * 31 + "y = 1",
]


@pytest.mark.parametrize("text", DEEP_KEYS)
def test_a_toml_key_of_too_many_parts_is_refused_before_it_is_parsed(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tomllib.loads", None)
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(DocumentError, match="is nested deeper than 32 levels"):
        read_toml(tmp_path / "p.toml", Profile)


DOTS = "a." * 1800
NO_DEEP_KEYS = [
    f"# {DOTS}\nx = 1 # {DOTS}",
    f"x = \"{DOTS}\"\ny = '{DOTS}'",
    f'x = """\n{DOTS}\n\\"""{DOTS}""{DOTS}\n""" # {DOTS}',
    f"x = '''\n{DOTS}\n''{DOTS}\n'''",
    f'"{DOTS}" = 1',
    "x." * 31 + "y = 1",
    "\n".join(f"a.b{n} = {n}.5" for n in range(2000)),
]


@pytest.mark.parametrize("text", NO_DEEP_KEYS)
def test_dots_in_strings_and_comments_are_no_keys(text: str) -> None:
    tomllib.loads(text)
    assert not has_deeper_key(text, 31 + text.startswith("x."))


@pytest.mark.parametrize(
    "piece", ['"""', "'''", '"', "'", "#", '\\"', "a. ", "a ", " ", ".", '\n"']
)
def test_looking_for_deep_keys_is_quick_whatever_the_text(piece: str) -> None:
    began_s = time.thread_time()
    has_deeper_key(piece * (100_000 // len(piece)), 10**6)
    assert time.thread_time() - began_s < 100 * million_steps_s()


def depth_of(data: object) -> int:
    """Of tables in tables; those in lists count as well."""
    inside = list(data.values()) if isinstance(data, dict) else data
    if not isinstance(inside, list):
        return 0
    return isinstance(data, dict) + max(map(depth_of, inside), default=0)


KEY_PARTS = st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=True)) | (
    st.sampled_from(["a", "b-1", "_", "3", "'.'", "'\"'", "''"])
)


@given(st.lists(KEY_PARTS, min_size=3, max_size=9), st.sampled_from([".", " .", "\t. "]))
def test_the_parts_of_a_key_are_counted(parts: list[str], dot: str) -> None:
    key = dot.join(parts)
    for text in (f"{key} = 1.5", f"[{key}]", f"[[ {key} ]]", f"x = [1, {{ {key} = 'a.b.c' }}]"):
        assert has_deeper_key(text, len(parts) - 1)
        assert not has_deeper_key(text, len(parts))


@given(st.text(alphabet="ab.\"'\\\n#=[]{}, ", max_size=60))
def test_no_valid_toml_is_taken_for_deeper_than_it_is(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert not has_deeper_key(text, 2) or depth_of(data) > 2


def test_toml_with_an_endless_number_or_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("x = " + "9" * 5000)
    with pytest.raises(DocumentError, match="is not TOML"):
        read_toml(tmp_path / "p.toml", Profile)
    with pytest.raises(DocumentError, match="cannot be read"):
        read_json(tmp_path / "a\0b", Profile)


def test_a_misspelt_key_is_answered_with_the_nearest_known_one() -> None:
    assert refusal(platfrm="x").hint == "did you mean 'platform'?"
    nested = refusal(runtime={"median": 1, "spread_s": 0, "repeats_s": [1]})
    assert nested.key == "runtime.median"
    assert nested.hint == "did you mean 'median_s'?"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_finite_are_refused(number: str) -> None:
    text = json.dumps(GOOD).replace("1000000", number)
    with pytest.raises(DocumentError, match="finite"):
        parse_json(text, Profile, source="p.json")


def test_an_overflowing_number_is_refused() -> None:
    with pytest.raises(DocumentError, match="peak_memory_bytes"):
        parse_json(json.dumps(GOOD).replace("1000000", "1e999"), Profile, source="p.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[1]", "a list where an object"),
        ("null", "nothing where an object"),
        ("{" * 100_000, "not JSON|nested"),
        ("[" * 100_000, "not JSON|nested"),
        ('{"a":' * 50 + "1" + "}" * 50, "nested deeper"),
        ('{"schema": "berth.profile/1", "schema": "berth.profile/1"}', "given twice"),
        (json.dumps({str(i): 1 for i in range(200_000)}), "more than"),
        ('{"a": "' + "x" * MAX_DOCUMENT_BYTES + '"}', "larger than"),
    ],
    ids=["empty", "list", "null", "braces", "brackets", "deep", "twice", "many-keys", "huge"],
)
def test_text_that_is_no_document_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(DocumentError, match=words) as caught:
        parse_json(text, Profile, source="p.json")
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("model", [Profile, Platform])
@given(data=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from([*GOOD, "signature", "x"]), inner, max_size=6),
    max_leaves=20,
))  # fmt: skip
def test_any_json_is_accepted_or_refused_but_never_crashes(model: Any, data: object) -> None:
    text = json.dumps(data)
    try:
        document = parse_json(text, model, source="p.json")
    except DocumentError as error:
        assert error.message.startswith("p.json")
    else:
        assert parse_json(to_json(document), model, source="again") == document


@given(raw=st.binary(max_size=200))
def test_any_bytes_are_accepted_or_refused_but_never_crash(raw: bytes) -> None:
    with pytest.raises(DocumentError):
        parse_json(raw, Profile, source="p.json")


def test_missing_unreadable_and_wrong_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="does not exist"):
        read_json(tmp_path / "none.json", Profile)
    with pytest.raises(DocumentError, match="is a folder"):
        read_json(tmp_path, Profile)
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(DocumentError, match="UTF-8"):
        read_toml(bad, Profile)
    bad.write_text("a = ")
    with pytest.raises(DocumentError, match="not TOML"):
        read_toml(bad, Profile)
    if os.geteuid() != 0:
        bad.chmod(0)
        with pytest.raises(DocumentError, match="cannot be read"):
            read_json(bad, Profile)


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "p.json"
    profile = parse_json(json.dumps(GOOD), Profile, source="p.json")
    write_json(target, profile)
    before = target.read_text()
    monkeypatch.setattr(Path, "replace", _no_space)
    with pytest.raises(OSError, match="No space"):
        write_json(target, profile)
    assert target.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def _no_space(_self: Path, _target: Path) -> Path:
    raise OSError(28, "No space left on device")


def test_a_file_written_anew_keeps_its_mode_and_owner(tmp_path: Path) -> None:
    """`berth site calibrate` by root made a site file of mode 0640 readable for everybody."""
    target = tmp_path / "berth.toml"
    target.write_text("old")
    target.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(target, 4242, 4343)
    before = target.stat()
    write_text(target, "new")
    after = target.stat()
    assert target.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode, before.st_uid, before.st_gid,
    )  # fmt: skip


def test_a_writer_may_name_mode_and_owner(tmp_path: Path) -> None:
    target = tmp_path / "new" / "list.json"
    own = (os.geteuid(), os.getegid()) if os.geteuid() else (4242, 4343)
    write_bytes(target, b"first", mode=0o644, owner=own)
    target.chmod(0o600)
    write_bytes(target, b"second", mode=0o640, owner=own)
    found = target.stat()
    assert target.read_bytes() == b"second"
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, *own)


@pytest.mark.parametrize("durable", [True, False])
def test_durable_content_is_on_the_disk_before_it_has_its_name_and_the_name_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    target = tmp_path / "state.json"
    steps: list[str] = []
    replace, sync = Path.replace, os.fsync

    def noted_replace(self: Path, new: Path) -> Path:
        steps.append("rename")
        return replace(self, new)

    def noted_sync(handle: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    monkeypatch.setattr(Path, "replace", noted_replace)
    monkeypatch.setattr(os, "fsync", noted_sync)
    write_text(target, "done", durable=durable)
    assert target.read_text() == "done"
    assert steps == (["file", "rename", "folder"] if durable else ["rename"])


def test_a_failed_sync_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "state.json"
    target.write_text("old")

    def broken(_handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        write_text(target, "new", durable=True)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("state.json", "old")]
