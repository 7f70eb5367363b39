"""Fuzzes a target under Atheris, led by coverage; or takes given inputs without it.

    python tests/fuzz/run_fuzz.py TARGET --count 1000000
    python tests/fuzz/run_fuzz.py TARGET --replay FILE...

A run goes on after a failure and shows each kind once. The slowest inputs are taken again alone,
without Atheris: there they may take 50 ms of processor time. So is the corpus that the run has
gathered, changed 20,000 times: there memory may grow by 10 MiB (Atheris holds what it finds, so
that its own process grows in any case). What a run found is under build/fuzz.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import heapq
import logging
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import fuzz_targets
from fuzz_targets import TARGETS, Target, seeds_of

LONGEST_S = 0.05
MOST_GROWTH_BYTES = 10 * 2**20
GROWTH_INPUTS = 20_000
"""Taken without Atheris, the first fifth of them before memory is looked at."""
FOUND = Path(__file__).parents[2] / "build" / "fuzz"
_INSTRUMENTED = ("berth", "tomllib")
_SHORTEST_LIMIT = 4096
"""Bytes that an input may have at least."""
_SLOWEST = 5
"""Inputs that are taken again alone."""
_MOST_KINDS = 20
"""Of failures, after which a run ends."""


@dataclass
class Tally:
    """What a run has seen."""

    name: str
    count: int
    end_s: float
    inputs: int = 0
    began_s: float = field(default_factory=time.monotonic)
    used_s: float = field(default_factory=time.process_time)
    slowest: list[tuple[float, int, bytes]] = field(default_factory=list)
    kinds: dict[str, Path] = field(default_factory=dict)
    warm_bytes: int = 0

    def take(self, target: Target, data: bytes) -> None:
        """One input. Ends the process where it was the last one."""
        started_s = time.thread_time()
        try:
            target.take(data)
        except Exception as error:
            self._failed(error, data)
        took_s = time.thread_time() - started_s
        self.inputs += 1
        if len(self.slowest) < _SLOWEST:
            heapq.heappush(self.slowest, (took_s, self.inputs, data))
        elif took_s > self.slowest[0][0]:
            heapq.heapreplace(self.slowest, (took_s, self.inputs, data))
        if self.inputs == min(20_000, self.count // 5):
            self.warm_bytes = held_bytes()
        late = self.inputs % 64 == 0 and time.monotonic() > self.end_s
        if late or self.inputs >= self.count or len(self.kinds) >= _MOST_KINDS:
            self.end()

    def _failed(self, error: Exception, data: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        kind = f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}"
        kind += next(
            (f" from {f.name}" for f in reversed(frames) if "/tests/fuzz/" in f.filename), ""
        )
        if kind not in self.kinds:
            self.kinds[kind] = self.kept(data, f"failed-{len(self.kinds) + 1}")
            print(f"\n{self.name}: {kind}\n  {str(error)[:300]}\n  {again(self.kinds[kind])}")
            traceback.print_exception(error, limit=-4)
            sys.stdout.flush()

    def kept(self, data: bytes, name: str) -> Path:
        """Where the input is written."""
        path = FOUND / self.name / name
        path.write_bytes(data)
        return path

    def end(self) -> NoReturn:
        """Say what was seen; status 1 where anything failed, was slow or grew."""
        seconds, used_s = time.monotonic() - self.began_s, time.process_time() - self.used_s
        grown = held_bytes() - self.warm_bytes if self.warm_bytes else 0
        ordered = sorted(self.slowest, reverse=True)
        files = [self.kept(data, f"slow-{n}") for n, (_, _, data) in enumerate(ordered, 1)]
        alone, growth = self._alone("--replay", *files), self._alone("--growth")
        print(
            f"{self.name}: {self.inputs} inputs, {self.inputs / used_s:.0f}/s of processor time "
            f"({seconds:.0f} s passed); slowest {1e3 * ordered[0][0]:.1f} ms with Atheris; memory "
            f"with Atheris grew by {grown / 2**20:.1f} MiB; {len(self.kinds)} kinds of failures"
        )
        print("the slowest alone:", *alone.stdout.splitlines(), alone.stderr[-600:], sep="\n  ")
        for kind, path in self.kinds.items():
            print(f"FAILED {kind}: {again(path)}")
        print(growth.stdout.strip(), growth.stderr[-600:])
        sys.stdout.flush()
        fuzz_targets.clean_up()
        os._exit(1 if self.kinds or growth.returncode or alone.returncode else 0)

    def _alone(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, __file__, self.name, *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
        )


def again(path: Path) -> str:
    """The command that takes an input again."""
    return f"make fuzz TARGET={path.parent.name} REPLAY={path.relative_to(FOUND.parents[1])}"


def held_bytes() -> int:
    """Memory of this process now, after a collection."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth(name: str) -> int:
    """What memory grows by without Atheris, as the corpus is changed and taken. 1: too much."""
    corpus = sorted((FOUND / name / "corpus").glob("*"))
    inputs = [*seeds_of(name), *(file.read_bytes() for file in corpus)]
    target, dice, before = TARGETS[name], random.Random(1), 0  # noqa: S311 - the same each time
    for number in range(GROWTH_INPUTS):
        if number == GROWTH_INPUTS // 5:
            before = held_bytes()
        with contextlib.suppress(Exception):  # shown by the run itself
            target.take(target.mutate(dice.choice(inputs), dice))
    grown = held_bytes() - before
    fat = grown > MOST_GROWTH_BYTES
    print(f"{'FAILED: ' * fat}memory without Atheris grew by {grown / 2**20:.1f} MiB")
    return int(fat)


def replay(name: str, files: list[Path]) -> int:
    """Each input alone: how long it takes, or what it raises. 1: one failed or was slow."""
    status = 0
    for warm in seeds_of(name):
        with contextlib.suppress(Exception):
            TARGETS[name].take(warm)
    for file in files:
        data, best_s = file.read_bytes(), float("inf")
        try:
            for _ in range(3):
                started_s = time.thread_time()
                TARGETS[name].take(data)
                best_s = min(best_s, time.thread_time() - started_s)
        except Exception:
            traceback.print_exc()
            status = 1
            continue
        slow = best_s > LONGEST_S
        print(f"{'SLOW ' * slow}{file}: {1e3 * best_s:.1f} ms, {len(data)} bytes")
        status |= slow
    return status


def fuzz(name: str, count: int, seconds: float, seed: int) -> NoReturn:
    """Under Atheris; ends the process."""
    try:
        import atheris
    except ImportError:
        sys.exit("fuzzing needs Atheris: pip install -e '.[dev,fuzz]' (Python 3.11 to 3.13)")
    target, folder = TARGETS[name], FOUND / name
    corpus, known = folder / "corpus", folder / "seeds"
    for one in (corpus, known):
        one.mkdir(parents=True, exist_ok=True)
    sound = seeds_of(name)
    for number, data in enumerate(sound):
        (known / str(number)).write_bytes(data)
        with contextlib.suppress(Exception):
            target.take(data)  # what it imports is there to be instrumented
    for function in [one for one in gc.get_objects() if type(one) is FunctionType]:
        if str(function.__module__).partition(".")[0] in _INSTRUMENTED:
            atheris.instrument_func(function)
    tally = Tally(name, count, time.monotonic() + seconds)
    longest = max(_SHORTEST_LIMIT, 2 * max(map(len, sound)))

    def change(data: bytes, most: int, number: int) -> bytes:
        dice = random.Random(number)  # noqa: S311 - libFuzzer's seed decides
        if dice.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return target.mutate(data, dice)[:most]

    options: list[Any] = [
        f"-max_len={longest}", f"-seed={seed}", "-rss_limit_mb=2048", "-timeout=30", "-reload=0",
        "-verbosity=0", f"-artifact_prefix={folder}/", corpus, known,
    ]  # fmt: skip
    atheris.Setup(
        [sys.argv[0], *map(str, options)],
        lambda data: tally.take(target, data),
        custom_mutator=change,
    )
    atheris.Fuzz()
    raise AssertionError("unreachable: Fuzz ends the process")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs of each target")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of each at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--growth", action="store_true", help="take the corpus without Atheris")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    if given.replay:
        return replay(given.target, given.replay)
    if given.growth:
        return growth(given.target)
    if given.target != "all":
        fuzz(given.target, given.count, given.seconds, given.seed)
    words = [f"--count={given.count}", f"--seconds={given.seconds}", f"--seed={given.seed}"]
    results = [subprocess.run([sys.executable, __file__, name, *words]) for name in TARGETS]
    return int(any(done.returncode for done in results))


if __name__ == "__main__":
    sys.exit(main())
