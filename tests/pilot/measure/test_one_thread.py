"""A program of several threads is also run on one, where it takes one and is short enough."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from berth.pilot import run as pilot
from berth.pilot.options import PilotOptions
from berth.pilot.profile import Profile
from berth.pilot.run import run_pilot

# Two threads, or as many as OMP_NUM_THREADS says where the second argument is "asked"; what there
# is to do is shared, or done by each ("alike").
SOURCE = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static long n; static volatile double sum[4];
static void *work(void *p) { double s = 0; for (long i = 0; i < n; i++) s += i * 0.5;
  sum[(long)p] = s; return 0; }
int main(int c, char **v) { (void)c; const char *asked = getenv("OMP_NUM_THREADS");
  int many = !strcmp(v[2], "asked") && asked ? atoi(asked) : 2; if (many > 4) many = 4;
  n = atol(v[1]) / (!strcmp(v[3], "shared") ? many : 1);
  pthread_t t[4]; for (long i = 0; i < many; i++) pthread_create(&t[i], 0, work, (void *)i);
  for (int i = 0; i < many; i++) pthread_join(t[i], 0);
  return !strcmp(v[2], "refuses") && asked && atoi(asked) == 1; }
"""
STEPS = "300000000"


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: programs to measure cannot be built")
    folder = tmp_path_factory.mktemp("threaded")
    (folder / "threaded.c").write_text(SOURCE)
    made = folder / "threaded"
    subprocess.run(
        [compiler, "-O1", "-pthread", "-o", str(made), str(folder / "threaded.c")], check=True
    )
    return str(made)


@pytest.fixture
def piloted(
    threaded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Profile]:
    monkeypatch.chdir(tmp_path)
    options = PilotOptions(command=(threaded,), collectors=frozenset({"proc"}), repeats=1)

    def run(*words: str, **more: object) -> Profile:
        return run_pilot(replace(options, command=(threaded, STEPS, *words), **more))

    return run


def test_it_tells_how_threads_share_the_work(piloted: Callable[..., Profile]) -> None:
    for _ in range(3):  # on a machine that is busy with something else two threads get less
        shared, alike = (gain(piloted("asked", words)) for words in ("shared", "alike"))
        if shared > 1.5 and alike < 1.25:
            return
    pytest.fail(f"two threads are {shared:.2f} and {alike:.2f} times as fast as one")


def gain(found: Profile) -> float:
    """Time on one thread over that on two, less what either waited for a processor."""
    assert found.runs_on.threads == 2
    assert found.runtime is not None
    assert found.one_thread_s is not None
    return found.one_thread_s / (found.runtime.median_s - (found.value("run_queue_s") or 0.0))


def test_a_program_that_keeps_its_threads_or_fails_with_one_has_no_such_time(
    piloted: Callable[..., Profile],
) -> None:
    for words in (("fixed", "shared"), ("refuses", "shared")):
        found = piloted(*words)
        assert found.complete
        assert found.one_thread_s is None
        assert not any("thread" in text for text in found.warnings)


def test_a_sweep_takes_its_place_and_long_programs_are_not_run_again(
    piloted: Callable[..., Profile], monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = piloted("asked", "shared", threads_sweep=(1, 2))
    assert swept.one_thread_s is None
    assert [point.threads for point in swept.scaling] == [1, 2]
    monkeypatch.setattr(pilot, "ONE_THREAD_S", 0.01)
    assert piloted("asked", "shared").one_thread_s is None


def test_profiles_of_before_keep_their_text(piloted: Callable[..., Profile]) -> None:
    found = piloted("fixed", "shared")
    assert "one_thread_s" not in found.model_dump(mode="json", by_alias=True)
