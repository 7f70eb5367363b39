"""Nobody touches another user's workloads, whatever he sends; attacks come from real uids (S3)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import Harbour, RunningDaemon, wait_until
from other_users import ALICE, ASK, BOB, MALLORY, needs_root, run_as
from toy_profiles import profile
from warm_berth import run_berth

from berth.pilot.documents import to_json
from berth.pilot.run import Run
from berth.plugin.site.load import SiteWatcher
from berth.plugin.store import DecisionRecord, Store
from berth.plugin.users.collecting import LEFTOVER_S, collect
from berth.plugin.users.workloads import MOST_WORKLOADS, UserWorkloads

pytestmark = needs_root

SCRIPT = "sha256:" + "a" * 64
DECISION = DecisionRecord(
    "1m7y4whj8kbbvxmm", 5.0, "ctld", "slurm", f"uid:{ALICE}", None, "auto", None, "enforce",
    "keep", "no-workload", "", None, None, None, "", 1,
)  # fmt: skip


def name(uid: int) -> str:
    return f"uid:{uid}"


def document(called: str = "app", bytes_moved: float = 2e8) -> str:
    return to_json(profile(called, bytes_moved=bytes_moved))


class Users:
    """Asks over the users' socket as any of them."""

    def __init__(self, site: Harbour) -> None:
        self.site = site

    def ask(self, caller: int, op: str, **fields: object) -> dict[str, Any]:
        line = json.dumps({"v": 1, "op": op, **fields}).encode()
        done = run_as(caller, ASK, str(self.site.user_socket), given=line)
        reply: dict[str, Any] = json.loads(done.stdout)
        return reply

    def add(self, uid: int, called: str = "app", **fields: object) -> dict[str, Any]:
        return self.ask(uid, "add", document=document(called), **fields)


@pytest.fixture
def users(site: Harbour) -> Users:
    site.write_site(daemon=f'admins = ["{name(BOB)}"]')
    store = site.store()
    store.decisions.add([DECISION])
    site.serve_users()
    return Users(site)


def placed_by(daemon: RunningDaemon, uid: int, comment: str = "berth:app") -> str | None:
    """The workload that a job of that user was decided by."""
    reply = daemon.decide(user=name(uid), uid=uid, queue="auto", comment=comment)
    words = dict(word.split("=", 1) for word in reply["stamp"].split()[1:])
    return words.get("workload") if reply["code"] != "no-workload" else None


def test_two_users_have_a_workload_of_one_name_and_each_job_gets_its_own(users: Users) -> None:
    daemon = users.site.start()
    assert users.add(ALICE)["name"] == "uid:23001/app"
    assert users.add(MALLORY, replace=True)["name"] == "uid:23003/app"
    wait_until(lambda: placed_by(daemon, MALLORY) == "uid:23003/app")
    assert placed_by(daemon, ALICE) == "uid:23001/app"
    assert placed_by(daemon, BOB) is None, "somebody else's places nobody"
    assert placed_by(daemon, BOB, "berth:uid:23001/app") is None, "nor by its full name"
    assert placed_by(daemon, ALICE, "berth:uid:23001/app") == "uid:23001/app"


def test_nobody_replaces_removes_or_refreshes_another_users_workload(users: Users) -> None:
    users.add(ALICE)
    before = users.site.store().workload("uid:23001/app")
    other = document("app", 9e9)
    full = "uid:23001/app"
    refused = [
        users.ask(MALLORY, "add", document=other, name=full, replace=True),
        users.ask(MALLORY, "add", document=other, name="../app", replace=True),
        users.ask(MALLORY, "refresh", names=[full]),
        users.ask(MALLORY, "share", name=full),
    ]
    assert all("error" in reply for reply in refused), refused
    assert users.ask(MALLORY, "remove", name=full) == {"v": 1, "removed": False}
    assert users.ask(MALLORY, "workload", name=full) == {"v": 1}, "not even seen"
    assert users.ask(MALLORY, "workloads")["workloads"] == []
    assert users.site.store().workload(full) == before


def test_a_claimed_name_counts_for_nothing(users: Users) -> None:
    reply = users.ask(MALLORY, "add", document=document(), owner=name(ALICE), user=name(ALICE))
    assert reply["name"] == "uid:23003/app"
    asked = users.ask(MALLORY, "share", name=reply["name"], uid=0, admin=True)
    assert asked == {"v": 1}, "an admin has to approve it"


def test_a_shared_workload_needs_an_admin_and_is_a_copy(users: Users) -> None:
    daemon = users.site.start()
    assert users.add(MALLORY, share=True).get("shared") is None
    assert placed_by(daemon, ALICE) is None
    listed = users.ask(BOB, "workloads")["workloads"]
    assert [w["share_asked_s"] is not None for w in listed] == [True], "the admin sees the request"
    assert users.ask(BOB, "share", name="uid:23003/app")["shared"] == "app"
    wait_until(lambda: placed_by(daemon, ALICE) == "app")
    users.ask(MALLORY, "add", document=document("app", 9e9), replace=True)
    shared = users.site.store().workload("app")
    assert shared is not None
    assert json.loads(shared.document)["counters"] == json.loads(document())["counters"]
    assert "only an admin" in users.ask(ALICE, "remove", name="app")["error"]
    assert users.ask(BOB, "remove", name="app")["removed"] is True


def test_a_script_stands_for_its_users_own_workload_only(users: Users) -> None:
    users.add(ALICE, script=SCRIPT)
    users.add(MALLORY, script=SCRIPT)
    found = {(s.owner, s.workload) for s in users.site.store().changes_since(0).fingerprints}
    assert found == {(name(ALICE), "uid:23001/app"), (name(MALLORY), "uid:23003/app")}


def test_decisions_are_shown_to_the_user_whose_job_it_was(users: Users) -> None:
    assert len(users.ask(ALICE, "decisions")["decisions"]) == 1
    assert users.ask(MALLORY, "decisions", user=name(ALICE))["decisions"] == []
    assert users.ask(MALLORY, "decision", id=DECISION.id) == {"v": 1}
    assert users.ask(ALICE, "decision", id=DECISION.id)["decision"]["id"] == DECISION.id
    assert len(users.ask(BOB, "decisions")["decisions"]) == 1, "an admin sees all"


@contextmanager
def acting_as(uid: int) -> Iterator[None]:
    """This process with that user's rights and name, as the users' service sees it."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_the_page_of_each_user_shows_their_own_jobs_and_workloads(users: Users) -> None:
    """``berth ui`` as two users start it on a login node: by their real uids, over the socket."""
    pytest.importorskip("flask", reason="needs the extra `ui`")
    from berth.plugin.ui.app import create_app
    from berth.plugin.ui.guard import UiSettings

    users.add(ALICE)
    client = create_app(UiSettings(site_file=users.site.site_file)).test_client()
    client.environ_base.update({"HTTP_HOST": "localhost", "HTTP_SEC_FETCH_SITE": "none"})
    views = ("/jobs", f"/jobs/{DECISION.id}", "/predict", "/site", "/place", "/mig", "/queue")
    root = {view: client.get(view).text for view in views}  # templates are read, too
    assert DECISION.id in root["/jobs"]
    for uid, is_alice in ((ALICE, True), (MALLORY, False)):
        with acting_as(uid):
            seen = {view: client.get(view).text for view in views}
        assert (DECISION.id in seen["/jobs"]) is is_alice
        assert ("mode enforce" in seen[f"/jobs/{DECISION.id}"]) is is_alice
        assert ("uid:23001/app" in seen["/predict"]) is is_alice
        assert "for its administrators" in seen["/site"]
        if not is_alice:
            assert not [view for view, text in seen.items() if name(ALICE) in text]


def test_a_user_has_a_bounded_number_of_workloads(users: Users) -> None:
    store, full = users.site.store(), users.add(MALLORY, "w0")["name"]
    record = store.workload(full)
    assert record is not None
    for number in range(1, MOST_WORKLOADS):
        store.add(replace(record, name=f"{full[:-1]}{number}"))
    assert "workloads already" in users.add(MALLORY, "another")["error"]
    assert "error" not in users.add(ALICE), "another user's room is left"


def test_what_cannot_be_read_is_refused_in_a_sentence(users: Users) -> None:
    for fields in (
        {"document": "{"},
        {"document": '{"schema": "berth.profile/1"}'},
        {"document": 7},
        {"document": document(), "script": "x"},
        {"document": document(), "script": SCRIPT, "size": 1e999},
        {"document": document(), "name": "x" * 200},
        {"document": document(), "name": "off"},
    ):
        reply = users.ask(MALLORY, "add", **fields)
        assert "error" in reply, fields
        assert "log" not in reply["error"], reply
    assert "op is not one of" in users.ask(MALLORY, "prune")["error"]


def test_the_store_itself_is_closed_to_users(users: Users) -> None:
    read = "import sys; print(open(sys.argv[1], 'rb').read(15))"
    done = run_as(MALLORY, read, str(users.site.folder / "store.db"))
    assert b"PermissionError" in done.stderr


def test_the_command_line_goes_by_the_users_socket(users: Users) -> None:
    """As an ordinary user: add, list, show, decisions, remove."""
    file = users.site.folder / "app.json"
    file.write_text(document())

    def berth(*words: str) -> subprocess.CompletedProcess[str]:
        return run_berth(*words, "--site", users.site.site_file, uid=ALICE)

    added = berth("workload", "add", str(file), "--share")
    assert added.returncode == 0, added.stderr
    assert "uid:23001/app" in added.stdout
    assert "an admin is asked" in added.stdout
    assert "asks to share" in berth("workload", "list").stdout
    assert "predicted" in berth("workload", "show", "app").stdout
    assert DECISION.id in berth("jobs", "decisions").stdout
    assert berth("workload", "remove", "app").returncode == 0
    assert users.site.store().workloads() == []


# From hosts that do not reach the socket

PUT = """
import os, sys
folder, kind, name = sys.argv[1:4]
path = os.path.join(folder, name)
if kind == "file": open(path, "wb").write(sys.stdin.buffer.read())
if kind == "fifo": os.mkfifo(path)
if kind == "link": os.symlink(sys.argv[4], path)
if kind == "hard": os.link(sys.argv[4], path)
if kind == "folder": os.mkdir(path)
if kind == "take": os.replace(sys.argv[4], path)
if kind == "remove": os.unlink(path)
"""


@pytest.fixture
def spool(site: Harbour) -> Path:
    made = site.folder / "spool"
    made.mkdir()
    made.chmod(0o1777)
    return made


def collected(
    site: Harbour, spool: Path, believed: Collection[str] = ("root",)
) -> tuple[list[Any], Store]:
    watcher = SiteWatcher(site.site_file)
    store = site.store()
    return list(collect(spool, UserWorkloads(store, watcher, believed=believed))), store


def test_a_file_in_the_spool_is_its_owners(site: Harbour, spool: Path) -> None:
    for uid in (ALICE, MALLORY):
        file = f"uid:{ALICE}-app.{uid}.json"  # whatever name he gives it
        assert run_as(uid, PUT, str(spool), "file", file, given=document().encode()).returncode == 0
    found, store = collected(site, spool)
    assert [one.problem for one in found] == [None, None]
    assert [w.name for w in store.workloads()] == ["uid:23001/app", "uid:23003/app"]
    assert list(spool.iterdir()) == []


def test_nothing_but_plain_files_is_read_and_nothing_hangs(site: Harbour, spool: Path) -> None:
    secret = site.folder / "secret.json"
    secret.write_text(document("secret"))
    secret.chmod(0o600)
    run_as(MALLORY, PUT, str(spool), "fifo", "a.json")
    run_as(MALLORY, PUT, str(spool), "link", "b.json", str(secret))
    run_as(MALLORY, PUT, str(spool), "link", "c.json", "/dev/zero")
    run_as(MALLORY, PUT, str(spool), "folder", "d.json")
    run_as(MALLORY, PUT, str(spool), "file", "e.json", given=b"\xff\xfe")
    run_as(ALICE, PUT, str(spool), "file", "f.json", given=document().encode())
    found, store = collected(site, spool)
    assert [one.file for one in found if one.problem] == [f"{c}.json" for c in "abcde"]
    assert [w.name for w in store.workloads()] == ["uid:23001/app"], "the rest went on"
    assert collected(site, spool)[0] == [], "what was refused is set aside"
    assert secret.read_text() == document("secret")


def test_another_users_file_with_a_second_name_is_refused(site: Harbour, spool: Path) -> None:
    """Where the kernel lets a user link others' files (fs.protected_hardlinks off)."""
    file = spool / "x"
    run_as(ALICE, PUT, str(spool), "file", "x", given=document().encode())
    os.link(file, spool / "y.json")
    found, store = collected(site, spool)
    assert "2 names" in str(found[0].problem)
    assert store.workloads() == []


USAGE = (
    '{"schema": "berth.usage/1", "scheduler": "slurm", "cluster": "lab", "job": "7", '
    '"node": "n1", "written_s": 5.0, "memory_peak_bytes": 900}'
)


def test_usage_that_root_left_is_believed_and_a_users_on_own_jobs_only(
    site: Harbour, spool: Path
) -> None:
    (spool / "lab-7-n1.usage").write_text(USAGE)
    (spool / ".lab-8-n1.1").write_text(USAGE[:40])
    mallorys = USAGE.replace("900", "1").encode()
    run_as(MALLORY, PUT, str(spool), "file", "lab-7-n2.usage", given=mallorys)
    run_as(MALLORY, PUT, str(spool), "file", "x.usage", given=USAGE[:60].encode())
    found, store = collected(site, spool)
    assert [(one.file, one.user, one.name) for one in found] == [
        ("lab-7-n1.usage", "root", "usage of job 7"),
        ("lab-7-n2.usage", name(MALLORY), "usage of job 7"),
        ("x.usage", name(MALLORY), None),
    ]
    assert "is not JSON" in str(found[2].problem)
    usages = store.usages.of_jobs(SiteWatcher(site.site_file).site.name, ["7"])["7"]
    by_reporter = {usage.reporter: usage.peak_bytes for usage in usages}
    assert by_reporter == {"": 900, name(MALLORY): 1}


def test_a_nodes_line_on_an_array_task_that_accounting_knows_is_the_tasks(
    site: Harbour, spool: Path
) -> None:
    named = SiteWatcher(site.site_file).site.name
    store = Store.open(SiteWatcher(site.site_file).site.daemon.store)
    store.past_jobs.put([
        Run(named, "5_2", "alice", "completed", 1.0, 2.0, 3.0, 1.0, 1, raw_id="7")
    ])  # fmt: skip
    (spool / "lab-7-n1.usage").write_text(USAGE)
    found, store = collected(site, spool)
    assert [one.name for one in found] == ["usage of job 5_2"]
    assert list(store.usages.of_jobs(named, ["5_2", "7"])) == ["5_2"]


def test_what_a_killed_epilog_left_is_removed_after_a_day(site: Harbour, spool: Path) -> None:
    for name_left, age_s in ((".lab-8-n1.1", 2 * LEFTOVER_S), (".lab-9-n1.1", 60.0)):
        (spool / name_left).write_text(USAGE[:40])
        moment_s = time.time() - age_s
        os.utime(spool / name_left, (moment_s, moment_s))
    collected(site, spool)
    assert [file.name for file in spool.iterdir()] == [".lab-9-n1.1"]


def test_where_root_is_squashed_a_site_may_believe_nobody(site: Harbour, spool: Path) -> None:
    (spool / "lab-7-n1.usage").write_text(USAGE)
    (spool / "lab-7-n1.usage").chmod(0o644)
    os.chown(spool / "lab-7-n1.usage", 65534, 65534)
    _, store = collected(site, spool, believed=("root", "nobody"))
    (usage,) = store.usages.of_jobs(SiteWatcher(site.site_file).site.name, ["7"])["7"]
    assert (usage.reporter, usage.peak_bytes) == ("", 900)


def test_users_cannot_touch_each_others_files_in_the_spool(spool: Path) -> None:
    run_as(ALICE, PUT, str(spool), "file", "a.json", given=b"{}")
    run_as(MALLORY, PUT, str(spool), "file", "m", given=b"{}")
    for attack in (("take", "a.json", str(spool / "m")), ("remove", "a.json")):
        assert b"PermissionError" in run_as(MALLORY, PUT, str(spool), *attack).stderr
    assert (spool / "a.json").stat().st_uid == ALICE


def test_the_daemon_user_sees_what_the_users_process_wrote(users: Users) -> None:
    users.add(ALICE)
    with sqlite3.connect(users.site.folder / "store.db") as connection:
        assert connection.execute("SELECT owner FROM workloads").fetchall() == [(name(ALICE),)]
