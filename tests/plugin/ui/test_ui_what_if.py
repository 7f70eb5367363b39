"""What if: a question runs in a process of its own, one at a time, and can be cancelled."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from berth.plugin.ui.questions import MOST_KEPT, Questions

Asking = Callable[..., FlaskClient]
JOBS = "submit_s,user,partition,cores,limit_s,seconds@quartz\n" + "".join(
    f"{60 * n},u{n % 3},cpu,36,7200,3600\n" for n in range(30)
)
QUESTION = {"policy": "", "truth": "", "backfill": "easy", "kind": "broadwell", "nodes": "4",
            "days": "30"}  # fmt: skip
ASLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


def with_file(text: str = JOBS, **changes: str) -> dict[str, object]:
    return {**QUESTION, **changes, "file": (io.BytesIO(text.encode()), "month.csv")}


def answered(client: FlaskClient) -> str:
    """The page once the last question is not running any more."""
    for _ in range(2_000):
        page = unescape(client.get("/what-if").text)
        if "data-again" not in page:
            return page
        time.sleep(0.1)
    raise AssertionError("still running")


def test_a_question_is_asked_and_answered(asking: Asking) -> None:
    client = asking(actions=True)
    assert client.post("/what-if", data=with_file()).status_code == 303
    page = answered(client)
    assert "The answer: answer-1.html" in page
    assert "jobs-month.csv --backfill easy --set nodes.broadwell.count=+4" in page
    report = client.get("/what-if-page/answer-1.html")
    assert "easy, changed" in report.text
    assert "sandbox" in report.headers["Content-Security-Policy"]


def test_a_question_that_cannot_be_answered_says_why(asking: Asking) -> None:
    client = asking(actions=True)
    assert client.post("/what-if", data=with_file("no jobs at all")).status_code == 303
    page = answered(client)
    assert "Not answered" in page
    assert "jobs-month.csv" in page
    assert "berth-what-if-" not in page.partition("Not answered")[2].partition("</section>")[0]
    assert "Traceback" not in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": ""}, "what would have been different?"),
        ({"kind": "", "nodes": "3"}, "what would have been different?"),
        ({"days": ""}, "which past jobs?"),
        ({"days": "-3"}, "Number must be between"),
        ({"nodes": "many"}, "Not a valid integer"),
        ({"policy": "no-such"}, "no-such"),
    ],
)
def test_an_empty_or_wrong_question_is_answered_in_a_sentence(
    asking: Asking, changes: dict[str, str], said: str
) -> None:
    answer = asking(actions=True).post("/what-if", data={**QUESTION, **changes})
    assert answer.status_code == 200
    assert said in unescape(answer.text)


def test_a_page_that_only_reads_runs_nothing(asking: Asking) -> None:
    client = asking()
    assert "This page only reads" in client.get("/what-if").text
    assert client.post("/what-if", data=with_file()).status_code == 403
    assert client.post("/what-if/cancel").status_code == 403


def test_users_ask_nothing(asking: Asking) -> None:
    client = asking(actions=True, user_header="X-User", admins=("root",))
    alice = {"X-User": "alice"}
    assert "administrators" in client.get("/what-if", headers=alice).text
    posted = client.post("/what-if", data=with_file(), headers=alice)
    assert "administrators" in posted.text
    assert client.post("/what-if/cancel", headers=alice).status_code == 403
    assert "Being answered" not in client.get("/what-if", headers={"X-User": "root"}).text


def test_one_question_runs_at_a_time_and_can_be_cancelled(asking: Asking) -> None:
    client = asking(actions=True)
    questions = Questions(ASLEEP)
    client.application.extensions["berth"].questions = questions
    assert client.post("/what-if", data=with_file()).status_code == 303
    page = unescape(client.get("/what-if").text)
    assert "reading the jobs: 0 %" in page
    (questions.last.folder / "progress").write_text("jobs replayed\t30\t120\n")
    assert "jobs replayed: 25 %" in unescape(client.get("/what-if").text)
    refused = unescape(client.post("/what-if", data=with_file()).text)
    assert "another question is being answered" in refused
    assert len(list(questions.last.folder.parent.iterdir())) == 1  # the refused one left no files
    client.post("/what-if/cancel")
    page = unescape(client.get("/what-if").text)
    assert "it was cancelled" in page
    assert "data-again" not in page


def test_old_answers_give_way_and_all_go_with_the_page() -> None:
    questions = Questions((sys.executable, "-c", "pass"))
    folders: list[Path] = []
    for _ in range(MOST_KEPT + 2):
        folders.append(questions.room())
        questions.ask(["jobs"], folders[-1])
        questions.last.process.wait()
    assert [folder.exists() for folder in folders] == [False] * 2 + [True] * MOST_KEPT
    questions._end()
    assert not folders[-1].parent.exists()
