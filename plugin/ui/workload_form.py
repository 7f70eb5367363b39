"""The part of a form that names a workload: one of the store, or a file with what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import request
from wtforms import FileField, Form, IntegerField, SelectField, StringField
from wtforms.validators import NumberRange, Optional

from berth.pilot.errors import UsageError
from berth.plugin.store import Store
from berth.plugin.ui.uploads import ENDINGS, read_upload
from berth.plugin.users.client import RemoteStore
from berth.plugin.workload_files import WorkloadOptions, with_options
from berth.predictor.core.workload import Workload, parse_workload

_OPTIONS = ("mode", "batch", "precision", "input_tokens", "output_tokens", "concurrency", "amount")


def count(label: str, least: int = 1) -> IntegerField:
    """A whole number that may be left out."""
    checks = [Optional(), NumberRange(min=least, message=f"at least {least}")]
    return IntegerField(label, checks, render_kw={"min": least, "inputmode": "numeric"})


class WorkloadForm(Form):
    """Which workload, and how it is used."""

    workload = SelectField("Stored workload", [Optional()], validate_choice=False)
    file = FileField("or a file", render_kw={"accept": ",".join(ENDINGS)})
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

    def named(self, store: Store | RemoteStore | None) -> None:
        """Offer the workloads of the store."""
        names = [] if store is None else sorted(record.name for record in store.workloads())
        self.workload.choices = ["", *names]

    def asked(self) -> bool:
        """Whether the form was sent with a workload."""
        sent = request.files.get("file")
        return bool(self.workload.data or (sent is not None and sent.filename))

    def read(self, store: Store | RemoteStore | None) -> Workload:
        """The workload. Raises BerthError."""
        options = WorkloadOptions(**self.given(_OPTIONS))
        sent = request.files.get("file")
        if sent is not None and sent.filename:
            return read_upload(sent, options)
        name = self.workload.data
        record = None if store is None else store.workload(name)
        if record is None:
            raise UsageError(f"there is no workload {name!r} in the store")
        stored = parse_workload(record.document, source=f"workload {name}")
        return with_options(stored, options)

    def given(self, names: tuple[str, ...]) -> Mapping[str, Any]:
        """Fields that were filled in."""
        return {n: v for n in names if (v := getattr(self, n).data) not in (None, "")}

    def problems(self) -> list[str]:
        """One sentence for each field that cannot be."""
        return [
            f"{getattr(self, name).label.text}: {'; '.join(map(str, errors))}"
            for name, errors in self.errors.items()
            if name is not None
        ]
