"""Every view: what it shows, and a sentence where it cannot."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from live_queue import pretend
from resnet50 import PARAMETERS, resnet50
from small_models import convolutional
from ui_store import decision

from berth.pilot.documents import to_json
from berth.plugin.store import Store, WorkloadRecord
from berth.plugin.ui.guard import UiSettings
from berth.plugin.workloads.described_models import DecoderShape, described
from berth.plugin.workloads.files import WorkloadOptions

Asking = Callable[..., FlaskClient]
NET = convolutional().SerializeToString()
VIEWS = ("/overview", "/place", "/predict", "/jobs", "/site", "/mig")


def text(client: FlaskClient, address: str, **options: object) -> str:
    answer = client.get(address, **options)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return unescape(answer.text)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_opens_and_asks_nothing_of_others(asking: Asking, view: str) -> None:
    page = text(asking(), view)
    assert "<h1" in page
    assert "http://" not in page.replace('xmlns="http://www.w3.org', "")
    assert "https://" not in page


def test_a_model_is_predicted_from_its_file(asking: Asking) -> None:
    client = asking()
    sent = {"file": (io.BytesIO(NET), "net.onnx"), "batch": "4"}
    answer = client.post("/predict", data=sent)
    assert answer.status_code == 303
    page = text(client, answer.headers["Location"])  # the answer has a link
    assert "net: a model graph" in page
    assert 'src="data:image/svg+xml;base64,' in page
    assert "a100-40gb" in page


@pytest.mark.slow
def test_resnet50_is_sent_whole_and_predicted(asking: Asking) -> None:
    client, model = asking(), resnet50()
    assert len(model) > 4 * PARAMETERS
    sent = {"file": (io.BytesIO(model), "resnet50.onnx"), "batch": "32"}
    answer = client.post("/predict", data=sent)
    assert answer.status_code == 303
    page = text(client, answer.headers["Location"])
    assert "resnet50: a model graph" in page
    assert page.count('class="picture"') == 2


def test_a_transformer_is_predicted_by_its_size(asking: Asking) -> None:
    client = asking()
    for purpose in ("serve", "training"):
        form = {"described": purpose, "layers": "4", "width": "512", "sequence": "128"}
        answer = client.post("/predict", data=form)
        assert answer.status_code == 303
        assert "transformer-" in text(client, answer.headers["Location"])
    page = client.post("/predict", data={"described": "serve"}).text
    assert "how large is the model?" in page


def test_a_placement_says_why_and_how_to_submit_it(asking: Asking) -> None:
    sent = {"file": (io.BytesIO(NET), "net.onnx"), "script": "job.sh", "gpus": "1"}
    page = unescape(asking(site_file=None).post("/place", data=sent, follow_redirects=True).text)
    assert "sbatch --partition=gpu" in page
    assert "Ruled out" in page or "Places where it can run" in page


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.txt", b"x", "files end in .json, .toml, .onnx"),
        ("model.pt", b"x", "convert it to ONNX"),
        ("broken.onnx", b"not an onnx file", "broken.onnx"),
        ("broken.json", b"{", "broken.json"),
        ("../../etc/passwd", b"x", "files end in"),
        ("huge.json", json.dumps({"schema": "x" * 100}).encode(), "huge.json"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(
    asking: Asking, name: str, content: bytes, said: str
) -> None:
    for view in ("/predict", "/place"):
        sent = {"file": (io.BytesIO(content), name)}
        answer = asking().post(view, data=sent)
        assert answer.status_code == 200
        assert said in unescape(answer.text)
        assert "berth-ui-" not in answer.text  # the folder it was held in is nobody's business


def test_a_file_that_is_too_large_is_refused(asking: Asking) -> None:
    client = asking(max_upload_bytes=1000)
    answer = client.post("/predict", data={"file": (io.BytesIO(bytes(5000)), "net.onnx")})
    assert answer.status_code == 413


def test_wrong_numbers_are_marked_beside_their_field(asking: Asking) -> None:
    page = asking().post("/place", data={"workload": "stream", "tasks": "-1"}).text
    assert "at least 1" in page
    page = asking().post("/place", data={"workload": "none such"}).text
    assert "there is no workload" in page


def test_decisions_are_listed_with_what_came(asking: Asking) -> None:
    page = text(asking(), "/jobs")
    assert decision(1).id in page
    assert "secret-of-bob" in page  # whoever started the page may read the store
    one = text(asking(), f"/jobs/{decision(1).id}")
    assert "gpu is predicted fastest: 10 s." in one
    assert "job 77: completed after 11 s" in one
    assert "its time limit is too short" in one


def test_jobs_are_narrowed_by_partition_and_day_and_saved_as_csv(asking: Asking) -> None:
    client = asking()
    day = time.strftime("%Y-%m-%d", time.localtime(decision(1).time_s))
    first, second = decision(1).id, decision(2).id
    assert first in text(client, f"/jobs?since={day}&until={day}&partition={decision(1).queue}")
    assert first not in text(client, "/jobs?until=1969-01-01")
    assert first not in text(client, "/jobs?since=2201-01-01")
    assert first not in text(client, "/jobs?partition=none")
    assert "is no date such as" in text(client, "/jobs?since=yesterday")
    answer = client.get("/jobs.csv?user=bob")
    assert answer.mimetype == "text/csv"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["user"] for row in rows] == ["bob"]
    assert second in text(client, "/jobs?user=bob")


def test_ten_thousand_decisions_are_paged(asking: Asking, settings: object) -> None:
    client = asking()
    store = Store.open(str(settings.site_file.parent / "store.db"))  # type: ignore[attr-defined]
    store.decisions.add([decision(n) for n in range(10, 10_010)])
    seen: list[str] = []
    address: str | None = "/jobs?code=placed"
    for _ in range(3):
        assert address is not None
        page = text(client, address)
        seen += [line for line in page.split('"') if line.startswith("/jobs/d")]
        links = [part for part in page.split('"') if "before=" in part]
        address = links[0] if links else None
    assert len(seen) == len(set(seen)) == 150
    assert seen == sorted(seen, reverse=True)


def test_the_site_s_parts_fail_by_themselves(asking: Asking, settings: object) -> None:
    page = text(asking(), "/site")
    assert "Is it sound?" in page
    assert "a100-40gb" in page
    store = settings.site_file.parent / "store.db"  # type: ignore[attr-defined]
    store.write_bytes(b"broken" * 1000)
    page = text(asking(), "/site")
    assert "store.db" in page
    assert "Places that jobs may be sent to" in page


def test_the_fleet_is_drawn_slice_by_slice(asking: Asking, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.json"
    fleet.write_text(
        json.dumps({
            "schema": "berth.mig-fleet/1",
            "gpus": [{"name": "n1/0", "model": "A100-40GB", "layout": ["3g.20gb@0", "1g.5gb@4"],
                      "running": [{"instance": "1g.5gb@4"}]}],
        })
    )  # fmt: skip
    page = text(asking(fleet=fleet), "/mig")
    assert "3g.20gb" in page
    assert "busy" in page
    assert 'alt="Each GPU\'s slices, free and busy"' in page
    fleet.write_text("{}")
    assert "fleet.json" in text(asking(fleet=fleet), "/mig")
    assert "At most" in text(asking(), "/mig?gpu=A100-40GB")


@pytest.mark.slow
def test_the_queue_is_replayed_and_a_user_sees_their_own_jobs(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch)
    client = asking()
    for _ in range(100):  # made beside the answers
        page = text(client, "/queue")
        if "being replayed" not in page:
            break
    assert "2 jobs run and 2 wait" in page
    assert "mean wait from now" in page
    assert page.count('class="picture"') == 1
    assert ">3</th>" in page
    user = asking(user_header="X-Remote-User")
    page = text(user, "/queue", headers={"X-Remote-User": "carol"})
    assert "2 jobs run and 2 wait" in page
    assert ">3</th>" not in page


def test_a_plan_for_stored_jobs_stands_beside_the_fleet(
    asking: Asking, settings: UiSettings, tmp_path: Path
) -> None:
    assert settings.site_file is not None
    store = Store.open(str(settings.site_file.parent / "store.db"))
    small = described(DecoderShape(4, 512), "inference", sequence=128, options=WorkloadOptions())
    document = to_json(small.document)
    store.add(WorkloadRecord("small", "model-graph", "sha256:1", document, "", 1.0))
    store.close()
    fleet = tmp_path / "fleet.json"
    gpu = {"name": "n1/0", "model": "A100-40GB", "layout": ["7g.40gb@0"]}
    fleet.write_text(json.dumps({"schema": "berth.mig-fleet/1", "gpus": [gpu]}))
    page = text(asking(fleet=fleet), "/mig?workload=small&count=3&objective=jobs")
    assert "Now and by the plan" in page
    assert "In this order" in page
    assert "destroy" in page
    assert "bob" in text(asking(fleet=fleet), "/jobs")  # other views are as they were
    broken = text(asking(fleet=fleet, plan=fleet), "/mig")
    assert "fleet.json" in broken
