"""The state of a stage in a folder: ``NAME.safetensors`` and ``NAME.json`` with its checksum.

The JSON is written last and names the checksum of the tensors, so a write cut short leaves the
state before it. Reading refuses what was changed, and what was made with other settings.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field
from torch import Tensor

from berth.pilot.documents import Document, read_json, to_json, write_text
from berth.pilot.errors import DocumentError


class StateCard(Document):
    """``NAME.json``."""

    stage: str
    settings: str
    """Digest of all that the result depends on."""
    steps: int = Field(ge=0)
    """Done so far."""
    of_steps: int = Field(ge=0)
    losses: tuple[float, ...]
    """Mean training loss of each epoch that is done."""
    running_loss: float = 0.0
    """Sum over the steps of the epoch that is not."""
    weights: str
    """File of the tensors."""
    sha256: str

    @property
    def done(self) -> bool:
        """Nothing is left to do."""
        return self.steps == self.of_steps


@dataclass(frozen=True, slots=True)
class States:
    """The folder."""

    folder: Path

    def card(self, stage: str) -> StateCard | None:
        """None: this stage was not begun. Raises DocumentError for a broken file."""
        path = self.folder / f"{stage}.json"
        return read_json(path, StateCard) if path.is_file() else None

    def write(self, card: StateCard, tensors: Mapping[str, Tensor]) -> StateCard:
        """Keep ``tensors``; the file's name and checksum are filled in."""
        from safetensors.torch import save  # noqa: PLC0415 - the extra `language`

        raw = save(
            {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        old = self.card(card.stage)
        name = f"{card.stage}-{card.steps}.safetensors"
        unfinished = self.folder / f".{name}.{os.getpid()}"
        unfinished.write_bytes(raw)
        unfinished.replace(self.folder / name)
        filled = card.model_copy(
            update={"weights": name, "sha256": hashlib.sha256(raw).hexdigest()}
        )
        write_text(self.folder / f"{card.stage}.json", to_json(filled))
        if old is not None and old.weights != name:
            (self.folder / Path(old.weights).name).unlink(missing_ok=True)
        return filled

    def read(self, stage: str, settings: str) -> tuple[StateCard, dict[str, Tensor]] | None:
        """What was kept; None where the stage was not begun.

        Raises DocumentError where the tensors are not those that were written, or where other
        settings made them.
        """
        from safetensors.torch import load  # noqa: PLC0415

        card = self.card(stage)
        if card is None:
            return None
        again = f"remove {stage}.json to begin this stage anew, or name another folder (out)"
        if card.settings != settings:
            raise DocumentError(
                self.folder / f"{stage}.json", "was made with other settings or data", hint=again
            )
        path = self.folder / Path(card.weights).name
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise DocumentError(path, f"cannot be read: {error.strerror}", hint=again) from None
        if hashlib.sha256(raw).hexdigest() != card.sha256:
            raise DocumentError(
                path,
                f"is not the file that {stage}.json names (its checksum differs)",
                hint=again,
            )
        return card, load(raw)
