"""The operator model."""

from __future__ import annotations

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show

_HEADER = ("GPU", "of", "method", "rows", "median", "mean", "told / measured")


def train(options: Options) -> str:
    """The bundle from NeuSight's operators."""
    from lab.operators.train import STEPS  # noqa: PLC0415 - needs the extra
    from lab.operators.train import train as run  # noqa: PLC0415

    manifest = learn(options, run, STEPS)
    return f"{manifest.id}: {manifest.training.rows} operator rows"


def evaluate(options: Options) -> None:
    """Operators, whole models and image models on GPUs that nothing was fitted on."""
    from lab.operators import baselines as rivals  # noqa: PLC0415 - the extra
    from lab.operators import run  # noqa: PLC0415 - the extra

    with step_bar("evaluating", run.STEPS) as advance:
        found = run.evaluate(options.seed, advance)
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
    show(options, found.as_dict(), "\n".join(told))
