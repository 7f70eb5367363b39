"""LIKWID and perf files: units, several threads, several groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported import SAMPLES, profiles_of

from berth.pilot.catalogue import COUNTERS, REQUIRED, alternatives, from_source, names
from berth.pilot.errors import BerthError, DocumentError
from berth.pilot.importers import likwid, perf_stat
from berth.pilot.importers.reading import ImportedFile, ImportOptions
from berth.pilot.profile import Profile

Sample = Callable[..., dict[str, Profile]]
IMPORTED = ("papi", "caliper", "rajaperf", "likwid", "perf")


def test_likwid_counts_are_summed_over_threads_and_channels(sample: Sample) -> None:
    triad = sample("likwid_regions.csv")["Triad"]
    assert triad.value("instructions") == 3000
    assert triad.value("fp64_ops") == 30 + 4 * 300
    assert triad.value("dram_bytes") == 64 * (50 + 30 + 25 + 15)
    assert triad.runtime is not None
    assert triad.runtime.median_s == 0.625
    assert triad.runs_on.threads == 2
    assert triad.provenance.host_cpu == "Example CPU @ 2.10GHz"


LIKWID = """\
TABLE,Region triad,Group 1 Raw,MEM,6,
Region Info,HWThread 0,HWThread 1,,
RDTSC Runtime [s],3.411000,3.400000,,
Event,Counter,HWThread 0,HWThread 1,
INSTR_RETIRED_ANY,FIXC0,4725209000,4725209001,
CPU_CLK_UNHALTED_CORE,FIXC1,10272400000,10272400000,
CAS_COUNT_RD,MBOX0C0,337786500,0,
CAS_COUNT_WR,MBOX0C1,112551600,0,
CAS_COUNT_RD,MBOX2C0,337786500,-,
CAS_COUNT_WR,MBOX2C1,112551600,-,
"""


@pytest.mark.parametrize(
    ("old", "new", "counter", "word"),
    [
        ("MBOX2C0,337786500,-", "MBOX2C0,nan,nan", "dram_bytes", "not a number"),
        ("FIXC0,4725209000,4725209001", "FIXC0,4725209000,nan", "instructions", "not a number"),
        ("FIXC0,4725209000", "FIXC0,1.844674e+19", "instructions", "no count"),
        ("MBOX0C0,337786500", "MBOX0C0,1.844674e+19", "dram_bytes", "no count"),
        ("FIXC0,4725209000", "FIXC0,-5", "instructions", "not a number"),
    ],
)
def test_a_likwid_count_that_a_thread_or_channel_lacks_is_missing_with_a_word(
    written: Callable[[str, str], Path], old: str, new: str, counter: str, word: str
) -> None:
    whole = profiles_of(written("whole.csv", LIKWID))["triad"]
    assert whole.value("dram_bytes") == 64 * 2 * (337786500 + 112551600)
    profile = profiles_of(written("part.csv", LIKWID.replace(old, new)))["triad"]
    assert profile.value(counter) is None
    assert word in (profile.counters[counter].note or "")
    assert any(word in warning for warning in profile.warnings)
    assert profile.value("cycles") == whole.value("cycles")


ZEN = ("RETIRED_INSTRUCTIONS", "CPU_CLOCKS_UNHALTED")
INTEL = ("INSTR_RETIRED_ANY", "CPU_CLK_UNHALTED_CORE")
CHANNELS = tuple(f"DRAM_CHANNEL_{number}" for number in range(8))


@pytest.mark.parametrize(
    ("events", "counter", "value"),
    [
        ((*ZEN, "DATA_CACHE_ACCESSES", "DATA_CACHE_REFILLS_ALL"), "l1_load_misses", 400),
        ((*ZEN, "DATA_CACHE_ACCESSES", "ANY_DATA_CACHE_FILLS_ALL"), "l1_load_misses", 400),
        (
            (*ZEN, "L2_PF_HIT_IN_L3", "L2_PF_MISS_IN_L3", "L2_CACHE_MISS_AFTER_L1_MISS"),
            "l2_load_misses",
            500,
        ),
        ((*ZEN, "L3_ACCESS_ALL_TYPES", "L3_ACCESS_MISS"), "llc_load_misses", 400),
        ((*ZEN, "L3_LOOKUP_STATE_ALL_TYPES", "L3_LOOKUP_STATE_MISS"), "llc_load_misses", 400),
        ((*ZEN, *CHANNELS), "dram_bytes", 64 * (300 + 1000) * 4),
        ((*ZEN, *CHANNELS[:4]), "dram_bytes", None),
        ((*ZEN, "CAS_CMD_RD", "CAS_CMD_WR"), "dram_bytes", 64 * 700),
        ((*ZEN, "RETIRED_SSE_AVX_FLOPS_ALL"), "fp_ops", 300),
        (
            (
                *ZEN,
                "RETIRED_SSE_AVX_FLOPS_ALL_DP_SCALAR",
                "RETIRED_SSE_AVX_FLOPS_ALL_DP_PACKED",
            ),
            "fp64_ops",
            700,
        ),
        (
            (*ZEN, "ICACHE_FETCHES", "ICACHE_L2_REFILLS", "ICACHE_SYSTEM_REFILLS"),
            "l1_instruction_misses",
            900,
        ),
        (
            (*INTEL, "L1D_REPLACEMENT", "L2_TRANS_L1D_WB", "ICACHE_64B_IFTAG_MISS"),
            "l1_load_misses",
            300,
        ),
        ((*INTEL, "L2_LINES_IN_ALL", "L2_TRANS_L2_WB"), "l2_load_misses", 300),
        ((*INTEL, "L2_REQUEST_ALL", "L2_REQUEST_MISS"), "l2_load_misses", 400),
        ((*INTEL, "MEM_LOAD_RETIRED_L3_HIT", "MEM_LOAD_RETIRED_L3_MISS"), "llc_load_misses", 400),
        ((*INTEL, "DRAM_READS", "DRAM_WRITES"), "dram_bytes", 64 * 700),
        (
            (
                *INTEL,
                "CAS_COUNT_SCH0_RD",
                "CAS_COUNT_SCH0_WR",
                "CAS_COUNT_SCH1_RD",
                "CAS_COUNT_SCH1_WR",
            ),
            "dram_bytes",
            64 * 1800,
        ),
    ],
)
def test_likwids_groups_of_zen_and_of_ice_lake_and_later_are_known(
    written: Callable[[str, str], Path], events: tuple[str, ...], counter: str, value: float | None
) -> None:
    rows = [f"{event},PMC{n},{100 * (n + 1)}," for n, event in enumerate(events)]
    head = "TABLE,Group 1 Raw,X,9\nEvent,Counter,HWThread 0,\n"
    program = profiles_of(written("x.csv", head + "\n".join(rows) + "\n"))["(program)"]
    assert program.value("instructions") == 100
    assert program.value("cycles") == 200
    assert program.value(counter) == value


def test_the_tables_of_two_likwid_runs_are_refused(written: Callable[[str, str], Path]) -> None:
    with pytest.raises(DocumentError, match="a second run"):
        profiles_of(written("two.csv", LIKWID + LIKWID))


def test_counts_that_cannot_be_of_one_run_are_refused_and_its_times_stay(
    written: Callable[[str, str], Path],
) -> None:
    text = (
        "3200020432,,instructions:u,38363000,100.00,,\n3444794,,cycles:u,38363000,100.00,,\n"
        "40959000,ns,duration_time,40959000,100.00,,\n38.36,msec,task-clock:u,38363000,100.00,,\n"
    )
    profile = profiles_of(written("x.csv", text))["(program)"]
    assert profile.value("instructions") is None
    assert profile.value("cycles") is None
    assert "929 in each cycle" in (profile.counters["instructions"].note or "")
    assert profile.value("cpu_time_s") == pytest.approx(0.03836)
    assert profile.runtime is not None
    assert any("counters are refused" in warning for warning in profile.warnings)


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
    told = profiles_of(path, ImportOptions(processor="intel"))["(program)"]
    assert told.value("loads") == 7
    assert told.counters["loads"].note == "multiplexed: counted 50% of the time and scaled"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("     0.100146731,0.72,msec,task-clock,719930,100.00,,\n", "of one interval"),
        ("CPU0,1.04,msec,task-clock,1041429,100.00,1.007,CPUs utilized\n", "not a line of"),
        ("# started\n\n", "holds no event"),
        ("# started on Mon\n1,,cycles,9,100.00,,\n# started on Tue\n", "a second run"),
    ],
)
def test_perf_lines_that_are_no_totals_are_refused(
    written: Callable[[str, str], Path], text: str, problem: str
) -> None:
    with pytest.raises(DocumentError, match=problem):
        perf_stat.read_text(ImportedFile(written("x.csv", text), text.encode(), ""))


HYBRID = """\
3642649330,,cpu_atom/cycles/,7481234,0.68,3.308,GHz
4963414681,,cpu_core/cycles/,867812345,78.79,4.508,GHz
4778497246,,cpu_atom/instructions/,9370011,0.85,1.31,insn per cycle
11012810078,,cpu_core/instructions/,976812345,88.71,2.22,insn per cycle
33268991,,cpu_core/L1-dcache-load-misses/,977000000,88.79,,
11006799,,cpu_core/LLC-load-misses/,9770000,0.88,69.62,of all LL-cache accesses
1101976138,ns,duration_time,1101976138,100.00,,
"""
PRINTED = """\
 a program's own line, 3 cycles
 Performance counter stats for './app --n 4' (3 runs):

          2,500.12 msec task-clock:u          #    1.923 CPUs utilized   ( +-  0.10% )
     9,123,456,789      instructions:u        #    2.22  insn per cycle              (83.31%)
     <not supported>      LLC-load-misses:u
             1,024      L1-dcache-load-misses #    0.3% of L1-dcache  ( +-  1.2% )  (4.10%)

            1.3000 +- 0.0020 seconds time elapsed  ( +-  0.15% )

       2.400000000 seconds user
       0.100000000 seconds sys

77 cycles of washing
"""


def test_both_core_types_of_a_hybrid_processor_count_by_their_share_of_the_time(
    written: Callable[[str, str], Path],
) -> None:
    program = profiles_of(written("x.csv", HYBRID))["(program)"]
    instructions, cycles = program.value("instructions"), program.value("cycles")
    assert instructions is not None
    assert cycles is not None
    # The mean of both, each counted only while the program ran on its kind of core.
    assert instructions == pytest.approx(10.95e9, rel=0.01)
    assert instructions / cycles == pytest.approx(2.22, rel=0.01)
    assert program.counters["instructions"].standard_error is None
    misses = program.counters["llc_load_misses"]
    assert misses.value == 11_006_799
    assert misses.standard_error == pytest.approx(0.53 * 11_006_799, rel=0.01)


@pytest.mark.parametrize(
    "events",
    [
        ("armv8_pmuv3_0/inst_retired/u", "ld_spec:u", "st_spec", "l1d_cache_refill",
         "ll_cache_miss_rd"),
        ("ex_ret_instr", "ls_dispatch.ld_dispatch", "ls_dispatch.store_dispatch",
         "L1-dcache-load-misses", "ls_dmnd_fills_from_sys.mem_io_local",
         "ls_dmnd_fills_from_sys.mem_io_remote"),
        ("ex_ret_instr", "ls_dispatch.ld_dispatch", "ls_dispatch.ld_st_dispatch",
         "ls_dispatch.store_dispatch", "ls_dmnd_fills_from_sys.all",
         "ls_dmnd_fills_from_sys.dram_io_all"),
        ("inst_retired.any", "mem_inst_retired.all_loads", "mem_inst_retired.all_stores",
         "mem_load_retired.l1_miss", "mem_load_retired.l3_miss"),
    ],
    ids=["arm", "amd", "zen 4", "intel"],
)  # fmt: skip
def test_vendors_own_names_of_events_give_what_a_prediction_needs(
    written: Callable[[str, str], Path], events: tuple[str, ...]
) -> None:
    lines = [f"{100 + n},,{name},9,100.00,," for n, name in enumerate(events)]
    program = profiles_of(written("x.csv", "\n".join(lines)))["(program)"]
    assert [program.value(name) is not None for name in REQUIRED] == [True] * len(REQUIRED)


def test_a_printed_table_is_read_amid_the_programs_output(
    written: Callable[[str, str], Path],
) -> None:
    program = profiles_of(written("x.txt", PRINTED))["(program)"]
    assert program.value("instructions") == 9_123_456_789
    assert (
        program.counters["instructions"].note == "multiplexed: counted 83% of the time and scaled"
    )
    assert program.counters["llc_load_misses"].note == "LLC-load-misses: not supported"
    assert program.counters["l1_load_misses"].standard_error is not None
    assert program.value("cpu_time_s") == pytest.approx(2.50012)
    assert program.value("cycles") is None
    assert program.workload.command == ("./app", "--n", "4")
    assert program.runtime is not None
    assert program.runtime.median_s == 1.3


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("123,456,789", "123.456.789", "another locale"),
        ("2,500.12", "2.500,12", "another locale"),
        ("1.3000 +-", "1,3000 +-", "another locale"),
        ("77 cycles", " Performance counter stats for 'b':\n 77 cycles", "a second run"),
        ("77 cycles", "Performance counter stats for './b.out':\n 77 cycles", "a second run"),
    ],
)
def test_a_printed_table_that_could_be_misread_is_refused(
    written: Callable[[str, str], Path], old: str, new: str, problem: str
) -> None:
    with pytest.raises(DocumentError, match=problem):
        profiles_of(written("x.txt", PRINTED.replace(old, new)))


def test_decimal_commas_are_refused_with_the_way_out(written: Callable[[str, str], Path]) -> None:
    text = "5005,12,msec,task-clock,5005120000,100,00,1,CPUs utilized\n"
    with pytest.raises(DocumentError, match="decimal comma") as error:
        profiles_of(written("x.csv", text))
    assert "LC_ALL=C" in str(error.value.hint)


def test_a_file_with_neither_a_time_nor_a_counter_is_refused(
    written: Callable[[str, str], Path],
) -> None:
    with pytest.raises(DocumentError, match="neither a time nor a counter"):
        profiles_of(written("x.csv", "7,,r81d0:u,9,50.00,,\n"))


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
    read: Callable[[ImportedFile], object], start: str, text: str
) -> None:
    try:
        read(ImportedFile(Path("x.csv"), (start + text).encode(), ""))
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
