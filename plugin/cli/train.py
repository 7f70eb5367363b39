"""``berth train``: a bundle from kernel profiles and published times."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli import graph_language, graph_networks, latency_model, model_transfer
from berth.plugin.cli.adapt_bundle import adapt_bundle
from berth.plugin.cli.llm_model import train_llm
from berth.plugin.cli.mig_slices_model import train_slices
from berth.plugin.cli.operators_model import train_operators
from berth.plugin.cli.relative_input import site_input
from berth.plugin.cli.relative_model import train_relative
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.steps_model import train_steps
from berth.plugin.cli.training_input import (
    bundle_folder,
    read_examples,
    read_figures,
    require_training,
)
from berth.predictor import platforms as known


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
    type=click.Choice(
        [
            "kernels",
            "mig-slices",
            "llm",
            "operators",
            "dl-training",
            "relative",
            graph_language.TASK,
            graph_networks.TASK,
            "dl",
            model_transfer.TASK,
        ]
    ),
    default="kernels",
    show_default=True,
    help="mig-slices: the predictor of slow-downs on MIG slices; llm: of language models; "
    "operators: of single operators on GPUs; dl: latency of model graphs; "
    "dl-training: of training steps of model graphs; "
    "relative: of many platforms from the counters of one run; graph-language: GNN + language "
    "model, with one configuration file in place of PROFILES; dl-few-shot: what --task dl --adapt "
    "starts from.",
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
    if task == graph_language.TASK:
        graph_language.train_graph_language(graph_language.one_config(profiles, out))
        return
    out = bundle_folder(out)
    if reference is not None and (task != "relative" or not profiles):
        raise UsageError("--reference is for --task relative with PROFILES")
    if (adapt is None) != (platform is None):
        raise UsageError("--adapt BUNDLE and --platform NEW go together")
    if adapt is not None and platform is not None:
        if task == "dl":
            model_transfer.adapt_model(adapt, platform, profiles, out, folder=folder)
            return
        if task != "kernels":
            raise UsageError(f"--adapt is for --task kernels and dl, not for --task {task}")
        adapt_bundle(adapt, platform, profiles, out, seed=seed, folder=folder)
        return
    if len(profiles) > 1 and task != "relative":
        raise UsageError(f"one file of profiles is trained on, not {len(profiles)}")
    own_data = {
        "mig-slices": train_slices, "llm": train_llm, "operators": train_operators,
        "dl-training": train_steps, graph_networks.TASK: graph_networks.train_graph_networks,
    }  # fmt: skip
    own_data[model_transfer.TASK] = model_transfer.train_transfer
    own_data[latency_model.TASK] = latency_model.train_latency
    if task in own_data:
        if profiles:
            raise UsageError(f"--task {task} takes no PROFILES; it has its own data sets")
        own_data[task](out, seed, figures)
        return
    if task == "relative":
        if figures is not None:
            raise UsageError("--task relative computes its own figures; leave out --figures")
        train_relative(out, seed, site_input(profiles, reference, folder))
        return
    require_training("training")
    from berth.predictor.datasets.rajaperf import LABELS  # noqa: PLC0415 - needs the extra
    from berth.predictor.training.kernels.train import train as run  # noqa: PLC0415

    examples = read_examples(profiles[0] if profiles else None)
    shown = {} if figures is None else read_figures(figures)
    with step_bar("training", len(LABELS) + 1) as advance:
        manifest = run(
            examples,
            known.load(folder),
            out,
            seed=seed,
            command=" ".join(["berth", *sys.argv[1:]]),
            figures=shown,
            advance=advance,
        )
    click.echo(f"{manifest.id}: {manifest.training.rows} profiles, written to {out}")
