"""``berth evaluate``: how good predictions are on kernels that nothing was fitted on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli import (
    graph_language,
    graph_networks,
    latency_model,
    model_transfer,
    steps_model,
)
from berth.plugin.cli.columns import columns
from berth.plugin.cli.few_shot_model import evaluate_few_shot
from berth.plugin.cli.graph_totals import evaluate_graph_totals
from berth.plugin.cli.llm_model import evaluate_llm
from berth.plugin.cli.memory_model import evaluate_memory
from berth.plugin.cli.mig_slices_model import evaluate_slices
from berth.plugin.cli.mini_apps import evaluate_mini_apps
from berth.plugin.cli.operators_model import evaluate_operators
from berth.plugin.cli.relative_input import site_input
from berth.plugin.cli.relative_model import evaluate_relative
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import read_examples, require_training
from berth.plugin.cli.trust_model import evaluate_trust
from berth.plugin.cli.vae_model import evaluate_vae
from berth.plugin.cli.xamm_model import evaluate_xamm
from berth.predictor import platforms as known


@click.command(epilog="Example: berth evaluate --report report/")
@click.argument("profiles", required=False, type=click.Path(path_type=Path))
@click.option(
    "--task",
    type=click.Choice(
        [
            "kernels",
            "mig-slices",
            "relative",
            "xamm",
            "vae",
            "mini-apps",
            "graphs-totals",
            "trust",
            "few-shot",
            "llm",
            "memory",
            latency_model.TASK,
            "operators",
            graph_language.TASK,
            graph_networks.TASK,
            model_transfer.TASK,
            steps_model.TASK,
        ]
    ),
    default="kernels",
    show_default=True,
    help="mig-slices: slow-downs on MIG slices; relative: families on 15 OpenCL devices; "
    "xamm: its ablations there (long); vae: VAE + DNN; mini-apps: on platforms never trained on; "
    "graphs-totals: parameters and MACs of model graphs; llm: language models (long); "
    "operators: single operators on GPUs never seen, and whole models as their sum; "
    "memory: peak memory of model graphs; dl: latency of models on known platforms; "
    "graph-networks: DIPPM's networks beside trees (20 min); "
    "dl-few-shot: latency of models on a new platform by samples (15 min); "
    "dl-training: training steps of models, TraPPM and its rivals (15 min).",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="For --task relative, xamm and vae: how many seeds, from --seed up.",
)
@click.option(
    "--family",
    "groups",
    multiple=True,
    help="For --task relative, trust, few-shot, dl: only these.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default="all cores"
)
@click.option("--report", type=click.Path(path_type=Path), help="Folder for report.md and JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--platforms", "folder", type=click.Path(path_type=Path), help="A site's own platform files."
)
@click.option("--reference", help="With --task relative and PROFILES: where programs are piloted.")
def evaluate(
    *,
    profiles: Path | None,
    task: str,
    seed: int,
    seeds: int,
    groups: tuple[str, ...],
    jobs: int,
    report: Path | None,
    as_json: bool,
    folder: Path | None,
    reference: str | None,
) -> None:
    """Nested leave-one-kernel-out over PROFILES (default: the committed kernel profiles).

    With --task relative, PROFILES are a site's own, of the same workloads on several platforms
    (a folder, JSON or JSON lines, and CSV of times).
    """
    if reference is not None and (task != "relative" or profiles is None):
        raise UsageError("--reference is for --task relative with PROFILES")
    if task == graph_language.TASK:
        file = graph_language.one_config(profiles)
        graph_language.evaluate_graph_language(file, report, as_json=as_json)
        return
    if task not in ("kernels", "relative") and profiles is not None:
        raise UsageError(f"--task {task} takes no PROFILES; it has its own data sets")
    others: dict[str, Callable[[], None]] = {
        "graphs-totals": lambda: evaluate_graph_totals(report, as_json),
        "mig-slices": lambda: evaluate_slices(seed, report, as_json),
        "memory": lambda: evaluate_memory(report, as_json),
        latency_model.TASK: lambda: latency_model.evaluate_latency(
            seed, groups, report, as_json=as_json
        ),
        graph_networks.TASK: lambda: graph_networks.evaluate_graph_networks(
            seed, report, as_json=as_json
        ),
        steps_model.TASK: lambda: steps_model.evaluate_steps(seed, report, as_json=as_json),
        "llm": lambda: evaluate_llm(seed, report, as_json=as_json),
        "operators": lambda: evaluate_operators(seed, report, as_json=as_json),
        model_transfer.TASK: lambda: model_transfer.evaluate_transfer(
            seed, report, as_json=as_json
        ),
        "trust": lambda: evaluate_trust(seed, groups, report, as_json),
        "few-shot": lambda: evaluate_few_shot(seed, groups, report, as_json),
        "relative": lambda: evaluate_relative(
            range(seed, seed + seeds),
            groups,
            report,
            as_json,
            site_input(() if profiles is None else (profiles,), reference, folder),
        ),
        "vae": lambda: evaluate_vae(range(seed, seed + seeds), report, as_json),
        "mini-apps": lambda: evaluate_mini_apps(report, as_json),
        "xamm": lambda: evaluate_xamm(range(seed, seed + seeds), report, as_json),
    }
    if task in others:
        others[task]()
        return
    require_training("evaluation")
    from berth.predictor.evaluation.kernels import run  # noqa: PLC0415 - needs the extra
    from berth.predictor.evaluation.kernels.explained_kernels import draw_kernels  # noqa: PLC0415
    from berth.predictor.evaluation.kernels.report import (  # noqa: PLC0415
        HEADER,
        by_task,
        table,
        write_report,
    )
    from berth.predictor.predictor import Predictor  # noqa: PLC0415

    examples, platforms = read_examples(profiles), known.load(folder)
    with step_bar("evaluating", run.steps(examples, platforms)) as advance:
        found = run.evaluate(examples, platforms, seed=seed, jobs=jobs, advance=advance)
    if report is not None:
        write_report(found, report)
        draw_kernels(examples, platforms, Predictor.load(None), report)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=1))
        return
    click.echo(f"Split: {found.split}.")
    click.echo(f"Rows: {found.rows} of {found.kernels} kernels. Labels: {found.source}.")
    for name, rows in found.labels.items():
        click.echo(f"  {name}: {rows}")
    for name, results in by_task(found).items():
        click.echo(f"\n{name}")
        click.echo(columns(HEADER, table(results)))
    if found.ranking is not None:
        click.echo(
            f"\nranking of our machine, one Quartz core and one V100: Kendall tau "
            f"{found.ranking.kendall_tau:.3f}, regret {found.ranking.regret:.3f} (worst "
            f"{found.ranking.worst_regret:.2f}), best one chosen {found.ranking.right:.1%}"
        )
