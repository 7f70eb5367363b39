"""One training stage: minibatches by a seed, stored as it goes, the same result when resumed.

Nothing random outlives a step: the order of an epoch and what happens within a step (dropout,
masks) are drawn from (seed, stage, epoch or step). So a stage that was stopped after any stored
step ends with the weights of one that was not. A state is ``NAME-STEPS.safetensors`` and
``NAME.json`` with its checksum, written last: a write cut short leaves the state before it. Reading
refuses what was changed, and what was made with other settings.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from berth.pilot.documents import Document, read_json, to_json, write_bytes, write_text
from berth.pilot.errors import BerthError, DocumentError
from lab.published.networks import seeded

_ADAM = ("exp_avg", "exp_avg_sq", "step")
Loss = Callable[[Sequence[int]], Tensor]
"""Of a batch of examples, by place."""
Advance = Callable[[], None]


class StateCard(Document):
    """``NAME.json``."""

    stage: str
    settings: str
    """Digest of all that the result depends on."""
    steps: int = Field(default=0, ge=0)
    """Done so far."""
    of_steps: int = Field(ge=0)
    losses: tuple[float, ...] = ()
    """Mean training loss of each epoch that is done."""
    running_loss: float = 0.0
    """Sum over the steps of the epoch that is not."""
    weights: str = ""
    """File of the tensors."""
    sha256: str = ""

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
        """Store ``tensors``; the file's name and checksum are filled in."""
        from safetensors.torch import save  # noqa: PLC0415 - the extra `language`

        raw = save(
            {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        )
        old, name = self.card(card.stage), f"{card.stage}-{card.steps}.safetensors"
        write_bytes(self.folder / name, raw)
        digest = hashlib.sha256(raw).hexdigest()
        filled = card.model_copy(update={"weights": name, "sha256": digest})
        write_text(self.folder / f"{card.stage}.json", to_json(filled))
        if old is not None and old.weights != name:
            (self.folder / Path(old.weights).name).unlink(missing_ok=True)
        return filled

    def read(self, stage: str, settings: str) -> tuple[StateCard, dict[str, Tensor]] | None:
        """Return what was stored; None where the stage was not begun.

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
            wrong = f"is not the file that {stage}.json names (its checksum differs)"
            raise DocumentError(path, wrong, hint=again)
        return card, load(raw)


@dataclass(frozen=True, slots=True)
class Stage:
    """What is trained, on how much, and how."""

    name: str
    settings: str
    """Digest of all that the result depends on."""
    examples: int
    epochs: int
    batch: int
    modules: Mapping[str, nn.Module]
    """Whose weights are stored."""
    rates: Mapping[str, float]
    """Learning rates by module; those of a rate of 0 stay as they are."""
    prepare: Callable[[], Loss]
    """Does the stages before it."""

    @property
    def steps_per_epoch(self) -> int:
        """Return the last batch of an epoch may be smaller."""
        return math.ceil(self.examples / self.batch)

    @property
    def steps(self) -> int:
        """Return the number of steps in all."""
        return self.epochs * self.steps_per_epoch

    def weights(self) -> dict[str, Tensor]:
        """Return all weights and buffers of the modules but those that are never trained."""
        return {
            f"{name}.{key}": value
            for name, module in self.modules.items()
            for key, value in module.state_dict().items()
            if key not in _frozen(module)
        }

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return what the optimiser moves."""
        return {
            f"{name}.{key}": value
            for name, module in self.modules.items()
            if self.rates[name] > 0
            for key, value in module.named_parameters()
            if value.requires_grad
        }

    def load(self, stored: Mapping[str, Tensor]) -> None:
        """Put stored weights back. Raises BerthError where they are of other modules."""
        for name, module in self.modules.items():
            start = f"{name}."
            own = {k.removeprefix(start): v for k, v in stored.items() if k.startswith(start)}
            found = module.load_state_dict(own, strict=False)
            if found.unexpected_keys or set(found.missing_keys) - _frozen(module):
                raise BerthError(f"the stored weights are not those of this {name}")


def _frozen(module: nn.Module) -> set[str]:
    """Return names of weights that are not trained, each name of a tied one."""
    named = module.named_parameters(remove_duplicate=False)
    return {key for key, value in named if not value.requires_grad}


def draw(seed: int, *what: object) -> int:
    """Return a seed of its own for each thing."""
    text = ":".join(str(part) for part in (seed, *what))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "little")


def ended(stage: Stage, states: States) -> StateCard | None:
    """Return the stage's card with its weights put in place; None where it is not done."""
    found = states.read(stage.name, stage.settings)
    if found is None or not found[0].done:
        return None
    stage.load(found[1])
    return found[0]


@dataclass(frozen=True, slots=True)
class Loop:
    """How every stage of a configuration is trained."""

    states: States
    seed: int
    keep_every: int
    """Steps between two stored states."""
    stop_after: int | None = None
    """Leave off after so many steps of a call, as if interrupted (for trying resumption)."""

    def train(self, stage: Stage, loss_of: Loss, advance: Advance) -> StateCard:
        """Train from the stored state, if any, to the end.

        Raises BerthError where the loss is no longer a number, DocumentError for a broken state.
        """
        parameters = stage.parameters()
        optimiser = torch.optim.Adam([
            {"params": [value], "lr": stage.rates[name.split(".", 1)[0]]}
            for name, value in parameters.items()
        ])  # fmt: skip
        card = self._restored(stage, parameters, optimiser)
        for _ in range(card.steps):
            advance()
        stop = stage.steps if self.stop_after is None else card.steps + self.stop_after
        for step in range(card.steps, min(stage.steps, stop)):
            epoch, place = divmod(step, stage.steps_per_epoch)
            order = np.random.default_rng(draw(self.seed, stage.name, "epoch", epoch))
            batch = order.permutation(stage.examples)[place * stage.batch :][: stage.batch]
            with seeded(draw(self.seed, stage.name, "step", step)):
                loss = _step(loss_of, batch.tolist(), optimiser, parameters)
            if not math.isfinite(loss):
                raise BerthError(
                    f"stage {stage.name} diverged at step {step + 1}: its loss is {loss}",
                    hint="lower the learning rate",
                )
            card = _after(card, stage, loss)
            advance()
            if card.steps % self.keep_every == 0 and not card.done:
                card = self._stored(card, stage, parameters, optimiser)
        return self.states.write(card, stage.weights()) if card.done else card

    def _stored(
        self,
        card: StateCard,
        stage: Stage,
        parameters: Mapping[str, nn.Parameter],
        optimiser: torch.optim.Optimizer,
    ) -> StateCard:
        tensors = {f"weights.{name}": value for name, value in stage.weights().items()}
        for name, value in parameters.items():
            for key in _ADAM if value in optimiser.state else ():
                tensors[f"adam.{key}.{name}"] = optimiser.state[value][key]
        return self.states.write(card, tensors)

    def _restored(
        self,
        stage: Stage,
        parameters: Mapping[str, nn.Parameter],
        optimiser: torch.optim.Optimizer,
    ) -> StateCard:
        found = self.states.read(stage.name, stage.settings)
        if found is None:
            return StateCard(stage=stage.name, settings=stage.settings, of_steps=stage.steps)
        card, stored = found
        part = "" if card.done else "weights."
        stage.load({k.removeprefix(part): v for k, v in stored.items() if k.startswith(part)})
        for name, value in parameters.items():
            names = {key: f"adam.{key}.{name}" for key in _ADAM}
            state = {key: stored[full] for key, full in names.items() if full in stored}
            if state:
                optimiser.state[value] = {
                    key: one if key == "step" else one.to(value.device)
                    for key, one in state.items()
                }
        return card


def _step(
    loss_of: Loss,
    batch: Sequence[int],
    optimiser: torch.optim.Optimizer,
    parameters: Mapping[str, nn.Parameter],
) -> float:
    optimiser.zero_grad(set_to_none=True)
    loss = loss_of(batch)
    torch.autograd.backward(loss)
    nn.utils.clip_grad_norm_(list(parameters.values()), 1.0)
    optimiser.step()
    return float(loss.detach())


def _after(card: StateCard, stage: Stage, loss: float) -> StateCard:
    """Return one step further."""
    steps, total = card.steps + 1, card.running_loss + loss
    if steps % stage.steps_per_epoch:
        return card.model_copy(update={"steps": steps, "running_loss": total})
    losses = (*card.losses, total / stage.steps_per_epoch)
    return card.model_copy(update={"steps": steps, "losses": losses, "running_loss": 0.0})
