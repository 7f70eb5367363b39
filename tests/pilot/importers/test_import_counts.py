"""LIKWID, perf and ncu files: units, several threads, several launches, several groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported import SAMPLES, profiles_of

from berth.pilot.catalogue import COUNTERS, alternatives, from_source, names
from berth.pilot.errors import BerthError, DocumentError
from berth.pilot.importers import likwid, ncu, nsys, perf_stat, valgrind_out
from berth.pilot.importers.formats import Options
from berth.pilot.importers.reading import Source
from berth.pilot.profile import Profile, Quality, Target

Sample = Callable[..., dict[str, Profile]]
IMPORTED = ("papi", "caliper", "rajaperf", "likwid", "perf", "ncu", "cachegrind")


def test_likwid_counts_are_summed_over_threads_and_channels(sample: Sample) -> None:
    triad = sample("likwid_regions.csv")["Triad"]
    assert triad.value("instructions") == 3000
    assert triad.value("fp64_ops") == 30 + 4 * 300
    assert triad.value("dram_bytes") == 64 * (50 + 30 + 25 + 15)
    assert triad.runtime is not None
    assert triad.runtime.median_s == 0.625
    assert triad.runs_on.threads == 2
    assert triad.provenance.host_cpu == "Example CPU @ 2.10GHz"


def test_each_likwid_region_is_a_profile(sample: Sample) -> None:
    dot = sample("likwid_regions.csv")["Dot"]
    assert dot.value("instructions") == 15
    assert dot.counters["fp64_ops"].note == (
        "the file has no FP_ARITH_INST_RETIRED_SCALAR_DOUBLE, "
        "FP_ARITH_INST_RETIRED_128B_PACKED_DOUBLE, FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE, "
        "FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE"
    )


def test_likwid_groups_that_took_turns_are_partial_but_for_what_all_counted(
    sample: Sample,
) -> None:
    found = sample("likwid_groups.csv")["(program)"]
    assert found.value("instructions") == 800
    assert found.counters["instructions"].complete
    assert not found.counters["branches"].complete
    assert found.counters["branches"].note == "group 1, 3 of 4 s"
    assert found.runtime is not None
    assert found.runtime.median_s == 4.0


def test_perf_as_recorded_gives_software_events_and_says_why_hardware_ones_lack(
    sample: Sample,
) -> None:
    found = sample("perf.csv")["(program)"]
    assert found.value("page_faults") == 80
    assert found.value("cpu_time_s") == pytest.approx(2.76e-3)
    assert found.runtime is not None
    assert found.runtime.median_s == pytest.approx(0.026224031)
    assert found.counters["instructions"].note == "instructions: not supported"
    assert found.provenance.imported is not None
    assert found.provenance.imported.measured == "Sat Nov 21 19:44:54 2026"


def test_perf_json_and_repeated_runs_are_read_alike(sample: Sample) -> None:
    assert sample("perf.json")["(program)"].value("page_faults") == 78
    repeated = sample("perf_repeated.csv")["(program)"]
    assert repeated.value("page_faults") == 79
    assert repeated.runtime is not None
    assert repeated.runtime.median_s == pytest.approx(3.99e-3 / 0.294)


def test_raw_events_mean_something_only_with_the_processors_family(
    written: Callable[[str, str], Path],
) -> None:
    path = written("x.csv", "100,,instructions:u,9,100.00,,\n7,,r81d0:u,9,50.00,,\n")
    plain = profiles_of(path)["(program)"]
    assert plain.value("loads") is None
    assert "r81d0" in plain.collectors[0].detail
    told = profiles_of(path, Options(processor="intel"))["(program)"]
    assert told.value("loads") == 7
    assert told.counters["loads"].note == "multiplexed: counted 50% of the time and scaled"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("     0.100146731,0.72,msec,task-clock,719930,100.00,,\n", "of one interval"),
        ("CPU0,1.04,msec,task-clock,1041429,100.00,1.007,CPUs utilized\n", "not a line of"),
        ("# started\n\n", "holds no event"),
    ],
)
def test_perf_lines_that_are_no_totals_are_refused(
    written: Callable[[str, str], Path], text: str, problem: str
) -> None:
    with pytest.raises(DocumentError, match=problem):
        perf_stat.read_text(Source(written("x.csv", text), text.encode(), ""))


def test_ncu_details_sum_launches_and_turn_rates_into_totals(sample: Sample) -> None:
    axpy = sample("ncu_details.csv")["axpy(int, float *)"]
    assert axpy.runtime is not None
    assert axpy.runtime.median_s == pytest.approx(20e-6)
    assert axpy.value("dram_bytes") == pytest.approx(800e9 * 12.5e-6 + 400e9 * 7.5e-6)
    assert axpy.value("instructions") == 1_235_567
    assert axpy.value("warp_blocks") == 256
    assert axpy.value("gpu_kernels") == 2
    assert axpy.runs_on.targets == (Target.CUDA,)
    assert "1 of 2 launches" in (axpy.counters["cycles"].note or "")


def test_ncu_raw_page_reads_its_line_of_units(sample: Sample) -> None:
    dot = sample("ncu_raw.csv")["dot"]
    assert dot.value("dram_bytes") == 10.24e6 + 2.5e3
    assert dot.value("fp64_ops") == 100 + 20 + 2 * 1000
    assert dot.runtime is not None
    assert dot.runtime.median_s == pytest.approx(4e-6)
    assert dot.counters["fp64_ops"].quality is Quality.MEASURED
    assert "sm__throughput" in dot.collectors[0].detail


@pytest.mark.parametrize("number", ["65,77", "27.595.520", "1,23,456"])
def test_numbers_of_another_locale_are_refused_not_misread(
    written: Callable[[str, str], Path], number: str
) -> None:
    text = (SAMPLES / "ncu_details.csv").read_text().replace("1,234,567", number)
    with pytest.raises(DocumentError, match="locale") as caught:
        profiles_of(written("x.csv", text))
    assert caught.value.key == "line 10"
    assert "LC_ALL=C" in (caught.value.hint or "")


def test_cachegrind_as_recorded_is_emulated_and_its_last_level_is_told_by_its_size(
    sample: Sample,
) -> None:
    found = sample("cachegrind.out")["(program)"]
    assert found.value("instructions") == 452709
    assert found.value("branches") == 83937 + 6165
    assert found.value("llc_load_misses") == 1306
    assert found.value("l2_load_misses") is None
    assert found.counters["loads"].quality is Quality.EMULATED
    assert found.workload.command == ("seq", "1", "2000")
    assert found.runtime is None


def test_callgrind_with_a_last_level_of_a_mebibyte_gives_second_level_misses(
    sample: Sample,
) -> None:
    found = sample("callgrind.out")["(program)"]
    assert found.value("l2_load_misses") == 1068
    assert found.counters["llc_load_misses"].note == "the file has no DLmr with LL = 32 MiB"
    assert found.provenance.imported is not None
    assert found.provenance.imported.tool_version == "3.19.0"


def test_misses_of_a_cache_that_the_catalogue_does_not_mean_are_listed_with_its_size(
    written: Callable[[str, str], Path],
) -> None:
    text = (
        (SAMPLES / "cachegrind.out")
        .read_text()
        .replace("D1 cache:         32768", "D1 cache: 49152")
    )
    found = profiles_of(written("x.out", text))["(program)"]
    assert found.value("l1_load_misses") is None
    assert "D1mr with D1 = 48 KiB" in found.collectors[0].detail
    with pytest.raises(DocumentError, match="no totals of valgrind"):
        profiles_of(written("cut.out", text.partition("summary")[0]))


def test_nsys_gives_each_kernels_time_and_launches(
    sample: Sample, written: Callable[[str, str], Path]
) -> None:
    axpy = sample("nsys.csv")["void axpy<double>(int, double *)"]
    assert axpy.runtime is not None
    assert axpy.runtime.median_s == pytest.approx(3e-3)
    assert axpy.value("gpu_kernels") == 30
    text = (SAMPLES / "nsys.csv").read_text().replace("3000000,30", "x,30")
    with pytest.raises(DocumentError, match="not a kernel") as caught:
        profiles_of(written("x.csv", text))
    assert caught.value.key == "line 3"


def test_a_likwid_line_that_is_cut_short_is_named(written: Callable[[str, str], Path]) -> None:
    text = (SAMPLES / "likwid_regions.csv").read_text()
    path = written("x.csv", text.replace("INSTR_RETIRED_ANY,FIXC0,1000,2000,", "INSTR_RETIRED_ANY"))
    with pytest.raises(DocumentError, match="0 values for 2") as caught:
        profiles_of(path)
    assert caught.value.key == "line 10"
    with pytest.raises(DocumentError, match="'x' is not a number"):
        profiles_of(written("y.csv", text.replace("FIXC0,1000", "FIXC0,x")))


TABLE_TEXT = st.text(
    alphabet=st.sampled_from('TABLE,Group 1RawMetricEvnHWThad0.\n"ID,Kernl Name-()cpuns<>'),
    max_size=400,
)


@pytest.mark.parametrize(
    "read",
    [
        likwid.read,
        perf_stat.read_text,
        perf_stat.read_json,
        ncu.read,
        nsys.read,
        valgrind_out.read,
    ],
)
@pytest.mark.parametrize(
    "start",
    [
        "",
        "TABLE,Group 1 Raw,X,1\nEvent,Counter,HWThread 0\n",
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n',
        "1,,x,1,100.00,,\n",
        '{"event": "x", "counter-value": "1"}\n',
        "Time (%),Total Time (ns),Instances,Name\n",
        "events: Ir Dr\nsummary: 1 2\n",
    ],
)
@given(text=TABLE_TEXT)
def test_any_text_is_read_or_refused_in_words(
    read: Callable[[Source], object], start: str, text: str
) -> None:
    try:
        read(Source(Path("x.csv"), (start + text).encode(), ""))
    except BerthError as error:
        assert "x.csv" in error.message


@pytest.mark.parametrize("source", IMPORTED)
def test_every_formula_of_an_importer_can_be_evaluated(source: str) -> None:
    formulas = from_source(source)
    assert formulas
    for text in formulas.values():
        assert alternatives(text)
        assert all(" + " not in name and "|" not in name for name in names(text))


def test_formulas_keep_their_weights_products_and_alternatives() -> None:
    first, second = alternatives("a + 64*b | 1e9*data [GBytes]*c")
    assert [(t.weight, t.names) for t in first] == [(1.0, ("a",)), (64.0, ("b",))]
    assert [(t.weight, t.names) for t in second] == [(1e9, ("data [GBytes]", "c"))]
    with pytest.raises(ValueError, match="not a sum"):
        alternatives("a + 2")


def test_counters_that_importers_fill_are_defined_once() -> None:
    given_by_import = {c.name for c in COUNTERS for key in IMPORTED if key in c.sources}
    assert {"instructions", "dram_bytes", "algorithm_bytes", "topdown_retiring"} <= given_by_import
