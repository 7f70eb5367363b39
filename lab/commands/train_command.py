"""``berth train``: a bundle from kernel profiles and published times."""

from __future__ import annotations

from pathlib import Path

import click

from lab.commands import registry
from lab.commands.asked import Asked


@click.command(epilog="Example: berth train --out my-bundle --figures report/evaluation.json")
@click.argument("profiles", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--adapt",
    type=click.Path(path_type=Path),
    metavar="BUNDLE",
    help="Label --platform in this bundle by the workloads of PROFILES instead of training anew.",
)
@click.option("--platform", help="With --adapt: the new platform.")
@click.option(
    "--task",
    type=click.Choice(registry.TRAINED),
    default="kernels",
    show_default=True,
    help=registry.training_help(),
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the new bundle; needed but for --task graph-language, whose file names it.",
)
@click.option("--reference", help="With --task relative and PROFILES: where programs are piloted.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--figures",
    type=click.Path(path_type=Path),
    help="evaluation.json of `berth evaluate --report`: its figures go into the model card.",
)
@click.option(
    "--platforms", "folder", type=click.Path(path_type=Path), help="A site's own platform files."
)
def train(
    *,
    profiles: tuple[Path, ...],
    adapt: Path | None,
    platform: str | None,
    task: str,
    out: Path | None,
    reference: str | None,
    seed: int,
    figures: Path | None,
    folder: Path | None,
) -> None:
    """Train on PROFILES (JSON lines; default: the committed kernel profiles).

    With --adapt, PROFILES are of the same workloads on a reference and on the new platform;
    with --task relative, of the same workloads on the site's platforms (folders, JSON, JSON lines,
    and CSV of times; default: the public OpenCL data). With --task dl --adapt: the runs of
    `berth pilot dl` on the new platform (.jsonl) and the models that it measured (.onnx).
    """
    registry.train(
        Asked(
            task=task, profiles=profiles, reference=reference, seed=seed, folder=folder, out=out,
            figures=figures, adapt=adapt, platform=platform,
        )
    )  # fmt: skip
