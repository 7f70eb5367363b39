"""Who may look, by which name, and what a page of another origin can do: nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from flask.testing import FlaskClient
from ui_store import decision

from berth.plugin.ui.app import create_app
from berth.plugin.ui.context import MOST_BYTES, RecentUploads
from berth.plugin.ui.guard import UiSettings
from berth.plugin.workloads.described_models import DecoderShape, described
from berth.plugin.workloads.files import WorkloadOptions

Asking = Callable[..., FlaskClient]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8000"])
def test_a_name_that_it_is_not_served_by_is_refused(asking: Asking, host: str) -> None:
    assert asking().get("/place", headers={"Host": host}).status_code == 403


def test_a_name_that_was_given_is_served(asking: Asking) -> None:
    client = asking(hosts=("berth.example",))
    assert client.get("/mig", headers={"Host": "berth.example"}).status_code == 200


def test_without_the_token_nothing_is_shown(asking: Asking) -> None:
    client = asking(token="right")  # noqa: S106
    for view in ("/place", "/jobs", "/site", "/mig"):
        assert client.get(view).status_code == 401
        assert client.get(f"{view}?token=wrong").status_code == 401
    assert client.post("/predict").status_code == 401
    first = client.get("/jobs?code=placed&token=right")
    assert first.status_code == 302
    assert first.headers["Location"] == "/jobs?code=placed"  # the token leaves the address
    assert "HttpOnly" in first.headers["Set-Cookie"]
    assert "SameSite=Lax" in first.headers["Set-Cookie"]
    assert client.get("/jobs").status_code == 200


def test_a_token_of_another_run_is_worth_nothing(asking: Asking) -> None:
    one, other = asking(token="right"), asking(token="right")  # noqa: S106
    cookie = one.get("/jobs?token=right").headers["Set-Cookie"].partition(";")[0]
    assert other.get("/jobs", headers={"Cookie": cookie}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "", "Origin": "https://evil.example"},
    ],
)
def test_a_form_of_another_page_is_refused(asking: Asking, headers: dict[str, str]) -> None:
    assert asking().post("/predict", headers=headers).status_code == 403


def test_a_form_without_its_own_token_is_refused(settings: UiSettings) -> None:
    client = create_app(settings).test_client()
    client.environ_base.update({"HTTP_HOST": "localhost", "HTTP_SEC_FETCH_SITE": "same-origin"})
    assert client.post("/predict", data={"workload": "stream"}).status_code == 400


def test_answers_allow_the_page_s_own_files_alone(asking: Asking) -> None:
    headers = asking().get("/place").headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


def test_users_behind_a_proxy_see_their_own_jobs_alone(asking: Asking) -> None:
    client = asking(user_header="X-Remote-User", admins=("root",))
    assert client.get("/jobs").status_code == 401
    alice = {"X-Remote-User": "alice"}
    page = client.get("/jobs", headers=alice).text
    assert decision(1).id in page
    assert "secret-of-bob" not in page
    assert client.get(f"/jobs/{decision(1).id}", headers=alice).status_code == 200
    assert client.get(f"/jobs/{decision(2).id}", headers=alice).status_code == 404
    assert "administrators" in client.get("/jobs?user=bob", headers=alice).text
    assert client.get("/jobs?job=77", headers=alice).status_code == 200
    for job in ("78", "nonsense!"):  # another's, or none: not told apart
        assert client.get(f"/jobs?job={job}", headers=alice).status_code == 404
    assert "secret-of-bob" in client.get("/jobs", headers={"X-Remote-User": "root"}).text


def test_names_in_the_store_are_text(settings: UiSettings, asking: Asking) -> None:
    from berth.plugin.store import Store

    evil = "<script>alert(1)</script>"
    store = Store.open(str(settings.site_file.parent / "store.db"))  # type: ignore[union-attr]
    store.decisions.add([replace(decision(9), workload=evil, reason=evil)])
    for address in ("/jobs", f"/jobs/{decision(9).id}", f"/jobs?code={evil}"):
        page = asking().get(address).text
        assert "alert(1)" not in page or "&lt;script&gt;alert(1)" in page
        assert evil not in page


def test_a_page_of_another_origin_may_link_but_not_load(asking: Asking) -> None:
    """No pictures, frames or scripts of ours elsewhere: nobody is made to compute, or to look."""
    cross = {"Sec-Fetch-Site": "cross-site"}
    for how in ({}, {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
                {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}):  # fmt: skip
        answer = asking().get("/predict?described=serve&billions=8", headers={**cross, **how})
        assert answer.status_code == 403
    visit = {**cross, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert asking().get("/mig", headers=visit).status_code == 200


def test_what_was_sent_is_held_within_bounds() -> None:
    small = described(DecoderShape(1, 64), "serve", sequence=None, options=WorkloadOptions())
    held = RecentUploads()
    keys = [held.put("alice", replace(small, digest=f"sha256:{n:032x}")) for n in range(30)]
    assert held.get("alice", keys[0]) is None
    assert held.get("alice", keys[-1]) is not None
    assert held.get("bob", keys[-1]) is None
    document = SimpleNamespace(graph=("x" * (MOST_BYTES // 2),))
    for n in range(3):
        held.put("carol", replace(small, digest=f"sha256:c{n}", document=document))
    assert [held.get("carol", f"c{n}") is not None for n in range(3)] == [False, True, True]
