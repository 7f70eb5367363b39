"""Run many measurements and append each to a JSON lines file, one ``berth.model-run/1`` per line.

Each line is synced to disk before the next measurement begins, so a kill loses at most one
measurement; an incomplete last line is dropped when the campaign is started again. Measurements
that the file already has are not repeated, nor are larger batches run of a model that ran out of
memory. A plan (``berth.model-plan/1``, TOML) lists the models, batches and precisions to measure.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from berth.pilot.dl.document import (
    ComputeDevice,
    ComputePrecision,
    MeasureOrder,
    ModelFacts,
    ModelRun,
    ModelSource,
    Outcome,
    Protocol,
    Setting,
    Task,
    run_key,
)
from berth.pilot.dl.measure import measure
from berth.pilot.documents import Document, parse_json_lines
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.host import sha256_of
from berth.pilot.progress import Say, say_nothing

MeasureModel = Callable[[MeasureOrder, ModelFacts, str], ModelRun]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One planned measurement of a campaign."""

    order: MeasureOrder
    facts: Callable[[], ModelFacts]
    """Called just before the measurement, because reading a model's graph takes time."""
    sha256: str
    name: str

    @property
    def key(self) -> str:
        """Return the key (``ModelRun.key``) that this measurement's result will have."""
        return run_key(self.sha256, self.order.setting)


@dataclass(frozen=True, slots=True)
class ModelCampaignResult:
    """The numbers of measurements that a campaign made, already had, or left out."""

    measured: int
    known: int
    """Number of planned measurements that the file already had."""
    too_large: int
    """Number left out because a smaller batch of the same model ran out of memory."""
    unmade: int
    """Number left out because the time limit was reached."""
    outcomes: dict[str, int]
    """Number of measurements of this call, by outcome."""


def run_campaign(
    points: Sequence[PlannedRun],
    output: Path,
    platform: str,
    *,
    time_limit_s: float | None = None,
    say: Say = say_nothing,
    run: MeasureModel = measure,
) -> ModelCampaignResult:
    """Run the planned measurements that ``output`` lacks, smallest batches of all models first.

    Raises UsageError where another campaign is writing the file, and DocumentError where the file
    is not a campaign file.
    """
    with _opened(output) as (handle, known):
        began = time.monotonic()
        done = {measurement.key for measurement in known}
        limits = _limits(known)
        measured = met = too_large = unmade = 0
        outcomes: dict[str, int] = {}
        ordered = sorted(points, key=lambda point: point.order.setting.batch)
        for number, point in enumerate(ordered):
            setting = point.order.setting
            if point.key in done:
                met += 1
            elif setting.batch >= limits.get(_without_batch(point.sha256, setting), 2**62):
                too_large += 1
            elif time_limit_s is not None and time.monotonic() - began > time_limit_s:
                unmade += 1
            else:
                say(f"{point.name}, batch {setting.batch}, {setting.precision.value}, "
                    f"{setting.task.value}", number, len(ordered))  # fmt: skip
                measurement = run(point.order, point.facts(), platform)
                _append(handle, measurement)
                done.add(point.key)
                limits.update(_limits([measurement]))
                measured += 1
                outcomes[measurement.outcome.value] = outcomes.get(measurement.outcome.value, 0) + 1
    return ModelCampaignResult(measured, met, too_large, unmade, outcomes)


def read_runs(path: Path) -> list[ModelRun]:
    """Return the measurements in a campaign file. Raises DocumentError that names a bad line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    return list(parse_json_lines(data, ModelRun, source=path).values())


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[int, list[ModelRun]]]:
    """Open a campaign file with an exclusive lock and drop an incomplete last line.

    The context is (file descriptor, measurements in the file).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another campaign is writing {path}", hint="wait for it, or give another --output"
            ) from None
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        known = parse_json_lines(whole, ModelRun, source=path)
        if len(whole) < len(data):
            os.ftruncate(handle, len(whole))
        yield handle, list(known.values())
    finally:
        os.close(handle)


def _append(handle: int, measurement: ModelRun) -> None:
    line = measurement.model_dump_json(by_alias=True).encode() + b"\n"
    while line:
        line = line[os.write(handle, line) :]
    os.fsync(handle)


def _without_batch(sha256: str, setting: Setting) -> str:
    return run_key(sha256, setting.model_copy(update={"batch": 1}))


def _limits(runs: Sequence[ModelRun]) -> dict[str, int]:
    """Return the smallest batch that ran out of memory, by model and setting without batch."""
    smallest: dict[str, int] = {}
    for run in runs:
        if run.outcome is Outcome.OUT_OF_MEMORY:
            key = _without_batch(run.model.sha256, run.setting)
            smallest[key] = min(run.setting.batch, smallest.get(key, run.setting.batch))
    return smallest


MODEL_PLAN_SCHEMA = "berth.model-plan/1"
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_UNFIT = re.compile(r"[^A-Za-z0-9_.+-]+")

FactsOf = Callable[[Path, str, Setting], ModelFacts]
"""A function (path, SHA-256 of the file, setting) that returns the facts of a model file."""


class ModelPlan(Document):
    """A plan to measure each model at each batch, precision, task, thread count and GPU share."""

    schema_: str = Field(default=MODEL_PLAN_SCHEMA, alias="schema")
    models: tuple[str, ...] = Field(min_length=1, max_length=100_000)
    """Files, globs of files, or factories (``package.module:function``)."""
    batches: tuple[int, ...] = Field(default=(1,), min_length=1, max_length=100)
    precisions: tuple[ComputePrecision, ...] = Field(default=(ComputePrecision.FP32,), min_length=1)
    tasks: tuple[Task, ...] = Field(default=(Task.INFERENCE,), min_length=1)
    threads: tuple[int, ...] = Field(default=(1,), min_length=1, max_length=100)
    device: ComputeDevice = ComputeDevice.CPU
    optimizer: str = Field(default="sgd", pattern="^(sgd|adamw)$")
    sm_percentages: tuple[int, ...] = Field(default=(), max_length=100)
    sizes: dict[str, int] = Field(default_factory=dict, max_length=100)
    input_shape: tuple[int, ...] | None = None
    """Shape of one input of factories' models, without the batch."""

    def settings(self, *, factory: bool) -> Iterator[Setting]:
        """Yield all combinations of the plan's values; ``factory``: for Python-made models."""
        for batch, precision, task, threads, share in itertools.product(
            dict.fromkeys(self.batches), dict.fromkeys(self.precisions), dict.fromkeys(self.tasks),
            dict.fromkeys(self.threads), dict.fromkeys(self.sm_percentages) or (None,),
        ):  # fmt: skip
            training = task is Task.TRAINING
            yield Setting(
                task=task,
                framework="torch" if factory else "onnxruntime",
                device=self.device, batch=batch, precision=precision, threads=threads,
                sizes=self.sizes, optimizer=self.optimizer if training else None,
                sm_percentage=share,
            )  # fmt: skip


def points(
    plan: ModelPlan,
    folder: Path,
    protocol: Protocol,
    facts_of: FactsOf,
    *,
    memory_bytes: int,
    run_limit_s: float = 300.0,
) -> list[PlannedRun]:
    """Return the measurements of the plan; globs are relative to ``folder``.

    Raises UsageError where a model does not exist, or a glob matches no file.
    """
    planned = []
    for source, model in _models(plan.models, folder):
        factory = source is ModelSource.FACTORY
        if factory and plan.input_shape is None:
            raise UsageError(
                f"{model} needs the shape of one input", hint="for example --input-shape 3,224,224"
            )
        digest = hashlib.sha256(model.encode()).hexdigest() if factory else sha256_of(Path(model))
        if digest is None:
            raise UsageError(f"{model} cannot be read")
        name = name_of(model)
        for setting in plan.settings(factory=factory):
            order = MeasureOrder(
                source=source, model=model, setting=setting, protocol=protocol,
                input_shape=plan.input_shape if factory else None,
                memory_bytes=memory_bytes, time_limit_s=run_limit_s,
            )  # fmt: skip
            planned.append(PlannedRun(order, _facts(source, model, digest, setting, facts_of),
                               digest, name))  # fmt: skip
    return planned


def name_of(model: str) -> str:
    """Return a model's name: a file's stem, or a factory's function name.

    Characters that documents do not allow in names become ``-``.
    """
    stem = model.rpartition(":")[2] if _FACTORY.fullmatch(model) else Path(model).stem
    return _UNFIT.sub("-", stem).strip("-._+")[:128] or "model"


def _facts(
    source: ModelSource, model: str, digest: str, setting: Setting, facts_of: FactsOf
) -> Callable[[], ModelFacts]:
    if source is ModelSource.FACTORY:
        return lambda: ModelFacts(name=name_of(model), sha256=digest)
    return lambda: facts_of(Path(model), digest, setting)


def _models(names: Sequence[str], folder: Path) -> Iterator[tuple[ModelSource, str]]:
    for text in names:
        path = folder / text
        if _FACTORY.fullmatch(text) and not path.exists():
            yield ModelSource.FACTORY, text
        elif path.is_file():
            yield ModelSource.ONNX, str(path)
        else:
            files = sorted(name for name in glob.glob(str(path)) if Path(name).is_file())  # noqa: PTH207
            if not files:
                raise UsageError(
                    f"there is no model {text}",
                    hint="give an ONNX file, a glob of them, or package.module:function",
                )
            yield from ((ModelSource.ONNX, name) for name in files)
