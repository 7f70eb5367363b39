"""--allow-actions: off by default, administrators only, confirmed, with a line in the journal."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from toy_profiles import profile
from ui_store import decision

from berth.pilot.documents import to_json
from berth.plugin.site import load_site
from berth.plugin.store import Store, WorkloadRecord
from berth.plugin.ui.actions import ACTIONS
from berth.plugin.ui.app import create_app
from berth.plugin.ui.guard import UiSettings

Asking = Callable[..., FlaskClient]
SIGNED = re.compile(r'name="confirmed" value="([^"]+)"')


@pytest.fixture
def site(settings: UiSettings) -> Path:
    """With a workload of alice's in the store, and a kill switch in its own folder."""
    path = settings.site_file
    assert path is not None
    text = path.read_text()
    path.write_text(text + f'kill_switch = "{path.parent / "off"}"\n')
    with_workload(path)
    return path


def with_workload(path: Path) -> None:
    store = Store.open(str(path.parent / "store.db"))
    document = to_json(profile("app"))
    store.add(WorkloadRecord("app", "program", "sha256:1", document, "", 1.0))
    store.close()


def done(client: FlaskClient, name: str, target: str = "") -> str:
    """The action asked for and confirmed; the page that follows."""
    asked = client.post(f"/actions/{name}", data={"target": target})
    assert asked.status_code == 200
    signed = SIGNED.search(asked.text)
    assert signed is not None, asked.text
    data = {"target": target, "confirmed": unescape(signed[1])}
    answer = client.post(f"/actions/{name}", data=data, follow_redirects=True)
    assert answer.status_code == 200
    return unescape(answer.text)


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_without_the_option_nothing_can_be_done(asking: Asking, site: Path, name: str) -> None:
    before = site.read_text()
    client = asking()
    assert client.get("/actions").status_code == 404
    for data in ({"target": "app"}, {"target": "app", "confirmed": "x"}):
        assert client.post(f"/actions/{name}", data=data).status_code == 404
    assert site.read_text() == before
    assert not (site.parent / "off").exists()


def test_views_that_only_read_take_no_form(asking: Asking) -> None:
    for view in ("/jobs", "/site", "/mig", "/queue"):
        assert asking().post(view).status_code == 405


def test_each_is_confirmed_done_and_leaves_a_line(
    asking: Asking, site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = asking(actions=True)
    assert "Forget a workload" in client.get("/actions").text
    with caplog.at_level(logging.INFO, "berth.ui.audit"):
        asked = client.post("/actions/mode", data={"target": "enforce"})
        assert "Writes mode enforce into the site file" in asked.text
        assert load_site(site).mode.value == "shadow"  # not yet
        assert "mode enforce" in done(client, "mode", "enforce")
        assert load_site(site).mode.value == "enforce"
        before = client.get("/actions").text
        assert "Stop all placements now" in before
        assert "Go on after a stop" not in before
        assert "left alone" in done(client, "stop")
        assert (site.parent / "off").exists()
        after = client.get("/actions").text
        assert "every job is left as it is" in after
        assert "Stop all placements now" not in after
        assert "is gone" in done(client, "go-on")
        assert not (site.parent / "off").exists()
        assert "ended jobs" in done(client, "learn")
        assert "app is forgotten" in done(client, "forget", "app")
        assert "there is no workload 'app'" in done(client, "forget", "app")
    lines = [r.getMessage() for r in caplog.records if r.name == "berth.ui.audit"]
    assert len(lines) == 6
    assert "action=mode target='enforce' by='whoever started the page'" in lines[0]
    assert "failed: there is no workload" in lines[-1]


def test_a_confirmation_is_for_what_was_shown(asking: Asking, site: Path) -> None:
    client = asking(actions=True)
    shown = client.post("/actions/mode", data={"target": "shadow"}).text
    signed = unescape(SIGNED.findall(shown)[0])
    for name, target in (("mode", "enforce"), ("forget", "app"), ("stop", "")):
        data = {"target": target, "confirmed": signed}
        assert client.post(f"/actions/{name}", data=data).status_code == 400
    assert client.post("/actions/stop", data={"confirmed": "made-up"}).status_code == 400
    assert load_site(site).mode.value == "shadow"
    assert client.post("/actions/none-such").status_code == 404
    assert "is missing" in client.post("/actions/forget", data={}).text


def test_a_form_without_its_secret_or_of_another_page_does_nothing(
    settings: UiSettings, site: Path
) -> None:
    from dataclasses import replace

    client = create_app(replace(settings, actions=True)).test_client()
    client.environ_base.update({"HTTP_HOST": "localhost", "HTTP_SEC_FETCH_SITE": "same-origin"})
    assert client.post("/actions/stop").status_code == 400
    other = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert client.post("/actions/stop", headers=other).status_code == 403
    assert not (site.parent / "off").exists()


def test_users_behind_a_proxy_can_do_nothing(asking: Asking, site: Path) -> None:
    client = asking(actions=True, user_header="X-Remote-User", admins=("root",))
    alice, root = ({"X-Remote-User": name} for name in ("alice", "root"))
    assert client.get("/actions", headers=alice).status_code == 403
    assert client.post("/actions/stop", headers=alice).status_code == 403
    assert client.get("/actions", headers=root).status_code == 200
    assert not (site.parent / "off").exists()


def test_a_user_sees_nothing_of_others(asking: Asking, settings: UiSettings) -> None:
    """Jobs, workloads, the site's figures and its queue: as Slurm's PrivateData would have it."""
    assert settings.site_file is not None
    store = Store.open(str(settings.site_file.parent / "store.db"))
    for name in ("bob/hidden", "alice/own", "shared"):
        document = to_json(profile(name.rpartition("/")[2]))
        store.add(WorkloadRecord(name, "program", f"sha256:{name}", document, "", 1.0))
    store.close()
    client = asking(user_header="X-Remote-User", admins=("root",))
    alice = {"X-Remote-User": "alice"}
    for view in ("/place", "/predict", "/mig", "/site", "/jobs", "/queue", "/what-if"):
        page = unescape(client.get(view, headers=alice).text)
        assert "bob" not in page, view
    page = unescape(client.get("/predict", headers=alice).text)
    assert "alice/own" in page
    assert "shared" in page
    assert "administrators" in unescape(client.get("/site", headers=alice).text)
    taken = unescape(client.get("/predict?workload=bob/hidden", headers=alice).text)
    assert "there is no workload 'bob/hidden'" in taken
    assert client.get(f"/jobs/{decision(2).id}", headers=alice).status_code == 404


def test_what_one_user_sends_is_not_another_s_to_see(asking: Asking) -> None:
    client = asking(user_header="X-Remote-User", admins=("root",))
    alice, bob = ({"X-Remote-User": name} for name in ("alice", "bob"))
    form = {"described": "serve", "billions": "1"}
    answer = client.post("/predict", data=form, headers=alice)
    assert answer.status_code == 303
    link = answer.headers["Location"]
    assert "transformer-" in client.get(link, headers=alice).text
    refused = unescape(client.get(link, headers=bob).text)
    assert "no longer held here" in refused
    assert "transformer-" not in refused.partition("</form>")[2]
