"""Files of other tools: each is named and refused with the way out, or read for what it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from foreign_samples import PAST, PROFILE, SAMPLES, TRACE, WORKLOAD, Sample
from machine_speed import million_steps_s

from berth.pilot.errors import BerthError, DocumentError
from berth.pilot.importers.recogniser import Text
from berth.pilot.run import Run
from berth.plugin.cli.command_line import berth
from berth.plugin.history.files import lines_of, read_past_jobs
from berth.plugin.readers import (
    INSTEAD,
    READERS,
    Purpose,
    advice,
    expect,
    in_text,
    kinds,
    recognised,
)

COMMANDS = {
    "jobs history import": (PAST,),
    "replay": (PAST, TRACE),
    "pilot import": (PROFILE,),
    "predict": (WORKLOAD,),
    "workload add": (WORKLOAD,),
}


def run(command: str, path: Path, store: Path) -> Result:
    options = {
        "jobs history import": ["--store", str(store)],
        "replay": ["--cores", "64"],
        "pilot import": ["--platform", "here"],
        "predict": ["--platform", "nvidia-a100-80gb-sxm"],
        "workload add": ["--store", str(store)],
    }
    return CliRunner().invoke(berth, [*command.split(), str(path), *options[command]])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.file)
def test_a_file_that_a_command_does_not_read_is_named_and_nothing_is_imported(
    sample: Sample, command: str, tmp_path: Path
) -> None:
    if sample.read_as in COMMANDS[command]:
        return
    path = sample.write(tmp_path)
    error = run(command, path, tmp_path / "store.db").exception
    assert isinstance(error, DocumentError), error
    assert error.exit_status == 2
    assert sample.name in error.message or "locale" in error.message or "comma" in error.message
    assert error.hint, error.message
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if s.read_as is not None], ids=lambda sample: sample.file
)
def test_a_file_that_is_read_is_recognised(sample: Sample, tmp_path: Path) -> None:
    path = sample.write(tmp_path)
    reader, kind = expect(path, Purpose(sample.read_as or "")), next(recognised(path))
    assert reader is not None
    assert kind in reader.kinds
    assert sample.name in kind.name


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if s.read_as == PROFILE], ids=lambda sample: sample.file
)
def test_measurements_become_profiles(sample: Sample, tmp_path: Path) -> None:
    result = run("pilot import", sample.write(tmp_path), tmp_path)
    assert result.exit_code == 0, result.exception
    assert "counters" in result.stdout.lower()


def jobs_of(name: str, folder: Path) -> list[Run]:
    path = next(sample for sample in SAMPLES if sample.file == name).write(folder)
    read = read_past_jobs(lines_of(path), str(path), "lab", utc=True)
    assert not read.broken, read.examples
    return list(read.jobs.values())


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.read_as == PAST], ids=lambda s: s.file)
def test_past_jobs_are_read(sample: Sample, tmp_path: Path) -> None:
    assert len(jobs_of(sample.file, tmp_path)) == 1


def test_accounting_of_pbs_and_torque(tmp_path: Path) -> None:
    (pbs,) = jobs_of("20261005", tmp_path)
    assert (pbs.job_id, pbs.user, pbs.name, pbs.partition) == ("4711", "ann", "relax run", "batch")
    assert (pbs.cores, pbs.nodes, pbs.gpus, pbs.node_list) == (32, 2, 2, "n1,n2")
    assert (pbs.elapsed_s, pbs.time_limit_s, pbs.cpu_time_s) == (3600.0, 7200.0, 93_600.0)
    assert pbs.request_bytes == 32 * 2**30
    assert pbs.peak_bytes is None  # of both nodes together
    (torque,) = jobs_of("torque", tmp_path)
    assert (torque.job_id, torque.cores, torque.state) == ("81_4", 4, "timeout")
    assert torque.peak_bytes == 2**30


@pytest.mark.parametrize("text", ["", "hello\nworld\n", "{}", "[1]", "a|b\n1|2\n"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_no_tool_wrote_is_refused(text: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    error = run(command, path, tmp_path / "store.db").exception
    assert isinstance(error, BerthError), error
    assert error.exit_status == 2
    assert not (tmp_path / "store.db").exists()


def test_perf_that_was_cut_and_jobs_that_fit_nowhere_are_errors(tmp_path: Path) -> None:
    printed = next(sample for sample in SAMPLES if sample.name == "perf stat's printed table")
    cut = tmp_path / "cut.txt"
    cut.write_text(str(printed.content).partition("seconds time elapsed")[0].rpartition("\n")[0])
    assert "is it whole?" in str(run("pilot import", cut, tmp_path).exception.hint)  # type: ignore[union-attr]
    wide = tmp_path / "wide.swf"
    wide.write_text("1 0 10 600 900 -1 -1 900 1200 -1 1 1 1 1 1 -1 -1 -1\n")
    error = run("replay", wide, tmp_path).exception
    assert isinstance(error, BerthError)
    assert "1 refused: larger than its partition" in error.message


def test_a_file_in_which_no_job_ran_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "waiting.txt"
    path.write_text("JobID|User|State|Start|End\n7|ann|PENDING|Unknown|Unknown\n")
    error = run("jobs history import", path, tmp_path / "store.db").exception
    assert isinstance(error, DocumentError)
    assert "holds no job that ran: 1 jobs have not run" in error.message


def test_a_file_of_another_form_at_its_end_is_two_files(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    row = "7|ann|COMPLETED|2026-10-01T10:00:00|2026-10-01T11:00:00|4|relax\n"
    pbs = next(sample for sample in SAMPLES if sample.file == "20261005").content
    path.write_text("JobID|User|State|Start|End|AllocCPUS|JobName\n" + row * 9000 + str(pbs))
    with pytest.raises(DocumentError, match="two kinds of file at once"):
        expect(path, Purpose.PAST_JOBS)


def test_a_broken_gzip_file_is_one(tmp_path: Path) -> None:
    broken = tmp_path / "x.gz"
    broken.write_bytes(b"\x1f\x8bnothing")
    assert [kind.name for kind in recognised(broken)] == ["a compressed file or an archive"]
    assert list(recognised(tmp_path / "none")) == []


@pytest.mark.parametrize(
    "text",
    ["\n", " ", '"', "1,", "1;", "a:", "a|", "\t", "1 ", '"a":', "1,,a,b=/", "/", "=", ",", "\n "],
)
def test_no_text_takes_long_to_recognise(text: str) -> None:
    begun_s = time.process_time()
    for head in ("", "1,,a,b=", "{", "JobID "):
        long = head + text * (2**16 // len(text))
        in_text(Text(long, long))
    assert time.process_time() - begun_s < 500 * million_steps_s()


def test_a_reader_is_registered_under_its_purpose() -> None:
    for name, of_tool in READERS.load_all().items():
        assert {f"{reader.purpose}" for reader in of_tool} == {name.partition(".")[0]}, name


def test_every_kind_is_read_or_says_what_to_do() -> None:
    for kind in kinds():
        assert advice(kind), kind.name
        assert "{" not in advice(kind).replace("{print", "").replace("{if", ""), advice(kind)
    assert all(any(text in advice(kind) for kind in kinds()) for text in INSTEAD.values())
    assert len(SAMPLES) >= 60
