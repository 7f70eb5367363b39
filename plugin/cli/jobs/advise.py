"""``berth jobs advise``: compares the memory that jobs needed with the memory they requested."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import click

from berth.pilot.errors import DocumentError
from berth.plugin.cli.options import PATH, answer, json_option, store_options
from berth.plugin.fingerprint import fingerprint
from berth.plugin.history.advice import LEAST_RUNS, advise
from berth.plugin.history.decided_jobs import with_usage
from berth.plugin.history.matching import known_name, plain_name
from berth.plugin.installed_site import Installation
from berth.plugin.mig.recommending import predictions_for
from berth.plugin.right_sizing.slices import advise_slice


@click.command(name="advise")
@click.argument("name", required=False)
@click.option("--user", help="Advise on jobs of this user only.")
@click.option("--script", type=PATH, help="Advise on jobs of this batch script only.")
@json_option
@store_options
def advise_command(
    name: str | None,
    *,
    user: str | None,
    script: Path | None,
    json_: bool,
    installation: Installation,
) -> None:
    """Say of each kind of job what it asked for and what it needed: of all, or of jobs NAME.

    From the past jobs that `berth jobs history import` stored; digits in names stand as #. Of jobs
    on one GPU whose use is recorded it names the MIG slice to try. It changes nothing.

    \b
    Example:
      berth jobs advise --user alice
      berth jobs advise align.sh
    """
    store = installation.reading()
    jobs = every = with_usage(store, list(store.past_jobs.of_users(user)))
    if name is not None:
        wanted = {plain_name(name), name}
        jobs = [job for job in jobs if known_name(job.name, job.program) in wanted]
    if script is not None:
        digest, called = _fingerprint(script), plain_name(script.name)
        jobs = [job for job in jobs if job.script == digest or plain_name(job.name) == called]
    advice = advise(jobs)
    lines, written = [], []
    predictions = cache(lambda: predictions_for(installation.site()))
    for kind in advice:
        use_gpus = kind.jobs[-1].gpus == 1
        of_slice = use_gpus and advise_slice(store, installation.site(), predictions(), kind.jobs)
        sentence = kind.sentence() + (f"; {of_slice.sentence()}" if of_slice else "")
        lines.append(f"{kind.user} {kind.name}: {sentence}")
        fields = {key: value for key, value in dataclasses.asdict(kind).items() if key != "jobs"}
        on_slice = dataclasses.asdict(of_slice) if of_slice else None
        written.append({**fields, "slice": on_slice, "sentence": sentence})
    answer(
        "\n".join(lines) or _nothing(name, [known_name(job.name, job.program) for job in every]),
        written,
        json_=json_,
    )


def _nothing(name: str | None, names: Sequence[str]) -> str:
    known = sorted({*names} - {""})
    near = get_close_matches(plain_name(name), known, n=3, cutoff=0.5) if name else []
    if near:
        return f"no {LEAST_RUNS} past jobs are called {name}; there are: {', '.join(near)}"
    return f"no past jobs with at least {LEAST_RUNS} runs: berth jobs history import --help"


def _fingerprint(script: Path) -> str:
    try:
        return fingerprint(script.read_bytes().decode("utf-8", "replace"))
    except OSError as error:
        raise DocumentError(script, f"cannot be read: {error.strerror}") from None
