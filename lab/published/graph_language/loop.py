"""One training stage: minibatches by a seed, kept as it goes, the same result when resumed.

Nothing random outlives a step: the order of an epoch and what happens within a step (dropout,
masks) are drawn from (seed, stage, epoch or step). So a stage that was stopped after any kept
step ends with the weights of one that was not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from berth.pilot.errors import BerthError
from lab.published.graph_language.states import StateCard, States
from lab.published.relative_networks.seeded import seeded

_ADAM = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True, slots=True)
class Plan:
    """How a stage goes."""

    stage: str
    settings: str
    """Digest of all that the result depends on."""
    examples: int
    epochs: int
    batch: int
    seed: int
    keep_every: int
    """Steps between two kept states."""

    @property
    def steps_per_epoch(self) -> int:
        """The last batch of an epoch may be smaller."""
        return math.ceil(self.examples / self.batch)

    @property
    def steps(self) -> int:
        """In all."""
        return self.epochs * self.steps_per_epoch


@dataclass(frozen=True, slots=True)
class Trainable:
    """Modules whose weights are trained and kept, with their learning rates."""

    modules: Mapping[str, nn.Module]
    rates: Mapping[str, float]
    """By module; those with a rate of 0 are kept as they are."""

    def weights(self) -> dict[str, Tensor]:
        """All weights and buffers of the modules that are kept."""
        found = {}
        for name, module in self.modules.items():
            frozen = _frozen(module)
            for key, value in module.state_dict().items():
                if key not in frozen:
                    found[f"{name}.{key}"] = value
        return found

    def parameters(self) -> dict[str, nn.Parameter]:
        """What the optimiser moves."""
        return {
            f"{name}.{key}": value
            for name, module in self.modules.items()
            if self.rates[name] > 0
            for key, value in module.named_parameters()
            if value.requires_grad
        }

    def load(self, kept: Mapping[str, Tensor]) -> None:
        """Put kept weights back. Raises BerthError where they are of other modules."""
        for name, module in self.modules.items():
            own = {
                key.removeprefix(f"{name}."): value
                for key, value in kept.items()
                if key.startswith(f"{name}.")
            }
            told = module.load_state_dict(own, strict=False)
            if told.unexpected_keys or set(told.missing_keys) - _frozen(module):
                raise BerthError(f"the kept weights are not those of this {name}")


def _frozen(module: nn.Module) -> set[str]:
    """Names of weights that are not trained, each name of a tied one."""
    named = module.named_parameters(remove_duplicate=False)
    return {key for key, value in named if not value.requires_grad}


Loss = Callable[[Sequence[int]], Tensor]
Advance = Callable[[], None]


def draw(seed: int, *what: object) -> int:
    """A seed of its own for each thing."""
    text = ":".join(str(part) for part in (seed, *what))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "little")


def train(
    plan: Plan,
    trained: Trainable,
    loss_of: Loss,
    *,
    states: States,
    advance: Advance,
    stop_after: int | None = None,
) -> StateCard:
    """Train from the kept state, if any, to the end; ``loss_of`` gets the places of a batch.

    ``stop_after``: leave off after this many steps of this call, as if interrupted.
    Raises BerthError where the loss is no longer a number, DocumentError for a broken state.
    """
    parameters = trained.parameters()
    optimiser = torch.optim.Adam(
        [
            {"params": [value], "lr": trained.rates[name.split(".", 1)[0]]}
            for name, value in parameters.items()
        ]
    )
    card = _restore(plan, trained, parameters, optimiser, states)
    for _ in range(card.steps):
        advance()
    order: list[int] = []
    for step in range(card.steps, plan.steps):
        epoch, place = divmod(step, plan.steps_per_epoch)
        if place == 0 or not order:
            draws = np.random.default_rng(draw(plan.seed, plan.stage, "epoch", epoch))
            order = draws.permutation(plan.examples).tolist()
        with seeded(draw(plan.seed, plan.stage, "step", step)):
            loss = _step(loss_of, order[place * plan.batch :][: plan.batch], optimiser, parameters)
        if not math.isfinite(loss):
            raise BerthError(
                f"stage {plan.stage} diverged at step {step + 1}: its loss is {loss}",
                hint="lower the learning rate",
            )
        ended = place + 1 == plan.steps_per_epoch
        total = card.running_loss + loss
        card = card.model_copy(
            update={
                "steps": step + 1,
                "losses": (*card.losses, total / plan.steps_per_epoch) if ended else card.losses,
                "running_loss": 0.0 if ended else total,
            }
        )
        advance()
        done = card.steps
        if done % plan.keep_every == 0 and done < plan.steps:
            card = _keep(card, trained, parameters, optimiser, states)
        if stop_after is not None and (stop_after := stop_after - 1) == 0 and done < plan.steps:
            return card
    return states.write(card, trained.weights())


def ended(plan: Plan, trained: Trainable, states: States) -> StateCard | None:
    """The stage's card with its weights put in place; None where it is not done."""
    found = states.read(plan.stage, plan.settings)
    if found is None or not found[0].done:
        return None
    trained.load(found[1])
    return found[0]


def _step(
    loss_of: Loss,
    batch: Sequence[int],
    optimiser: torch.optim.Optimizer,
    parameters: Mapping[str, nn.Parameter],
) -> float:
    optimiser.zero_grad(set_to_none=True)
    loss = loss_of(batch)
    loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
    nn.utils.clip_grad_norm_(list(parameters.values()), 1.0)
    optimiser.step()
    return float(loss.detach())


def _keep(
    card: StateCard,
    trained: Trainable,
    parameters: Mapping[str, nn.Parameter],
    optimiser: torch.optim.Optimizer,
    states: States,
) -> StateCard:
    tensors = {f"weights.{name}": value for name, value in trained.weights().items()}
    for name, value in parameters.items():
        for key in _ADAM if value in optimiser.state else ():
            tensors[f"adam.{key}.{name}"] = optimiser.state[value][key]
    return states.write(card, tensors)


def _restore(
    plan: Plan,
    trained: Trainable,
    parameters: Mapping[str, nn.Parameter],
    optimiser: torch.optim.Optimizer,
    states: States,
) -> StateCard:
    found = states.read(plan.stage, plan.settings)
    if found is None:
        return StateCard(
            stage=plan.stage,
            settings=plan.settings,
            steps=0,
            of_steps=plan.steps,
            losses=(),
            weights="",
            sha256="",
        )
    card, kept = found
    if card.done:
        trained.load(kept)
        return card
    part = "weights."
    trained.load({k.removeprefix(part): v for k, v in kept.items() if k.startswith(part)})
    for name, value in parameters.items():
        state = {key: kept[f"adam.{key}.{name}"] for key in _ADAM if f"adam.{key}.{name}" in kept}
        if state:
            optimiser.state[value] = {
                key: kind if key == "step" else kind.to(value.device) for key, kind in state.items()
            }
    return card
