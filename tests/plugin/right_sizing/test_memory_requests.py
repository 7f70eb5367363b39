"""Memory that is asked for and not needed: said at submission, made less only where it is safe."""

from __future__ import annotations

import json
import time

import pytest
from berth_daemon import Harbour, wait_until
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import DocumentError
from berth.pilot.run import Run
from berth.plugin.daemon import memory_guard as guard
from berth.plugin.daemon import requests
from berth.plugin.daemon.fitting import SmallerRequest, Watch, fit, sizes_itself
from berth.plugin.daemon.memory_guard import Guard
from berth.plugin.daemon.protocol import parse
from berth.plugin.right_sizing.needs import learn_needs, needs_of
from berth.plugin.site.document import RightSizing
from berth.plugin.store import PlacedRun, Store
from berth.plugin.store.records import MemoryNeedRecord
from berth.policies.codes import Code

GIB = 2**30
JOB = {"queue": "cpu", "user": "alice", "name": "align_7.sh", "tasks": 4, "kind": "batch",
       "script": "#!/bin/sh\n./align x\n", "memory_mib_per_node": 64 * 1024, "nodes": 1,
       "account": "phys"}  # fmt: skip


NEED = MemoryNeedRecord(
    "sha256:0123456789abcdef0123", "alice", 3 * GIB, 14, 0, int(3.6 * GIB), 50.0
)
SAID = "It asks 64.0 GiB a node, needed at most 3.0 GiB in 14 runs."
WATCHED = Guard(alive_s=1_000.0, requeue=True)
ALICE = RightSizing(users=("alice",))


def ran(number: int, peak_bytes: int = 3 * GIB, **changes: object) -> Run:
    known: dict[str, object] = {
        "cluster": "lab", "job_id": str(number), "user": "alice", "state": "completed",
        "submit_s": 0.0, "start_s": 1.0, "end_s": 100.0 + number, "elapsed_s": 99.0, "cores": 4,
        "name": "align_3.sh", "peak_bytes": peak_bytes, "peak_source": "cgroup",
    }  # fmt: skip
    return Run(**known | changes)  # type: ignore[arg-type]


def fitted(
    settings: RightSizing = ALICE,
    guarded: Guard = WATCHED,
    *,
    enforce: bool = True,
    **changes: object,
) -> SmallerRequest | None:
    asked = {key: value for key, value in (JOB | changes).items() if value is not None}
    line = json.dumps({"v": 1, "op": "decide", "scheduler": "slurm", "job": asked})
    job = parse(line.encode() + b"\n").job
    request = requests.request(job, requests.NamedWorkload(), auto_queue="auto")
    return fit(job, request, NEED, settings, Watch(guarded, 1_010.0, enforce))


def test_from_accounting_to_the_line_at_submission_and_to_a_smaller_request(site: Harbour) -> None:
    store = site.store()
    store.past_jobs.put([ran(n) for n in range(14)])
    learn_needs(store, 50.0)
    told = '\n[messages]\nshow = "all"'
    site.write_site(daemon=f'ruled_out = "{site.folder}/ruled-out.json"', coverage=told)
    path = guard.beside(site.folder / "ruled-out.json")
    guard.store(path, Guard(time.time(), requeue=True))
    daemon = site.start()
    wait_until(lambda: daemon.stats()["store_revision"])
    reply = daemon.decide(**JOB)
    assert (reply["action"], reply["code"], reply["message"]) == ("keep", Code.OWN_QUEUE, SAID)
    assert SAID in daemon.decide(**JOB | {"queue": "auto"})["message"]
    for quiet in (
        {"memory_mib_per_node": 6 * 1024}, {"user": "bob"}, {"comment": "berth:off"},
    ):  # fmt: skip
        assert "needed at most" not in daemon.decide(**JOB | quiet).get("message", "")
    wish = JOB | {"comment": "hello berth-memory:fit"}
    less = daemon.decide(**wish)
    assert (less["action"], less["code"]) == ("edit", Code.MEMORY_FIT)
    assert list(less["edits"]) == ["memory_mib_per_node"], "nothing else is changed"
    assert 3 * 1024 < less["edits"]["memory_mib_per_node"] < 4 * 1024
    (key,) = (word[4:] for word in less["stamp"].split() if word.startswith("fit="))
    guard.store(path, Guard(time.time(), requeue=True, stopped={key: 60.0}))
    wait_until(lambda: daemon.decide(**wish)["action"] == "keep")
    assert "too little the last time" in daemon.decide(**wish)["message"]
    learn_needs(store, 70.0)
    wait_until(lambda: daemon.decide(**wish)["action"] == "edit")


def test_advice_changes_nothing_and_a_site_may_want_silence() -> None:
    said = fitted(RightSizing())
    assert said is not None
    assert (said.sentence, said.memory_mib) == (SAID, None)
    assert fitted(RightSizing(advise=False)) is None
    assert fitted(memory_mib_per_node=6 * 1024) is None
    by_core = fitted(RightSizing(), memory_mib_per_node=None, memory_mib_per_cpu=16 * 1024)
    assert by_core == said
    shadow = fitted(enforce=False)
    assert shadow == said


@pytest.mark.parametrize(
    ("settings", "comment"),
    [
        (ALICE, None),
        (RightSizing(), "a note, berth-memory:fit"),
    ],
)
def test_who_wants_it_asks_less(settings: RightSizing, comment: str | None) -> None:
    found = fitted(settings, comment=comment)
    assert found is not None
    assert found.memory_mib == -(-NEED.enough_bytes // 2**20)  # type: ignore[operator]
    assert found.sentence == f"{SAID} It now asks 3.6 GiB."
    assert found.key == "0123456789abcdef"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"script": "#!/bin/sh\nmodule load x\nsamtools sort -m 8G a.bam\n"}, "samtools takes"),
        ({"script": "java -jar a.jar"}, "java takes"),
        ({"script": None}, "only a batch script"),
        ({"kind": "interactive", "script": None}, "only a batch script"),
        ({"array": "0-9"}, "several parts"),
        ({"het": 0}, "several parts"),
        ({"requeue": 0}, "not to run again"),
        ({"pinned": ["shape"]}, "not asked for by node"),
        ({"exclusive": 1}, "not asked for by node"),
        ({"memory_mib_per_node": None, "memory_mib_per_cpu": 16 * 1024}, "not asked for by node"),
        ({"comment": "berth-memory:fitting", "user": "bob"}, None),
    ],
)
def test_a_job_that_cannot_safely_run_again_keeps_its_memory(
    changes: dict[str, object], why: str | None
) -> None:
    found = fitted(**changes)  # type: ignore[arg-type]
    assert found is not None
    assert found.memory_mib is None
    assert (why or SAID) in found.sentence


@pytest.mark.parametrize(
    ("guarded", "why"),
    [
        (Guard(), "not to run again"),
        (Guard(requeue=True), "nobody would give it back"),
        (Guard(alive_s=100.0, requeue=True), "nobody would give it back"),
        (Guard(alive_s=2_000.0, requeue=True), "nobody would give it back"),
        (Guard(1_000.0, requeue=True, stopped={"0123456789abcdef": 60.0}), "the last time"),
    ],
)
def test_without_the_helper_memory_stays(guarded: Guard, why: str) -> None:
    found = fitted(guarded=guarded)
    assert found is not None
    assert found.memory_mib is None
    assert why in found.sentence


def test_what_the_job_says_of_running_again_goes_before_the_sites_default() -> None:
    found = fitted(guarded=Guard(1_000.0, requeue=False), requeue=1)
    assert found is not None
    assert found.memory_mib is not None


@given(
    peaks=st.lists(st.integers(1, 10**12), min_size=3, max_size=60),
    source=st.sampled_from(["cgroup", "polled"]),
)
def test_what_is_asked_is_never_below_the_largest_peak(peaks: list[int], source: str) -> None:
    jobs = [ran(n, peak, peak_source=source) for n, peak in enumerate(peaks)]
    (found,) = needs_of("alice", jobs, 0.0)
    assert found.enough_bytes is not None
    assert found.enough_bytes > max(peaks)
    assert found.peak_bytes == max(peaks)


def test_nothing_is_advised_after_a_job_that_ran_out(store: Store) -> None:
    jobs = [ran(n) for n in range(9)] + [ran(9, 2 * GIB, state="out-of-memory")]
    (found,) = needs_of("alice", jobs, 0.0)
    assert found.enough_bytes is None
    outcomes = [
        PlacedRun("lab", str(n), "bob", "completed", workload="app", peak_bytes=GIB + n,
                      end_s=9.0, start_s=1.0, elapsed_s=8.0)
        for n in range(3)
    ]  # fmt: skip
    store.outcomes.put(outcomes)
    assert learn_needs(store, 5.0) == 2  # by the workload, and by shape
    found = store.memory_needs.all()[0]
    assert isinstance(found, MemoryNeedRecord)
    assert (found.user, found.peak_bytes, found.polled) == ("bob", GIB + 2, 1)
    assert store.changes_since(0).memory_needs
    assert store.memory_needs.prune(6.0) == 2


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("./app", None),
        ("# java would\n./app", None),
        ("samtools view a", None),
        ("srun gatk HaplotypeCaller", "gatk"),
        ("/opt/STAR/bin/STAR --runThreadN 4", "STAR"),
        ("x=$(java -version)", "java"),
        ("python fit.py --memory $SLURM_MEM_PER_NODE", "SLURM_MEM_PER_NODE"),
        ("sort -S 4G a", "sort"),
        ("sort a", None),
        ("./tool.jar", "tool.jar"),
    ],
)
def test_commands_that_size_themselves_are_found(script: str, found: str | None) -> None:
    assert sizes_itself(f"#!/bin/sh\n{script}\n") == found


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x"}', '{"schema": 1}'])
def test_a_broken_guard_is_nobody(site: Harbour, text: str) -> None:
    path = guard.beside(site.folder / "r.json")
    path.write_text(text)
    with pytest.raises(DocumentError):
        guard.load(path)
    assert not guard.load_or_nobody(path).watches(time.time())
    assert not guard.load(path.with_name("absent.json")).watches(time.time())
    guard.store(path, Guard(5.0, stopped={str(n): float(n) for n in range(6_000)}))
    assert len(json.loads(path.read_text())["stopped"]) == guard.MOST_STOPPED
