"""The place: a private Slurm with a backup controller, and users who run ``sbatch`` there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from real_daemon import SITE, by_time_alone, fill
from slurm_cluster import OTHER_USER, USER, Cluster, as_user, cluster, wait_until
from two_controllers import BACKUP, launch_backup, two_controllers, wait_until_both_answer
from warm_berth import FRESH

from berth.plugin.slurm.filter import FILTER_PATH
from chaos.asked import Asked, asked
from chaos.checker import DIED
from chaos.faults import remount
from chaos.history import Ended, Fault, Job, Recorder, Setting, Submission
from chaos.run import copy_bundle
from chaos.serving import Serving, now
from chaos.wire import Wire

OBSERVER = Path(__file__).with_name("observer.lua")
DISK_MIB = 256
LOOK_EVERY_S = 12.0
REMEMBERED_S = 90
"""Slurm forgets ended jobs after so long. Where too much is going on no look may come by then:
``ENDED`` has them."""
ENDED = "log/ended.txt"
_LOGGED = re.compile(r"JobId=(\d+) .*? Name=(\S+) JobState=")
CANCEL_AFTER_S = 20.0
GIVEN_UP_S = 300.0
GIVES_BACK_S = 60.0
"""A backup that has not given back by then died, or hangs (22.05 joins a thread that waits)."""
_WIDTHS = {"JobID": 12, "Name": 20, "UserName": 12, "Partition": 40, "State": 14, "Reason": 30,
           "admin_comment": 2100}  # fmt: skip
_FORMAT = ",".join(f"{name}:{width}" for name, width in _WIDTHS.items())


class SlurmPlace:
    """See ``chaos.run.Place``."""

    def __init__(
        self, running: Cluster, deadline_s: float, others: Sequence[Sequence[str]], *, backup: bool
    ) -> None:
        self.cluster = running
        root = running.root
        self.setting = Setting("slurm", deadline_s, 3, 0.5, 2.0)
        self.calls = root / "log" / "calls.jsonl"
        self.calls.touch()
        self.kill_switch = running.kill_switch
        self.site_file = running.etc / "berth.toml"
        self.store = root / "store" / "berth.db"
        self.store.parent.mkdir()
        self.has_disk = remount(self.store.parent, DISK_MIB)
        fill(self.store)
        self.bundle = copy_bundle(running.etc / "bundle")
        self.wire = Wire(root / "run" / "wire.sock", running.berth_socket)
        running.set_filter_config(
            socket=self.wire.path,
            deadline_ms=1000 * deadline_s,
            breaker_failures=self.setting.breaker_failures,
            breaker_first_pause_s=self.setting.first_pause_s,
            breaker_longest_pause_s=self.setting.longest_pause_s,
        )
        text = OBSERVER.read_text().replace("@FILTER@", str(FILTER_PATH))
        running.set_job_submit(text.replace("@CALLS@", str(self.calls)))
        text = SITE.format(mode="enforce", root=root, interactive="true", het="true")
        text = text.replace("state_refresh_s = 2", "state_refresh_s = 5")
        text = text.replace("outcomes_refresh_s = 1", "outcomes_refresh_s = 30")
        self.site_file.write_text(by_time_alone(text) + '\n[predictor]\nbundles = ["bundle"]\n')
        self.serving = Serving(
            [FRESH, *others],
            self.site_file,
            running.berth_socket,
            root / "log" / "berth.log",
            running.environment,
        )
        self.controllers = (
            ("controller restarted", self._restarted),
            *((("controller fails over", self._failed_over),) if backup else ()),
        )
        self.mishaps: list[Fault] = []
        self._killed_s = 0.0
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(200)
        self._threads: list[threading.Thread] = []
        self._found: dict[tuple[str, str], Job] = {}
        self._since: dict[str, float] = {}

    # Users

    def begin(self, recorder: Recorder, seed: int, rate: float) -> None:
        self._threads = [
            threading.Thread(target=self._submit_all, args=(recorder, seed, rate)),
            threading.Thread(target=self._look_all),
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown()
        self._look()  # what follows may take longer than ended jobs are remembered

    def _submit_all(self, recorder: Recorder, seed: int, rate: float) -> None:
        began, number = time.monotonic(), 0
        while not self._over.wait(max(0.0, began + number / rate - time.monotonic())):
            number += 1
            self._pool.submit(self._submit, recorder, asked(seed, number))

    def _submit(self, recorder: Recorder, job: Asked) -> None:
        user = OTHER_USER if job.other_user else USER
        words = [*as_user(user), "sbatch", "--parsable", f"--job-name={job.name}",
                 f"--ntasks={job.tasks}", "--mem=100", "--wrap=true",
                 "--output=/dev/null"]  # fmt: skip
        words += [f"--partition={job.queue}"] if job.queue else []
        words += [f"--comment=berth:{job.workload}"] if job.workload else []
        words += ["--comment=berth:off"] if job.opted_out else []
        words += [f"--time={job.time_limit_min}"] if job.time_limit_min else []
        words += ["--hold"] if job.held else []
        begun_s = now()
        status: int | None = None
        try:
            done = subprocess.run(
                words, env=self.cluster.environment, cwd=self.cluster.work, capture_output=True,
                stdin=subprocess.DEVNULL, text=True, timeout=GIVEN_UP_S, check=False,
            )  # fmt: skip
            status, said, shown = done.returncode, done.stderr, done.stdout.strip()
        except subprocess.TimeoutExpired:
            said, shown = f"given up after {GIVEN_UP_S:g} s", ""
        recorder.add(
            Submission(
                job.name, user, job.queue, job.opted_out, job.held, begun_s, now(), status,
                said[-400:], shown or None,
            )
        )  # fmt: skip

    # The scheduler's records

    def _look_all(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self._look()
            old = [job for job, at in self._since.items() if now() - at > CANCEL_AFTER_S]
            for job in old:
                del self._since[job]
            if old:
                self._told("scancel", "--quiet", *old)

    def _told(self, *words: str) -> str:
        """Empty while no controller answers."""
        with suppress(subprocess.TimeoutExpired):
            done = self.cluster.run(*words, check=False)
            return done.stdout if done.returncode == 0 else ""
        return ""

    def _look(self) -> bool:
        text = self._told("squeue", "-a", "-h", "-t", "all", "-O", _FORMAT)
        for line in text.splitlines():
            job = _job(line)
            key = job.id, job.name
            if key not in self._found and job.state == "PENDING":
                self._since[job.id] = now()
            if job.state != "CANCELLED" or key not in self._found:
                self._found[key] = job
        return bool(text)

    def jobs(self) -> list[Job]:
        wait_until(self._look, "squeue answers")
        return list(self._found.values())

    def ended(self) -> list[Ended]:
        lines = (self.cluster.root / ENDED).read_text(errors="replace").splitlines()
        return [Ended(*found.groups()) for found in map(_LOGGED.match, lines) if found]

    # Faults of the controllers

    @contextmanager
    def _restarted(self, _: Random) -> Iterator[None]:
        self._end(signal.SIGTERM)
        yield
        self._start()

    @contextmanager
    def _failed_over(self, _: Random) -> Iterator[None]:
        """Killed: the backup takes over, and gives back when the primary is there again."""
        self._killed_s = now()
        self._end(signal.SIGKILL)
        before = self.calls.stat().st_size
        wait_until(lambda: self.calls.stat().st_size > before, "the backup's filter is asked", 300)
        yield
        self._start()

    def _end(self, number: int) -> None:
        pid = self.cluster.pids["slurmctld"]
        os.kill(pid, number)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "slurmctld has ended", 300)

    def _start(self) -> None:
        conf = str(self.cluster.etc / "slurm.conf")
        self.cluster.launch("slurmctld", "slurmctld", "-D", "-f", conf)
        if len(self.controllers) > 1:
            wait_until(self._answers, "the primary answers", 300)
            try:
                wait_until_both_answer(self.cluster, GIVES_BACK_S)
            except AssertionError:
                self.cluster.end(BACKUP)
                launch_backup(self.cluster)
                at_s = self._killed_s
                self.mishaps.append(Fault(DIED, at_s, at_s, now(), now(), now()))
        else:
            wait_until(self._answers, "slurmctld answers", 300)

    def _answers(self) -> bool:
        said = self.cluster.run("scontrol", "ping", check=False).stdout
        return re.search(r"\(primary\) at \S+ is UP", said) is not None


def _job(line: str) -> Job:
    values, at = [], 0
    for width in _WIDTHS.values():
        values.append(line[at : at + width].strip())
        at += width
    job, name, user, queue, state, reason, comment = values
    return Job(job, name, user, queue, None if comment in ("", "N/A", "(null)") else comment,
               state, reason)  # fmt: skip


@contextmanager
def slurm_place(
    deadline_s: float, others: Sequence[Sequence[str]] = (), *, backup: bool = True
) -> Iterator[SlurmPlace]:
    """A Slurm of our own with the filter and what observes it. Raises ClusterUnavailable."""

    def amend(files: dict[str, str]) -> dict[str, str]:
        """Patient: what a user sees as an error is to be no matter of how busy this machine is."""
        found = two_controllers(files) if backup else dict(files)
        text = found["slurm.conf"].replace("MessageTimeout=10", "MessageTimeout=60")
        (root,) = re.findall(r"^SlurmdSpoolDir=(.*)/spool/", text, re.MULTILINE)
        log = f"JobCompType=jobcomp/filetxt\nJobCompLoc={root}/{ENDED}\n"
        return found | {"slurm.conf": text + log}

    with cluster(amend=amend, min_job_age_s=REMEMBERED_S) as running:
        if backup:
            launch_backup(running)
        place = SlurmPlace(running, deadline_s, others, backup=backup)
        try:
            yield place
        finally:
            place.finish()
            with suppress(Exception):
                place.serving.end()
            if place.has_disk:
                subprocess.run(["umount", "-l", str(place.store.parent)], check=False)
