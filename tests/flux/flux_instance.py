"""A real Flux for tests: four brokers on this machine, queues auto, cpu, old, gpu, and a MIG one.

Nodes node[0-1] are plain, node2 has two GPUs (``h200``), node3 seven slices (``mig-1g.10gb``).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

READY_S = 60.0

RESOURCES = """\
[resource]
noverify = true
[[resource.config]]
hosts = "node[0-1]"
cores = "0-7"
properties = ["cpunode"]
[[resource.config]]
hosts = "node2"
cores = "0-7"
gpus = "0-1"
properties = ["gpunode", "h200"]
[[resource.config]]
hosts = "node3"
cores = "0-7"
gpus = "0-6"
properties = ["mig-1g.10gb"]
"""

QUEUES = """\
[queues.auto]
requires = ["cpunode"]
[queues.cpu]
requires = ["cpunode"]
[queues.old]
requires = ["cpunode"]
[queues.gpu]
requires = ["gpunode"]
[queues.gpu.policy.limits]
duration = "2h"
[queues."mig-1g.10gb"]
requires = ["mig-1g.10gb"]
[policy.jobspec.defaults.system]
queue = "cpu"
duration = "10m"
"""


def why_no_flux() -> str | None:
    """Why a live Flux cannot be used here; None: it can."""
    if shutil.which("flux") is None:
        return "no `flux` on PATH (flux-core has no Debian package; build it and add it to PATH)"
    return None


ONLY_ON_FLUX = [
    pytest.mark.flux,
    pytest.mark.timeout(300),
    pytest.mark.skipif(why_no_flux() is not None, reason=f"NOT TESTED LIVE: {why_no_flux()}"),
]
"""Marks of tests that need a real Flux."""


def frobnicators(*plugins: str, **settings: object) -> str:
    """The table of frobnicators; those of Flux follow ours."""
    lines = ["[ingest.frobnicator]", f"plugins = {json.dumps([*plugins, *STOCK])}"]
    if settings:
        lines.append("[ingest.frobnicator.berth]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


STOCK = ("defaults", "constraints")


@dataclass
class LiveFlux:
    """A running instance. ``run`` gives what its `flux` says."""

    folder: Path
    uri: str
    process: subprocess.Popen[bytes]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "config"

    def run(
        self, *words: str, stdin: str | None = None, timeout_s: float | None = None, status: int = 0
    ) -> str:
        """Standard output of ``flux WORDS``; AssertionError where it ends otherwise."""
        done = subprocess.run(
            ["flux", *words],
            input=stdin,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == status, f"flux {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout

    def python(self, code: str, *words: str, timeout_s: float | None = None) -> Any:
        """What a Python program with Flux's bindings prints, as JSON."""
        return json.loads(self.run("python", "-c", code, *words, timeout_s=timeout_s))

    def submit(self, *words: str) -> str:
        """The id of a submitted job."""
        return self.run("submit", *words).strip()

    def jobspec(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("job", "info", job, "jobspec"))
        return found

    def uris(self) -> list[str]:
        lines = self.run("exec", "-r", "all", "--label-io", "flux", "getattr", "local-uri")
        found = dict(line.split(": ", 1) for line in lines.split("\n") if line)
        return [found[rank] for rank in sorted(found, key=int)]

    def configure(self, text: str) -> None:
        """Another configuration for the submit path; rank 0 hands it to the other brokers."""
        (self.config / "ingest.toml").write_text(text)
        self.run("config", "reload")

    def workers(self, rank: int = 0) -> dict[str, Any]:
        """What the ingest module says of its workers."""
        found: dict[str, Any] = json.loads(self.run("exec", "-r", str(rank), *_STATS))
        return found


_STATS = ("flux", "module", "stats", "job-ingest")


@contextmanager
def live_flux(
    ingest: str,
    *,
    size: int = 4,
    queues: str = QUEUES,
    resources: str = RESOURCES,
    extra: str = "",
    prefix: Sequence[str] = (),
) -> Iterator[LiveFlux]:
    """Start an instance with ``ingest`` as its frobnicators; it ends with the block.

    ``prefix``: words before the command that starts it (``setpriv`` and its options).
    """
    folder = Path(tempfile.mkdtemp(prefix="berth-flux-live-"))
    folder.chmod(0o755)
    config = folder / "config"
    config.mkdir()
    (config / "resource.toml").write_text(resources)
    (config / "queues.toml").write_text(queues + extra)
    (config / "ingest.toml").write_text(ingest)
    ready = folder / "uri"
    new = folder / "uri.new"
    program = (
        "flux queue start --all >&2 && "
        f"flux getattr local-uri > {new} && mv {new} {ready} && exec cat"
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *prefix,
                "flux",
                "start",
                f"--test-size={size}",
                f"--test-hosts=node[0-{size - 1}]",
                f"--config-path={config}",
                "sh",
                "-c",
                program,
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={k: v for k, v in os.environ.items() if not k.startswith("FLUX_")},
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + READY_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"flux did not start:\n{(folder / 'log').read_text()}")
            time.sleep(0.02)
        uri = ready.read_text().strip()
        yield LiveFlux(folder, uri, process, {**os.environ, "FLUX_URI": uri})
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
