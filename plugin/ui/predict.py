"""The view *Predict*: a workload's time on every platform, and why.

Other views use the form that names a workload (a stored one, a file, a described model), too. An
uploaded file is limited in size, and kept in a private folder while it is read.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.datastructures import FileStorage
from werkzeug.wrappers import Response
from wtforms import FileField, FloatField, Form, IntegerField, SelectField, StringField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import NumberRange, Optional

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.report.of_workload import rank_workload, workload_report
from berth.plugin.ui.context import Context, context
from berth.plugin.workloads.files import MODEL_FILES, WorkloadOptions, read_file, with_options
from berth.predictor.core.workload import Workload, parse_workload

ENDINGS = (".json", ".toml", ".onnx")
"""Accepted endings of files. Other formats need their framework and can contain code, so they must
be converted to ONNX."""
OPTIONS = (
    "mode", "batch", "precision", "input_tokens", "output_tokens", "concurrency", "amount",
    "steps_per_epoch",
)  # fmt: skip
view = Blueprint("predict", __name__)


def read_upload(sent: FileStorage, options: WorkloadOptions) -> Workload:
    """Return the workload of an uploaded file. Raises BerthError.

    A child process with limited memory and no write access reads a model's graph; all other files
    are documents of limited size.
    """
    with _held(sent) as path:
        try:
            return read_file(path, options)
        except BerthError as error:  # the sender does not know the temporary path
            own = error.message.replace(f"{path.parent}/", "")
            raise UsageError(own, hint=error.hint) from None


@contextmanager
def _held(sent: FileStorage) -> Iterator[Path]:
    name = re.sub(r"[^A-Za-z0-9._-]", "_", Path(sent.filename or "").name)[-100:]
    ending = Path(name).suffix.lower()
    if ending not in ENDINGS:
        other = " (convert it to ONNX)" if ending in MODEL_FILES else ""
        raise UsageError(f"{name or 'the file'}: files end in {', '.join(ENDINGS)}{other}")
    with tempfile.TemporaryDirectory(prefix="berth-ui-") as folder:
        path = Path(folder, f"model{ending}" if name.startswith(".") else name)
        sent.save(path)
        yield path


def count(label: str, least: int = 1) -> IntegerField:
    """Return an optional form field for a whole number of at least ``least``."""
    checks = [Optional(), NumberRange(min=least, message=f"at least {least}")]
    return IntegerField(label, checks, render_kw={"min": least, "inputmode": "numeric"})


class WorkloadForm(Form):
    """The form's fields for a workload and its options."""

    workload = SelectField("Stored workload", [Optional()], validate_choice=False)
    file = FileField("or a file", render_kw={"accept": ",".join(ENDINGS)})
    sent = StringField("Sent before", [Optional()])
    mode = SelectField(
        "Mode (models)", validate_choice=False, choices=["", "inference", "training"]
    )
    batch = count("Batch")
    precision = SelectField(
        "Precision", validate_choice=False, choices=["", "fp32", "tf32", "fp16", "bf16", "int8"]
    )
    input_tokens = count("Input tokens")
    output_tokens = count("Output tokens")
    concurrency = count("Requests at a time")
    amount = StringField("Amount of work", [Optional()], render_kw={"placeholder": "90 epochs"})
    steps_per_epoch = FloatField("Steps an epoch", [Optional(), NumberRange(min=1)])
    described = SelectField(
        "A transformer without a file",
        validate_choice=False,
        choices=[
            SelectChoice("", ""),
            SelectChoice("serve", "served language model"),
            SelectChoice("inference", "one run of it"),
            SelectChoice("training", "a training step"),
        ],
    )
    billions = FloatField(
        "Billions of parameters",
        [Optional(), NumberRange(min=0.001, max=10_000, message="0.001 to 10000")],
        render_kw={"placeholder": "8"},
    )
    layers = count("Layers (else by size)")
    width = count("Width (else by size)")
    sequence = count("Sequence, tokens")

    def named(self, page: Context) -> list[BerthError]:
        """Fill the form's list of stored workloads; return the error in a list where the store
        cannot be read.

        A file, or a model described by its size, needs no store.
        """
        self.workload.choices = [""]
        try:
            self.workload.choices += page.workload_names()
        except BerthError as error:
            return [error]
        return []

    def asked(self) -> bool:
        """Return whether the form names a workload. Raises UsageError for one sent without any."""
        sent = request.files.get("file")
        is_file = sent is not None and bool(sent.filename)
        is_asked = bool(self.workload.data or self.sent.data or self.described.data or is_file)
        if not is_asked and request.method == "POST":
            raise UsageError(
                "which workload?", hint="choose a stored one or a file, or describe a transformer"
            )
        return is_asked

    def read(self, page: Context) -> Workload:
        """Return the form's workload. Raises BerthError.

        An uploaded or described workload is kept in memory, and ``sent`` is set to its key.
        """
        viewer = page.viewer().name
        sent = request.files.get("file")
        options = WorkloadOptions(**self.given(OPTIONS))
        if sent is not None and sent.filename:
            return self._held(page, viewer, read_upload(sent, options))
        if self.described.data:
            return self._held(page, viewer, self._described())
        if self.sent.data:
            known = page.held.get(viewer, self.sent.data)
            if known is None:
                raise UsageError(
                    "the file behind this link is no longer held here", hint="send it again"
                )
            return known
        name = self.workload.data
        record = page.workload(name)
        if record is None:
            raise UsageError(f"there is no workload {name!r} in the store")
        stored = parse_workload(record.document, source=f"workload {name}")
        return with_options(dataclasses.replace(stored, name=record.name), options)

    def _held(self, page: Context, viewer: str | None, workload: Workload) -> Workload:
        self.sent.data = page.held.put(viewer, workload)
        return workload

    def _described(self) -> Workload:
        from berth.plugin.workloads.described_models import DecoderShape, described  # noqa: PLC0415 - numpy

        if self.billions.data is None and (self.layers.data is None or self.width.data is None):
            raise UsageError(
                "how large is the model?", hint="give billions of parameters, or layers and width"
            )
        shape = DecoderShape.of(self.billions.data, self.layers.data, self.width.data)
        return described(
            shape,
            str(self.described.data),
            sequence=self.sequence.data,
            options=WorkloadOptions(**self.given(tuple(o for o in OPTIONS if o != "mode"))),
        )

    def link(self, more: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the query parameters of an address that shows the same result again."""
        if self.sent.data:  # its options are stored with it
            return {"sent": self.sent.data, **self.given(more)}
        return dict(self.given(("workload", *OPTIONS, *more)))

    def given(self, names: tuple[str, ...]) -> Mapping[str, Any]:
        """Return the values of the named fields that were filled in."""
        return {n: v for n in names if (v := getattr(self, n).data) not in (None, "")}


@view.route("/predict", methods=["GET", "POST"])
def predict() -> str | Response:
    """Show the form, and the ranking of platforms for the submitted workload.

    A submitted workload gets an address of its own, so that the result can be reloaded and shared.
    """
    page = context()
    form = WorkloadForm(request.values)
    report, problems = None, form.named(page)
    try:
        if form.asked() and form.validate():
            workload = form.read(page)
            if request.method == "POST":
                return redirect(url_for("predict.predict", **form.link()), 303)
            report = workload_report(rank_workload(workload, page.forecaster(), page.site()))
    except BerthError as error:
        problems = [error]
    return render_template("predict.html", form=form, report=report, problems=problems)
