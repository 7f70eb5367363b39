"""What is broken around the page: every view says so in a sentence, and the others go on."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from small_models import convolutional
from sqlalchemy import create_engine, text
from toy_profiles import profile
from ui_store import decision

from berth.pilot.documents import to_json
from berth.plugin.store import Store, WorkloadRecord
from berth.plugin.ui.guard import UiSettings

Asking = Callable[..., FlaskClient]
ONE = f"/jobs/{decision(1).id}"
VIEWS = (
    "/place", "/place?workload=app", "/predict", "/predict?workload=app", "/jobs", ONE,
    "/jobs?job=77", "/queue", "/site", "/mig",
)  # fmt: skip
WITHOUT_A_STORE = ("/queue",)
GOES_ON = {
    "/place": "Script or command",
    "/predict": "Describe a transformer",
    "/jobs": "Job id",
    "/site": "Places that jobs may be sent to",
    "/mig": "What a GPU can be cut into",
}
"""What each still shows without a store."""


def page(client: FlaskClient, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, (address, answer.text)
    assert "<h1" in answer.text
    assert "Traceback" not in answer.text
    return unescape(answer.text)


@pytest.fixture
def store_file(settings: UiSettings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a workload in it; nobody waits long for its lock."""
    monkeypatch.setattr("berth.plugin.ui.context.PATIENCE_S", 0.05)
    assert settings.site_file is not None
    path = settings.site_file.parent / "store.db"
    store = Store.open(str(path))
    document = to_json(profile("app"))
    store.add(WorkloadRecord("app", "program", "sha256:1", document, "", 1.0))
    store.close()
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("UPDATE alembic_version SET version_num = version_num")
    try:
        yield
    finally:
        holder.close()


@contextmanager
def of_a_newer_schema(path: Path) -> Iterator[None]:
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'v9999'"))
    engine.dispose()
    yield


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    path.write_bytes(b"broken" * 1000)
    yield


@contextmanager
def of_somebody_else(path: Path) -> Iterator[None]:
    """Another program's database."""
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (n INTEGER)")
    yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "said"),
    [
        (locked, "lock"),
        (of_a_newer_schema, "made by a newer Berth"),
        (damaged, "store.db"),
        (of_somebody_else, "tables that are not Berth's"),
    ],
)
def test_a_store_that_cannot_be_read_is_said_by_each_view_that_needs_it(
    asking: Asking, store_file: Path, state: Callable[[Path], object], said: str
) -> None:
    client = asking()
    with state(store_file):  # type: ignore[attr-defined]
        for view in VIEWS:
            shown = page(client, view)
            if view not in WITHOUT_A_STORE:
                assert said in shown, view
                assert 'role="alert"' in shown, view
            assert GOES_ON.get(view, "") in shown, view


def test_a_file_needs_no_store_and_one_that_comes_back_is_read(
    asking: Asking, store_file: Path
) -> None:
    client = asking()
    with locked(store_file):
        assert "lock" in page(client, "/jobs")
        sent = {"file": (io.BytesIO(convolutional().SerializeToString()), "net.onnx")}
        answer = client.post("/predict", data=sent)
        assert answer.status_code == 303
        shown = page(client, answer.headers["Location"])
        assert "net: a model graph" in shown
        assert "lock" in shown
    assert decision(1).id in page(client, "/jobs")


def test_a_store_with_nothing_in_it_and_none_are_shown_as_such(
    asking: Asking, store_file: Path
) -> None:
    """A store without anything in it; a file of no bytes, and no file at all, which are no stores
    and stay as they are."""
    client = asking()

    def empty() -> None:
        for part in store_file.parent.glob("store.db*"):
            part.unlink()

    empty()
    Store.open(str(store_file)).close()
    for view, words in {"/jobs": "None.", "/site": "Nothing", **GOES_ON}.items():
        assert words in page(client, view), view
    assert "there is no workload 'app'" in page(client, "/predict?workload=app")
    for is_there in (True, False):
        empty()
        if is_there:
            store_file.touch()
        for view, words in GOES_ON.items():
            assert words in page(client, view), view
        assert "berth site store upgrade" in page(client, "/jobs")
        assert store_file.exists() == is_there
        assert not is_there or store_file.stat().st_size == 0


def test_a_site_file_that_breaks_goes_and_heals_is_followed_by_each_view(
    asking: Asking, settings: UiSettings, store_file: Path
) -> None:
    client, file = asking(), settings.site_file
    assert file is not None
    whole = file.read_text()
    assert "Mode" in page(client, "/site")
    for broken, said in (
        ("mode = 7", "schema: is missing"),
        ("= [", "berth.toml"),
        (None, "berth.toml"),
    ):
        if broken is None:
            file.unlink()
        else:
            file.write_text(broken)
        for view in VIEWS:
            if view == "/mig":
                assert GOES_ON[view] in page(client, view), view
            assert said in page(client, view), (broken, view)
    file.write_text(whole)
    for view in ("/place", "/jobs", "/mig", "/queue"):
        assert "berth.toml" not in page(client, view), view
    assert "Mode" in page(client, "/site")


def test_a_daemon_and_a_scheduler_that_are_down_are_said_where_they_matter(
    asking: Asking, store_file: Path
) -> None:
    assert store_file.exists()
    client = asking()
    site = page(client, "/site")
    assert "no daemon answers at" in site
    assert "systemctl start berth" in site
    assert "scheduler" in site
    queue = page(client, "/queue")
    assert 'role="alert"' in queue
    for view in VIEWS:
        if view not in ("/queue", "/predict?workload=app"):
            assert 'role="alert"' not in page(client, view), view
    placed = page(client, "/place?workload=app")
    assert "Places where it can run" in placed
    assert "The present state is not known" in placed


def test_a_queue_whose_replay_fails_is_not_waited_for(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> object:
        raise OSError("no more threads")

    monkeypatch.setattr("berth.plugin.ui.jobs.live_replays", fails)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    client = asking(store_url="sqlite://another")
    for _ in range(100):
        shown = page(client, "/queue")
        if "being replayed" not in shown:
            break
    assert "the replay of the queue failed" in shown


def test_users_without_the_administrators_daemon_are_told(
    asking: Asking, store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's page reads through ``berth serve --users``; nobody serves there now."""
    socket = store_file.parent / "users.sock"
    monkeypatch.setattr("berth.plugin.installed_site.Installation.users_socket", lambda _: socket)
    client = asking()
    for view in ("/jobs", ONE, "/predict?workload=app", "/place?workload=app"):
        shown = page(client, view)
        assert "users.sock" in shown, view
        assert 'role="alert"' in shown, view
    assert "administrators" in page(client, "/site")
    assert GOES_ON["/mig"] in page(client, "/mig")
