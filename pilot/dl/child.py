"""The measuring child process: ``python -m berth.pilot.dl.child DESCRIPTOR``.

It reads one measurement request (MeasureOrder) as JSON from standard input and writes one Answer to
the file descriptor. A model that crashes or runs out of memory thus costs only one measurement.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Any

from berth.pilot.dl.document import (
    Answer,
    ComputeDevice,
    MeasureOrder,
    ModelSource,
    Outcome,
    as_line,
)
from berth.pilot.dl.meters import HostMemory, Meter
from berth.pilot.dl.onnx_engine import OnnxSubject, Refused
from berth.pilot.dl.protocol import energy_measurements, follow
from berth.pilot.documents import parse_json
from berth.pilot.errors import BerthError
from berth.pilot.shepherd.run import PR_SET_PDEATHSIG

MEMORY_WORDS = ("out of memory", "can't allocate", "failed to allocate", "bad_alloc", "bad alloc")
"""Phrases in frameworks' error messages that mean out of memory."""


def main() -> None:
    """Measure one request, write the answer, and exit at once: frameworks' cleanup can hang."""
    # The kernel kills this process when the campaign that started it is killed.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    order = parse_json(sys.stdin.buffer.read(), MeasureOrder, source="the order")
    if order.setting.device is ComputeDevice.CPU:
        # No limit on a GPU, because CUDA maps far more memory than it uses.
        resource.setrlimit(resource.RLIMIT_DATA, (order.memory_bytes, order.memory_bytes))
    with os.fdopen(int(sys.argv[1]), "wb") as channel:
        channel.write(as_line(answer(order)))
    os._exit(0)


def answer(order: MeasureOrder) -> Answer:
    """Return the result of one measurement request; failures become outcomes, not exceptions."""
    try:
        return _measured(order)
    except Refused as why:
        return Answer(outcome=Outcome.REFUSED, reason=str(why))
    except BerthError as why:
        return Answer(outcome=Outcome.REFUSED, reason=why.message)
    except MemoryError as why:
        return Answer(outcome=Outcome.OUT_OF_MEMORY, reason=str(why) or "memory ran out")
    except Exception as why:  # whatever a framework raises is a label
        reason = _first_line(why)
        short = any(word in str(why).lower() for word in MEMORY_WORDS)
        return Answer(outcome=Outcome.OUT_OF_MEMORY if short else Outcome.REFUSED, reason=reason)


def _first_line(why: Exception) -> str:
    lines = str(why).strip().splitlines()
    return f"{type(why).__name__}: {lines[0] if lines else 'no message'}"[:500]


def _measured(order: MeasureOrder) -> Answer:
    memory = HostMemory()
    subject: Any
    if order.source is ModelSource.FACTORY:
        from berth.pilot.dl import torch_engine  # noqa: PLC0415 - torch is large and optional

        torch_engine.load_torch()
        memory = HostMemory()
        subject = torch_engine.subject(order)
        meter: Meter = torch_engine.meter(order)
    else:
        subject = OnnxSubject(order)
        meter = subject.meter()
    memory.loaded()
    timings = follow(subject, order.protocol, meter)
    measurements = {**memory.measurements(), **energy_measurements(timings)}
    own = getattr(subject, "measurements", dict)
    return Answer(
        outcome=Outcome.OK,
        seconds=timings.seconds,
        processor_s=timings.processor_s,
        measurements={**measurements, **own()},
        machine=subject.machine(),
        random_weights=subject.random_weights,
    )


if __name__ == "__main__":
    main()
