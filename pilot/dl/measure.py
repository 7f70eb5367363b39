"""Run one measurement in a child process; crashes and time-outs of the child become outcomes."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from berth.pilot import host
from berth.pilot.dl.document import (
    Answer,
    Disturbance,
    MeasureOrder,
    ModelFacts,
    ModelRun,
    Outcome,
    as_line,
)
from berth.pilot.dl.protocol import DISTURBED
from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.launch import signal_name
from berth.pilot.profile import Runtime

CHILD = (sys.executable, "-m", "berth.pilot.dl.child")
_LARGEST_ANSWER = 4 * 2**20
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
MPS_PIPE = "CUDA_MPS_PIPE_DIRECTORY"


def measure(
    order: MeasureOrder,
    facts: ModelFacts,
    platform: str,
    *,
    command: Sequence[str] = CHILD,
) -> ModelRun:
    """Return the result of one measurement request; a model's failure is an ``Outcome``.

    Raises UsageError where the setting needs CUDA MPS and MPS does not run.
    """
    environment = environment_of(order)
    load_before = os.getloadavg()[0]
    answer = _ask(order, command, environment)
    setting = order.setting
    fine = answer.outcome is Outcome.OK
    return ModelRun(
        platform=platform,
        model=facts.model_copy(update={"random_weights": answer.random_weights}),
        setting=setting,
        protocol=order.protocol,
        outcome=answer.outcome,
        reason=answer.reason,
        latency=runtime(answer.seconds) if fine else None,
        processor_time=runtime(answer.processor_s) if fine else None,
        measurements=answer.measurements,
        machine=answer.machine,
        disturbance=Disturbance(
            load_before=load_before,
            load_after=os.getloadavg()[0],
            cores=host.cores(),
            disturbed_share=disturbed(answer.seconds, answer.processor_s),
        ),
        provenance=host.provenance().model_copy(update={"user": ""}),
    )


def runtime(seconds: Sequence[float]) -> Runtime | None:
    """Return the median and interquartile range of repeated times in seconds.

    None where there are no times, or one is 0 or less.
    """
    if not seconds or min(seconds) <= 0:
        return None
    quarters = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [seconds[0]] * 3
    return Runtime(
        median_s=round(statistics.median(seconds), 9),
        spread_s=round(quarters[2] - quarters[0], 9),
        repeats_s=tuple(round(value, 9) for value in seconds),
    )


def disturbed(seconds: Sequence[float], processor_s: Sequence[float]) -> float:
    """Return the share of repeats whose wall-clock time exceeds processor time by over 5 %.

    Only meaningful for one thread.
    """
    if not seconds:
        return 0.0
    late = sum(a > DISTURBED * b for a, b in zip(seconds, processor_s, strict=True))
    return late / len(seconds)


def environment_of(order: MeasureOrder) -> dict[str, str]:
    """Return the environment variables of the measuring child.

    Raises UsageError where a GPU share is requested and CUDA MPS does not run.
    """
    environment = dict(os.environ)
    environment.update(dict.fromkeys(_THREAD_VARIABLES, str(order.setting.threads)))
    share = order.setting.sm_percentage
    if share is not None:
        pipes = Path(environment.get(MPS_PIPE, "/tmp/nvidia-mps"))  # noqa: S108  # nosec B108
        if not (pipes / "control").exists():
            raise UsageError(
                "a share of the multiprocessors needs CUDA MPS, which does not run here",
                hint="start it: nvidia-cuda-mps-control -d",
            )
        environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(share)
    return environment


def _ask(order: MeasureOrder, command: Sequence[str], environment: dict[str, str]) -> Answer:
    mine, its = os.pipe()
    with os.fdopen(mine, "rb", buffering=0) as channel:
        try:
            # A new session, so that all processes that the model starts can be killed together.
            process = subprocess.Popen(
                [*command, str(its)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=environment, pass_fds=(its,), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(its)
        oom_kills = _oom_kills()
        try:
            with process:
                assert process.stdin is not None  # noqa: S101 - it is a pipe, see above
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(as_line(order))
                    process.stdin.close()
                reply = _listen(channel.fileno(), time.monotonic() + order.time_limit_s)
                if reply is None:
                    _end(process)
                    limit = f"{order.time_limit_s:g} s"
                    return Answer(outcome=Outcome.TIMED_OUT, reason=f"not done within {limit}")
                process.wait()
        finally:
            _end(process)
    return _understood(reply, process.returncode, _oom_kills() - oom_kills)


def _listen(handle: int, deadline: float) -> bytes | None:
    """Return all bytes that the child writes until it closes the pipe; None at the deadline."""
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        while len(data) < _LARGEST_ANSWER:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                return None
            part = os.read(handle, 65_536)
            if not part:
                break
            data += part
    return bytes(data)


def _understood(reply: bytes, status: int, oom_kills: int) -> Answer:
    if reply.endswith(b"\n"):
        try:
            return parse_json(reply, Answer, source="the measuring child")
        except DocumentError:
            return Answer(outcome=Outcome.CRASHED, reason="the measuring child answered nonsense")
    if status == -signal.SIGKILL and oom_kills > 0:
        return Answer(outcome=Outcome.OUT_OF_MEMORY, reason="killed by the kernel: out of memory")
    how = f"killed by {signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
    return Answer(outcome=Outcome.CRASHED, reason=f"the measuring child was {how}" if status < 0
                  else f"the measuring child {how}")  # fmt: skip


def _oom_kills() -> int:
    """Return how many processes of this control group the kernel has killed for lack of memory.

    Without a control group, those of the whole machine are counted.
    """
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
        events = Path(f"/sys/fs/cgroup{group}/memory.events").read_text()
        return next(int(line.split()[1]) for line in events.splitlines() if "oom_kill " in line)
    except (OSError, StopIteration, ValueError):
        pass
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    except (OSError, StopIteration, ValueError):
        return 0


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
