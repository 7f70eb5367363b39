"""What is answered: modes, opt-outs, coverage, explicit choices, workloads, edits."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import forecast
from views import ASK, decide, knowing_service, site_of

from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.daemon.record import Identifiers
from berth.plugin.daemon.shelf import Attached, Shelf
from berth.plugin.fingerprint import fingerprint
from berth.policies.values import Mode
from berth.predictor.core.prediction import Basis


def test_in_enforce_the_job_is_edited_stamped_and_explained() -> None:
    service, recorded = knowing_service()
    reply = decide(service)
    assert reply["action"] == "edit"
    assert reply["edits"] == {"queue": "gpu", "gres": "gpu:a100:1", "nodes": 1}
    stamp = parse_stamp(reply["stamp"])
    assert stamp is not None
    assert stamp["id"] == reply["decision"] == recorded[0].id
    assert (stamp["to"], stamp["workload"], stamp["code"]) == ("gpu", "stream", "placed")
    assert "berth:off" in reply["message"]
    assert recorded[0].changes == reply["edits"]


def test_in_advise_the_user_is_told_and_nothing_changes() -> None:
    service, recorded = knowing_service(site=site_of("advise"))
    reply = decide(service)
    assert reply["action"] == "keep"
    assert "edits" not in reply
    assert reply["message"].startswith("Berth would choose: gpu")
    assert recorded[0].changes["queue"] == "gpu"


def test_in_shadow_it_is_only_recorded() -> None:
    service, recorded = knowing_service(site=site_of("shadow"))
    reply = decide(service)
    assert reply["action"] == "keep"
    assert "message" not in reply
    assert recorded[0].mode is Mode.SHADOW
    assert recorded[0].changes["queue"] == "gpu"


def test_in_off_nothing_is_decided_or_recorded() -> None:
    service, recorded = knowing_service(site=site_of("off"))
    assert decide(service) == {"v": 1, "action": "keep", "code": "off"}
    assert recorded == []


def test_the_kill_switch_works_from_one_request_to_the_next(tmp_path: Path) -> None:
    service, recorded = knowing_service(site=site_of(folder=str(tmp_path)))
    assert decide(service)["action"] == "edit"
    (tmp_path / "off").touch()
    assert decide(service) == {"v": 1, "action": "keep", "code": "kill-switch"}
    (tmp_path / "off").unlink()
    assert decide(service)["action"] == "edit"
    assert len(recorded) == 2


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"comment": "berth:off"}, "opted-out"),
        ({"mode": "off"}, "opted-out"),
        ({"mode": "of"}, "bad-mode"),
        ({"comment": "berth:a@b"}, "bad-workload-name"),
        ({"comment": "berth:unknown"}, "no-workload"),
        ({"comment": ""}, "no-workload"),
        ({"queue": "cpu"}, "own-queue"),
        ({"queue": "unheard-of"}, "own-queue"),
        ({"pinned": ["nodelist"]}, "pinned-nodes"),
        ({"reservation": "r"}, "pinned-reservation"),
        ({"queues": []}, "queue-not-allowed"),
        ({"het": 0}, "not-covered-kind"),
    ],
)
def test_a_job_is_left_alone_with_its_reason(job: dict[str, Any], code: str) -> None:
    service, recorded = knowing_service()
    reply = decide(service, **job)
    assert (reply["action"], reply["code"]) == ("keep", code)
    assert [a.code for a in recorded] == [code]


@pytest.mark.parametrize("queue", ["auto,cpu", "cpu,auto"])
def test_auto_stands_alone(queue: str) -> None:
    service, recorded = knowing_service()
    reply = decide(service, queue=queue)
    assert (reply["action"], reply["code"]) == ("keep", "own-queue")
    assert recorded[0].reason == (
        f"-p {queue} names partitions beside auto: Berth chooses only for -p auto alone."
    )
    decide(service, queue="automatic,cpu")
    assert recorded[1].reason == "You chose automatic,cpu yourself."


def test_who_opted_out_or_did_not_ask_is_not_talked_to() -> None:
    service, _ = knowing_service()
    assert "message" not in decide(service, comment="berth:off")
    assert "message" not in decide(service, queue=None, comment=None)


@pytest.mark.parametrize("show", ["all", "changed", "none"])
def test_an_unknown_program_is_no_news_at_submission(show: str) -> None:
    """`berth why` says it."""
    service, _ = knowing_service(site=site_of(coverage=f'[messages]\nshow = "{show}"\n'))
    assert "message" not in decide(service, comment="berth:unknown")
    assert "message" not in decide(service, comment=None)  # --partition=auto asked
    service.shelf = Shelf(1, ["fresh"])
    assert "message" not in decide(service, comment="berth:fresh")


@pytest.mark.parametrize(
    ("show", "mode", "moved", "left"),
    [
        ("changed", "enforce", True, False),
        ("all", "enforce", True, True),
        ("none", "enforce", False, False),
        ("changed", "advise", True, False),
        ("all", "advise", True, True),
        ("none", "advise", False, False),
        ("all", "shadow", False, False),
    ],
)
def test_users_are_told_what_the_site_wants_them_to_be_told(
    show: str, mode: str, moved: bool, left: bool
) -> None:
    site = site_of(mode, coverage=f'[messages]\nshow = "{show}"\n')
    service, _ = knowing_service(site=site)
    assert ("message" in decide(service, comment="berth:stream")) is moved
    assert ("message" in decide(service, comment="berth:@")) is left


def test_a_kill_switch_that_cannot_be_looked_at_counts_as_there(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    service, _ = knowing_service(site=site_of(folder=str(tmp_path / "loop")))
    assert decide(service)["code"] == "kill-switch"


def test_a_lower_mode_of_the_job_holds() -> None:
    service, _ = knowing_service()
    assert decide(service, mode="shadow")["action"] == "keep"
    assert decide(service, mode="enforce")["action"] == "edit"
    shadow, _ = knowing_service(site=site_of("shadow"))
    assert decide(shadow, mode="enforce")["action"] == "keep"


def test_coverage_names_who_is_looked_at() -> None:
    coverage = '[coverage.users]\nexclude = ["bob"]\n[coverage.accounts]\ninclude = ["physics"]'
    service, _ = knowing_service(site=site_of(coverage=coverage))
    assert decide(service, account="physics")["action"] == "edit"
    assert decide(service, account="physics", user="bob")["code"] == "not-covered-user"
    assert decide(service, account="biology")["code"] == "not-covered-account"


NEXTFLOW = {"name": "nf-ALIGN_(S1)", "script": "#!/bin/bash\nnxf_launch() {\n}\n"}
FIREWORKS = {
    "name": "FW_job",
    "script": "#!/bin/bash\nrlaunch\n# CommonAdapter (SLURM) completed writing Template\n",
}


@pytest.mark.parametrize("manager", [NEXTFLOW, FIREWORKS], ids=["Nextflow", "FireWorks"])
def test_a_manager_that_asks_by_queue_finds_its_jobs(manager: dict[str, Any]) -> None:
    service, _ = knowing_service()
    named = decide(service, **manager, queue="auto", comment="berth:stream")
    assert (named["action"], named["code"]) == ("keep", "counted-by-queue")
    assert decide(service, **manager, queue=None, comment="berth:stream")["action"] == "edit"
    other = {**manager, "script": "#!/bin/bash\n./app\n"}
    assert decide(service, **other, queue="auto", comment="berth:stream")["action"] == "edit"


def test_only_what_the_submitter_may_use_is_chosen() -> None:
    service, _ = knowing_service()
    assert decide(service, queues=["cpu"])["edits"]["queue"] == "cpu"
    assert decide(service, queues=["gpu", "cpu"])["edits"]["queue"] == "gpu"


def test_what_the_user_wrote_of_gres_and_features_is_never_replaced() -> None:
    service, _ = knowing_service()
    reply = decide(service, gres="gpu:1")
    assert reply["edits"]["queue"] == "gpu"
    assert "gres" not in reply["edits"]
    assert "features" not in decide(service, features="avx2").get("edits", {})


def test_an_interactive_job_keeps_its_shape() -> None:
    service, _ = knowing_service()
    for asked in ({}, {"tasks": 4}, {"cpus_per_task": 8}):
        reply = decide(service, kind="interactive", **asked)
        assert reply["code"] == "placed"
        assert not {"tasks", "cpus_per_task", "memory_mib_per_node"} & reply["edits"].keys()


def test_a_script_stands_for_its_profile() -> None:
    service, recorded = knowing_service()
    script = "#!/bin/bash\n#SBATCH -n 4\nsrun ./stream\n"
    shelf = Shelf.of([forecast("stream")])
    digest = fingerprint(script, ["big"])
    attached = {(digest, ""): Attached("stream", None)}
    service.shelf = Shelf(1, ["stream"], shelf._packed, attached)
    assert decide(service, comment=None, script=script, arguments=["big"])["action"] == "edit"
    assert decide(service, comment=None, script=script)["code"] == "no-workload"
    assert decide(service, comment=None, script=script, arguments=["small"])["action"] == "keep"
    assert recorded[0].request.workload == "stream"


def test_a_script_that_another_user_attached_places_nobody_else() -> None:
    service, _ = knowing_service()
    script = "#!/bin/bash\nsrun ./stream\n"
    shelf = Shelf.of([forecast("stream")])
    attached = {(fingerprint(script), "mallory"): Attached("stream", None)}
    service.shelf = Shelf(1, ["stream"], shelf._packed, attached)
    assert decide(service, comment=None, script=script)["code"] == "no-workload"


def test_a_file_stands_for_its_profile_for_whom_it_was_attached() -> None:
    """Who writes another file's digest gets what naming its workload gives, and no more."""
    service, _ = knowing_service()
    digest, private = "ab" * 32, "cd" * 32
    attached = {
        (f"sha256:{digest}", ""): Attached("stream", None),
        (f"sha256:{private}", "mallory"): Attached("stream", None),
    }
    service.shelf = Shelf(1, ["stream"], service.shelf._packed, attached)
    named = f"x,berth-file:sha256-{digest} y"
    assert decide(service, comment=named)["code"] == "placed"
    assert decide(service, comment=f"berth:off {named}")["code"] == "opted-out"
    for text in (
        f"berth-file:sha256-{private}", "berth-file:model.onnx", f"berth-file:sha256-{digest}0",
        f"xberth-file:sha256-{digest}", "berth-file:",
    ):  # fmt: skip
        assert decide(service, comment=text)["code"] == "no-workload"


def test_a_profile_without_a_forecast_says_what_to_do() -> None:
    service, recorded = knowing_service()
    service.shelf = Shelf(1, ["fresh"])
    reply = decide(service, comment="berth:fresh")
    assert reply["code"] == "no-forecast"
    assert "berth workload refresh fresh" in recorded[-1].reason


def test_an_unreadable_forecast_is_no_forecast() -> None:
    service, _ = knowing_service()
    service.shelf = Shelf(1, ["stream"], {"stream": b"garbage"})
    assert decide(service)["code"] == "no-forecast"


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (forecast("stream", basis=Basis.PRIOR), "prior-only"),
        (forecast("stream", abstained="unlike all that is known"), "out-of-range"),
        (replace(forecast("stream"), targets=("hip",)), "cannot-run"),
        (replace(forecast("stream"), architecture="aarch64"), "wrong-architecture"),
    ],
)
def test_what_is_not_known_well_enough_is_not_acted_on(made: Any, code: str) -> None:
    service, _ = knowing_service(made)
    assert decide(service)["code"] == code


def test_the_time_of_an_answer_is_counted_in_microseconds() -> None:
    service, recorded = knowing_service()
    begun_s = time.perf_counter()
    decide(service)
    decide(service, comment="berth:off")
    took_us = 1e6 * (time.perf_counter() - begun_s)
    assert all(0 < one.latency_us < took_us for one in recorded)
    off, _ = knowing_service(site=site_of("off"))
    decide(off)
    summary = off.stats.summary()["latency_us"]
    assert isinstance(summary, dict)
    assert 0 <= summary["p99"] < took_us


def test_a_user_gets_the_own_workload_before_a_shared_one() -> None:
    slow = forecast("stream", cpu_s=1.0)
    service, recorded = knowing_service(slow, forecast("alice/stream"))
    assert decide(service)["action"] == "edit"
    assert recorded[-1].request.workload == "alice/stream"
    decide(service, user="bob", uid=1001)
    assert recorded[-1].request.workload == "stream"


def test_of_many_failures_inside_only_the_first_hundred_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service, _ = knowing_service()
    service._record = lambda _: 1 / 0  # type: ignore[assignment, return-value]
    line = json.dumps({"v": 1, "op": "decide", "scheduler": "slurm", "job": ASK}).encode()
    for _ in range(103):
        service.handle(line)
    assert service.stats.counts["internal-errors"] == 103
    assert len([one for one in caplog.records if "left as it is" in one.message]) == 100


def test_a_failure_inside_leaves_the_job_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise MemoryError

    service, _ = knowing_service()
    service._record = fail
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": ASK}
    reply = json.loads(service.handle(json.dumps(message).encode()))
    assert reply == {"v": 1, "action": "keep"}
    assert service.stats.counts["internal-errors"] == 1


def test_a_filter_of_a_scheduler_that_is_not_known_is_refused() -> None:
    service, recorded = knowing_service()
    message = {"v": 1, "op": "decide", "scheduler": "pbs", "job": ASK}
    reply = json.loads(service.handle(json.dumps(message).encode()))
    assert (reply["action"], reply["code"]) == ("keep", "bad-request")
    assert reply["problem"] == "scheduler is not slurm or flux"
    assert recorded == []


def test_hostile_text_stays_text() -> None:
    service, recorded = knowing_service()
    reply = decide(service, user='eve"\n\x00\ud800', comment="berth:stream\u2028x", queue=None)
    assert len(json.dumps(reply)) < 2000
    assert recorded


def test_stats_tell_what_happened() -> None:
    service, _ = knowing_service()
    for _ in range(3):
        decide(service)
    decide(service, comment="berth:off")
    service.handle(b"garbage")
    stats = json.loads(service.handle(b'{"v":1,"op":"stats"}'))
    assert stats["counts"] == {"decisions": 4, "edit": 3, "keep": 1, "refused": 1, "stats": 1}
    assert stats["codes"] == {"placed": 3, "opted-out": 1}
    assert 0 < stats["latency_us"]["p50"] <= stats["latency_us"]["p99"]
    assert stats["state_age_s"] < 60
    assert (stats["workloads"], stats["forecasts"], stats["candidates"]) == (1, 1, 2)


def test_names_of_decisions_are_unique_and_sorted() -> None:
    names = Identifiers()
    made = [names.next() for _ in range(100_000)]
    assert len(set(made)) == len(made)
    assert all(len(name) == 16 for name in made)


def test_whole_nodes_keep_their_shape() -> None:
    service, _ = knowing_service()
    kept = decide(service, pinned=["shape"])
    assert (kept["action"], kept["code"]) == ("keep", "pinned-shape")
    same = decide(service, pinned=["shape"], queues=["cpu"], nodes=1, tasks=1)
    assert (same["action"], same["edits"]) == ("edit", {"queue": "cpu"})
