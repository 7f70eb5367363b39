"""The helper: an unprivileged caller gets what is allowed, and nothing else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from berth_daemon import wait_until
from fake_nvml import FakeFleet
from helper_server import HelperServer, as_unprivileged, serving, unprivileged
from scenes import BESIDE_RUNNING as SCENE

from berth.pilot.errors import BerthError, DocumentError
from berth.plugin.mig import wire
from berth.plugin.mig.access import HelperAccess, open_access
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.settings import HelperSettings, MigSettings, load_trusted
from berth.plugin.mig.target import ApplyTarget
from berth.policies.mig import Layout

CONFIG = """\
schema = "berth.mig/1"
state_dir = "{folder}/state"
[helper]
allowed_users = ["{user}"]
"""


@pytest.fixture
def server(fleet: FakeFleet, state_folder: Path) -> Iterator[HelperServer]:
    """A helper for ``BESIDE_RUNNING``'s fleet; only root (or this user) may cut it."""
    SCENE.set_up(fleet)
    config = state_folder / "mig.toml"
    config.write_text(CONFIG.format(folder=state_folder, user=unprivileged()))
    environment = {**fleet.environment, "FAKE_NVML_OWNER": str(os.geteuid())}
    with serving(state_folder, environment, config) as found:
        yield found


def access(server: HelperServer, tell: Callable[[str], None] = lambda _: None) -> HelperAccess:
    return HelperAccess(HelperSettings(socket=str(server.path), timeout_s=20), tell)


def ask(server: HelperServer, line: bytes) -> dict[str, object]:
    """The helper's last line to a raw request."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.path))
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            answer: dict[str, object] = json.loads(stream.readlines()[-1])
        return answer


def test_an_unprivileged_user_applies_through_the_helper(
    server: HelperServer, fleet: FakeFleet
) -> None:
    said = as_unprivileged(lambda: access(server).apply(SCENE.target).outcome)
    assert said == "new"
    assert fleet.layout() == SCENE.looks_new


def test_without_the_helper_the_same_user_is_told_to_use_it(
    fleet: FakeFleet, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = SCENE.set_up(fleet)
    monkeypatch.setenv("FAKE_NVML_OWNER", str(os.geteuid() + 1))
    with Nvml() as nvml, pytest.raises(BerthError, match="privileged user") as caught:
        nvml.read()
    assert "berth-mig-helper" in str(caught.value.hint)
    assert fleet.layout() == look


def test_the_inventory_comes_through_unchanged(server: HelperServer) -> None:
    with Nvml() as nvml:
        here = nvml.read()
    there = access(server).inventory()
    assert [(g.uuid, g.layout, g.instances) for g in there] == [
        (g.uuid, g.layout, g.instances) for g in here
    ]
    assert there[0].geometry is not None
    assert here[0].geometry is not None
    assert there[0].geometry.profiles == here[0].geometry.profiles


def test_preview_and_progress_reach_the_caller(server: HelperServer, fleet: FakeFleet) -> None:
    told: list[str] = []
    look = fleet.layout()
    (preview,) = access(server).preview(SCENE.target)
    assert [str(i) for i in preview.destroy] == ["2g.10gb@2"]
    assert fleet.layout() == look
    access(server, told.append).apply(SCENE.target)
    assert any(line.startswith("destroy 2g.10gb@2") for line in told)


def test_errors_arrive_as_what_they_are(server: HelperServer) -> None:
    target = ApplyTarget({"0": Layout.parse("3g.20gb@4 1g.5gb@1 9g.99gb@0")})
    with pytest.raises(BerthError, match=r"has no MIG profile '9g\.99gb'") as caught:
        access(server).apply(target)
    assert caught.value.exit_status == 2


def test_a_user_who_is_not_named_is_refused(server: HelperServer, fleet: FakeFleet) -> None:
    if os.geteuid() != 0:
        pytest.skip("NEEDS ROOT: a second user")
    config = Path(str(server.path)).with_name("mig.toml")
    config.write_text(config.read_text().replace(unprivileged(), "nobody-else"))
    look = fleet.layout()
    said = as_unprivileged(lambda: access(server).apply(SCENE.target).outcome)
    assert "may not use the MIG helper" in said
    assert fleet.layout() == look


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "ended before"),
        (b"{}\n", "schema"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n", "deeper"),
        (b"not json\n", "not JSON"),
        (b'{"schema": "berth.mig-request/1", "command": "shell"}\n', "command"),
        (b'{"schema": "berth.mig-request/1", "command": "apply", "path": "/etc"}\n', "path"),
        (b'{"schema": "berth.mig-request/9", "command": "apply"}\n', "newer"),
        (wire.request("apply", wait_s=-1), "wait_s"),
        (wire.request("apply", ApplyTarget({"7": Layout()})), "no GPU 7"),
        (wire.request("apply", layouts={"0": "1g.5gb"}), "is not an instance"),
        (wire.request("apply", layouts={"0": "3g.20gb@4 1g.5gb@5"}), "overlaps"),
        (b"x" * (wire.MAX_BYTES + 2) + b"\n", "longer than"),
    ],
)
def test_a_bad_request_is_one_sentence_and_touches_nothing(
    server: HelperServer, fleet: FakeFleet, line: bytes, message: str
) -> None:
    look = fleet.layout()
    answer = ask(server, line)
    assert answer["kind"] == "error"
    assert message in str(answer["message"])
    assert "\n" not in str(answer["message"])
    assert fleet.layout() == look


def test_a_caller_that_leaves_does_not_stop_what_has_begun(
    server: HelperServer, fleet: FakeFleet
) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.path))
        connection.sendall(wire.request("apply", SCENE.target))
    wait_until(lambda: server.helpers and server.helpers[0].poll() is not None, 60)
    assert fleet.layout() == SCENE.looks_new


def test_a_hanging_driver_is_reported_and_the_next_caller_is_told_who_has_the_lock(
    fleet: FakeFleet, state_folder: Path
) -> None:
    SCENE.set_up(fleet)
    config = state_folder / "mig.toml"
    config.write_text(CONFIG.format(folder=state_folder, user=unprivileged()))
    hang = {**fleet.environment, "FAKE_NVML_FAULTS": "nvmlGpuInstanceDestroy:1:hang"}
    with serving(state_folder, hang, config) as server:
        slow = HelperAccess(HelperSettings(socket=str(server.path), timeout_s=2), lambda _: None)
        with pytest.raises(BerthError, match="said nothing for 2 s"):
            slow.apply(SCENE.target)
        lock = state_folder / "state" / "lock"  # a busy machine may take long to start the helper
        wait_until(lambda: lock.is_file() and lock.read_text().strip(), 60)
        with pytest.raises(BerthError, match=rf"process {server.helpers[0].pid}\)"):
            access(server).apply(SCENE.target)
    with serving(state_folder / "again", fleet.environment, config) as server:
        assert access(server).resume().outcome == "old"


@pytest.mark.parametrize(
    "answer", [b"", b"garbage\n", b'{"kind": "result", "result": 7}\n', b"[]\n"]
)
def test_a_broken_helper_is_one_sentence(state_folder: Path, answer: bytes) -> None:
    program = f"import os,sys; sys.stdin.readline(); os.write(1, {answer!r})"
    settings = HelperSettings(command=(sys.executable, "-c", program), timeout_s=20)
    with pytest.raises(BerthError, match="MIG helper"):
        HelperAccess(settings, lambda _: None).resume()


def test_an_absent_helper_is_one_sentence(state_folder: Path) -> None:
    for settings in (
        HelperSettings(socket=str(state_folder / "none.sock")),
        HelperSettings(command=(str(state_folder / "none"),)),
    ):
        with pytest.raises(BerthError, match="MIG helper"):
            HelperAccess(settings, lambda _: None).inventory()


def test_settings_that_others_can_change_are_not_trusted(state_folder: Path) -> None:
    config = state_folder / "mig.toml"
    config.write_text('schema = "berth.mig/1"\n')
    load_trusted(config)
    config.chmod(0o666)
    with pytest.raises(DocumentError, match="can be changed by others"):
        load_trusted(config)
    state_folder.chmod(0o1777)
    config.chmod(0o644)
    load_trusted(config)
    for mode in (0o666, 0o1666, 0o664):
        config.chmod(mode)
        with pytest.raises(DocumentError, match="can be changed by others"):
            load_trusted(config)


def test_a_caller_by_sudo_cannot_name_settings_of_its_own(state_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "berth.plugin.mig.helper", "--config", state_folder / "mine.toml"],
        env={**os.environ, "SUDO_UID": "12345"},
        input=wire.request("resume"),
        capture_output=True,
        check=True,
    )
    assert "takes no arguments" in done.stdout.decode()


def test_root_needs_no_helper_and_others_take_the_configured_one(state_folder: Path) -> None:
    settings = MigSettings(
        schema="berth.mig/1", helper=HelperSettings(socket=str(state_folder / "none.sock"))
    )
    chosen = as_unprivileged(lambda: type(open_access(settings)).__name__)
    assert chosen == "HelperAccess"
