"""What ``perf stat -x,`` prints on real machines is read right; what it cannot count is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.collectors.perf import (
    PerfCollector,
    cannot_be,
    evaluate,
    family,
    parse,
    terms,
    totals,
)
from berth.pilot.launch import Order, run_one
from berth.pilot.profile import Quality

SKYLAKE = """\
# started on Mon Mar  4 10:11:12 2024

31250000,,instructions:u,2000000,100.00,1.25,insn per cycle
25000000,,cycles:u,2000000,100.00,,
1000,,r1c7:u,900000,45.00,,
500,,r4c7:u,900000,45.00,,
250,,r10c7:u,880000,44.00,,
0,,r40c7:u,880000,44.00,,
<not counted>,,LLC-load-misses:u,0,0.00,,
<not supported>,,r140014a3:u,0,100.00,,
7000,,branches:u,2000000,100.00,,
70,,branch-misses:u,2000000,100.00,1.00,of all branches
"""
HYBRID = """\
1000000,,cpu_core/instructions/u,5000000,62.50,2.00,insn per cycle
200000,,cpu_atom/instructions/u,3000000,37.50,1.00,insn per cycle
400,,cpu_core/r81d0/u,5000000,62.50,,
999,,cpu_atom/r81d0/u,3000000,37.50,,
<not counted>,,cpu_atom/branch-misses/u,0,0.00,,
30,,cpu_core/branch-misses/u,5000000,100.00,,
"""
VIRTUAL = """\
<not supported>,,instructions:u,0,100.00,,
5923,,page-faults,14776874,100.00,400.829,K/sec
14.78,msec,task-clock,14776874,100.00,0.895,CPUs utilized
16518847,ns,duration_time,16518847,100.00,1.118,G/sec
"""
WITH_TERMS = "12,,cpu/event=0xc7,umask=0x01/,900000,45.00,,\n"


def test_counts_and_shares_are_read() -> None:
    events = totals(parse(SKYLAKE))
    assert events["instructions"].value == 31_250_000
    assert events["r1c7"].share == pytest.approx(0.45)
    assert events["branch-misses"].value == 70


def test_a_sum_over_multiplexed_events_is_weighted_and_says_so() -> None:
    events = totals(parse(SKYLAKE))
    found = evaluate("r1c7 + 2*r4c7 + 4*r10c7 + 8*r40c7", events)
    assert found.value == 1000 + 2 * 500 + 4 * 250
    assert found.quality is Quality.MEASURED
    assert found.note is not None
    assert "44%" in found.note


@pytest.mark.parametrize(
    ("event", "why"), [("LLC-load-misses", "not counted"), ("r140014a3", "not supported")]
)
def test_what_was_not_counted_is_missing_never_zero(event: str, why: str) -> None:
    found = evaluate(event, totals(parse(SKYLAKE)))
    assert found.value is None
    assert why in (found.note or "")


def test_an_event_that_perf_did_not_print_is_missing() -> None:
    assert evaluate("branches + no-such", totals(parse(SKYLAKE))).value is None


def test_hybrid_cores_count_by_time_but_raw_codes_are_of_the_performance_cores() -> None:
    events = totals(parse(HYBRID))
    assert events["instructions"].value == 0.625 * 1_000_000 + 0.375 * 200_000
    assert events["instructions"].share == pytest.approx(1.0)
    assert events["r81d0"].value == 400
    assert events["branch-misses"].value == 30


def test_software_events_of_a_virtual_machine_are_read_beside_missing_ones() -> None:
    events = totals(parse(VIRTUAL))
    assert events["instructions"].value is None
    assert events["task-clock"].value == pytest.approx(14.78)


def test_an_event_with_commas_of_its_own_keeps_its_fields() -> None:
    [event] = parse(WITH_TERMS)
    assert (event.name, event.value, event.share) == ("cpu/event=0xc7,umask=0x01/", 12, 0.45)


@given(st.text(alphabet=st.sampled_from("0123456789,.<>/:ucpl_ortnei# \n-"), max_size=300))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for event in totals(parse(text)).values():
        assert event.value is None or event.value >= 0
        assert 0 <= event.share <= 1 or event.value is None


@given(st.integers(0, 10**15), st.integers(1, 10_000))
def test_what_perf_writes_is_what_is_read(value: int, hundredths: int) -> None:
    line = f"{value},,instructions:u,1000,{hundredths / 100:.2f},,\n"
    [event] = parse(line)
    assert event.value == value
    assert event.share == pytest.approx(hundredths / 10_000)


def test_a_bad_formula_is_refused() -> None:
    with pytest.raises(ValueError, match="not a sum"):
        terms("r1c7 - 2*x")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vendor_id\t: GenuineIntel\n", "perf:intel"),
        ("vendor_id\t: AuthenticAMD\n", "perf:amd"),
        ("CPU implementer\t: 0x41\n", "perf:arm"),
        ("cpu\t\t: POWER9, altivec supported\n", "perf:power"),
        ("processor : 0\n", None),
    ],
)
def test_the_processor_family_is_recognised(text: str, name: str | None) -> None:
    assert family(text) == name


FAKE_PERF = """#!/bin/sh
# Stands in for perf on a machine with hardware counters: knows all but one event.
shift; out=/dev/stderr; events=
while [ "$1" != "--" ]; do
  case "$1" in -o) out=$2; shift;; -e) events=$2; shift;; esac; shift
done; shift
case "$events" in *r24:u*) echo "event syntax error" >&2; exit 129;; esac
for e in $(echo "$events" | tr , ' '); do echo "100,,$e,1000,100.00,,"; done > "$out"
exec "$@"
"""


VIRTUAL_EPYC = """\
29277252,,L1-dcache-load-misses,184479952,46.00,,
2654975390462502,,branch-misses:u,188365185,47.00,882651960.03,of all branches
300795275,,branches:u,194140419,49.00,,
2262969295554361,,instructions:u,245550018,62.00,1805649.31,insn per cycle
"""
"""A guest's counters on 2026-11-23: gzip, 0.33 s, 1,487,257,633 instructions."""


def machine_with(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> PerfCollector:
    """Its perf is ``script``."""
    fake = folder / "perf"
    fake.write_text(script)
    fake.chmod(0o755)
    cpuinfo = folder / "cpuinfo"
    cpuinfo.write_text("CPU implementer : 0x41\n")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return PerfCollector(folder / "out", cpuinfo, folder / "unknown")


def test_counts_that_cannot_be_are_found() -> None:
    why = cannot_be(parse(VIRTUAL_EPYC), 0.33)
    assert why == "2.65e+15 branch-misses are more than a processor does in 0.33 s"
    none = "0,,cycles:u,1000,100.00,,\n0,,r40c7:u,1000,100.00,,\n"
    assert cannot_be(parse(none), 0.33) == "no cycles in 0.33 s"
    for right in (SKYLAKE, HYBRID, VIRTUAL):
        assert cannot_be(parse(right), 0.01) is None


def test_a_machine_whose_counters_count_wrongly_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = FAKE_PERF.replace('echo "100,', 'echo "140737488355328,')
    why = machine_with(wrong, tmp_path, monkeypatch).probe()
    assert why is not None
    assert "count wrongly here" in why


def test_a_run_whose_counts_cannot_be_gives_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = machine_with(FAKE_PERF, tmp_path, monkeypatch)
    assert perf.probe() is None
    (tmp_path / "perf").write_text(FAKE_PERF.replace('echo "100,', 'echo "140737488355328,'))
    readings = perf.finish(run_one(perf.prepare(Order(("/bin/true",), dict(os.environ)))))
    assert readings.failed
    assert not readings.counters


def test_a_machine_with_counters_is_measured_under_perf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = machine_with(FAKE_PERF, tmp_path, monkeypatch)
    assert perf.probe() is None
    assert not perf.gives(["instructions", "no_such_counter"])
    assert perf.gives(["instructions", "int_ops"])
    outcome = run_one(perf.prepare(Order(("/bin/true",), dict(os.environ))))
    readings = perf.finish(outcome)
    assert outcome.exit_code == 0
    assert readings.counters["instructions"].value == 100
    assert readings.counters["int_ops"].value == 200
    assert readings.counters["memory_stall_cycles"].value is None


def test_a_machine_without_perf_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert PerfCollector(tmp_path).probe() == "perf is not installed"
