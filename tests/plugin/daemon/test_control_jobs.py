"""Control jobs: decided, recorded, and left as their users wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from berth_daemon import forecast
from views import knowing_service, site_of

from berth.pilot.errors import DocumentError
from berth.pilot.version import VERSION
from berth.plugin.daemon.record import record_of

CONTROL = '[policy]\ncontrol = "written"\ncontrol_share = 0.25\n'
ASK = {"user": "alice", "uid": 1000, "kind": "batch", "queue": "auto", "comment": "berth:stream"}


class Ready:
    """A service of which the next draws are known."""

    def __init__(self, draws: list[float], site: str = CONTROL, **options: str) -> None:
        self.service, self.recorded = knowing_service(
            forecast("stream"), site=site_of(coverage=site, **options)
        )
        self.draws = draws
        self.service._draw = lambda: self.draws.pop(0)

    def decide(self, **job: Any) -> dict[str, Any]:
        line = json.dumps({"v": 1, "op": "decide", "scheduler": "slurm", "job": {**ASK, **job}})
        reply: dict[str, Any] = json.loads(self.service.handle(line.encode()))
        assert self.service.stats.counts["internal-errors"] == 0
        return reply


def test_a_drawn_job_is_left_as_written_and_recorded() -> None:
    ready = Ready([0.2, 0.3])
    control, placed = ready.decide(), ready.decide()
    assert (control["action"], control["code"], control.get("edits")) == ("keep", "control", None)
    assert (placed["action"], placed["code"]) == ("edit", "placed")
    first, second = ready.recorded
    assert first.changes == second.changes != {}
    assert first.decision is not None
    assert first.decision.chosen == "gpu"
    assert "left as written: 25 % of the jobs" in first.reason
    assert "message" not in control, "nothing was changed, so nobody is told"


def test_only_jobs_that_would_be_changed_are_controls() -> None:
    assert Ready([0.0]).decide(comment="berth:off")["code"] == "opted-out"
    assert Ready([0.0]).decide(comment="berth:unheard")["code"] != "control"
    assert Ready([0.0]).decide(mode="advise")["code"] == "placed"
    assert Ready([0.0], mode="shadow").decide()["code"] == "placed"


def test_without_a_share_nothing_is_drawn() -> None:
    assert Ready([], site="").decide()["action"] == "edit"


def test_the_arm_is_recorded_with_its_share_and_the_version() -> None:
    ready = Ready([0.2, 0.3])
    ready.decide(), ready.decide()
    rows = [record_of(answered, "ctl") for answered in ready.recorded]
    assert [(row.arm, row.control, row.share, row.version) for row in rows] == [
        ("written", "written", 0.25, VERSION), ("changed", "written", 0.25, VERSION),
    ]  # fmt: skip


def test_a_control_job_may_get_the_plain_list() -> None:
    ready = Ready([0.2, 0.3, 0.2], CONTROL.replace('"written"', '"list"'), fit='mode = "enforce"')
    as_list, placed = ready.decide(), ready.decide()
    assert (as_list["action"], as_list["code"]) == ("edit", "control")
    unknown = ready.decide(comment=None)
    assert unknown["code"] == "fits-one", "the list itself is in no experiment"
    assert as_list["edits"] == unknown["edits"] != placed["edits"]
    assert [answered.arm and answered.arm.name for answered in ready.recorded] == [
        "list", "changed", None,
    ]  # fmt: skip
    assert "gets the plain list of partitions: 25 %" in ready.recorded[0].reason


def test_without_fit_a_control_job_is_left_as_written() -> None:
    ready = Ready([0.2], CONTROL.replace('"written"', '"list"'))
    assert ready.decide()["action"] == "keep"
    assert ready.recorded[0].arm == ("written", "list", 0.25)


@pytest.mark.parametrize("share", ["1", "1.0", "-0.1", "nan", "0"])
def test_a_share_that_cannot_be(share: str) -> None:
    with pytest.raises(DocumentError, match="control_share"):
        site_of(coverage=f"[policy]\ncontrol_share = {share}\n")
