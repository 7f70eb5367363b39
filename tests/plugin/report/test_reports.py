"""berth ui report: one file that stands alone, for a job, a workload, the site, the GPUs."""

from __future__ import annotations

import base64
import json
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_models import convolutional
from toy_profiles import profile
from ui_store import decision

from berth.pilot.documents import to_json
from berth.plugin.cli.command_line import berth
from berth.plugin.report import html as page
from berth.plugin.report.parts import Part, Report, text_table
from berth.plugin.site.load import DEMO_FILE
from berth.plugin.store import PlacedRun, Store

PICTURE = re.compile(r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="([^"]+)"')
FLEET = {
    "schema": "berth.mig-fleet/1",
    "gpus": [
        {"name": "n1/0", "model": "A100-40GB", "layout": ["3g.20gb@0", "1g.5gb@4"],
         "running": [{"instance": "1g.5gb@4"}]},
        {"name": "n1/1", "model": "A100-40GB", "mig_enabled": False},
    ],
}  # fmt: skip
JOBS = {
    "schema": "berth.mig-jobs/1",
    "jobs": [{"name": "bert", "count": 3, "slices": [{"profile": "2g.10gb", "throughput": 1.0}]}],
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site file beside a store with a decision and what came of it."""
    path = tmp_path / "berth.toml"
    path.write_text(DEMO_FILE.read_text() + f'\n[daemon]\nstore = "{tmp_path / "store.db"}"\n')
    store = Store.open(str(tmp_path / "store.db"))
    now_s = time.time()
    store.decisions.add(
        [
            replace(decision(1), time_s=now_s - 500.0),
            replace(decision(2), time_s=now_s - 400.0, mode="shadow", code="placed"),
        ]
    )
    store.outcomes.put([
        PlacedRun(
            "demo", "77", "alice", "completed", decision=decision(1).id, elapsed_s=11.0,
            predicted_low_s=8.0, predicted_s=10.0, predicted_high_s=14.0, platform="a100-40gb",
            end_s=now_s - 100.0,
        )
    ])  # fmt: skip
    store.close()
    return path


def report(*words: str | Path) -> Result:
    return CliRunner().invoke(berth, ["ui", "report", *map(str, words)], catch_exceptions=True)


class Links(HTMLParser):
    """Everything that a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]


def stands_alone(file: Path, *, pictures: int) -> str:
    """The page's text, after a look at what it would load and at its pictures."""
    text = file.read_text()
    links = Links()
    links.feed(text)
    assert all(one.startswith("data:image/svg+xml;base64,") for one in links.loaded)
    assert not links.tags & {"script", "iframe", "object", "link", "form"}
    assert "default-src &#x27;none&#x27;" in text
    found = PICTURE.findall(text)
    assert len(found) == pictures
    for picture, words in found:
        drawn = ET.fromstring(base64.b64decode(picture))  # noqa: S314 - our own
        assert len(list(drawn.iter())) > 20, words
    return text


def test_a_job_is_reported_by_its_id_or_its_decision(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "job.html"
    for name in ("77", decision(1).id):
        done = report("job", name, "--site", site, "--html", file)
        assert done.exit_code == 0, done.output
        text = stands_alone(file, pictures=1)
        assert "gpu is predicted fastest: 10 s." in text
        assert "job 77: completed after 11 s" in text
        assert "its time limit is too short" in text
    assert "How it stands" in report("job", "77", "--site", site).stdout


def test_the_site_is_reported_with_coverage_shadow_and_calibration(
    site: Path, tmp_path: Path
) -> None:
    file = tmp_path / "site.html"
    done = report("site", "--site", site, "--html", file, "--json")
    assert done.exit_code == 0, done.output
    text = stands_alone(file, pictures=2)
    assert "1 of 1 job in mode shadow would have been changed (1 to" in text
    assert "How far it is calibrated" in text
    found = json.loads(done.stdout)
    assert found["schema"] == "berth.report/1"
    titles = [part["title"] for part in found["parts"]]
    assert "What placements saved (last 30 days)" in titles
    tables = {table["caption"]: table for part in found["parts"] for table in part["tables"]}
    assert "programs are placed there" in text
    assert any(row["is_acted_on"] for row in tables["Platforms of the site"]["rows"])
    assert tables["Decisions"]["rows"][0]["share"] == 0.5


def test_a_site_without_its_store_is_reported_with_the_reason(site: Path, tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"broken" * 1000)
    done = report("site", "--site", site)
    assert done.exit_code == 0
    assert "Places that jobs may be sent to" in done.stdout
    assert "store.db" in done.stdout


@pytest.mark.slow
def test_a_model_is_reported_with_times_and_roofs(tmp_path: Path) -> None:
    model, file = tmp_path / "net.onnx", tmp_path / "net.html"
    model.write_bytes(convolutional().SerializeToString())
    done = report("workload", model, "--batch", "4", "--html", file)
    assert done.exit_code == 0, done.output
    text = stands_alone(file, pictures=2)
    assert "a100-40gb" in text
    assert "under the roofs of" in text
    assert "limited by" in text


def test_a_program_is_reported_with_what_limits_it(tmp_path: Path) -> None:
    measured, file = tmp_path / "triad.json", tmp_path / "triad.html"
    measured.write_text(to_json(profile(runtime_s=2.0)))
    done = report("workload", measured, "--html", file)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "memory-bound there" in stands_alone(file, pictures=1)


def test_two_replays_are_reported_side_by_side(tmp_path: Path) -> None:
    rows = [
        f"{n + 1} {60 * n} 0 {300 + 40 * (n % 7)} {1 + n % 4} -1 -1 {1 + n % 4} 900 -1 1 {n % 3}"
        " 1 1 1 1 -1 -1"
        for n in range(60)
    ]
    jobs, file = tmp_path / "jobs.swf", tmp_path / "replay.html"
    jobs.write_text("\n".join(["; Computer: a test", *rows]) + "\n")
    words = ["replay", str(jobs), "--cores", "8", "--html", str(file)]
    done = CliRunner().invoke(berth, [*words, "--backfill", "fcfs", "--backfill", "easy"])
    assert done.exit_code == 0, (done.output, done.exception)
    text = stands_alone(file, pictures=1)
    assert "Winners and losers: easy beside fcfs" in text
    assert "bounded slowdown" in text
    assert CliRunner().invoke(berth, words).exit_code == 0
    assert "to compare" in stands_alone(file, pictures=0)


def test_the_gpus_are_reported_beside_their_plan(tmp_path: Path) -> None:
    fleet, jobs, plan = (tmp_path / name for name in ("fleet.json", "jobs.json", "plan.json"))
    fleet.write_text(json.dumps(FLEET))
    jobs.write_text(json.dumps(JOBS))
    made = CliRunner().invoke(
        berth,
        ["mig", "plan", "--fleet", str(fleet), "--jobs", str(jobs), "--output", str(plan)],
    )
    assert made.exit_code == 0, made.output
    file = tmp_path / "mig.html"
    assert report("mig", "--fleet", fleet, "--html", file).exit_code == 0
    assert "busy" in stands_alone(file, pictures=1)
    assert report("mig", "--fleet", fleet, "--plan", plan, "--html", file).exit_code == 0
    text = stands_alone(file, pictures=1)
    assert "In this order" in text
    assert "create" in text
    fleet.write_text(json.dumps(FLEET | {"gpus": FLEET["gpus"][:1]}))
    wrong = report("mig", "--fleet", fleet, "--plan", plan)
    assert wrong.exit_code != 0
    assert "made for the GPUs as they were cut before" in str(wrong.exception)


def test_names_in_a_report_are_text() -> None:
    evil = '"><script>alert(1)</script>'
    made = Report(evil, evil, [Part(evil, [evil], tables=[text_table(evil, [evil], [[evil]])],
                                    verbatim=evil)])  # fmt: skip
    text = page.html(made, made_by=evil)
    links = Links()
    links.feed(text)
    assert "script" not in links.tags


def test_a_file_that_cannot_be_written_is_said_in_a_sentence(site: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = report("job", "77", "--site", site, "--html", tmp_path / "file" / "job.html")
    assert done.exit_code != 0
    assert "cannot be written" in str(done.exception)
