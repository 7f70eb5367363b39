"""Traces of other systems: Alibaba's pods, Flux's archives, sacct's columns of every version."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from berth.pilot.errors import BerthError, DocumentError
from berth.plugin.cli.command_line import berth
from berth.plugin.flux.accounting import read_archive
from berth.plugin.flux.present_jobs import job_name, job_number
from berth.plugin.history.openb import SHARES, read_openb
from berth.plugin.scheduler.past_jobs import SINGLETON, ReadJobs
from berth.plugin.slurm.sacct import read_sacct

SITE = """\
schema = "berth.site/1"
[[candidates]]
name = "{name}"
platform = "{platform}"
partition = "{name}"
nodes = {nodes}
cores_per_node = 32
memory_per_node = "256G"
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        berth, ["replay", "--utc", *map(str, arguments)], env={"BERTH_SITE": None}
    )


# Alibaba's pods

PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,1000,,LS,Running,0,600,0
openb-pod-0017,8200,33792,2,1000,,Burstable,Succeeded,10,310,20
openb-pod-0022,4000,15258,1,220,,BE,Running,20,120,20
openb-pod-0016,16000,65536,0,0,,LS,Failed,30,90,30
openb-pod-0035,16000,32768,1,1000,V100M16|V100M32,LS,Running,40,140,45
openb-pod-7432,8000,30517,1,470,,BE,Pending,50,800,
"""
BROKEN = [
    ("openb-pod-1,12000,16384,1,1000,,LS,Running,0,600", "number of fields"),
    ("openb-pod-1,many,16384,1,1000,,LS,Running,0,600,0", "cpu_milli is no number"),
    ("openb-pod-1,-1,16384,1,1000,,LS,Running,0,600,0", "cpu_milli is no number"),
    ("openb-pod-1,1,16384,1.5,1000,,LS,Running,0,600,0", "no whole number"),
    ("openb-pod-1,1,16384,4,500,,LS,Running,0,600,0", "a part of a GPU"),
    ("openb-pod-1,1,16384,1,1000,,LS,Singing,0,600,0", "is not known"),
    ("openb-pod-1,1,16384,1,1000,,LS,Running,700,600,700", "ends before it starts"),
    ("openb-pod-1,1,16384,1,1000,,LS,Running,,600,0", "no creation_time"),
    (",1,16384,1,1000,,LS,Running,0,600,0", "without a name"),
    ("openb-pod-1,1,16384,1000000000000,1000,,LS,Running,0,600,0", "no whole number"),
    ("openb-pod-1,1,16384,1,10\r00,,LS,Running,0,600,0", "number of fields"),
    ("openb-pod-1,1,inf,1,1000,,LS,Running,0,600,0", "memory_mib is no number"),
]


def pods(*more: str) -> ReadJobs:
    return read_openb([*PODS.splitlines(), *more], "replay", source="pods.csv")


def test_pods_are_jobs_and_those_that_share_a_gpu_are_counted() -> None:
    read = pods()
    assert list(read.jobs) == [f"openb-pod-{n}" for n in ("0000", "0017", "0022", "0016", "0035")]
    assert (read.not_ended, read.broken, read.changed) == (1, 0, {SHARES: 1})
    job = read.jobs["openb-pod-0017"]
    assert (job.cores, job.gpus, job.elapsed_s, job.submit_s) == (9, 2, 290.0, 10.0)
    assert (job.partition, job.account, job.request_bytes) == ("gpu", "Burstable", 33_792 * 2**20)
    assert [one.partition for one in read.jobs.values()] == [
        "gpu", "gpu", "gpu", "cpu", "V100M16|V100M32",
    ]  # fmt: skip


def test_broken_pods_are_counted_shown_and_skipped() -> None:
    read = pods(*(line for line, _ in BROKEN))
    assert (len(read.jobs), read.broken) == (5, len(BROKEN))
    for line, words in BROKEN:
        (example,) = pods(line).examples
        assert example.startswith("line 8:")
        assert words in example
    lines = len(PODS.splitlines()) - 1 + len(BROKEN)
    assert lines == len(read.jobs) + read.repeated + read.not_ended + read.broken
    for text in ("", "name,cpu_milli\nx,1\n"):
        with pytest.raises(DocumentError):
            read_openb(text.splitlines(), "replay", source="pods.csv")


def test_pods_are_replayed_and_placed_by_the_times_of_a_table(tmp_path: Path) -> None:
    file, site, times = (tmp_path / name for name in ("pods.csv", "berth.toml", "times.csv"))
    file.write_text(PODS)
    gpu = 'gres = "gpu"\ngpus_per_node = 4\narchitecture = "x86_64"\n'
    site.write_text(
        SITE.format(name="gpu", platform="lassen-v100", nodes=2) + gpu
        + SITE.format(name="cpu", platform="quartz", nodes=1).split("\n", 1)[1]
        + SITE.format(name="fast", platform="a100-40gb", nodes=1).split("\n", 1)[1] + gpu
    )  # fmt: skip
    plain = run(file, "--site", site)
    assert plain.exit_code == 0, plain.exception
    assert f"1 {SHARES}" in plain.output
    assert "1 jobs have not run or not ended" in plain.output
    assert "1 refused: an unknown partition" in plain.output
    over = ("--set", "partitions.V100M16|V100M32.nodes=gpu")
    done = run(file, "--site", site, *over, "--json")
    asked = json.loads(done.output)
    assert asked["changed"] == {SHARES: 1}
    assert asked["replays"][1]["counts"]["refused"] == {}
    times.write_text(
        "job,platform,runtime_s\nopenb-pod-0000,a100-40gb,200\nopenb-pod-0000,lassen-v100,600\n"
        "openb-pod-0017,a100-40gb,100\nopenb-pod-0017,lassen-v100,290\n"
    )
    placed = run(file, "--site", site, "--times", times, "--policy", "fastest", "--json")
    counts = json.loads(placed.output)["replays"][1]["counts"]
    assert (counts["moved"], counts["read"]) == (2, 5)
    assert counts["read"] == counts["replayed"] + sum(counts["refused"].values())


# Flux's archives


def jobspec(*after: tuple[str, str], name: str | None = None) -> str:
    system: dict[str, object] = {"duration": 60, "queue": "batch"}
    if after:
        system["dependencies"] = [{"scheme": s, "value": v} for s, v in after]
    if name is not None:
        system["job"] = {"name": name}
    tasks = [{"command": ["/usr/bin/lmp", "-in"], "slot": "task", "count": {"per_slot": 1}}]
    return json.dumps({"tasks": tasks, "attributes": {"system": system}, "version": 1})


def resource_set(**children: str) -> str:
    return json.dumps(
        {"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": children}]}}
    )


R = resource_set(core="0-3")


def row(number: int, submit: float, run_s: float, spec: str, r: str = R) -> tuple[object, ...]:
    begin = 1_700_000_000.0 + submit
    return (number, 1000, begin, begin + 1.0, begin + 1.0 + run_s, r, spec)


def archive(tmp_path: Path, *rows: tuple[object, ...]) -> Path:
    file = tmp_path / "flux.db"
    with sqlite3.connect(file) as database:
        database.execute(
            "CREATE TABLE jobs (id int, userid int, t_submit real, t_run real, t_inactive real, "
            "R text, jobspec text)"
        )
        database.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    database.close()
    return file


def test_an_archive_of_flux_names_the_jobs_that_one_waited_for(tmp_path: Path) -> None:
    first = 68_490_814_092
    file = archive(
        tmp_path,
        row(first, 0, 50, jobspec()),
        row(2, 1, 50, jobspec(("afterok", "ƒ2oMJKr3"), ("begin-time", "1700000000"))),
        row(3, 2, 20, jobspec(("afterany", "0x2"), ("afterstart", "2"), ("string", "ok"))),
        row(4, 3, 10, jobspec(("singleton", ""), name="mesh")),
        row(5, 4, 10, jobspec(), "{}"),
        row(6, 5, 10, "no jobspec"),
        row(7, 6, -10, jobspec()),
        (8, 1000, 1.7e9, 0.0, 1.7e9, R, jobspec()),
        ("eight", 1000, 1.7e9, 1.7e9, 1.7e9, R, jobspec()),
        (9, 1000, "soon", 1.7e9, 1.7e9, R, jobspec()),
    )
    read = read_archive(file, "lab")
    job = read.jobs[job_name(first)]
    assert (job.cores, job.nodes, job.gpus, job.time_limit_s) == (8, 2, None, 60.0)
    assert (job.name, job.partition, job.user, job.elapsed_s) == ("lmp", "batch", "uid:1000", 50.0)
    assert read.jobs[job_name(4)].name == "mesh"
    assert read.after == {
        job_name(2): (job_name(first),), job_name(3): (job_name(2),), job_name(4): (SINGLETON,),
    }  # fmt: skip
    assert (read.not_followed, read.not_ended, read.broken) == (2, 1, 5)
    assert len(read.jobs) + read.not_ended + read.broken + read.repeated == 10
    found = run(file, "--cores", 8, "--json")
    assert found.exit_code == 0, found.exception
    replayed = json.loads(found.output)["replays"][0]
    assert replayed["makespan_s"] == 130.0  # 50, 50 and 20 in turn, and 10 between
    assert "2 dependencies are of a kind that is not followed" in run(file, "--cores", 8).output


def test_gpus_of_a_resource_set_are_counted_on_each_node(tmp_path: Path) -> None:
    file = archive(tmp_path, row(1, 0, 100, jobspec(), resource_set(core="0-3,8", gpu="0-1")))
    job = read_archive(file, "lab").jobs[job_name(1)]
    assert (job.cores, job.nodes, job.gpus) == (10, 2, 4)


def test_how_a_job_ended_is_in_its_eventlog_where_there_is_one(tmp_path: Path) -> None:
    file = archive(tmp_path, row(1, 0, 100, jobspec()), row(2, 0, 100, jobspec()))
    log = (Path(__file__).parents[2] / "flux" / "recorded" / "eventlog.jsonl").read_text()
    with sqlite3.connect(file) as database:
        database.execute("ALTER TABLE jobs ADD COLUMN eventlog text")
        database.execute("UPDATE jobs SET eventlog = ? WHERE id = 1", (log,))
    database.close()
    states = [one.state for one in read_archive(file, "lab").jobs.values()]
    assert states == ["cancelled", "completed"]


def test_a_database_that_is_no_archive_is_one_sentence(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE jobs (id int)")
    database.close()
    half = tmp_path / "half.db"
    half.write_bytes(b"SQLite format 3\0" + b"\1" * 90)
    for file, words in ((other, "lacks userid"), (half, "is an SQLite database")):
        error = run(file, "--cores", 4).exception
        assert isinstance(error, BerthError)
        assert words in error.message


@pytest.mark.parametrize(
    ("text", "number"),
    [("42", 42), ("0x2a", 42), ("ƒ2oMJKr3", 68_490_814_092), ("f2oMJKr3", 68_490_814_092),
     ("0000.0000.0000.002a", 42), ("job.0000.0000.0000.002a", 42),
     ("", None), ("f", None), ("f0O", None), ("9" * 30, None), ("mesh", None)],
)  # fmt: skip
def test_each_form_of_an_id_is_the_same_number(text: str, number: int | None) -> None:
    assert job_number(text) == number
    assert number is None or job_number(job_name(number)) == number


# sacct's columns: what ``sacct -o ALL`` prints

COLUMNS_22_05 = """\
Account AdminComment AllocCPUS AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead
AveDiskWrite AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy
ConsumedEnergyRaw Container CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible
End ExitCode Flags GID Group JobID JobIDRaw JobName Layout MaxDiskRead MaxDiskReadNode
MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask
MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask McsLabel MinCPU MinCPUNode
MinCPUTask NCPUS NNodes NodeList NTasks Partition Priority QOS QOSRAW Reason ReqCPUFreq
ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReqCPUS ReqMem ReqNodes ReqTRES Reservation ReservationId
Reserved ResvCPU ResvCPURAW Start State Submit SubmitLine Suspended SystemComment SystemCPU
Timelimit TimelimitRaw TotalCPU TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask
TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax
TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask
TRESUsageOutTot UID User UserCPU WCKey WCKeyID WorkDir"""
SACCT_22_05 = COLUMNS_22_05.split()
RENAMED = {"Reserved": "Planned", "ResvCPU": "PlannedCPU", "ResvCPURAW": "PlannedCPURAW"}
ADDED = ("Extra", "FailedNode", "Licenses", "QOSREQ", "Restarts", "SegmentSize", "SLUID", "StdErr",
         "StdIn", "StdOut")  # fmt: skip
"""Between 22.05 and 26.05."""
SACCT_26_05 = sorted([*(RENAMED.get(name, name) for name in SACCT_22_05), *ADDED], key=str.lower)
VALUES = {
    "Account": "phys", "AllocCPUS": "8", "AllocNodes": "2", "NCPUS": "8", "NNodes": "2",
    "AllocTRES": "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=16G,node=2",
    "Elapsed": "00:10:00", "ElapsedRaw": "600", "Eligible": "2026-11-01T10:00:00",
    "End": "2026-11-01T10:10:10", "JobIDRaw": "9", "JobName": "align.sh", "Partition": "cpu",
    "ReqMem": "16G", "Start": "2026-11-01T10:00:10", "State": "COMPLETED",
    "Submit": "2026-11-01T10:00:00", "SubmitLine": "sbatch -d afterok:7 align.sh",
    "Timelimit": "01:00:00", "TimelimitRaw": "60", "User": "alice", "SLUID": "s2oMJKr3DEFG",
}  # fmt: skip


def line(header: list[str], **values: str) -> str:
    return "|".join({**VALUES, "JobID": "8", **values}.get(name, "") for name in header)


@pytest.mark.parametrize("header", [SACCT_22_05, SACCT_26_05], ids=["22.05", "26.05"])
@pytest.mark.parametrize("trailing", ["", "|"], ids=["-P", "-p"])
def test_all_columns_of_each_version_say_the_same(header: list[str], trailing: str) -> None:
    step = {"JobID": "8.0", "User": "", "MaxRSS": "3000000K", "NTasks": "2", "NNodes": "2"}
    other = line(header, JobID="9_[3-5%2]", State="PENDING", Start="Unknown", End="Unknown")
    lines = [
        line(header),
        line(header, **step),
        other,
        line(header, JobID="10", State="RUNNING", End="Unknown"),
        line(header, JobID="11", JobName="a|b"),
        line(header, JobID="12", ElapsedRaw="-4"),
        line(header, JobID="13", State="CANCELLED by 1000", TimelimitRaw="UNLIMITED"),
        line(header, JobID="14", State="CANCELLED", Start="None"),
    ]
    read = read_sacct(
        [f"{one}{trailing}" for one in ("|".join(header), *lines)], "lab", source="x", utc=True
    )
    assert sorted(read.jobs) == ["13", "8"]
    job = read.jobs["8"]
    assert (job.cores, job.nodes, job.gpus, job.time_limit_s) == (8, 2, 2, 3_600.0)
    assert (job.elapsed_s, job.request_bytes, job.peak_bytes) == (600.0, 8 * 2**30, 3_072_000_000)
    assert read.after == {"8": ("7",), "13": ("7",)}
    assert (read.not_ended, read.broken) == (3, 2)
    assert len(lines) - 1 == len(read.jobs) + read.not_ended + read.broken
    assert "line 6" in read.examples[0]  # a bar in a name, and columns behind it
    assert "negative run time" in read.examples[1]
