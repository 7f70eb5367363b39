"""Users' names and numbers: at once from memory, and never waiting for a directory that hangs."""

from __future__ import annotations

import os
import pwd
import threading

from berth_daemon import wait_until

from berth.plugin.usernames import UserNames, UserNumbers


def test_names_are_those_of_the_system() -> None:
    uid = os.getuid()
    names = UserNames()
    assert wait_until(lambda: names.of(uid)) == pwd.getpwuid(uid).pw_name
    assert wait_until(lambda: names.of(4_000_000_123)) == "uid:4000000123"
    assert wait_until(lambda: names.of(2**53)) == f"uid:{2**53}"


def test_numbers_are_those_of_the_system() -> None:
    numbers = UserNumbers()
    name = pwd.getpwuid(os.getuid()).pw_name
    assert wait_until(lambda: numbers.of(name) is not None)
    assert numbers.of(name) == os.getuid()
    for nobody in ("no such user", "no\0user"):
        assert wait_until(lambda who=nobody: numbers.of(who)) == UserNumbers.NOBODY


def test_a_directory_that_hangs_is_not_waited_for_and_asked_once() -> None:
    asked: list[int] = []
    gate = threading.Event()

    def hangs(uid: int) -> str:
        asked.append(uid)
        gate.wait()
        return "alice"

    names = UserNames(hangs)
    assert [names.of(7) for _ in range(5)] == [None] * 5
    assert asked == [7]
    gate.set()
    assert wait_until(lambda: names.of(7)) == "alice"


def test_a_look_up_that_fails_is_tried_again() -> None:
    answers: list[OSError | str] = [OSError("no directory"), "bob"]

    def unreliable(uid: int) -> str:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    names = UserNames(unreliable)
    assert wait_until(lambda: names.of(8)) == "bob"
