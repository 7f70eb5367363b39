"""The table of past jobs: read as written, refused by line; and a whole tune on a small one."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli.command_line import berth
from berth.plugin.replay.past import past_jobs
from berth.plugin.replay.tables import read_job_table
from berth.plugin.scheduler.past_jobs import ReadJobs
from berth.plugin.site import load_site
from berth.plugin.tune.replaying import open_replayer
from berth.plugin.tune.run import join
from berth.policies.settings import PolicySettings, Weights
from berth.policies.tuning import METRICS, TracePart

SITE = """schema = "berth.site/1"
[policy]
objective = "fastest"
[[candidates]]
name = "cpu"
platform = "rome-7742"
partition = "batch"
nodes = 1
price_per_core_hour = 0.1
[[candidates]]
name = "gpu"
platform = "h100-80gb"
partition = "gpu"
gres = "gpu"
nodes = 1
gpus_per_node = 1
cores_per_node = 8
price_per_gpu_hour = 2
[candidates.translation]
keep_tasks = false
gpus = 1
"""
HEAD = "submit_s,user,partition,cores,limit_s,seconds@rome-7742,seconds@h100-80gb"
TABLE = f"""{HEAD},predicted@h100-80gb
100,ada,batch,4,,1000,100,110
0,bob,,8,7200,3600,,
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(text)
    return path


def site(folder: Path, text: str = SITE) -> Path:
    path = folder / "berth.toml"
    path.write_text(text)
    return path


def test_a_table_is_read_in_order_of_submission(tmp_path: Path) -> None:
    found = read_job_table(write(tmp_path, TABLE))
    trace = found.trace
    assert trace.submit_s.tolist() == [0.0, 100.0]
    assert [trace.users[i] for i in trace.user] == ["bob", "ada"]
    assert [trace.queues[i] for i in trace.queue] == ["", "batch"]
    assert trace.cores.tolist() == [8, 4]
    assert trace.limit_s[0] == 7200.0
    assert math.isnan(trace.limit_s[1])
    assert trace.runtime_on["rome-7742"].tolist() == [3600.0, 1000.0]
    assert math.isnan(trace.runtime_on["h100-80gb"][0])
    assert found.predicted["h100-80gb"][1] == 110.0
    assert found.predicted["rome-7742"][1] == 1000.0


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "line 1: is no table of jobs"),
        ("submit_s,cores\n1,2\n", "line 1: is no table of jobs"),
        ("submit_s,seconds@x\n", "has no jobs"),
        ("submit_s,seconds@x\n1\n", "line 2: has 1 columns"),
        ("submit_s,seconds@x\n,5\n", "line 2: submit_s is empty: ',5'"),
        ("submit_s,seconds@x\n1,-5\n", "line 2: seconds@x is no such number: '1,-5'"),
        ("submit_s,seconds@x\n1,inf\n", "line 2: seconds@x is no such number"),
        ("submit_s,seconds@x,colour\n1,2,3\n", "column 'colour' is not known"),
        ("submit_s,seconds@x,seconds@x\n1,2,3\n", "column 'seconds@x' is there twice"),
        ("submit_s,seconds@x,predicted@\n1,2,3\n", "column 'predicted@' is not known"),
    ],
)
def test_a_bad_table_is_refused_by_line_and_column(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_job_table(write(tmp_path, text))
    assert wrong in caught.value.message
    with pytest.raises(DocumentError, match="does not exist"):
        read_job_table(tmp_path / "none.csv")


def test_broken_lines_of_a_table_are_left_out_and_counted(tmp_path: Path) -> None:
    text = (
        "submit_s,user,seconds@x\n5,ada,7\n2,bob,soon\n3,bob\n,bob,1\n1,eve,nan\n4,bob,-1\n0,bob,\n"
    )
    path, read = write(tmp_path, text), ReadJobs()
    found = read_job_table(path, None, read)
    assert found.trace.submit_s.tolist() == [0.0, 5.0]
    assert [found.trace.users[i] for i in found.trace.user] == ["bob", "ada"]
    assert read.broken == 5
    assert read.examples[0] == "line 4: has 2 columns, the first line 3: '3,bob'"
    assert "line 3: seconds@x is no such number: '2,bob,soon'" in read.examples
    assert past_jobs(path).read.broken == 5


def test_jobs_run_where_the_policy_sends_them_or_stay(tmp_path: Path) -> None:
    made = open_replayer(load_site(site(tmp_path)), write(tmp_path, TABLE), {})
    assert made.span_s == 100.0
    fast = made.replay(PolicySettings(objective="fastest"), TracePart(0, 1e9))
    assert [fast.queues[i] for i in fast.queue] == ["batch", "gpu"]
    assert fast.runtime_s.tolist() == [3600.0, 100.0]
    assert fast.cost.tolist() == pytest.approx([8 * 0.1, 2.0 / 36])
    assert np.isfinite(fast.energy_j).all()
    assert made.replay(PolicySettings(objective="fastest"), TracePart(50, 1e9)).jobs == 1
    assert METRICS["finish"].of(fast) == pytest.approx((3600 + 100) / 2)


@pytest.mark.parametrize(
    ("site_text", "table", "options", "wrong"),
    [
        (SITE.replace("nodes = 1\nprice_per_core", "price_per_core"), TABLE, {}, "how many nodes"),
        (
            SITE,
            "\n".join(TABLE.replace("batch", "night").splitlines()[:2]),
            {},
            "all jobs are of unknown partitions: night (1 jobs)",
        ),
        (SITE, "submit_s,seconds@v100\n1,2\n", {}, "no times on a platform of"),
        (SITE, TABLE.replace(",100,110", ",,"), {}, "no time on h100-80gb of any job"),
        (SITE, TABLE, {"backfill": "greedy"}, "backfill=greedy is not known"),
        (SITE, TABLE, {"speed": "9"}, "'speed' is not known"),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    tmp_path: Path, site_text: str, table: str, options: dict[str, str], wrong: str
) -> None:
    path = write(tmp_path, table)
    with pytest.raises(UsageError) as caught:
        open_replayer(load_site(site(tmp_path, site_text)), path, options)
    assert wrong in caught.value.message


def sacct(folder: Path, count: int) -> tuple[Path, Path]:
    """An export of accounting, and a table of what its jobs took elsewhere."""
    random = np.random.default_rng(1)
    jobs, times = ["JobID|User|Partition|State|Submit|Start|End|AllocCPUS|NNodes"], []
    for number, submit in enumerate(np.sort(random.uniform(0, 8 * 86400, count)).tolist()):
        took = max(1.0, random.lognormal(8, 1) // 1)
        begin, end = (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1.7e9 + submit + more))
            for more in (0.0, took)
        )
        jobs.append(f"{number}|u{number % 3}|batch|COMPLETED|{begin}|{begin}|{end}|16|1")
        times.append(f"{number},h100-80gb,{took / 5:.1f}")
    path, elsewhere = folder / "jobs.txt", folder / "elsewhere.csv"
    path.write_text("\n".join(jobs))
    elsewhere.write_text("\n".join(["job,platform,runtime_s", *times]))
    return path, elsewhere


def test_trials_that_share_a_replayer_get_what_each_alone_gets(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    rows = [
        f"{at * 600},u{at % 3},batch,{draw.integers(1, 9)},{draw.lognormal(9):.0f},"
        f"{draw.lognormal(7):.0f},{draw.lognormal(7):.0f}"
        for at in range(60)
    ]
    head = "submit_s,user,partition,cores,seconds@rome-7742,seconds@h100-80gb,predicted@h100-80gb"
    jobs, owner = write(tmp_path, "\n".join([head, *rows])), load_site(site(tmp_path))
    shared, part = open_replayer(owner, jobs, {}), TracePart(0, 1e9)
    first = TracePart(0, 20_000)
    for policy in (
        PolicySettings(objective="fastest", weights=Weights(wait=0.0)),
        PolicySettings(objective="earliest", alike_within=2.0),
        PolicySettings(objective="balanced", weights=Weights(energy=1.0)),
        PolicySettings(max_interval_ratio=1.5),
        PolicySettings(objective="balanced", weights=Weights(cost=2.0)),
    ):  # fmt: skip
        alone = open_replayer(owner, jobs, {})
        for asked in (first, part):
            figures, expected = shared.replay(policy, asked), alone.replay(policy, asked)
            assert figures.finish_s.tolist() == expected.finish_s.tolist()
            assert figures.queue.tolist() == expected.queue.tolist()
    assert len(shared.assessed) == 2  # for the plain policies and for the strict one


def test_where_no_time_elsewhere_is_known_nothing_can_be_tuned(tmp_path: Path) -> None:
    jobs = write(tmp_path, "submit_s,partition,cores,seconds@rome-7742\n0,batch,8,60\n")
    with pytest.raises(UsageError, match="no setting can move one") as caught:
        open_replayer(load_site(site(tmp_path)), jobs, {})
    assert "--times" in (caught.value.hint or "")


def test_an_export_of_accounting_is_tuned_on_with_times_elsewhere(tmp_path: Path) -> None:
    jobs, elsewhere = sacct(tmp_path, 60)
    options = {"times": str(elsewhere), "utc": "yes"}
    made = open_replayer(load_site(site(tmp_path)), jobs, options)
    assert len(made.trace) == 60
    ran = made.trace.runtime_s
    assert made.trace.runtime_on["rome-7742"].tolist() == ran.tolist()
    assert made.trace.runtime_on["h100-80gb"] == pytest.approx(ran / 5, abs=0.1)
    fast = made.replay(PolicySettings(objective="fastest"), TracePart(0, 1e9))
    assert {fast.queues[i] for i in fast.queue} == {"gpu"}
    words = ["--site", str(site(tmp_path)), "--folder", str(tmp_path / "tune"), "--json"]
    done = CliRunner().invoke(
        berth,
        ["replay", "tune", str(jobs), "--times", str(elsewhere), *words, "--trials", "2",
         "--parameters", "objective"],
    )  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)["trials"]["done"] == 2
    elsewhere.write_text("job,platform,runtime_s\n1,h100-80gb,7\n")
    with pytest.raises(UsageError, match="have changed"):
        join(tmp_path / "tune")


def test_a_table_is_replayed_too(tmp_path: Path) -> None:
    words = ["--site", str(site(tmp_path)), "--policy", "fastest", "--json"]
    done = CliRunner().invoke(berth, ["replay", str(write(tmp_path, TABLE)), *words])
    assert done.exit_code == 0, (done.output, done.exception)
    placed = json.loads(done.stdout)["replays"][-1]
    # One goes to another partition, the other one had named none.
    assert (placed["name"], placed["counts"]["moved"]) == ("easy, fastest", 2)


def test_a_tune_from_the_command_line_to_the_report(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    lines = ["submit_s,user,cores,seconds@rome-7742,seconds@h100-80gb"]
    for submit in np.sort(random.uniform(0, 8 * 86400, 120)):
        cpu = random.lognormal(8, 1)
        lines.append(f"{submit:.0f},u{random.integers(3)},16,{cpu:.0f},{cpu / 5:.0f}")
    jobs = write(tmp_path, "\n".join(lines))
    to_cpus = SITE.replace("fastest", "cheapest").replace("gpu_hour = 2", "gpu_hour = 20")
    words = ["--site", str(site(tmp_path, to_cpus)), "--folder", str(tmp_path / "tune"), "--json"]
    done = CliRunner().invoke(
        berth,
        ["replay", "tune", str(jobs), *words, "--trials", "6", "--parameters", "objective"],
    )
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads(done.stdout)
    assert found["recommended"]
    assert found["values"]["objective"] in ("fastest", "earliest")
    assert found["differences"][0]["high"] < 0
    assert "objective = " in (tmp_path / "tune" / "berth.diff").read_text()
