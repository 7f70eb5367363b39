"""Reads files that describe a workload of any type, and amounts of work as text.

A file is a document of a known schema (a Profile, a ``berth.*-workload/1``), TOML of slices, a
model's file, or a ``config.json`` of Hugging Face. The configuration of a decoder becomes a
language-model service; that of any other model, or with a mode, precision or open dimension given,
becomes a model graph.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from berth.pilot.documents import MAX_DOCUMENT_BYTES, Document, validate
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.importers.recogniser import HEAD_BYTES, FileKind, FileReader, plain_text
from berth.pilot.profile import Profile, RunsOn, Target
from berth.plugin.readers import Purpose, expect
from berth.predictor.core.forecast import WorkUnit
from berth.predictor.core.workload import Amount, Workload, read_workload, workload_of

_UNITS = {
    word: unit
    for unit, words in {
        WorkUnit.EPOCH: ("epoch", "epochs"),
        WorkUnit.STEP: ("step", "steps", "batch", "batches"),
        WorkUnit.REQUEST: ("request", "requests"),
        WorkUnit.TOKEN: ("token", "tokens"),
    }.items()
    for word in words
}
_MOST = 1e15


def parse_amount(text: str, steps_per_epoch: float | None = None) -> Amount:
    """Return the amount that a text such as ``90 epochs of 500 steps`` or ``1e6 tokens`` describes.
    Raises UsageError.

    ``steps_per_epoch`` is used where the text does not give the steps of an epoch.
    """
    hint = "write: '90 epochs of 5004 steps', '500 steps', '10000 requests', '1e6 tokens'"
    amount, of, steps_text = text.partition(" of ")
    steps_words = steps_text.split()
    if of and (len(steps_words) != 2 or _UNITS.get(steps_words[1].lower()) is not WorkUnit.STEP):
        raise UsageError(f"--amount {text!r}: not 'of N steps'", hint=hint)
    words = amount.split()
    if len(words) != 2:
        raise UsageError(f"--amount {text!r} is not a count and a unit", hint=hint)
    unit = _UNITS.get(words[1].lower())
    if unit is None:
        raise UsageError(f"--amount {text!r}: {words[1]!r} is no unit of work", hint=hint)
    count = _positive(words[0], f"--amount {text!r}: {words[0]!r}", hint)
    if of:
        subject = f"--amount {text!r}: {steps_words[0]!r}"
        steps_per_epoch = _positive(steps_words[0], subject, hint)
    if steps_per_epoch is None:
        if unit is WorkUnit.EPOCH:
            raise UsageError(
                f"--amount {text!r} also needs the steps of an epoch",
                hint="write '90 epochs of 5004 steps': samples of the data set by the batch",
            )
        return Amount(unit=unit, count=count)
    if unit is not WorkUnit.EPOCH:
        raise UsageError(f"--amount {text!r}: steps mean nothing but of an epoch")
    steps = _positive(str(steps_per_epoch), f"{steps_per_epoch:g} steps of an epoch", None)
    return Amount(unit=unit, count=count, steps_per_epoch=steps)


def amount_text(amount: Amount) -> str:
    """Return an amount as text: ``90 epochs of 500 steps``, ``1 job``; ``unknown`` where only
    the unit is known."""
    if amount.unit is WorkUnit.JOB:
        return "1 job"
    if amount.count is None:
        return f"unknown (per {amount.unit.value})"
    text = f"{amount.count:g} {amount.unit.value}{'' if amount.count == 1 else 's'}"
    if amount.steps_per_epoch is not None:
        text += f" of {amount.steps_per_epoch:g} steps"
    return text


def _positive(text: str, subject: str, hint: str | None) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < _MOST:
        raise UsageError(f"{subject} is not a positive number", hint=hint)
    return value


MODEL_FILES = frozenset({
    ".onnx", ".pt", ".pth", ".pt2", ".ckpt", ".keras", ".h5", ".pb", ".pdmodel", ".safetensors",
})  # fmt: skip
TITLES = {
    "program": "a program's profile",
    "model-graph": "a model graph",
    "language-model": "a language-model service",
    "slices": "a workload of MIG slices",
    "history": "a program known from past jobs",
}
_SERVING = (
    "input_tokens", "output_tokens", "concurrency", "framework", "weight_bits", "kv_bits",
    "tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel",
    "serving",
)  # fmt: skip
_OF_GRAPHS = ("mode", "precision", "sizes")
_AMOUNT = ("amount", "steps_per_epoch")
_TAKES = {
    "program": ("name", "runs_on"),
    "model-graph": ("name", *_OF_GRAPHS, "batch", "data_parallel", *_AMOUNT, "runs_on"),
    "language-model": ("name", "batch", *_SERVING, *_AMOUNT, "runs_on"),
    "slices": ("name", "runtime_s"),
    "history": ("name", "runs_on"),
}
_FLAGS = {
    "sizes": "--dim", "weight_bits": "--quantise", "kv_bits": "--quantise cache",
    "input_tokens": "--tokens", "output_tokens": "--tokens", "concurrency": "--batch",
    "tensor_parallel": "--parallel tensor", "pipeline_parallel": "--parallel pipeline",
    "data_parallel": "--parallel data", "expert_parallel": "--parallel expert",
    "runtime_s": "--runtime",
}  # fmt: skip


def following_shape(workload: Workload) -> Workload:
    """Return the workload marked as a program that uses all tasks and cores that its job is given.

    Raises UsageError for a kind of workload that does not run with tasks and cores.
    """
    runs_on = getattr(workload.document, "runs_on", None)
    if not isinstance(runs_on, RunsOn):
        raise UsageError(f"--follows-shape is for programs; {workload.name} is {workload.kind}")
    marked = runs_on.model_copy(update={"follows_shape": True})
    return workload_of(workload.document.model_copy(update={"runs_on": marked}))


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """Options that a user gives in addition to a workload file. None or empty: not given."""

    name: str | None = None
    mode: str | None = None
    """``inference`` or ``training``."""
    batch: int | None = None
    precision: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the model's open dimensions, by dimension name."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    framework: str | None = None
    weight_bits: float | None = None
    kv_bits: float | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: int | None = None
    serving: Mapping[str, float] = field(default_factory=dict)
    """Other fields of a language model's service, by name."""
    amount: str | None = None
    """A count and a unit of work, for example ``90 epochs``."""
    steps_per_epoch: float | None = None
    runs_on: Sequence[Target] = ()
    runtime_s: float | None = None

    def stated(self) -> dict[str, Any]:
        """Return the options that were given, by name."""
        every = {option.name: getattr(self, option.name) for option in fields(self)}
        return {name: value for name, value in every.items() if value not in (None, {}, ())}


def read_file(path: Path, options: WorkloadOptions | None = None) -> Workload:
    """Return the workload that a file describes, with the options applied.

    Raises DocumentError for a file that is broken or describes no workload (it says what the file
    is, where that can be seen), and UsageError for an
    option that does not apply to its kind.
    """
    stated = (options or WorkloadOptions()).stated()
    config = configuration(path)
    if config is None and expect(path, Purpose.WORKLOAD) is None and _is_other_text(path):
        raise DocumentError(
            path, "is of no kind of workload that Berth knows",
            hint="give a profile (berth pilot run), an ONNX model, a config.json or slices in TOML",
        )  # fmt: skip
    if config is None and (path.is_dir() or path.suffix.lower() in {".gguf", ".json"}):
        _refuse_other_files_of_models(path)
    if path.suffix in MODEL_FILES or (config is not None and _as_graph(config, stated)):
        if config is not None and not stated.keys().isdisjoint(_SERVING):
            from berth.predictor.families.language_model import refusals  # noqa: PLC0415 - slow

            refusals.refuse_what_is_no_decoder(config, path)
        _check("model-graph", stated)
        return _graph(path, stated)
    if config is not None:
        _check("language-model", stated)
        return _service(path, stated)
    return with_options(read_workload(path), options)


def _is_other_text(path: Path) -> bool:
    """Return whether a file can be read, and is neither JSON nor, by its name, TOML, JSON or a
    model: what is wrong in those, their reader says."""
    if path.suffix in {".json", ".toml", *MODEL_FILES} or not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            return not plain_text(stream.read(HEAD_BYTES)).lstrip().startswith("{")
    except OSError:
        return False


def _refuse_other_files_of_models(path: Path) -> None:
    """Raise DocumentError for a file or folder of a model that is not its configuration (weights,
    an adapter, an index), and for a configuration that cannot be read."""
    from berth.predictor.families.language_model import model_files, refusals  # noqa: PLC0415 - slow

    if path.is_dir() and not (path / "config.json").exists():
        model_files.refuse_folder(path)
    if path.suffix.lower() == ".gguf" or path.is_dir() or path.name == "config.json":
        file = path / "config.json" if path.is_dir() else path
        raw = model_files.read_object(file)
        if path.is_dir():
            refusals.refuse_nameless(raw, file)
    elif path.is_file() and path.stat().st_size <= MAX_DOCUMENT_BYTES:
        try:
            raw = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return
        problem = (
            refusals.other_file(raw) if isinstance(raw, dict) and "schema" not in raw else None
        )
        if problem is not None:
            raise DocumentError(path, problem[0], hint=problem[1])


def with_options(workload: Workload, options: WorkloadOptions | None) -> Workload:
    """Return the workload with the options applied. Raises UsageError and DocumentError."""
    stated = (options or WorkloadOptions()).stated()
    return workload_of(_changed(workload, stated)) if stated else workload


def configuration(path: Path) -> dict[str, Any] | None:
    """Return the Hugging Face configuration in a file or folder; None: the path holds no such
    configuration."""
    file = path / "config.json" if path.is_dir() else path
    try:
        if file.suffix != ".json" or file.stat().st_size > MAX_DOCUMENT_BYTES:
            return None
        raw = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    # The same test as ``families.language_model.config.is_config``, which is slow to import.
    is_configuration = isinstance(raw, dict) and "schema" not in raw
    return raw if is_configuration and ("model_type" in raw or "architectures" in raw) else None


def title(kind: str) -> str:
    """Return the phrase by which messages name a workload of this kind."""
    return TITLES.get(kind, f"a workload of kind {kind}")


def _as_graph(config: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    if any(name in options for name in _OF_GRAPHS):
        return True
    from berth.predictor.families.language_model.config import is_encoder  # noqa: PLC0415 - slow

    return is_encoder(config)


def _graph(path: Path, options: Mapping[str, Any]) -> Workload:
    from berth.predictor.families.graph.model import model_workload  # noqa: PLC0415 - numpy
    from berth.predictor.families.graph.workload import RunMode  # noqa: PLC0415

    mode = RunMode(options.get("mode", RunMode.INFERENCE))
    graph = model_workload(
        path,
        mode=mode,
        batch=options.get("batch"),
        precision=options.get("precision"),
        sizes=options.get("sizes"),
    )
    other_options = {
        name: value for name, value in options.items() if name not in (*_OF_GRAPHS, "batch")
    }
    return workload_of(_changed(workload_of(graph), other_options) if other_options else graph)


def _service(path: Path, options: Mapping[str, Any]) -> Workload:
    from berth.predictor.families.language_model.workload import (  # noqa: PLC0415 - slow
        language_model_workload,
    )

    file = path / "config.json" if path.is_dir() else path
    service = language_model_workload(file)
    return workload_of(_changed(workload_of(service), options) if options else service)


def _changed(workload: Workload, options: Mapping[str, Any]) -> Document:
    """Return the document with the options applied. Raises UsageError and DocumentError."""
    document = workload.document
    _check(workload.kind, options, type(document))
    changes = dict(options)
    copies = None
    if workload.kind == "model-graph":
        copies = changes.pop("data_parallel", None)
        _check_graph(document, changes)
    if workload.kind == "language-model" and "batch" in changes:
        batch = changes.pop("batch")
        if changes.setdefault("concurrency", batch) != batch:
            raise UsageError("batch and requests at a time of a language model are the same thing")
    changes |= changes.pop("serving", {})
    wanted = changes.pop("amount", None)
    per_epoch = changes.pop("steps_per_epoch", None)
    if wanted is not None or per_epoch is not None:
        amount = _amount(workload, wanted, per_epoch, changes)
        changes["amount"] = amount.model_dump(mode="json")
    data = document.model_dump(mode="json", by_alias=True)
    if "runs_on" in changes:
        targets = [target.value for target in changes["runs_on"]]
        changes["runs_on"] = {**data["runs_on"], "targets": targets}
    if copies is not None:
        runs_on = changes.get("runs_on", data["runs_on"])
        changes["runs_on"] = {**runs_on, "gpus": copies if copies > 1 else 0}
    if not changes:
        return document
    source = "--name" if set(changes) == {"name"} else workload.name
    return validate({**data, **changes}, type(document), source=source)


def _check(kind: str, options: Mapping[str, Any], model: type[Document] = Profile) -> None:
    """Raises UsageError for the first option that does not apply to workloads of this kind."""
    takes = _TAKES.get(kind) or model.model_fields
    for name in options:
        if name not in takes and not (name == "steps_per_epoch" and "amount" in takes):
            flag = _FLAGS.get(name, "--" + name.replace("_", "-"))
            raise UsageError(f"{flag} means nothing for {title(kind)}")


def _check_graph(document: Any, changes: dict[str, Any]) -> None:
    """Raises UsageError where ``changes`` alter a stored graph's batch or sizes: its operators
    were counted for these."""
    from berth.predictor.families.graph.workload import check_trained_in  # noqa: PLC0415 - slow

    if "sizes" in changes:
        raise UsageError("--dim is for a model's file", hint="in a document all sizes are fixed")
    if changes.pop("batch", document.batch) != document.batch:
        raise UsageError(
            f"the graph of {document.name!r} was counted at batch {document.batch}",
            hint="give the model's file with --batch",
        )
    check_trained_in(
        changes.get("mode", document.mode), changes.get("precision", document.precision)
    )


def _amount(
    workload: Workload, text: str | None, per_epoch: float | None, changes: Mapping[str, Any]
) -> Amount:
    if text is None:
        raise UsageError("steps of an epoch need --amount", hint="for example: '90 epochs'")
    amount = parse_amount(text, per_epoch)
    allowed = {WorkUnit.REQUEST, WorkUnit.TOKEN} if workload.kind == "language-model" else None
    if workload.kind == "model-graph":
        training = changes.get("mode", getattr(workload.document, "mode", "")) == "training"
        allowed = {WorkUnit.STEP, WorkUnit.EPOCH} if training else {WorkUnit.STEP, WorkUnit.REQUEST}
        if amount.unit is WorkUnit.REQUEST and not training and amount.count is not None:
            batch = int(getattr(workload.document, "batch", 1))
            return Amount(unit=WorkUnit.STEP, count=float(-(-amount.count // batch)))
    if allowed is not None and amount.unit not in allowed:
        units = " or ".join(sorted(f"{unit.value}s" for unit in allowed))
        raise UsageError(f"--amount of {title(workload.kind)} is in {units}, not {text!r}")
    return amount


READERS = (
    FileReader("workload", Purpose.WORKLOAD, (
        FileKind("a profile of Berth", "berth", json=(r'"schema"\s*:\s*"berth\.profile/',)),
        FileKind("a workload of Berth", "berth",
                 has=(r'"?schema"?\s*[:=]\s*"berth\.[\w-]*workload/',)),
        FileKind("a model in ONNX", "onnx", ends=(".onnx",)),
        FileKind("a folder with a model's config.json", "config", holds=("config.json",)),
        FileKind("a model's config.json", "config", json=(r'"(model_type|architectures)"\s*:',)),
        FileKind("a file of weights or of a model", "weights",
                 ends=tuple(sorted(MODEL_FILES - {".onnx"}))),
    ), read_file),
)  # fmt: skip
