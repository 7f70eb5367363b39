"""``berth replay``: broken and reserved nodes, changed hardware, memory, dependencies, history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from thin_site import thin_site

from berth.pilot.errors import BerthError
from berth.plugin.cli.command_line import berth
from berth.plugin.slurm.cluster import parse_reservations
from berth.plugin.slurm.sacct import read_sacct
from berth.plugin.slurm.submitted import dependencies_in_line
from berth.policies.objectives.protocol import JobEstimate
from berth.policies.objectives.time_and_cost import Fastest

HEADER = (
    "JobID|User|Partition|State|Submit|Start|End|TimelimitRaw|AllocCPUS|NNodes|ReqMem|MaxRSS|"
    "AllocTRES|JobName|SubmitLine\n"
)
SITE = thin_site("batch", 2, 'memory_per_node = "8G"')
GPUS = """
[[candidates]]
name = "a100"
platform = "a100-40gb"
partition = "gpu"
gres = "gpu:a100"
nodes = 2
architecture = "x86_64"
cores_per_node = 8
gpus_per_node = 1
"""


def job(
    number: object, submit: int, run: int, *, user: str = "ada", cores: int = 4, name: str = "app",
    state: str = "COMPLETED", asked: str = "1G", peak: str = "", line: str = "", tres: str = "",
    queue: str = "batch",
) -> str:  # fmt: skip
    moments = [f"{1_700_000_000 + at}" for at in (submit, submit, submit + run)]
    shape = ["10", str(cores), "1", asked]
    lines = [[str(number), user, queue, state, *moments, *shape, "", tres, name, line]]
    if peak:
        lines.append([f"{number}.batch", "", "", state, *moments, *shape, peak, tres, "batch", ""])
    return "".join("|".join(fields) + "\n" for fields in lines)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    file = tmp_path / "berth.toml"
    file.write_text(SITE)
    return file


def trace(tmp_path: Path, *jobs: str) -> Path:
    file = tmp_path / "jobs.txt"
    file.write_text(HEADER + "".join(jobs))
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        berth, ["replay", "--utc", *map(str, arguments)], env={"BERTH_SITE": None}
    )


def replays(*arguments: object) -> dict[str, dict[str, object]]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.exception
    return {one["name"]: one for one in json.loads(done.output)["replays"]}


def failure(*arguments: object) -> BerthError:
    error = run(*arguments).exception
    assert isinstance(error, BerthError)
    return error


def test_reservations_of_slurm_are_read() -> None:
    text = (
        "ReservationName=maint StartTime=2026-12-01T08:00:00 EndTime=2026-12-01T18:00:00 "
        "Duration=10:00:00 Nodes=n[01-02],gpu1 NodeCnt=3 Flags=MAINT,SPEC_NODES\n"
        "ReservationName=part StartTime=2026-12-01T08:00:00 EndTime=2026-12-02T08:00:00 "
        "Nodes=n03 Flags=PART_NODES\n"
        "ReservationName=lic StartTime=2026-12-01T08:00:00 EndTime=2026-12-02T08:00:00 "
        "Nodes=(null) Flags=ANY_NODES\n"
    )
    (only,) = parse_reservations(text)
    assert only.nodes == {"n01", "n02", "gpu1"}
    assert only.end_s - only.begin_s == 36_000
    assert parse_reservations("No reservations in the system\n") == ()
    with pytest.raises(BerthError, match="unreadable"):
        parse_reservations("what is this\n")


def test_jobs_wait_for_those_that_they_waited_for_in_fact(tmp_path: Path, site: Path) -> None:
    jobs = trace(
        tmp_path,
        job(1, 0, 100),
        job(2, 1, 50, line="sbatch --dependency=afterok:1 next.sh"),
        job("3_1", 2, 10, cores=1, line="sbatch -a 1-2%1 -d afterany:2 sweep.sh"),
        job("3_2", 2, 10, cores=1, line="sbatch -a 1-2%1 -d afterany:2 sweep.sh"),
        job(4, 3, 10, cores=1, line="sbatch --dependency=after:1 other.sh"),
    )
    done = run(jobs, "--site", site)
    assert "1 dependencies are of a kind that is not followed" in done.output
    found = replays(jobs, "--site", site)["easy"]
    assert found["makespan_s"] == 170  # 100, 50, then two tasks one after the other


@pytest.mark.parametrize(
    ("line", "after", "others"),
    [
        ("sbatch -d afterok:12:13_4 run.sh", ("12", "13_4"), 0),
        ("sbatch --dependency afterany:7,afternotok:8 run.sh", ("7", "8"), 0),
        ("sbatch -J 'my -d job' run.sh -d afterok:9", (), 0),
        ("sbatch --dependency=afterok:12+30?afterok:5 x", ("12", "5"), 0),
        ("sbatch --dependency=expand:12 x", (), 1),
        ("sbatch --dependency=afterok:abc x", (), 1),
        ("sbatch 'unbalanced -d", (), 0),
        ("", (), 0),
    ],
)
def test_what_a_submitting_line_says(line: str, after: tuple[str, ...], others: int) -> None:
    found = dependencies_in_line(line)
    assert (found.after, found.others) == (after, others)


def test_singletons_and_tasks_wait_for_their_own_kind() -> None:
    assert dependencies_in_line("sbatch --dependency=singleton x").singleton
    text = HEADER + job("9_3", 0, 5, line="sbatch --array=1-9%4 --dependency=aftercorr:8 x")
    read_ = read_sacct(text.splitlines(), "c", source="t")
    assert read_.after == {"9_3": ("8_3",)}
    assert read_.array_limits == {"9": 4}


def test_jobs_that_need_more_memory_than_they_get_are_counted(tmp_path: Path, site: Path) -> None:
    jobs = trace(
        tmp_path,
        job(1, 0, 10, state="OUT_OF_MEMORY", asked="2G"),
        job(2, 0, 10, asked="1G", peak="3G"),  # the site let it
        job(3, 0, 10, asked="4G", peak="3G"),
    )
    found = replays(jobs, "--site", site)["easy"]
    assert (found["killed_memory"], found["killed"]) == (1, 0)
    assert "killed by memory" in run(jobs, "--site", site).output


def test_users_who_lose_are_named(tmp_path: Path, site: Path) -> None:
    week = 7 * 86_400
    rows = [
        row
        for n in range(3)
        for row in (
            job(3 * n, n * week, 100, user="big", cores=8),
            job(3 * n + 1, n * week + 1, 100, user="big", cores=8),
            job(3 * n + 2, n * week + 2, 90, user="small", cores=2),
        )
    ]
    text = run(trace(tmp_path, *rows), "--site", site, "--set", "nodes.thin.count=-1").output
    assert "easy, changed against easy: " in text
    assert "6 refused: larger than its partition" not in text.split("against")[0]
    found = replays(trace(tmp_path, *rows), "--site", site, "--set", "nodes.thin.count=1",
                    "--set", "nodes.thin.cores=8", "--set", "nodes.thin.memory=16G")  # fmt: skip
    same = {one["user"]: one for one in found["easy, changed"]["users"]}  # type: ignore[attr-defined]
    assert same["big"]["change_s"] == [0, 0]
    assert not same["small"]["loses"]
    worse = replays(trace(tmp_path, *rows), "--site", site, "--backfill", "easy", "--backfill",
                    "fcfs")["fcfs"]["users"]  # fmt: skip
    assert worse[0]["loses"] == (worse[0]["finish_s"] > worse[0]["finish_before_s"])


def test_partitions_may_share_nodes(tmp_path: Path, site: Path) -> None:
    jobs = trace(tmp_path, job(1, 0, 100, cores=8), job(2, 1, 10, queue="debug"))
    asked = (jobs, "--site", site)

    found = replays(*asked, "--set", "partitions.debug.nodes=thin[1]")["easy, changed"]
    assert found["counts"]["refused"] == {}  # type: ignore[index]
    assert found["makespan_s"] == 110  # the debug job waits for its node, which batch holds
    for change, words in (
        ("partitions.debug.nodes=thin[2]", "has 2 nodes"),
        ("partitions.debug.nodes=thin,thin", "twice"),
        ("partitions.debug.nodes=thick", "no kind of nodes 'thick'"),
        ("partitions.batch.max_time=soon", "'soon' is no number"),
    ):
        assert words in failure(*asked, "--set", change).message
    short = replays(*asked, "--set", "partitions.batch.max_time=1m")["easy, changed"]
    assert short["killed"] == 1


def test_what_if_gpus_were_cut(tmp_path: Path, site: Path) -> None:
    site.write_text(SITE + GPUS)
    rows = [
        job(n, 20 * n, 100, cores=1, queue="gpu", tres="gres/gpu=1", user=f"u{n}")
        for n in range(30)
    ]
    times = tmp_path / "times.csv"
    lines = [
        f"{n},{platform},{seconds}"
        for n in range(30)
        for platform, seconds in (("a100-40gb", 100), ("a100-40gb-mig-1g.5gb", 150))
    ]
    times.write_text("job,platform,runtime_s\n" + "\n".join(lines) + "\n")
    asked = (
        trace(tmp_path, *rows), "--site", site, "--times", times, "--policy", "fastest",
        "--set", "nodes.a100.mig=1",
    )  # fmt: skip
    found = replays(*asked)
    assert set(found) == {
        "easy", "easy, fastest", "easy, changed", "easy, changed, fastest",
    }  # fmt: skip
    assert found["easy, changed, fastest"]["counts"]["ended"] == 30  # type: ignore[index]


def test_past_runs_of_the_same_program_say_how_long_it_takes_elsewhere(
    tmp_path: Path, site: Path
) -> None:
    site.write_text(SITE + SITE.split("[site]")[1].split("\n", 2)[2].replace("thin", "fat")
                    .replace("quartz", "rome-7742").replace("batch", "fast"))  # fmt: skip
    slow = [job(n, 100 * n, 400, name="lu") for n in range(3)]
    fast = [job(10 + n, 100 * n, 100, name="lu", queue="fast") for n in range(3)]
    alone = job(20, 500, 10, name="other")
    jobs = trace(tmp_path, *slow, *fast, alone)
    done = run(jobs, "--site", site, "--policy", "fastest", "--truth", "history")
    assert done.exit_code == 0, done.exception
    assert "times elsewhere by history: known of 7 jobs" in done.output
    found = replays(jobs, "--site", site, "--policy", "fastest", "--truth", "history")
    assert found["easy, fastest"]["counts"]["moved"] == 3  # type: ignore[index]
    assert "--times" in str(failure(jobs, "--site", site, "--policy", "fastest").hint)


def test_a_policy_that_raises_leaves_its_jobs_where_they_were_and_is_reported(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = Fastest.score

    def broken(self: Fastest, estimate: JobEstimate) -> float | None:
        if estimate.request.resources.cores == 2:
            raise ZeroDivisionError("no such thing")
        return score(self, estimate)

    monkeypatch.setattr(Fastest, "score", broken)
    site.write_text(SITE + SITE.split("[site]")[1].split("\n", 2)[2].replace("thin", "fat")
                    .replace("quartz", "rome-7742").replace("batch", "fast"))  # fmt: skip
    times = tmp_path / "times.csv"
    rows = [f"{n},quartz,9\n{n},rome-7742,5\n" for n in range(4)]
    times.write_text("job,platform,runtime_s\n" + "".join(rows))
    jobs = trace(tmp_path, *(job(n, n, 9, cores=2 if n % 2 else 4) for n in range(4)))
    asked = (jobs, "--site", site, "--times", times, "--policy", "fastest")
    found = replays(*asked)["easy, fastest"]
    assert found["counts"]["policy_failed"] == 2  # type: ignore[index]
    assert found["counts"]["moved"] == 2  # type: ignore[index]
    assert found["counts"]["ended"] == 4  # type: ignore[index]
    text = run(*asked).output
    assert "the policy failed on 2 jobs, which stayed where they were; first on job 1: " in text
    assert "ZeroDivisionError: no such thing" in text
    assert "Traceback" not in text


def test_every_job_is_counted_once_whatever_became_of_it(tmp_path: Path, site: Path) -> None:
    rows = [
        job(1, 0, 10),
        job(2, 0, 10, cores=9999),
        job(3, 0, 10, queue="nowhere"),
        job(4, 5, 10, line="sbatch -d afterok:1 x"),
        job(5, 0, 10).replace("COMPLETED", "PENDING"),
        "6|broken\n",
    ]
    site.write_text(SITE + GPUS)
    done = json.loads(run(trace(tmp_path, *rows), "--site", site, "--json").output)
    counts = done["replays"][0]["counts"]
    assert (done["broken"], done["not_ended"], counts["read"]) == (1, 1, 4)
    assert counts["read"] == counts["replayed"] + sum(counts["refused"].values())
    assert counts["replayed"] == counts["ended"] + counts["never"] == 2
    text = run(trace(tmp_path, *rows), "--site", site).output
    assert "1 refused: larger than its partition" in text
    assert "1 refused: an unknown partition" in text
    assert "not judged" in text


def test_accounting_of_another_version_is_refused_by_what_it_lacks(
    tmp_path: Path, site: Path
) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text("JobID|User|Partition|State\n1|ada|batch|COMPLETED\n")
    assert "lacks Start, End" in failure(file, "--site", site).message
    file.write_text("")
    assert "is empty" in failure(file, "--site", site).message
