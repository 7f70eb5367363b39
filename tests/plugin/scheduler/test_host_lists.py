"""Lists of hosts are written as short as schedulers read them, and read back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.plugin.scheduler.host_lists import compressed, hostlist


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
