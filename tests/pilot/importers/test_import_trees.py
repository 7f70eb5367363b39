"""Caliper, Hatchet and Thicket files: inclusive totals, wall-clock times, nothing guessed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported import SAMPLES

from berth.pilot.errors import BerthError, DocumentError, UsageError
from berth.pilot.importers import caliper
from berth.pilot.importers.reading import MAX_DEPTH, ImportedFile, ImportOptions, load
from berth.pilot.importers.recogniser import ends_of
from berth.pilot.importers.tree import TreeColumn
from berth.pilot.profile import Profile, Quality, Target
from berth.plugin.readers import Purpose, read_measurements, reader_of

Sample = Callable[..., dict[str, Profile]]
TRIAD, DOT = "Suite/Stream/Stream_TRIAD", "Suite/Stream/Stream=DOT, pairwise"


def test_a_kernels_own_account_is_a_repetition_times_its_repetitions(sample: Sample) -> None:
    triad = sample("kernels.cali")[TRIAD]
    assert triad.value("algorithm_bytes") == 24000 * 50
    assert triad.value("fp_ops") == 2000 * 50
    assert triad.value("gpu_kernels") == 50
    assert triad.counters["fp_ops"].quality is Quality.DERIVED
    assert triad.value("topdown_retiring") == 0.25
    assert triad.runtime is not None
    assert triad.runtime.median_s == 1.0
    assert triad.workload.size == 1000


def test_a_region_around_kernels_does_not_take_the_largest_of_them_for_its_own(
    sample: Sample,
) -> None:
    around = sample("kernels.cali")["Suite/Stream"]
    assert around.value("fp_ops") is None
    assert "around others" in (around.counters["fp_ops"].note or "")
    assert around.value("instructions") == 10_000_000, "sums do add up"


def test_names_with_escapes_and_facts_of_the_run_are_kept(sample: Sample) -> None:
    found = sample("kernels.cali")
    dot = found[DOT]
    assert dot.name == "kernels.Stream_DOT_pairwise"
    assert dot.workload.command == ("./suite.exe", "--size", "1000")
    assert dot.runs_on.targets == (Target.CPU,)
    assert dot.runs_on.architecture == "x86_64"
    imported = dot.provenance.imported
    assert imported is not None
    assert (imported.tool, imported.tool_version) == ("caliper", "2.9.0")
    assert imported.file_sha256 == load(SAMPLES / "kernels.cali").sha256
    assert imported.measured.startswith("2022-08-08T")


def test_a_counter_that_the_file_lacks_is_missing_and_the_reason_names_it(sample: Sample) -> None:
    triad = sample("kernels.cali")[TRIAD]
    assert triad.value("l1_load_misses") is None
    assert triad.counters["l1_load_misses"].note == "the file has no PAPI_L1_LDM"
    assert triad.counters["page_faults"].note == "caliper has no name for it in the catalogue"
    assert "BlockSize" in triad.collectors[0].detail


def test_exclusive_times_add_up_by_rank_and_the_slowest_counts(sample: Sample) -> None:
    found = sample("ranks_split.json")
    main, solve = found["main"], found["main/solve"]
    assert main.runtime is not None
    assert main.runtime.median_s == 1.25 + 0.75 + 0.5
    assert main.value("branches") == 30 + 40 + 10 + 12 + 5 + 6
    assert solve.value("branches") == 10 + 12 + 5 + 6
    assert main.runs_on.ranks == 2


def test_plain_json_tells_its_unit_by_the_name(sample: Sample) -> None:
    found = sample("plain.json")
    assert found["main"].runtime is not None
    assert found["main"].runtime.median_s == 4.0
    assert found["main"].value("loads") == 100
    assert any("how many processes" in text for text in found["main"].warnings)


def test_only_the_regions_asked_for_come_and_a_miss_names_what_there_is(sample: Sample) -> None:
    assert set(sample("kernels.cali", regions=("Stream_T*",))) == {TRIAD}
    with pytest.raises(UsageError, match="no region matches") as caught:
        sample("kernels.cali", regions=("Dgemm",))
    assert "Suite/Stream" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("__rec=node,id=20,attr=8,parent=999\n", "line 1", "refers to node 999"),
        ("__rec=node,id=x,attr=8\n", "line 1", "not a node's number"),
        ("__rec=node,attr=8\n", "line 1", "without 'id'"),
        ("__rec=ctx,attr=8=9,data=1\n", "line 1", "2 attributes and 1 values"),
        ("__rec=ctx,attr=3,data=1\n", "line 1", "no attribute"),
        ("__rec=node,id=20,attr=8,data=a\n\n__rec=what\n", "line 3", "not a record"),
        ("__rec=node,id=20,attr=8\n__rec=node,id=20,attr=8\n", "line 2", "second time"),
    ],
)
def test_a_broken_cali_is_refused_by_its_line(
    written: Callable[[str, str], Path], text: str, where: str, problem: str
) -> None:
    with pytest.raises(DocumentError, match=problem) as caught:
        read_measurements(written("x.cali", text), "caliper", ImportOptions())
    assert caught.value.key == where


def test_a_chain_of_nodes_beyond_the_depth_is_refused(written: Callable[[str, str], Path]) -> None:
    lines = ["__rec=node,id=20,attr=8,data=a,parent=3"]
    lines += [f"__rec=node,id={i},attr=20,data=a,parent={i - 1}" for i in range(21, MAX_DEPTH + 40)]
    with pytest.raises(DocumentError, match="nested deeper"):
        read_measurements(written("deep.cali", "\n".join(lines)), None, ImportOptions())
    nested = "[" * 100_000
    with pytest.raises(DocumentError, match=r"nested too deeply|not JSON|of no format"):
        read_measurements(written("deep.json", nested), None, ImportOptions())


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"nodes": [{"label": "a", "parent": 0}]}, "nodes[0].parent"),
        ({"nodes": [{"column": "path"}]}, "nodes[0]"),
        ({"data": [[1]]}, "data[0]"),
        ({"data": [[1, 0, 1.0, 99]]}, "data[0].path"),
        ({"column_metadata": []}, "column_metadata"),
        ({"columns": ["a", "a", "b", "path"]}, "columns"),
    ],
)
def test_a_broken_json_split_is_refused_by_its_key(
    written: Callable[[str, str], Path], change: dict[str, object], key: str
) -> None:
    data = json.loads((SAMPLES / "ranks_split.json").read_text()) | change
    with pytest.raises(DocumentError) as caught:
        read_measurements(written("x.json", json.dumps(data)), "caliper-json", ImportOptions())
    assert caught.value.key == key


@pytest.mark.parametrize("head", [b"\x80\x04\x95", b"\x89HDF\r\n"])
def test_pickles_and_hdf5_are_refused(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "frame.pkl"
    path.write_bytes(head + b"\0" * 100)
    with pytest.raises(DocumentError, match="can run code"):
        read_measurements(path, None, ImportOptions())


@pytest.mark.parametrize("text", ["", "hello\n", "{}", "42", '{"a": 1}', "a,b\n1,2\n"])
def test_what_no_tool_wrote_is_of_no_format(written: Callable[[str, str], Path], text: str) -> None:
    with pytest.raises(DocumentError, match=r"no format|is empty"):
        read_measurements(written("x", text), None, ImportOptions())


def test_a_pipe_or_a_device_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "profile.cali"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(DocumentError, match="is not a regular file"):
            read_measurements(path, None, ImportOptions())


@given(st.text(alphabet=st.sampled_from("__rec=node,ctxgloba idattr=data,parent=0123456789\\\n")))
def test_any_text_is_read_as_cali_or_refused_in_words(text: str) -> None:
    source = ImportedFile(Path("x.cali"), text.encode(), "")
    try:
        caliper.read(source)
    except DocumentError as error:
        assert error.key is not None


@given(
    st.binary(max_size=400), st.sampled_from(["", "__rec=", '{"columns"', "[", "TABLE,Group 1 "])
)
def test_any_bytes_are_told_or_refused_in_words(raw: bytes, start: str) -> None:
    try:
        reader_of(ends_of(start.encode() + raw), "x", Purpose.PROFILE)
    except BerthError as error:
        assert error.message


NAME = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)


def _escaped(name: str) -> str:
    return "".join("\\" + c if c in "\\,=" else c for c in name)


@given(st.lists(NAME, min_size=1, max_size=6), st.floats(0, 1e9))
def test_a_path_written_by_calipers_rules_is_read_back(path: list[str], seconds: float) -> None:
    names = [name for name in ("".join(p.split()) for p in path) if name]
    lines = [
        "__rec=node,id=20,attr=10,data=276,parent=3",
        "__rec=node,id=21,attr=8,data=region,parent=20",
        "__rec=node,id=22,attr=10,data=65,parent=5",
        "__rec=node,id=23,attr=8,data=t,parent=22",
    ]
    for index, name in enumerate(names):
        parent = f",parent={99 + index}" if index else ""
        lines.append(f"__rec=node,id={100 + index},attr=21,data={_escaped(name)}{parent}")
    reference = f",ref={99 + len(names)}" if names else ""
    lines.append(f"__rec=ctx{reference},attr=23,data={seconds!r}")
    source = ImportedFile(Path("x"), "\n".join(lines).encode(), "")
    [table] = caliper.read(source)
    assert table.records[0].path == tuple(names)
    assert table.records[0].numbers["t"] == seconds


@pytest.mark.parametrize(
    ("name", "base", "over", "inclusive"),
    [
        ("avg#inclusive#sum#time.duration.ns", "time.duration.ns", ("avg", "sum"), True),
        ("time (inc)", "time.duration", ("sum",), True),
        ("sum#sum#papi.PAPI_TOT_INS", "PAPI_TOT_INS", ("sum", "sum"), False),
        ("PAPI_TOT_INS:Sum (I)", "PAPI_TOT_INS", (), True),
        ("any#any#max#Flops/Rep", "Flops/Rep", ("any", "any", "max"), False),
        ("PAPI_L2_DCM (exc)", "PAPI_L2_DCM", (), False),
    ],
)
def test_a_columns_name_says_how_it_was_aggregated(
    name: str, base: str, over: tuple[str, ...], inclusive: bool
) -> None:
    column = TreeColumn.of(name)
    assert (column.base, column.over, column.inclusive) == (base, over, inclusive)
