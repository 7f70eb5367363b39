"""A scheduler's commands as shell scripts that answer from files."""

from __future__ import annotations

from pathlib import Path

import pytest

_SCRIPT = """#!/bin/sh
name=$(basename "$0")
echo "$name $*" >> "{answers}/calls"
{which}
[ -f "{answers}/$name.hang" ] && exec sleep 60
bar=$(expr "$*" : '.*\\(<[0-9a-f]*>\\)')
[ -f "{answers}/$name.out" ] && sed "s/@BAR@/$bar/g" "{answers}/$name.out"
if [ -f "{answers}/$name.err" ]; then cat "{answers}/$name.err" >&2; exit 1; fi
exit 0
"""
"""``@BAR@`` in an answer: the separator that the caller asked for."""

SLURM = ("scontrol", "squeue", "sinfo", "sbatch", "sacct")
_WHICH_OF_SLURM = """case "$*" in
  *"show partition"*) name=partition;; *"show node"*) name=node;;
  *"show config"*) name=config;; *"show job"*) name=job;; *-V*) name=version;;
esac"""
_WHICH_OF_FLUX = """case "$1 $2 $3" in
  python*state*|python*memory*) name=state;; python*jobs*) name=outcomes;;
  python*ended*) name=ended;;
  "job info --original"*) name=original;; "job info"*) name=jobspec;; *) name=$1;;
esac"""


class FakeCommands:
    """The commands in the folder ``tools``; ``says``, ``fails`` and ``hangs`` set what they do.

    ``what``: partition, node, config, job, version, state, outcomes, ended, original, jobspec, or a
    command's name.
    """

    def __init__(self, tools: Path, names: tuple[str, ...] = SLURM) -> None:
        self.tools, self.answers = tools, tools / "answers"
        self.answers.mkdir(parents=True, exist_ok=True)
        which = _WHICH_OF_FLUX if names == ("flux",) else _WHICH_OF_SLURM
        for name in names:
            (tools / name).write_text(_SCRIPT.format(answers=self.answers, which=which))
            (tools / name).chmod(0o755)

    def on_path(self, monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
        """Found first, then ``folders``, then the system's."""
        monkeypatch.setenv("PATH", ":".join(map(str, (self.tools, *folders, "/usr/bin", "/bin"))))

    def says(self, what: str, text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        (self.answers / f"{what}.out").write_bytes(data)

    def fails(self, what: str, message: str) -> None:
        """It writes ``message`` to standard error and exits with 1."""
        (self.answers / f"{what}.err").write_text(message)

    def hangs(self, what: str) -> None:
        (self.answers / f"{what}.hang").touch()

    @property
    def calls(self) -> list[str]:
        """The command lines so far."""
        path = self.answers / "calls"
        return path.read_text().splitlines() if path.exists() else []
