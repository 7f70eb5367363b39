"""The first page: is Berth on, what did it do, did it help, what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from ui_store import decision

from berth.pilot.errors import BerthError
from berth.pilot.usage.record import Usage
from berth.plugin.scheduler import PresentJob
from berth.plugin.site.load import DEMO_FILE
from berth.plugin.store import PlacedRun, Store
from berth.plugin.ui import jobs, overview
from berth.plugin.ui.app import create_app
from berth.plugin.ui.background import Background
from berth.plugin.ui.guard import UiSettings

HERE = {"HTTP_HOST": "127.0.0.1:8000", "HTTP_SEC_FETCH_SITE": "none"}


def page_of(settings: UiSettings) -> Callable[[str], str]:
    client = create_app(settings).test_client()
    client.environ_base.update(HERE)

    def read(address: str) -> str:
        for _ in range(200):
            answer = client.get(address)
            assert answer.status_code == 200, answer.text
            page = unescape(answer.text)
            if "look again in some seconds" not in page:
                break
            time.sleep(0.1)
        return page

    return read


@pytest.fixture
def settings(tmp_path: Path) -> UiSettings:
    """A site of 300 jobs: each tenth a control job that takes 1.5 times as long."""
    text = DEMO_FILE.read_text().replace('mode = "shadow"', 'mode = "enforce"')
    site = tmp_path / "berth.toml"
    site.write_text(
        f'{text}\n[daemon]\nstore = "{tmp_path}/store.db"\nkill_switch = "{tmp_path}/off"\n'
    )
    store, now_s = Store.open(str(tmp_path / "store.db")), time.time()
    decisions, outcomes = [], []
    for number in range(300):
        is_control, at_s = number % 10 == 0, now_s - 1_500.0 * number
        decisions.append(
            decision(
                number, time_s=at_s, user=f"u{number % 7}", mode="enforce", ground="measured",
                action="keep" if is_control else "edit",
                code="control" if is_control else "placed",
            )
        )  # fmt: skip
        outcomes.append(
            PlacedRun(
                "demo", str(number), f"u{number % 7}",
                "failed" if number % 30 == 7 else "completed",
                decision=decision(number).id, elapsed_s=10.0, workload="stream", partition="gpu",
                predicted_low_s=8.0, predicted_s=10.0, predicted_high_s=14.0,
                submit_s=at_s, end_s=at_s + (30.0 if is_control else 20.0),
            )
        )  # fmt: skip
    store.decisions.add(decisions)
    store.outcomes.put(outcomes)
    store.usages.put([Usage("demo", "1", "job-end", node="n1", peak_bytes=3 * 2**30)])
    store.close()
    return UiSettings(site_file=site)


def test_jobs_say_where_their_states_come_from(
    settings: UiSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_site: Path | None) -> Mapping[str, PresentJob]:
        raise BerthError("squeue did not answer within 60 s")

    monkeypatch.setattr(jobs, "_jobs_now", Background("jobs", silent))
    assert "states: squeue did not answer within 60 s." in page_of(settings)("/jobs")
    monkeypatch.setattr(jobs, "_jobs_now", Background("jobs", lambda _site: {}))
    assert "States as the scheduler told them at " in page_of(settings)("/jobs")


def test_the_first_page_answers_the_four_questions(
    settings: UiSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats = {"mode": "enforce", "forecasts": 3, "breakers": {}, "places": {}}
    monkeypatch.setattr(overview, "ask", lambda *_, **__: stats)
    page = page_of(settings)("/overview")
    assert "Jobs are changed (mode enforce): 3 programs with a forecast, by their times" in page
    assert "findings need attention" in page
    assert "changed, based on a pilot" in page
    assert "left as written: control jobs" in page
    assert "jobs?code=control" in page
    assert "Berth's changes help: jobs left as written take 1." in page
    assert "Of 270 jobs changed by Berth 10 failed (3.7%)" in page
    assert "real times lie inside the 90 % interval: holds" in page
    assert page.count('class="picture"') == 3, (
        "changed a day, against control jobs, predicted and real times"
    )


def test_without_a_daemon_nothing_is_on_whatever_the_mode_says(settings: UiSettings) -> None:
    page = page_of(settings)("/overview")
    assert "Berth does not run here, so no job is changed (mode enforce)." in page
    assert "Jobs are changed" not in page


def test_the_start_leads_there(settings: UiSettings) -> None:
    client = create_app(settings).test_client()
    client.environ_base.update(HERE)
    assert client.get("/").headers["Location"].endswith("/overview")


def test_a_set_kill_switch_is_the_first_sentence(settings: UiSettings, tmp_path: Path) -> None:
    (tmp_path / "off").touch()
    assert "Berth is stopped since 20" in page_of(settings)("/overview")


def test_the_demo_site_and_a_broken_store_are_said(settings: UiSettings, tmp_path: Path) -> None:
    assert "the demo site has no cluster" in page_of(UiSettings())("/overview")
    (tmp_path / "store.db").write_bytes(b"not a database" * 100)
    page = page_of(settings)("/overview")
    assert "What it did" in page
    assert "store.db" in page


def test_users_see_their_own_jobs_only(settings: UiSettings) -> None:
    client = create_app(replace(settings, user_header="X-User", admins=("root",))).test_client()
    client.environ_base.update({**HERE, "HTTP_X_USER": "u1"})
    page = unescape(client.get("/overview").text)
    assert "figures of the whole site are for its administrators" in page
    assert "jobs changed by Berth" not in page


def test_the_list_of_jobs_has_what_squeue_has(settings: UiSettings) -> None:
    page = page_of(settings)("/jobs?action=keep")
    for title in ("Job", "State", "User", "Account", "Partition", "Berth's answer", "Why"):
        assert f'<th scope="col">{title}</th>' in page
    assert "as written: control" in page
    assert "changed: gpu" not in page
    assert 'data-sort="10.0"' in page


def test_a_job_shows_what_it_used(settings: UiSettings) -> None:
    page = page_of(settings)(f"/jobs/{decision(1).id}")
    assert "What it used" in page
    assert "(job-end)" in page


def test_background_work_shows_its_last_result_or_why_there_is_none() -> None:
    answers: list[int | Exception] = [1, ValueError("broken"), BerthError("no way"), 2]

    def work(_key: str) -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    made = Background("the work", work, fresh_s=0.0, patience_s=5.0)
    first = made.newest("key")
    assert first is not None
    assert first.value == 1
    with pytest.raises(BerthError, match="the work failed"):
        made.newest("key")
    with pytest.raises(BerthError, match="no way"):
        made.newest("key")
    last = made.newest("key")
    assert last is not None
    assert last.value == 2
