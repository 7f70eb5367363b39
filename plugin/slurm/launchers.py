"""Where the launcher ends and the ranks' program begins: ``srun -n 8 ./app x``.

A launcher's ranks are not its children under Slurm, so what measures must stand between the two.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import UsageError

LAUNCHERS = frozenset(("srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"))

_VALUED = """
-n -N -c -p -t -w -x -A -C -D -J -K -L -m -M -P -q -S -T -u -np -H -host --host -hostfile --hostfile
-machinefile --machinefile -ppn -f -hosts -env -genv -mca --mca -wdir --wdir --ntasks --nodes
--cpus-per-task --partition --time --nodelist --exclude --account --constraint --chdir --job-name
--mem --mem-per-cpu --gres --gpus --gpus-per-task --gpus-per-node --ntasks-per-node --mpi --cpu-bind
--gpu-bind --distribution --export --output --error --input --qos --reservation --threads-per-core
--hint --map-by --bind-to --rank-by --prefix -perhost -bind-to -map-by
"""
_PLAIN = """
-l -v -vv -Q -q -s -O -k -E -X -exclusive --exclusive --label --verbose --quiet --overlap
--overcommit --oversubscribe --exact --no-kill --multi-prog --pty --unbuffered --contiguous
--allow-run-as-root --tag-output --display-map --nolocal --report-bindings
"""
_WITH_VALUE = frozenset(_VALUED.split())
_WITHOUT_VALUE = frozenset(_PLAIN.split())
_WITH_TWO = frozenset(("-mca", "--mca", "-genv", "-env"))


@dataclass(frozen=True, slots=True)
class Launch:
    """A command in two parts. ``launcher`` is empty for a program that starts itself."""

    launcher: tuple[str, ...]
    program: tuple[str, ...]


def split(command: Sequence[str]) -> Launch:
    """The launcher with its options, and the program with its arguments.

    Raises UsageError where that is not clear; ``--`` between the two settles it.
    """
    words = tuple(command)
    if not words or Path(words[0]).name not in LAUNCHERS:
        return Launch((), words)
    if "--" in words:
        index = words.index("--")
        return _checked(words, words[:index], words[index + 1 :])
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += _width(words, index)
    return _checked(words, words[:index], words[index:])


def _width(words: tuple[str, ...], index: int) -> int:
    """How many words an option takes."""
    word = words[index]
    if word in _WITH_TWO:
        return 3
    srun = Path(words[0]).name == "srun"
    if word == "-q" and srun:  # srun's --qos; mpirun's --quiet
        return 2
    if word in _WITHOUT_VALUE or "=" in word:
        return 1
    if word in _WITH_VALUE:
        return 2
    if srun and not word.startswith("--") and len(word) > 2:
        return 1  # -n8
    raise _unclear(words, word)


def _checked(words: tuple[str, ...], launcher: tuple[str, ...], program: tuple[str, ...]) -> Launch:
    if not program:
        raise UsageError(
            f"there is no program after {words[0]}", hint=f"write: {' '.join(words)} ./app"
        )
    if shutil.which(program[0]) is None and not Path(program[0]).exists():
        raise _unclear(words, program[0])
    return Launch(launcher, program)


def _unclear(words: tuple[str, ...], word: str) -> UsageError:
    return UsageError(
        f"cannot tell where the program begins in {' '.join(words)!r} ({word!r} is not known)",
        hint=f"put -- before the program: {words[0]} ... -- ./app",
    )
