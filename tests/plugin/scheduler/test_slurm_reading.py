"""Reading a cluster by Slurm's commands: versions differ, things fail, and nothing is guessed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from fake_commands import FakeCommands
from fake_slurm import PARTITIONS
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.scheduler import states_of
from berth.plugin.slurm import commands
from berth.plugin.slurm.cluster import parse_cluster, read_cluster
from berth.plugin.slurm.records import duration_s, gres, records
from berth.plugin.slurm.scheduler import Slurm
from berth.policies.values import Candidate


def candidate(name: str, queue: str, **changes: object) -> Candidate:
    return Candidate(name=name, platform="p", queue=queue, **changes)  # type: ignore[arg-type]


MIB = 2**20
GPU = candidate("gpu", "gpu", gres="gpu:h100", gpus_per_node=4)


def test_partitions_and_nodes_are_read(slurm: FakeCommands) -> None:
    facts = Slurm().read()
    assert (facts.name, facts.version) == ("lab", "slurm 24.11.5")
    cpu, gpu, old = facts.queues.values()
    assert (cpu.is_default, cpu.max_time_s, cpu.default_time_s) == (True, 172800.0, 3600.0)
    assert (cpu.allowed_accounts, cpu.allowed_qos, cpu.pending_jobs) == (None, None, 2)
    assert (gpu.max_time_s, gpu.default_time_s, gpu.pending_jobs) == (None, None, 1)
    assert (gpu.allowed_accounts, gpu.allowed_qos) == (("physics", "chemistry"), ("high",))
    assert not old.up
    cpu1, cpu2, gpu1 = facts.nodes
    assert (cpu1.cores, cpu1.idle_cores, cpu1.usable) == (32, 24, True)
    assert (cpu2.queues, cpu2.usable, cpu2.cores) == (("cpu",), False, 64)
    assert (gpu1.cores, gpu1.idle_cores) == (64, 54)  # two hardware threads a core
    assert (gpu1.gpus, gpu1.idle_gpus) == ({"gpu:h100": 4}, {"gpu:h100": 3})
    assert gpu1.queues == ("gpu", "old")
    assert cpu1.memory_bytes == 128000 * 2**20


@pytest.mark.parametrize(
    ("words", "cores", "idle_cores", "memory_mib", "installed"),
    [
        # CoreSpecCount=1 MemSpecLimit=1000, as Slurm 22.05 shows it
        ("CoresPerSocket=4 CPUAlloc=0 CPUEfctv=3 CPUTot=4 RealMemory=4000 Sockets=1 "
         "CoreSpecCount=1 CPUSpecList=3 MemSpecLimit=1000 ThreadsPerCore=1", 3, 3, 3000, (4, 4000)),
        ("CoresPerSocket=4 CPUAlloc=4 CPUEfctv=6 CPUTot=8 RealMemory=4000 Sockets=1 "
         "CoreSpecCount=1 CPUSpecList=6-7 MemSpecLimit=5000 ThreadsPerCore=2", 3, 1, 0, (4, 4000)),
        # a Raspberry Pi whose slurm.conf counts one CPU
        ("CoresPerSocket=4 CPUAlloc=0 CPUEfctv=1 CPUTot=1 RealMemory=4096 Sockets=1 "
         "ThreadsPerCore=1", 1, 1, 4096, (4, 4096)),
    ],
)  # fmt: skip
def test_a_node_offers_what_slurm_gives_to_jobs(
    words: str, cores: int, idle_cores: int, memory_mib: int, installed: tuple[int, int]
) -> None:
    nodes = f"NodeName=n {words} State=IDLE Partitions=cpu\n"
    (node,) = (facts := parse_cluster(PARTITIONS, nodes, "", "v", as_of_s=0.0)).nodes
    assert (node.cores, node.idle_cores, node.memory_bytes) == (cores, idle_cores, memory_mib * MIB)
    assert (node.installed_cores, node.installed_memory_bytes // MIB) == installed
    state = states_of(facts, (candidate("cpu", "cpu"),))["cpu"]
    assert (
        state.node_sizes
        == state.all_node_sizes
        == ((cores * node.cpus_per_core, memory_mib * MIB, 1),)
    )


_SHARED = "SelectTypeParameters    = CR_CORE_MEMORY\n"


def test_limits_on_memory_of_the_whole_cluster_hold_where_a_partition_sets_none(
    slurm: FakeCommands,
) -> None:
    slurm.says("config", f"{_SHARED}MaxMemPerCPU            = 2000\n")
    slurm.says("partition", PARTITIONS.replace("State=UP", "State=UP MaxMemPerNode=9000", 1))
    own, inherited, *_ = (q.bounds for q in read_cluster().queues.values())
    assert (own.max_memory_bytes_per_core, own.max_memory_bytes_per_node) == (None, 9000 * 2**20)
    assert inherited.max_memory_bytes_per_core == 2000 * 2**20


@pytest.mark.parametrize(("selected", "multiple"), [("CR_CORE_MEMORY", 2), ("CR_CPU_MEMORY", 1)])
def test_both_threads_of_a_core_count_where_other_nodes_have_one(
    slurm: FakeCommands, selected: str, multiple: int
) -> None:
    slurm.says("config", f"SelectTypeParameters    = {selected}\n")
    found = {name: queue.default_memory for name, queue in read_cluster().queues.items()}
    cpu, gpu = found["cpu"], found["gpu"]
    assert cpu is not None
    assert gpu is not None
    assert (cpu.cores_given_by, cpu.node_cores, cpu.most_node_cores) == (multiple, 32, 128)
    assert (gpu.cores_given_by, gpu.node_cores, gpu.most_node_cores) == (multiple, 128, 128)


@pytest.mark.parametrize(
    ("text", "bytes_per_core", "bytes_per_gpu"),
    [
        ("DefMemPerCPU = UNLIMITED\nJobDefaults = (null)\n", None, None),
        ("DefMemPerCPU = 0\nJobDefaults = DefMemPerGPU=0\n", None, None),
        ("DefMemPerCPU = 100\nJobDefaults = DefCpuPerGPU=4,DefMemPerGPU=7\n", 100, 7),
        ("DefMemPerCPU =\nJobDefaults = DefMemPerGPU=7,DefCpuPerGPU=4\n", None, 7),
        ("DebugFlags =\nDefMemPerCPU = 100\r\nJobDefaults = DefMemPerGPU=x\n", 100, None),
        (f"DefMemPerCPU = {'9' * 40}\nJobDefaults = DefMemPerGPU={'9' * 40}\n", None, None),
        ("DefMemPerCPU = -1\nJobDefaults = ,,=\n= 3\nDefMemPerCPU\n", None, None),
    ],
)
def test_odd_defaults_of_memory_are_none(
    slurm: FakeCommands, text: str, bytes_per_core: int | None, bytes_per_gpu: int | None
) -> None:
    slurm.says("config", _SHARED + text)
    default = read_cluster().queues["old"].default_memory
    assert default is not None
    mib = [None if n is None else n * 2**20 for n in (bytes_per_core, bytes_per_gpu)]
    assert [default.bytes_per_core, default.bytes_per_gpu] == mib


@pytest.mark.parametrize("state", ["DOWN", "DRAIN", "INACTIVE"])
def test_only_a_partition_that_is_up_takes_and_starts_jobs(slurm: FakeCommands, state: str) -> None:
    slurm.says("partition", PARTITIONS.replace("State=UP", f"State={state}"))
    cpu = read_cluster().queues["cpu"]
    assert not cpu.up
    assert (cpu.closed or "").startswith(f"{state}: takes ")
    slurm.says("partition", PARTITIONS)
    cpu = read_cluster().queues["cpu"]
    assert (cpu.up, cpu.closed) == (True, None)


def test_states_are_of_the_candidates_own_nodes(slurm: FakeCommands) -> None:
    facts = read_cluster()
    states = states_of(
        facts,
        (
            candidate("cpu", "cpu"),
            candidate("rome", "cpu", constraint="rome&ib"),
            candidate("milan", "cpu", constraint="milan"),
            candidate("none", "nowhere"),
            candidate("old", "old"),
            GPU,
        ),
    )
    assert (states["cpu"].idle_cores, states["cpu"].usable_nodes) == (24, 1)
    assert states["rome"].usable_nodes == 1
    assert states["milan"].usable_nodes == 0
    assert not states["none"].up
    assert not states["old"].up
    assert (states["gpu"].idle_gpus, states["gpu"].pending_jobs) == (3, 1)
    assert {s.as_of_s for s in states.values()} == {facts.as_of_s}


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("IDLE", True),
        ("MIXED+CLOUD", True),
        ("ALLOCATED+COMPLETING", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("IDLE+PLANNED", True),
        ("IDLE*", False),
        ("DOWN*+DRAIN", False),
        ("MIXED+DRAIN", False),
        ("IDLE+MAINTENANCE+RESERVED", False),
        ("MIXED+RESERVED", False),
        ("DOWN+NOT_RESPONDING", False),
        ("IDLE+INVALID_REG", False),
        ("FUTURE", False),
        ("UNKNOWN", False),
        ("IDLE+REBOOT_REQUESTED", False),
    ],
)
def test_nodes_that_take_no_jobs_do_not_count(state: str, usable: bool) -> None:
    nodes = f"NodeName=n CPUTot=4 RealMemory=1 State={state} Partitions=cpu\n"
    facts = parse_cluster(PARTITIONS, nodes, "", "v", as_of_s=0.0)
    assert facts.nodes[0].usable is usable


def test_absent_keys_are_defaults(slurm: FakeCommands) -> None:
    facts = parse_cluster("PartitionName=a\n", "NodeName=n\n", "", "", as_of_s=1.0)
    queue, node = facts.queues["a"], facts.nodes[0]
    assert (queue.up, queue.max_time_s, queue.allowed_accounts) == (True, None, None)
    assert (node.cores, node.gpus, node.queues, node.usable) == (1, {}, (), False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:h200:4", {"gpu:h200": 4}),
        ("gpu:4", {"gpu": 4}),
        ("gpu:a100:2(S:0),gpu:v100:1(S:1)", {"gpu:a100": 2, "gpu:v100": 1}),
        ("gpu:nvidia_h100_80gb_hbm3_1g.10gb:7(IDX:0-6)", {"gpu:nvidia_h100_80gb_hbm3_1g.10gb": 7}),
        ("gpu:0(IDX:N/A)", {"gpu": 0}),
        ("craynetwork:4,shard:a100:8,mps:100", {}),
        ("(null)", {}),
        ("gpu:a100:lots", {}),
        ("gpu:a100:99999999999", {}),
        (None, {}),
    ],
)
def test_gres(text: str | None, found: dict[str, int]) -> None:
    assert gres(text) == found


def test_times() -> None:
    texts = (
        "2-00:00:00",
        "12:00:00",
        "30:00",
        "UNLIMITED",
        "NONE",
        "N/A",
        "INVALID",
        "9" * 5000 + ":00",
        None,
    )
    assert [duration_s(t) for t in texts] == [172800, 43200, 1800, *[None] * 6]


@given(st.text(), st.text(), st.text())
def test_any_text_is_read_or_refused_with_a_sentence(a: str, b: str, c: str) -> None:
    with suppress(SchedulerError):
        parse_cluster(f"PartitionName={a}", f"NodeName={b}", c, "", as_of_s=0.0)
    with suppress(SchedulerError):
        list(records(a, "PartitionName"))
    gres(a)
    duration_s(a)


def test_a_node_of_many_keys_is_read_in_reasonable_time() -> None:
    line = "NodeName=n " + " ".join(f"K{i}=v" for i in range(20_000))
    assert len(next(iter(records(line, "NodeName")))) == 20_001


def test_a_reason_cannot_pose_as_other_keys() -> None:
    line = "NodeName=n State=DOWN Partitions=cpu Reason=ok State=IDLE Partitions=gpu"
    record = next(iter(records(line, "NodeName")))
    assert (record["State"], record["Partitions"]) == ("DOWN", "cpu")


def test_without_slurm_the_missing_command_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="scontrol is not available"):
        read_cluster()


@pytest.mark.parametrize(
    ("message", "says", "hint"),
    [
        (
            "slurm_load_partitions error: Unable to contact slurm controller (connect failure)",
            "Unable to contact slurm controller",
            "scontrol ping",
        ),
        ("scontrol: error: fetch_config: DNS SRV lookup failed", "no Slurm conf", "SLURM_CONF"),
        ("", "status 1: no message", None),
    ],
)
def test_a_failing_command_is_one_sentence(
    slurm: FakeCommands, message: str, says: str, hint: str | None
) -> None:
    slurm.fails("partition", message)
    with pytest.raises(SchedulerError, match=says) as caught:
        read_cluster()
    assert (hint or "") in (caught.value.hint or "")


def test_a_hung_command_is_given_up(slurm: FakeCommands) -> None:
    slurm.hangs("node")
    with pytest.raises(SchedulerError, match=r"scontrol did not answer within 0.5 s"):
        read_cluster(timeout_s=0.5)


@pytest.mark.parametrize(
    ("what", "text", "says"),
    [
        ("partition", "", "no partitions"),
        ("partition", "hello\n", "unreadable: 'hello'"),
        ("partition", b"\xff\xfe", "unreadable"),
        ("node", "PartitionName=oops\n", "unreadable"),
        ("node", "No nodes in the system\n", "no nodes"),
    ],
)
def test_odd_answers_are_one_sentence(
    slurm: FakeCommands, what: str, text: str | bytes, says: str
) -> None:
    slurm.says(what, text)
    with pytest.raises(SchedulerError, match=says):
        read_cluster()


def test_format_variables_of_the_user_do_not_change_what_is_read(
    slurm: FakeCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%Z")
    script = slurm.tools / "env"
    script.write_text("#!/bin/sh\n/usr/bin/env\n")
    script.chmod(0o755)
    text = commands.run(("env",))
    assert "SQUEUE_FORMAT" not in text
    assert "LC_ALL=C" in text


def test_sbatch_gives_the_job_id_or_its_own_words(slurm: FakeCommands) -> None:
    slurm.says("sbatch", "1234;cluster\n")
    assert Slurm().submit(("sbatch", "job.sh")) == "1234"
    assert slurm.calls[-1] == "sbatch --parsable job.sh"
    slurm.says("sbatch", "what?\n")
    with pytest.raises(SchedulerError, match="instead of a job id"):
        Slurm().submit(("sbatch", "job.sh"))
    slurm.fails("sbatch", "sbatch: error: Batch job submission failed: Invalid account\n")
    with pytest.raises(SchedulerError, match="submission failed: Invalid account"):
        Slurm().submit(("sbatch", "job.sh"))


def test_cores_that_come_with_a_gpu_are_the_partitions_else_the_clusters() -> None:
    config = "SelectTypeParameters = CR_CORE_MEMORY\nJobDefaults = DefCpuPerGPU=4,DefMemPerGPU=7\n"
    partitions = (
        "PartitionName=a JobDefaults=DefCpuPerGPU=8\n"
        "PartitionName=b JobDefaults=(null)\nPartitionName=c JobDefaults=DefCpuPerGPU=x,\n"
    )
    nodes = "NodeName=n CPUTot=4 RealMemory=1 State=IDLE Partitions=a,b,c\n"
    facts = parse_cluster(partitions, nodes, "", "v", config, as_of_s=0.0)
    given = {name: queue.bounds.default_cores_per_gpu for name, queue in facts.queues.items()}
    assert given == {"a": 8, "b": 4, "c": 4}
