"""``berth.model-plan/1``: which models, batches and precisions a campaign measures (TOML)."""

from __future__ import annotations

import glob
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pydantic import Field

from berth.pilot.dl.campaign import Point
from berth.pilot.dl.document import Device, ModelFacts, Precision, Protocol, Setting, Task
from berth.pilot.dl.order import MeasureOrder, Source
from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.pilot.host import sha256_of

MODEL_PLAN_SCHEMA = "berth.model-plan/1"
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_UNFIT = re.compile(r"[^A-Za-z0-9_.+-]+")

FactsOf = Callable[[Path, str, Setting], ModelFacts]
"""What the caller knows of a model file: (path, digest, setting)."""


class Plan(Document):
    """Every model with every batch, precision, task, number of threads and share of the GPU."""

    schema_: str = Field(default=MODEL_PLAN_SCHEMA, alias="schema")
    models: tuple[str, ...] = Field(min_length=1, max_length=100_000)
    """Files, globs of files, or factories (``package.module:function``)."""
    batches: tuple[int, ...] = Field(default=(1,), min_length=1, max_length=100)
    precisions: tuple[Precision, ...] = Field(default=(Precision.FP32,), min_length=1)
    tasks: tuple[Task, ...] = Field(default=(Task.INFERENCE,), min_length=1)
    threads: tuple[int, ...] = Field(default=(1,), min_length=1, max_length=100)
    framework: str | None = Field(default=None, pattern="^(onnxruntime|torch)$")
    """None: torch on a GPU, for training and for factories; else onnxruntime."""
    device: Device = Device.CPU
    optimizer: str = Field(default="sgd", pattern="^(sgd|adamw)$")
    sm_percentages: tuple[int, ...] = Field(default=(), max_length=100)
    sizes: dict[str, int] = Field(default_factory=dict, max_length=100)
    input_shape: tuple[int, ...] | None = None
    """Of factories' models, without the batch."""

    def settings(self, *, factory: bool) -> Iterator[Setting]:
        """All combinations, as asked."""
        for batch, precision, task, threads, share in itertools.product(
            dict.fromkeys(self.batches), dict.fromkeys(self.precisions), dict.fromkeys(self.tasks),
            dict.fromkeys(self.threads), dict.fromkeys(self.sm_percentages) or (None,),
        ):  # fmt: skip
            training = task is Task.TRAINING
            torch = training or factory or self.device is Device.CUDA
            yield Setting(
                task=task,
                framework=self.framework or ("torch" if torch else "onnxruntime"),
                device=self.device, batch=batch, precision=precision, threads=threads,
                sizes=self.sizes, optimizer=self.optimizer if training else None,
                sm_percentage=share,
            )  # fmt: skip


def points(
    plan: Plan,
    folder: Path,
    protocol: Protocol,
    facts_of: FactsOf,
    *,
    memory_bytes: int,
    run_limit_s: float,
) -> list[Point]:
    """What the plan asks for; globs are relative to ``folder``.

    Raises UsageError where a model does not exist, or a glob meets none.
    """
    found = []
    for source, model in _models(plan.models, folder):
        factory = source is Source.FACTORY
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
            found.append(Point(order, _facts(source, model, digest, setting, facts_of),
                               digest, name))  # fmt: skip
    return found


def name_of(model: str) -> str:
    """A file's stem, or a factory's function, as a name that documents allow."""
    stem = model.rpartition(":")[2] if _FACTORY.fullmatch(model) else Path(model).stem
    return _UNFIT.sub("-", stem).strip("-._+")[:128] or "model"


def _facts(
    source: Source, model: str, digest: str, setting: Setting, facts_of: FactsOf
) -> Callable[[], ModelFacts]:
    if source is Source.FACTORY:
        return lambda: ModelFacts(name=name_of(model), sha256=digest)
    return lambda: facts_of(Path(model), digest, setting)


def _models(given: Sequence[str], folder: Path) -> Iterator[tuple[Source, str]]:
    for text in given:
        path = folder / text
        if _FACTORY.fullmatch(text) and not path.exists():
            yield Source.FACTORY, text
        elif path.is_file():
            yield Source.ONNX, str(path)
        else:
            files = sorted(name for name in glob.glob(str(path)) if Path(name).is_file())  # noqa: PTH207
            if not files:
                raise UsageError(
                    f"there is no model {text}",
                    hint="give an ONNX file, a glob of them, or package.module:function",
                )
            yield from ((Source.ONNX, name) for name in files)
