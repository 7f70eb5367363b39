"""``berth train|evaluate --task operators``: the operator model."""

from __future__ import annotations

import click

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import require_training
from lab.commands.asked import Asked
from lab.commands.learn import learn
from lab.commands.shown import show

_HEADER = ("GPU", "of", "method", "rows", "median", "mean", "told / measured")


def train(asked: Asked) -> None:
    """The bundle from NeuSight's operators."""
    require_training("training")
    from lab.operators.train import STEPS  # noqa: PLC0415 - needs the extra
    from lab.operators.train import train as run  # noqa: PLC0415

    manifest = learn(asked, run, STEPS)
    click.echo(f"{manifest.id}: {manifest.training.rows} operator rows, written to {asked.bundle}")


def evaluate(asked: Asked) -> None:
    """Operators, whole models and image models on GPUs that nothing was fitted on."""
    require_training("evaluation")
    from lab.operators import baselines as rivals  # noqa: PLC0415 - the extra
    from lab.operators import run  # noqa: PLC0415 - the extra

    with step_bar("evaluating", run.STEPS) as advance:
        found = run.evaluate(asked.seed, advance)
    told = ["Errors are |predicted / measured - 1|; fp32 but for the image models."]
    for split in dict.fromkeys(one.split for one in found.results):
        rows = [
            (
                one.gpu, one.part, one.method, str(one.rows), f"{one.median_error:.1%}",
                f"{one.mean_error:.1%}", f"{one.bias:.2f}",
            )
            for one in found.results
            if one.split == split
        ]  # fmt: skip
        told += [f"\n{split}", columns(_HEADER, rows)]
    told.append("\nPower law chosen without the silicon named:")
    told += [f"  {name}: {law}" for name, law in found.power.items()]
    published = ", ".join(f"{name} {value:.1%}" for name, value in rivals.PUBLISHED.items())
    whole = ", ".join(f"{name} {value:.1%}" for name, value in rivals.PUBLISHED_L4.items())
    told.append(
        f"\nNeuSight publishes, on its own test sets (quoted, mean errors): {published}; "
        f"whole models on the L4: {whole}"
    )
    told += [f"left out, {name}: {why}" for name, why in found.skipped.items()]
    show(asked, found.as_dict(), "\n".join(told))
