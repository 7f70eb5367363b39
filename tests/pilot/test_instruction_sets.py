"""The vocabulary of instruction sets: spellings, what includes what, and what a place has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot import instruction_sets
from berth.pilot.instruction_sets import (
    KNOWN,
    NOT_NAMED,
    Has,
    canonical,
    compact,
    expanded,
    has,
    needed,
)
from berth.pilot.instruction_sets import unknown as unknown_names
from berth.predictor.hardware.platforms import shipped


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("pni", "sse3"),
        ("abm", "lzcnt"),
        ("ASIMD", "neon"),
        ("sse4.2", "sse4_2"),
        ("bmi", "bmi1"),
        ("avx512vnni", "avx512_vnni"),
        ("X86_64_v3", "x86-64-v3"),
        ("x86-64", "x86-64-v1"),
        ("armv8.2-a", "armv8.2"),
    ],
)
def test_spellings_of_linux_and_compilers_mean_one_name(written: str, name: str) -> None:
    assert canonical(written) == name
    assert name in KNOWN


def test_a_level_includes_its_parts_and_the_levels_below() -> None:
    v3 = expanded(["x86-64-v3"])
    assert {"avx2", "bmi1", "bmi2", "fma", "f16c", "lzcnt", "movbe", "popcnt", "sse4_2"} <= v3
    assert "avx512f" not in v3
    assert {"avx512vl", "avx2"} <= expanded(["x86-64-v4"])
    assert {"lse", "neon", "dotprod"} <= expanded(["armv8.4"])


@pytest.mark.parametrize(
    ("place", "need", "answer"),
    [
        (("x86-64-v3",), "bmi2", Has.YES),
        (("x86-64-v2",), "avx2", Has.NO),
        (("x86-64-v2", "avx"), "avx", Has.YES),
        (("x86-64-v2", "avx"), "avx2", Has.NO),
        (("x86-64-v4",), "avx512_vnni", Has.NO),
        (("x86-64-v4", "avx512_vnni"), "avx512vnni", Has.YES),
        (("x86-64-v3",), "aes", Has.UNKNOWN),
        (("x86-64-v3",), "newer_than_this", Has.UNKNOWN),
        (("armv8.1",), "sve", Has.NO),
        ((), "avx2", Has.UNKNOWN),
        # Lists without a level
        (("sse4_2", "avx", "avx2", "fma"), "bmi2", Has.YES),
        (("sse4_2", "avx", "avx2", "fma"), "avx512f", Has.NO),
        (("sse4_2", "avx"), "avx2", Has.NO),
        (("avx2", "avx512f"), "avx512bw", Has.UNKNOWN),
        (("asimd",), "neon", Has.YES),
    ],
)
def test_a_place_has_lacks_or_is_not_known_to_have(
    place: tuple[str, ...], need: str, answer: Has
) -> None:
    assert has(place, need) is answer


@pytest.mark.parametrize("level", ["x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8.6"])
def test_the_parts_of_a_level_are_written_as_the_level(level: str) -> None:
    assert level in compact(expanded([level]) - {level})


def test_what_is_needed_is_named_once() -> None:
    assert needed(["avx", "avx2", "pni", "sse2"]) == ("avx2",)
    assert needed(["avx512vl", "avx512f", "fma"]) == ("avx512vl",)
    assert needed(["sse2", "x86-64-v1"]) == ()


@given(st.lists(st.one_of(st.sampled_from(sorted(KNOWN)), st.text(max_size=12)), max_size=8))
def test_any_names_can_be_asked_and_compacting_loses_none(names: list[str]) -> None:
    assert expanded(compact(names)) >= expanded(names)
    for name in names:
        assert has(tuple(names), name) is Has.YES


def test_no_place_is_known_to_have_what_the_pilot_cannot_name() -> None:
    for place in ((), ("x86-64-v4", "aes"), ("armv9",), ("avx2",)):
        assert has(place, NOT_NAMED) is Has.UNKNOWN
    assert needed(["power8", "armv8", NOT_NAMED]) == (NOT_NAMED,)


def test_every_shipped_cpu_platform_names_its_level() -> None:
    for platform in shipped().values():
        assert unknown_names(platform.instruction_sets) == ()
        if platform.kind.value == "cpu":
            level = "x86-64-v2" if platform.architecture == "x86_64" else None
            assert platform.instruction_sets
            assert level is None or has(platform.instruction_sets, level) is Has.YES
    assert has(shipped()["quartz"].instruction_sets, "movbe") is Has.YES
    assert has(shipped()["quartz"].instruction_sets, "avx512f") is Has.NO
    assert has(shipped()["skylake-8176"].instruction_sets, "avx512vl") is Has.YES


def test_a_machine_is_described_by_level_and_what_is_beyond() -> None:
    v2 = "fpu cx8 cmov mmx fxsr sse sse2 cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2"
    flags = f"flags\t\t: {v2} avx xsave rdrand nonsense"
    assert instruction_sets.listed_in(["processor: 0", flags]) == ("x86-64-v2", "avx", "rdrand")
    of_arm = ["processor: 0", "Features\t: fp asimd sve"]
    assert instruction_sets.listed_in(of_arm) == ("armv8", "fp", "sve")
    of_power = ["processor\t: 0", "cpu\t\t: POWER9 (architected), altivec supported"]
    assert instruction_sets.listed_in(of_power) == ("power9",)
    assert instruction_sets.listed_in(["\ufffd\ufffd flags"]) == ()
    assert instruction_sets.listed_in([]) == ()
