"""The tree of commands: twelve at the top, each with its module and a one-line summary.

This module imports no command, and not click: ``berth --help`` is written from the tree alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

CLI = "berth.plugin.cli"


class Leaf(NamedTuple):
    """A command: where it is defined, and its one-line summary."""

    target: str
    """``module:attribute`` of the click command, or of a small click group."""
    summary: str
    below: Mapping[str, Leaf] = {}
    """Subcommands of a command that can also run by itself, such as ``berth place replace``."""
    for_jobs: bool = False
    """Whether the command is for the scripts of jobs that Berth submits, not for people."""


class Branch(NamedTuple):
    """A group of commands: a one-line summary, an example, and its commands."""

    summary: str
    example: str
    commands: Mapping[str, Leaf]
    has_more: bool = False
    """Whether other packages and schedulers can add commands to the group."""


PILOT = Branch(
    "Measure a program, a model, a machine, or a suite of kernels.",
    "berth pilot run -- ./app args",
    {
        "run": Leaf(f"{CLI}.pilot.run:run", "Measure one program and write its Profile."),
        "submit": Leaf(
            f"{CLI}.pilot.submit:submit", "Measure it in a job on the reference partition."
        ),
        "import": Leaf(
            f"{CLI}.pilot.importing:import_", "Make Profiles from the files of other tools."
        ),
        "bench": Leaf(f"{CLI}.pilot.bench:bench", "Benchmark this machine: its Signature."),
        "dl": Leaf(f"{CLI}.pilot.dl:dl", "Measure deep-learning models: latency, memory, energy."),
        "usage": Leaf(
            f"{CLI}.pilot.usage:usage", "Record what a job used when it ends; print the script."
        ),
        "ranks": Leaf(
            f"{CLI}.pilot.steps:ranks", "Put what every rank left into a Profile.", for_jobs=True
        ),
        "deliver": Leaf(
            f"{CLI}.pilot.deliver:deliver", "Bring a pilot job's Profile home.", for_jobs=True
        ),
        "node": Leaf(
            f"{CLI}.pilot.steps:node", "Benchmark a node and time the kernels.", for_jobs=True
        ),
        "link": Leaf(f"{CLI}.pilot.steps:link", "Measure what connects two nodes.", for_jobs=True),
    },
)

WORKLOAD = Branch(
    "Add workloads to the store, list, show and remove them.",
    "berth workload add stream.json --script job.sh",
    {
        "add": Leaf(f"{CLI}.workload.command:add", "Add a workload to the store."),
        "list": Leaf(f"{CLI}.workload.command:list_", "List the workloads in the store."),
        "show": Leaf(f"{CLI}.workload.command:show", "Show what is predicted of a workload."),
        "remove": Leaf(f"{CLI}.workload.command:remove", "Remove workloads from the store."),
        "refresh": Leaf(f"{CLI}.workload.command:refresh_", "Predict stored workloads anew."),
        "share": Leaf(f"{CLI}.workload.sharing:share", "Let a workload serve all users."),
        "collect": Leaf(
            f"{CLI}.workload.sharing:collect", "Add what pilot jobs left for the store."
        ),
        "model": Leaf(
            f"{CLI}.workload.model:model", "Show a deep-learning model's graph and its work."
        ),
    },
)

JOBS = Branch(
    "Show what was decided for jobs, how it held, what jobs teach.",
    "berth jobs decisions --user alice --last 5",
    {
        "decisions": Leaf(
            f"{CLI}.jobs.decisions:decisions", "Show what was decided for jobs, and explain why."
        ),
        "outcomes": Leaf(
            f"{CLI}.jobs.outcomes:outcomes",
            "Show how well predicted times held for jobs that have run.",
        ),
        "gain": Leaf(f"{CLI}.jobs.gain:gain", "Show what placements saved or cost in run time."),
        "waits": Leaf(
            f"{CLI}.jobs.waits:waits", "Show how long a job that comes now would wait, by place."
        ),
        "advise": Leaf(
            f"{CLI}.jobs.advise:advise_command",
            "Show what jobs needed of the time and memory that they asked for.",
        ),
        "history": Leaf(
            f"{CLI}.jobs.history:history",
            "Import past jobs, so that jobs nobody piloted are predicted.",
        ),
        "usage": Leaf(
            f"{CLI}.jobs.usage:usage", "Import and show what monitoring recorded of jobs."
        ),
        "learn": Leaf(f"{CLI}.jobs.learn:learn", "Let finished jobs change forecasts, or undo it."),
    },
)

MIG = Branch(
    "Cut GPUs into slices (NVIDIA MIG) that fit coming jobs.",
    "berth mig plan --fleet fleet.json --jobs jobs.json --output plan.json",
    {
        "show": Leaf(
            f"{CLI}.mig.show:show", "Geometry of a GPU model; layouts and free room of a fleet."
        ),
        "recommend": Leaf(
            f"{CLI}.mig.recommend:recommend",
            "Name the slice for a workload, and what it would do on each.",
        ),
        "plan": Leaf(f"{CLI}.mig.plan:plan", "Plan layouts for the jobs that are coming."),
        "apply": Leaf(
            f"{CLI}.mig.apply:apply", "Cut this machine's GPUs as a plan or a mig-parted file says."
        ),
        "assert": Leaf(
            f"{CLI}.mig.apply:assert_", "Check that this machine's GPUs are cut as a file says."
        ),
        "auto": Leaf(
            f"{CLI}.mig.auto:auto", "Plan for the jobs that wait and re-cut where that is worth it."
        ),
        "export": Leaf(f"{CLI}.mig.export:export", "Write a plan or a fleet as mig-parted's YAML."),
    },
)

SITE = Branch(
    "Set Berth up for a cluster, check it, and keep it in order.",
    "berth site init --output /etc/berth/berth.toml",
    {
        "init": Leaf(f"{CLI}.site.init:init", "Write a first site file by asking the scheduler."),
        "calibrate": Leaf(
            f"{CLI}.site.calibrate:calibrate",
            "Measure the site's kinds of nodes by jobs, and learn from it.",
        ),
        "doctor": Leaf(f"{CLI}.site.doctor:doctor", "Check this installation and say what to do."),
        "metrics": Leaf(f"{CLI}.site.metrics:metrics", "Serve Prometheus metrics, or print them."),
        "platform": Leaf(f"{CLI}.site.platform:platform", "List, show and add kinds of hardware."),
        "store": Leaf(f"{CLI}.site.store:store", "Make, upgrade and prune the store."),
        "support": Leaf(
            f"{CLI}.site.doctor:support_bundle", "Collect what a maintainer needs, without names."
        ),
    },
    has_more=True,
)

COMMANDS: dict[str, Leaf | Branch] = {
    "pilot": PILOT,
    "workload": WORKLOAD,
    "predict": Leaf(f"{CLI}.predict.command:predict", "Rank platforms for a workload."),
    "place": Leaf(
        f"{CLI}.place.command:place",
        "Decide where a workload should run.",
        {
            "replace": Leaf(
                f"{CLI}.place.replace:replace",
                "Place pending jobs anew, where the scheduler can move them.",
            )
        },
    ),
    "why": Leaf(f"{CLI}.why:why", "Explain where a job is, what it waits for, what was predicted."),
    "jobs": JOBS,
    "replay": Leaf(
        f"{CLI}.replay.command:replay_command",
        "Run past jobs again on another cluster, policy or scheduler.",
        {
            "tune": Leaf(
                f"{CLI}.replay.tune:tune",
                "Try settings of the policy on past jobs, judge them on later ones.",
            )
        },
    ),
    "train": Leaf(
        f"{CLI}.train.command:train",
        "Learn from the site's own runs.",
        {"bundle": Leaf(f"{CLI}.train.bundle:bundle", "Show and verify trained predictors.")},
    ),
    "mig": MIG,
    "site": SITE,
    "serve": Leaf(f"{CLI}.serve:serve", "Answer the scheduler's submit filter (the daemon)."),
    "ui": Leaf(
        f"{CLI}.ui.command:ui",
        "Show predictions, placements, jobs and the site in a browser.",
        {
            "report": Leaf(
                f"{CLI}.ui.report:report",
                "Write a job, a workload, the site or the GPUs as one HTML file.",
            )
        },
    ),
}

_HELP = """\
Usage: berth [OPTIONS] COMMAND [ARGS]...

  Example:
    berth pilot run -- ./app args    # measure a program once
    berth place app.json -- job.sh   # where it should run, and the line that submits it

  Put each job where it runs best.

Options:
  --version   Show the version and exit.
  --csv       Print a command's tables as CSV, and nothing else.
  -h, --help  Show this message and exit.

Commands:
"""


def help_text() -> str:
    """Return the text that ``berth --help`` prints."""
    width = max(map(len, COMMANDS))
    return _HELP + "\n".join(
        f"  {name:<{width}}  {node.summary}" for name, node in COMMANDS.items()
    )
