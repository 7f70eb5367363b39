"""The supervisor of a chaos run tells a refusal from a daemon that died."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from berth_daemon import wait_until
from chaos.serving import Serving


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")
@pytest.mark.parametrize(
    ("said", "status", "is_problem"),
    [
        ("berth: site.toml: is not TOML", 2, False),
        ("berth: the store is damaged", 1, False),
        ("Traceback (most recent call last):", 1, True),
        ("berth: site.toml: is not TOML", 139, True),
    ],
)
def test_only_a_daemon_that_died_is_a_problem(
    tmp_path: Path, said: str, status: int, is_problem: bool
) -> None:
    words = ["sh", "-c", f"echo '{said}'; exit {status}"]
    log = tmp_path / "log"
    serving = Serving([words], tmp_path / "site.toml", tmp_path / "socket", log, os.environ)
    serving.start(ready=False)
    try:
        wait_until(lambda: serving.look() or serving.starts > 1, what="it was started again")
    finally:
        serving.end()
    assert bool(serving.problems) == is_problem


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")
def test_a_daemon_that_still_starts_is_not_reloaded(tmp_path: Path) -> None:
    words = ["sh", "-c", "echo starting; exec sleep 600"]
    log = tmp_path / "log"
    serving = Serving([words], tmp_path / "site.toml", tmp_path / "socket", log, os.environ)
    serving.start(ready=False)
    try:
        wait_until(lambda: log.read_text() == "starting\n", what="it has begun to start")
        serving.reload()
        with pytest.raises(AssertionError):
            wait_until(lambda: serving.look() or serving.starts > 1, 0.5, what="it ended")
    finally:
        serving.end()
