"""Lists of numbers and hosts: read as schedulers write them, written as short as they read them."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_speed import million_steps_s

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler.host_lists import compressed, hostlist, idset


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"cn{i:04d}" for i in range(1, 4501)], "cn[0001-4500]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n08", "n09", "n8", "n10"], "n[08,8,09-10]"),
        (["n099", "n100"], "n[099-100]"),
        (["n2", "n1", "n2"], "n[1-2]"),
        (["r1-n1", "r1-n2", "r2-n7", "login"], "r1-n[1-2],r2-n7,login"),
        (["n1-ib", "n2-ib"], "n1-ib,n2-ib"),  # not every Slurm reads n[1-2]-ib
        (["n", "n1"], "n,n1"),
        (["7", "8"], "[7-8]"),
        (["n12345678901"], "n12345678901"),
        ([], ""),
    ],
)
def test_names_that_differ_in_their_last_number_are_ranges(names: list[str], text: str) -> None:
    assert compressed(names) == text


@given(st.lists(st.from_regex(r"[a-z-]{0,3}[0-9]{0,12}[a-z]?", fullmatch=True).filter(bool)))
def test_what_is_written_is_read_back_as_the_same_names(names: list[str]) -> None:
    assert sorted(hostlist(compressed(names))) == sorted(set(names))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", [0]), ("0-3", [0, 1, 2, 3]), ("[0-1,7]", [0, 1, 7]), ("", []), ("5,3", [5, 3])],
)
def test_idsets(text: str, numbers: list[int]) -> None:
    assert idset(text) == numbers


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[0-2]", ["node0", "node1", "node2"]),
        ("a[08-10],b", ["a08", "a09", "a10", "b"]),
        ("c[1,3]-ib", ["c1-ib", "c3-ib"]),
        ("login", ["login"]),
        ("a[1-2], b,,c[3]", ["a1", "a2", "b", "c3"]),
        ("", []),
    ],
)
def test_hostlists(text: str, names: list[str]) -> None:
    assert hostlist(text) == names


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "0-9999999", None, 7, "1,,2", "[1"])
def test_what_is_no_idset_is_one_sentence(text: object) -> None:
    with pytest.raises(SchedulerError):
        idset(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000, "a[" * 100_000, "a" * 200_000 + "]", "n[1-2][1-2]", "n[1", "n]1",
        "n[" + ",".join(["0-99999"] * 1000) + "]", ",".join(["n[0-99999]"] * 1000),
        "n" * 300 + "[0-99999]",
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_lists_of_hosts_that_cannot_be_take_no_time(text: str) -> None:
    began_s = time.process_time()
    with pytest.raises(SchedulerError) as refused:
        hostlist(text)
    assert len(refused.value.message) < 300
    assert time.process_time() - began_s < 500 * million_steps_s()  # else hours


@given(st.text(max_size=30))
def test_any_text_is_hosts_or_one_sentence(text: str) -> None:
    with suppress(SchedulerError):
        assert all(isinstance(name, str) for name in hostlist(text))
