"""One training stage: minibatches by a seed, its weights stored when it has ended.

The order of an epoch and what happens within a step (dropout, masks) are drawn from seed, stage
and epoch or step, so that the same settings give the same weights. A stage that is done is
``NAME.safetensors``, whose metadata says which settings and losses it has.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from berth.pilot.documents import write_bytes
from berth.pilot.errors import BerthError, DocumentError
from lab.published.networks import seeded

Loss = Callable[[Sequence[int]], Tensor]
"""Loss of a batch of examples, by their places."""
Advance = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """What is trained, on how many examples, and how."""

    name: str
    settings: str
    """Digest of all that the weights depend on."""
    examples: int
    epochs: int
    batch: int
    modules: Mapping[str, nn.Module]
    """Modules whose trained weights are stored."""
    rates: Mapping[str, float]
    """Learning rates by module; a rate of 0 leaves the module as it is."""
    prepare: Callable[[], Loss]
    """Runs the stages before it and returns the loss."""

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of batches in an epoch; the last may be smaller."""
        return math.ceil(self.examples / self.batch)

    @property
    def steps(self) -> int:
        """Return the number of batches in all."""
        return self.epochs * self.steps_per_epoch

    def weights(self) -> dict[str, Tensor]:
        """Return all weights and buffers of the modules but the frozen ones."""
        return {
            f"{name}.{key}": value
            for name, module in self.modules.items()
            for key, value in module.state_dict().items()
            if key not in _frozen(module)
        }

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the weights that the optimiser moves."""
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
            keys = module.load_state_dict(own, strict=False)
            if keys.unexpected_keys or set(keys.missing_keys) - _frozen(module):
                raise BerthError(f"the stored weights are not those of this {name}")


def _frozen(module: nn.Module) -> set[str]:
    """Return the names of weights that are not trained, with every name of a tied one."""
    named = module.named_parameters(remove_duplicate=False)
    return {key for key, value in named if not value.requires_grad}


def draw(seed: int, *names: object) -> int:
    """Return a seed of its own for each thing that is drawn."""
    text = ":".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "little")


def restored(stage: Stage, folder: Path) -> list[float] | None:
    """Load a finished stage's weights and return its losses; None where it is not done.

    Raises DocumentError for a file that is broken or was made with other settings.
    """
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - the extra `language`

    path = folder / f"{stage.name}.safetensors"
    if not path.is_file():
        return None
    again = "remove it to begin this stage anew, or name another folder (out)"
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise DocumentError(path, f"is not a whole safetensors file: {error}", hint=again) from None
    if about.get("settings") != stage.settings:
        raise DocumentError(path, "was made with other settings or data", hint=again)
    stage.load(stored)
    losses: list[float] = json.loads(about["losses"])
    return losses


def trained(stage: Stage, folder: Path, *, seed: int, advance: Advance) -> list[float]:
    """Train a stage, store its weights in ``folder`` and return the mean loss of each epoch.

    Raises BerthError where the loss is no longer a number.
    """
    from safetensors.torch import save  # noqa: PLC0415 - the extra `language`

    loss_of, parameters = stage.prepare(), stage.parameters()
    optimiser = torch.optim.Adam([
        {"params": [value], "lr": stage.rates[name.split(".", 1)[0]]}
        for name, value in parameters.items()
    ])  # fmt: skip
    losses: list[float] = []
    for epoch in range(stage.epochs):
        order = np.random.default_rng(draw(seed, stage.name, "epoch", epoch))
        places, total = order.permutation(stage.examples), 0.0
        for number in range(stage.steps_per_epoch):
            step = epoch * stage.steps_per_epoch + number
            batch = places[number * stage.batch :][: stage.batch]
            with seeded(draw(seed, stage.name, "step", step)):
                optimiser.zero_grad(set_to_none=True)
                loss = loss_of(batch.tolist())
                torch.autograd.backward(loss)
                nn.utils.clip_grad_norm_(list(parameters.values()), 1.0)
                optimiser.step()
            value = float(loss.detach())
            if not math.isfinite(value):
                raise BerthError(
                    f"stage {stage.name} diverged at step {step + 1}: its loss is {value}",
                    hint="lower the learning rate",
                )
            total += value
            advance()
        losses.append(total / stage.steps_per_epoch)
    weights = {name: value.detach().cpu().contiguous().clone()
               for name, value in stage.weights().items()}  # fmt: skip
    about = {"settings": stage.settings, "losses": json.dumps(losses)}
    write_bytes(folder / f"{stage.name}.safetensors", save(weights, about))
    return losses
