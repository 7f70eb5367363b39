"""``berth replay``: traces in, tables and JSON out, bad input in one sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from thin_site import thin_site

from berth.pilot.errors import BerthError
from berth.plugin.cli.command_line import berth
from berth.plugin.site import load_site

SWF = """\
; UnixStartTime: 1000000000
1 0 0 10 3 -1 -1 3 10 -1 1 1 1 -1 1 -1 -1 -1
2 1 9 10 4 -1 -1 4 10 -1 1 1 1 -1 1 -1 -1 -1
3 2 0 5 1 -1 -1 1 5 -1 1 2 1 -1 1 -1 -1 -1
4 3 17 20 1 -1 -1 1 20 -1 1 2 1 -1 1 -1 -1 -1
"""
SITE = thin_site("queue1", 1, "price_per_core_hour = 3600")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.swf"
    file.write_text(SWF)
    return file


@pytest.fixture
def site(tmp_path: Path) -> Path:
    file = tmp_path / "berth.toml"
    file.write_text(SITE)
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        berth, ["replay", *map(str, arguments)], catch_exceptions=True, env={"BERTH_SITE": None}
    )


def failure(*arguments: object) -> BerthError:
    error = run(*arguments).exception
    assert isinstance(error, BerthError)
    return error


def replays(*arguments: object) -> dict[str, dict[str, object]]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.exception
    return {one["name"]: one for one in json.loads(done.output)["replays"]}


def test_backfills_stand_side_by_side(trace: Path) -> None:
    found = replays(trace, "--cores", 4, "--backfill", "fcfs", "--backfill", "easy")
    # FCFS starts at 0, 10, 20, 20; EASY at 0, 10, 2, 20.
    assert found["fcfs"]["mean_wait_s"] == (0 + 9 + 18 + 17) / 4
    assert found["easy"]["mean_wait_s"] == (0 + 9 + 0 + 17) / 4
    assert found["easy"]["makespan_s"] == 40
    text = run(trace, "--cores", 4).output
    assert "4 jobs read, 4 replayed, 4 ended" in text
    assert "mean wait" in text


def test_a_packed_trace_reads_like_a_plain_one(trace: Path, tmp_path: Path) -> None:
    packed = tmp_path / "trace.swf.gz"
    packed.write_bytes(gzip.compress(SWF.encode()))
    plain, unpacked = replays(trace, "--cores", 4), replays(packed, "--cores", 4)
    assert plain == unpacked
    packed.write_bytes(packed.read_bytes()[:40])
    assert "broken gzip" in failure(packed, "--cores", 4).message


def test_more_nodes_stand_beside_the_present_ones(trace: Path, site: Path) -> None:
    found = replays(trace, "--site", site, "--set", "nodes.thin.count=+1")
    assert found["easy"]["mean_wait_s"] == 6.5
    assert found["easy, changed"]["mean_wait_s"] == 1  # the last job, for 4 s
    # 3 x 10 + 4 x 10 + 5 + 20 core-seconds at 3600 an hour
    assert found["easy"]["cost"] == pytest.approx(95)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("nodes.thick.count=+1", "no kind of nodes 'thick'"),
        ("nodes.thin.count=many", "'many' is no number"),
        ("nodes.thin.count=-9", "cannot be"),
        ("nodes.thin.count=1.5", "no whole number"),
        ("nodes.thin.colour=1", "there is no 'nodes.thin.colour'"),
        ("queues.nowhere.max_time=1", "no partition 'nowhere'"),
        ("everything", "changes nothing"),
    ],
)
def test_a_change_that_cannot_be_says_why(trace: Path, site: Path, change: str, words: str) -> None:
    assert words in failure(trace, "--site", site, "--set", change).message


def test_broken_lines_are_counted_and_shown(trace: Path) -> None:
    trace.write_text(SWF + "5 4 nonsense\n6 -4 0 5 1 -1 -1 1 5 -1 1 2 1 -1 1 -1 -1 -1\n")
    text = run(trace, "--cores", 4).output
    assert "2 lines could not be read" in text
    assert "line 6: 3 fields where SWF has 18" in text


def test_what_cannot_be_replayed_is_one_sentence(trace: Path, site: Path, tmp_path: Path) -> None:
    assert "does not exist" in failure(tmp_path / "none", "--cores", 4).message
    empty = tmp_path / "empty"
    empty.write_text("; Version: 2\n")
    assert "holds no job that ran" in failure(empty, "--cores", 4).message
    site.write_text(SITE.replace("nodes = 1\n", ""))
    assert "how many nodes" in failure(trace, "--site", site).message


def test_larger_jobs_and_unknown_partitions_are_refused_and_counted(
    trace: Path, site: Path
) -> None:
    found = replays(trace, "--cores", 3)["easy"]
    assert found["counts"]["refused"] == {"larger than its partition": 1}  # type: ignore[index]
    site.write_text(SITE.replace("queue1", "other") + SITE.split("[[candidates]]")[1].join(
        ("[[candidates]]", "")).replace("thin", "second").replace("queue1", "third"))  # fmt: skip
    error = failure(trace, "--site", site)
    assert error.message.endswith("can run on this machine: 4 refused: an unknown partition")
    assert error.hint is not None
    assert error.hint.startswith(
        "unknown partitions: queue1 (4 jobs); the site file has other, third:"
    )
    named = run(trace, "--site", site, "--set", "partitions.queue1.nodes=thin")
    assert "easy, changed" in named.output
    assert "4 refused: an unknown partition" in named.output


JOBS = "submit_s,gpus,seconds@lassen-v100,seconds@p100-16gb\n0,1,10,20\n5,2,40,10\n"
GPU = """
[[candidates]]
name = "{0}"
platform = "{1}"
partition = "{0}"
gres = "gpu:{0}"
nodes = 1
architecture = "x86_64"
cores_per_node = 8
gpus_per_node = 4
"""


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    file = tmp_path / "gpus.toml"
    kinds = GPU.format("v100", "lassen-v100") + GPU.format("p100", "p100-16gb")
    file.write_text('schema = "berth.site/1"\n' + kinds)
    return file


def test_policies_place_the_jobs_of_a_trace_by_its_times(tmp_path: Path, gpus: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(JOBS)
    one = replays(trace, "--site", gpus, "--policy", "fastest")["easy, fastest"]
    assert one["jobs"] == 2  # 10 s on the V100, 10 s on the P100
    assert one["mean_finish_s"] == 10
    assert one["makespan_s"] == 15


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n", "another header"),
        ("job,platform,runtime_s\n1,v\n", "line 2: has 2 columns"),
        ("job,platform,runtime_s\n1,v,-3\n", "no number above 0"),
        ("", "another header"),
    ],
)
def test_a_table_of_times_that_cannot_be_says_where(
    tmp_path: Path, gpus: Path, text: str, words: str
) -> None:
    trace, times = tmp_path / "jobs.csv", tmp_path / "times.csv"
    trace.write_text(JOBS)
    times.write_text(text)
    asked = (trace, "--site", gpus, "--times", times, "--policy", "fastest")
    assert words in failure(*asked).message
    assert "nonsense" in failure(trace, "--site", gpus, "--policy", "nonsense").message


def test_a_policy_needs_a_site(trace: Path) -> None:
    assert "candidates" in failure(trace, "--cores", 4, "--policy", "fastest").message


def test_a_table_of_times_is_replayed_where_its_jobs_ran(tmp_path: Path, site: Path) -> None:
    table = tmp_path / "table.csv"
    name, platform = next(
        (one.queue, one.platform) for one in load_site(site).candidates if not one.is_gpu
    )
    head = f"submit_s,user,partition,cores,seconds@{platform}\n"
    table.write_text(f"{head}0,ada,{name},1,60\n5,bob,{name},1,\n9,eve,elsewhere,1,60\n")
    counts = replays(table, "--site", site)["easy"]["counts"]
    assert counts["ended"] == 1  # type: ignore[index]
    assert sum(counts["refused"].values()) == 2  # type: ignore[index]


def test_a_file_without_a_job_says_what_stands_there_instead(tmp_path: Path) -> None:
    junk = tmp_path / "junk.txt"
    junk.write_text("hello\nworld\n")
    error = failure(junk, "--cores", 4)
    assert "it begins with 'hello'" in error.message
    assert error.hint is not None
    assert "sacct" in error.hint


def test_jobs_without_a_limit_and_empty_partitions_are_said(tmp_path: Path) -> None:
    table, site = tmp_path / "days.csv", tmp_path / "centre.toml"
    table.write_text(
        "submit_s,user,partition,cores,seconds@rome-7742\n0,ada,queue1,4,259200\n"
        "10,bob,queue1,4,3600\n"
    )
    site.write_text(
        'schema = "berth.site/1"\nmode = "shadow"\n[site]\nname = "centre"\n'
        + "".join(
            f'[[candidates]]\nname = "{name}"\nplatform = "{platform}"\npartition = "{name}"\n'
            'nodes = 2\ncores_per_node = 8\nmemory_per_node = "64G"\n'
            for name, platform in (("queue1", "rome-7742"), ("genoa", "epyc-genoa-9654"))
        )
    )
    text = run(table, "--site", site).output
    assert "2 jobs have no time limit, nor has the partition: never killed" in text
    assert "all past jobs ran in queue1, none in genoa" in text
    assert replays(table, "--site", site)["easy"]["killed"] == 0
    run(table, "--site", site, "--html", tmp_path / "page.html")
    assert "all past jobs ran in queue1" in (tmp_path / "page.html").read_text()


def test_a_partition_of_several_kinds_of_nodes_is_one_partition(tmp_path: Path) -> None:
    trace, site = tmp_path / "days.swf", tmp_path / "berth.toml"
    trace.write_text("1 0 0 60 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n")
    kinds = (("fat", "queue1", 'constraint = "fat"'), ("small", "debug", ""))
    more = [thin_site(queue, 1, line).replace("thin", name) for name, queue, line in kinds]
    tables = [text[text.index("[[candidates]]") :] for text in more]
    site.write_text(SITE + "".join(tables))
    assert "all past jobs ran in queue1, none in debug:" in run(trace, "--site", site).output
    trace.write_text("1 0 0 60 4 -1 -1 4 -1 -1 1 1 1 -1 -1 -1 -1 -1\n")
    hint = failure(trace, "--site", site).hint
    assert hint is not None
    assert hint.startswith("unknown partitions: none (1 jobs); the site file has debug, queue1:")


def test_swf_with_columns_of_its_own_and_long_numbers_of_users_is_read(tmp_path: Path) -> None:
    trace = tmp_path / "long.swf"
    line = "1 0 0 60 4 -1 -1 4 -1 -1 1 {user} 98765432109876 -1 -1 -1 -1 -1 7 8 9\n"
    trace.write_text(line.format(user=12345678901234))
    assert "1 jobs read, 1 replayed" in run(trace, "--cores", 4).output
    trace.write_text(line.format(user=10**17))
    message = failure(trace, "--cores", 4).message
    assert f"{10**17} is no number of a user" in message
