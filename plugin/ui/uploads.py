"""Files that a browser sends: bounded, held in a private folder while they are read."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from werkzeug.datastructures import FileStorage

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.workloads.files import MODEL_FILES, WorkloadOptions, read_file
from berth.predictor.core.workload import Workload

ENDINGS = (".json", ".toml", ".onnx")
"""Other frameworks' files need the framework and hold code: convert them to ONNX first."""


def read_upload(sent: FileStorage, options: WorkloadOptions) -> Workload:
    """The workload of an uploaded file. Raises BerthError.

    A model's graph is read by a child process with bounded memory and no rights to write; all
    else is a document of bounded size.
    """
    with _held(sent) as path:
        try:
            return read_file(path, options)
        except BerthError as error:  # where it lay for that moment means nothing to its sender
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
