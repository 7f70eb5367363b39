"""Every command that has ``--json``, run on a small site made here.

What no machine of the tests has, and what takes long, is replaced by what it would give
(``json_stand_ins``).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import json_stand_ins as stand_ins
import pytest
from click.testing import CliRunner
from gpu_jobs import import_jobs
from small_models import convolutional
from toy_profiles import profile
from ui_store import RANKED, decision

from berth.pilot.documents import to_json
from berth.plugin.cli.command_line import berth
from berth.plugin.site.load import DEMO_FILE
from berth.plugin.store import PlacedRun, Store
from berth.plugin.workloads.described_models import DecoderShape, described
from berth.plugin.workloads.files import WorkloadOptions

DRAFT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"
FLEET = {
    "schema": "berth.mig-fleet/1",
    "gpus": [{"name": "n1/0", "model": "A100-40GB", "layout": ["3g.20gb@0", "1g.5gb@4"],
              "running": [{"instance": "1g.5gb@4"}]}],
}  # fmt: skip
JOBS = {
    "schema": "berth.mig-jobs/1",
    "jobs": [{"name": "bert", "count": 9, "slices": [{"profile": "2g.10gb", "throughput": 1.0}]}],
}
UNPREDICTED = {**RANKED[1], "candidate": "old", "runtime_s": None, "excluded": None}
"""A place of a decision of which nothing was predicted."""
SWF = "{} {} 0 60 1 -1 -1 1 90 -1 1 {} 1 1 1 1 -1 -1\n"
Replacing = Callable[[pytest.MonkeyPatch, Path], None]


@dataclass(frozen=True)
class Case:
    """One command with ``--json``, and what is replaced while it runs."""

    words: tuple[str, ...]
    stand_in: Replacing = lambda _patch, _folder: None
    also: tuple[tuple[str, ...], ...] = ()
    """The same command on what it says less of: keys may then be null or absent."""
    lines: bool = False
    """One JSON value a line."""
    fails: bool = False
    """Its exit status is 1 here."""
    slow: bool = False
    """Takes over a second."""

    def arguments(self) -> Iterator[list[str]]:
        """Of each run, with ``--json``: where it stands, else at the end."""
        for words in (self.words, *self.also):
            yield [*words] if "--json" in words else [*words, "--json"]


def cases(folder: Path) -> dict[str, Case]:
    """By the schema's name; their files are made in ``folder``."""
    at = _files(folder)
    here, store = ("--site", at["berth.toml"]), ("--store", at["past.db"])
    two = ("--platform", "quartz", "--platform", "a100-40gb")
    return {
        "jobs-advise": Case(
            ("jobs", "advise", "--site", f"{at['gpu-jobs']}/berth.toml"),
            also=(("jobs", "advise", *store),),
        ),
        "train-bundle-show": Case(("train", "bundle", "show")),
        "train-bundle-verify": Case(("train", "bundle", "verify")),
        "site-calibrate": Case(
            ("site", "calibrate", "--site", at["calibrated.toml"], "--no-links"),
            stand_ins.calibration, slow=True,
            also=(
                ("site", "calibrate", "--site", at["calibrated.toml"], "--no-links", "--dry-run"),
            ),
        ),
        "jobs-decisions": Case(("jobs", "decisions", *here, "--json")),
        "jobs-decisions-id": Case(("jobs", "decisions", decision(1).id, *here)),
        "site-doctor": Case(("site", "doctor", *here), fails=True),
        "jobs-usage-import": Case(
            ("jobs", "usage", "import", at["metrics.csv"], *store),
            also=(("jobs", "usage", "import", at["metrics.csv"], "--cluster", "x", *store),),
        ),
        "jobs-usage-show": Case(("jobs", "usage", "show", "1", *store)),
        "jobs-history-import": Case(
            ("jobs", "history", "import", at["jobs.swf"], *here),
            also=(("jobs", "history", "import", at["jobs.swf"], *store),),
        ),
        "jobs-history-refresh": Case(("jobs", "history", "refresh", *here)),
        "site-init": Case(
            ("site", "init", "--output", str(folder / "first.toml")), stand_ins.slurm,
            also=(("site", "init", "--dry-run"),),
        ),
        "jobs-learn": Case(("jobs", "learn", *here)),
        "mig-apply": Case(("mig", "apply", at["plan.json"]), stand_ins.gpus),
        "mig-assert": Case(
            ("mig", "assert", at["plan.json"]), stand_ins.gpus, fails=True
        ),
        "mig-auto": Case(("mig", "auto", "--jobs", at["jobs.json"]), stand_ins.gpus),
        "mig-plan": Case(("mig", "plan", "--fleet", at["fleet.json"], "--jobs", at["jobs.json"])),
        "mig-recommend": Case(("mig", "recommend", at["net.onnx"], "--gpu", "A100-40GB")),
        "mig-show": Case(("mig", "show", "--gpu", "A100-40GB")),
        "workload-model": Case(("workload", "model", at["net.onnx"])),
        "jobs-outcomes": Case(("jobs", "outcomes", *here)),
        "jobs-gain": Case(("jobs", "gain", *here)),
        "jobs-outcomes-jobs": Case(("jobs", "outcomes", *here, "--jobs")),
        "pilot-bench": Case(("pilot", "bench"), stand_ins.bench),
        "pilot-dl": Case(
            ("pilot", "dl", at["net.onnx"], "--repeats", "2", "--warmup", "0"),
            slow=True,
        ),
        "pilot-import": Case(
            ("pilot", "import", at["kernels.cali"], "--platform", "quartz"),
            lines=True,
        ),
        "pilot-run": Case(
            ("pilot", "run", "--quiet", "--json", "--", "true"),
            slow=True,
        ),
        "pilot-submit": Case(
            ("pilot", "submit", "--site", at["calibrated.toml"], "--results", str(folder), "--json",
             "--", "/bin/true"),
            stand_ins.slurm,
        ),
        "place": Case(
            ("place", at["triad.json"], "--site", str(DEMO_FILE)),
            also=(("place", at["triad.json"], "--site", str(DEMO_FILE), "--tasks", "90000"),),
        ),
        "site-platform-add": Case(
            ("site", "platform", "add", at["ours.json"]), stand_ins.own_platforms
        ),
        "site-platform-list": Case(("site", "platform", "list")),
        "site-platform-show": Case(("site", "platform", "show", "lassen-v100")),
        "predict-language-model": Case(("predict", at["served.json"])),
        "predict-model": Case(("predict", at["net.onnx"], *two)),
        "predict-program": Case(
            ("predict", at["triad.json"], *two, "--explain"),
            also=(("predict", at["triad.json"], *two),),
        ),
        "predict-training": Case(
            ("predict", at["net.onnx"], "--mode", "training", *two),
            also=(("predict", at["net.onnx"], "--mode", "training", "--parallel", "data=16"),),
        ),
        "place-replace": Case(("place", "replace", "--all", *here), stand_ins.replaced),
        "replay": Case(("replay", at["jobs.swf"], "--cores", "2", "--backfill", "easy",
                        "--backfill", "fcfs")),
        "replay-live": Case(("replay", "--live"), stand_ins.queue),
        "ui-report": Case(("ui", "report", "site", *here), slow=True),
        "serve-status": Case(
            ("serve", "--status", *here), stand_ins.daemon, slow=True
        ),
        "site-slurm-putback-clear": Case(("site", "slurm", "putback", "clear", "--all", *here)),
        "site-slurm-putback-list": Case(
            ("site", "slurm", "putback", "list", *here), stand_ins.ruled_out
        ),
        "site-slurm-putback-run": Case(
            ("site", "slurm", "putback", "run", *here), stand_ins.put_back
        ),
        "site-store-prune": Case(
            ("site", "store", "prune", "--older-than-days", "9000", "--outcomes", *store)
        ),
        "site-store-upgrade": Case(("site", "store", "upgrade", *store)),
        "site-support": Case(
            ("site", "support", *here, "-o", str(folder / "support.tar.gz")), slow=True
        ),
        "train": Case(
            ("train", at["triad.json"], at["triad-quartz.json"], "--adapt", "default",
             "--platform", "quartz", "--out", str(folder / "trained")),
            slow=True,
        ),
        "replay-tune": Case(
            ("replay", "tune", at["jobs.csv"], *here, "--folder", str(folder / "tune"), "--trials",
             "4", "--parameters", "weights.wait", "--metrics", "finish,wait"),
            stand_ins.tuning,
            also=(
                ("replay", "tune", at["few.csv"], *here, "--folder", str(folder / "few"),
                 "--trials", "4", "--parameters", "weights.wait"),
            ),
        ),
        "jobs-waits": Case(("jobs", "waits", "--site", at["live.toml"]), stand_ins.queue),
        "why": Case(
            ("why", "77", *here), stand_ins.queried,
            also=tuple(("why", job, *here) for job in ("78", "79", "80")),
        ),
        "workload-add": Case(("workload", "add", at["triad.json"], "--replace", *here)),
        "workload-collect": Case(
            ("workload", "collect", str(folder / "spool"), *here), stand_ins.spool
        ),
        "workload-list": Case(("workload", "list", *here)),
        "workload-refresh": Case(("workload", "refresh", "triad", *here)),
        "workload-remove": Case(("workload", "remove", "gone", *here), stand_ins.to_remove),
        "workload-share": Case(("workload", "share", "triad", *here)),
        "workload-show": Case(
            ("workload", "show", "triad", *here), also=(("workload", "show", "triad", *here),)
        ),
    }  # fmt: skip


def _files(folder: Path) -> dict[str, str]:
    site, store = folder / "berth.toml", folder / "store.db"
    daemon = {"store": "store.db", "socket": "berth.sock", "ruled_out": "ruled-out.json"}
    lines = [f'{key} = "{folder / name}"' for key, name in daemon.items()]
    site.write_text("\n".join([DEMO_FILE.read_text(), "[daemon]", *lines, ""]))
    now_s = time.time()
    made = Store.open(str(store))
    made.decisions.add([
        replace(decision(n), time_s=now_s - 500.0, ranked=json.dumps([*RANKED, UNPREDICTED]))
        for n in (1, 2)
    ])  # fmt: skip
    made.outcomes.put([
        PlacedRun(
            "demo", "77", "alice", "completed", decision=decision(1).id, elapsed_s=11.0,
            predicted_low_s=8.0, predicted_s=10.0, predicted_high_s=14.0, platform="a100-40gb",
            candidate="gpu", workload="stream", end_s=now_s - 100.0,
            peak_bytes=2**30, gpu_peak_bytes=2**31,
        ),
        PlacedRun("demo", "78", "bob", "failed", end_s=now_s - 90.0),
    ])  # fmt: skip
    made.close()
    served = described(DecoderShape(4, 512), "serve", sequence=None, options=WorkloadOptions())
    texts = {
        "triad.json": to_json(profile(runtime_s=2.0)),
        "triad-quartz.json": to_json(profile(platform="quartz", runtime_s=3.0)),
        "fleet.json": json.dumps(FLEET),
        "jobs.json": json.dumps(JOBS),
        "jobs.swf": "".join(SWF.format(n + 1, 20 * n, n % 2) for n in range(8)),
        "jobs.csv": "a month of jobs\n",
        "few.csv": "jobs of four days\n",
        "metrics.csv": "job,metric,value\n1,peak_bytes,5\n1,gpu_utilisation,7\nx,y\n",
        "served.json": to_json(served.document),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "net.onnx").write_bytes(convolutional().SerializeToString())
    (folder / "gpu-jobs").mkdir()
    import_jobs(folder / "gpu-jobs", "3G", "12")
    stand_ins.write_files(folder)
    for words in (
        ("workload", "add", str(folder / "triad.json"), "--site", str(site)),
        (
            "jobs",
            "history",
            "import",
            str(folder / "jobs.swf"),
            "--store",
            str(folder / "past.db"),
        ),
    ):
        done = CliRunner().invoke(berth, list(words))
        assert done.exit_code == 0, (words, done.output, done.exception)
    calibrated = {"calibrated.toml": str(folder / "calibrated" / "berth.toml")}
    return {p.name: str(p) for p in folder.iterdir()} | calibrated | stand_ins.shipped_files()


def printed(case: Case, folder: Path, words: Sequence[str]) -> str:
    """What a command prints. Raises AssertionError where it ends otherwise than it should."""
    with pytest.MonkeyPatch.context() as patch, _apart(folder):
        for name in ("BERTH_SITE", "BERTH_STORE"):
            patch.delenv(name, raising=False)
        case.stand_in(patch, folder)
        done = CliRunner().invoke(berth, list(words))
    assert (done.exit_code != 0) == case.fails, (words, done.output, done.exception)
    return done.stdout


@contextlib.contextmanager
def _apart(folder: Path) -> Iterator[None]:
    """Within the folder; the environment is as before afterwards."""
    before, kept = Path.cwd(), dict(os.environ)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)


def values_of(case: Case, folder: Path) -> list[Any]:
    """The JSON values that its runs print: one each, or one a line."""
    texts = [printed(case, folder, words) for words in case.arguments()]
    lines = [line for text in texts for line in (text.splitlines() if case.lines else [text])]
    return [json.loads(line) for line in lines]
