"""Run one tune, from its options to its result and the recommended site file."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from berth.pilot.documents import write_text
from berth.pilot.errors import UsageError
from berth.plugin.scheduler import Scheduler
from berth.plugin.site import Site, load_site
from berth.plugin.site.edit import KeyChange, with_settings
from berth.plugin.tune.folder import (
    DIFFERENCE,
    ORDER_FILE,
    TUNED,
    TuneOrder,
    content_of,
    read_order,
    write_order,
)
from berth.plugin.tune.replaying import open_replayer
from berth.plugin.tune.workers import LocalWorkers, follow, is_gone, own_name, submit
from berth.policies.settings import PolicySettings
from berth.policies.tuning.figures import METRICS, TracePart
from berth.policies.tuning.judgement import Judgement, judge
from berth.policies.tuning.parameters import PARAMETERS, Values, chosen, values_of
from berth.policies.tuning.storage import (
    Patience,
    Progress,
    StorageUnusable,
    progress_of,
    settle_running,
    storage_answers,
)
from berth.policies.tuning.study import Tuned, Tuning
from berth.policies.tuning.trace_replayer import TraceReplayer

if TYPE_CHECKING:
    import optuna

_DIGITS = 3
"""Number of significant digits of tuned values in files; a tune is not more accurate."""


def rounded(values: Values) -> dict[str, float | str]:
    """Return the values, numbers rounded to the digits with which they are written."""
    return {
        name: value if isinstance(value, str) else float(f"{value:.{_DIGITS}g}")
        for name, value in values.items()
    }


def tuned_text(text: str, values: Values, today: PolicySettings, path: Path) -> str:
    """Return the site file's text with these values, and no other change.

    Raises UsageError, with what to write by hand, where the file's layout is too unusual to edit.
    """
    settings = []
    for name, value in values.items():
        table, _, key = f"policy.{name}".rpartition(".")
        settings.append(KeyChange(table, key, value, _comment(name, today)))
    return with_settings(text, settings, path)


def unified(old: str, new: str, name: str) -> str:
    """Return the unified diff of two texts, as ``patch`` takes it; empty where they are equal."""
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))


def _comment(name: str, today: PolicySettings) -> str:
    was = values_of(today, PARAMETERS.values()).get(name)
    before = "" if was is None else f"was {json.dumps(was)}; "
    return f"tuned: {before}{PARAMETERS[name].why}"


@dataclass(frozen=True)
class Result:
    """The result of tuning a site's policy settings: the best settings and what they gain."""

    order: TuneOrder
    tuned: Tuned
    judgement: Judgement
    difference: str
    """The diff of the site file; empty: no change is recommended."""
    notes: tuple[str, ...] = ()
    """Notes of the replay, as in ``TraceReplayer``."""


def join(folder: Path) -> None:
    """Run trials of the folder's tune until all are done.

    Raises UsageError where the site file or the jobs have changed since the tune began.
    """
    order = read_order(folder)
    site = load_site(Path(order.site))
    files = [order.site, order.trace, *filter(None, [order.options.get("times")])]
    if content_of(*map(Path, files)) != order.content:
        raise UsageError(
            f"the site file or the jobs of {folder} have changed since the tune began",
            hint="start another one in another --folder",
        )
    tuning = tuning_of(order, site, open_replayer(site, Path(order.trace), order.options))
    tuning.work(
        _opened(tuning, order.storage),
        order.trials,
        seed=order.seed + os.getpid(),
        worker=own_name(),
    )


def _opened(tuning: Tuning, storage: str) -> optuna.Study:
    """Return the study, which the tune's first process has created; wait while it is
    unavailable."""
    waiting = Patience()
    while True:
        try:
            return tuning.study(storage)
        except StorageUnusable as error:
            waiting.wait(error)


def tune(
    folder: Path,
    order: TuneOrder,
    site: Site,
    *,
    show: Callable[[Progress], None],
    workers: int = 1,
    scheduler: Scheduler | None = None,
    queue: str = "",
    time_limit_s: float = 14_400.0,
    account: str | None = None,
    qos: str | None = None,
) -> Result:
    """Run the trials, compare the best one, and write the recommended site file."""
    _check_same(folder, order)
    write_order(folder, order)
    nodes = open_replayer(site, Path(order.trace), order.options)
    tuning = tuning_of(order, site, nodes)
    study = tuning.study(order.storage)
    stopped: tuple[str, ...] = ()
    if progress_of(study).finished >= order.trials:
        show(progress_of(study))
    elif scheduler is not None:
        jobs = submit(
            folder, scheduler, queue, workers, time_limit_s=time_limit_s, account=account, qos=qos
        )
        follow(jobs, lambda: progress_of(study), order.trials, folder=folder, show=show)
    elif workers > 1:
        if tuning.first is not None and not progress_of(study).finished:
            tuning.replayer.replay(tuning.today, tuning.first)  # compiles once, for all of them
        with LocalWorkers(folder, workers) as processes:
            follow(processes, lambda: progress_of(study), order.trials, folder=folder, show=show)
            stopped = processes.names()
    else:
        tuning.work(study, order.trials, seed=order.seed, show=show, worker=own_name())
    tuned = storage_answers(lambda: _settled(tuning, study, stopped))
    test = TracePart(order.train_s, tuning.replayer.span_s + 1.0)
    judgement = judge(
        tuned,
        nodes,
        tuning.today,
        tuning.metrics,
        train=tuning.train,
        test=test,
    )
    difference = _write_site(folder, site, judgement)
    notes = tuple(tuning.replayer.notes)
    return Result(order, tuned, judgement, difference, notes)


def _settled(tuning: Tuning, study: optuna.Study, stopped: Collection[str]) -> Tuned:
    """Return the result once every trial has ended; today's policy is always replayed."""
    settle_running(study, stopped, is_gone)
    tuning.replay_today(study)
    return tuning.found(study)


def tuning_of(order: TuneOrder, site: Site, nodes: TraceReplayer) -> Tuning:
    """Return the search that the tune's settings describe; ``nodes``: replays single nodes."""
    replayer = nodes.in_pools()
    return Tuning(
        replayer=replayer,
        today=site.policy,
        parameters=chosen(order.parameters),
        metrics=tuple(METRICS[name] for name in order.metrics),
        train=TracePart(0.0, order.train_s),
        first=TracePart(0.0, order.first_s) if order.first_s else None,
        identity=order.identity,
    )


def _check_same(folder: Path, order: TuneOrder) -> None:
    """Check that the folder's tune, if any, is this one. Raises UsageError where it is another."""
    if (folder / ORDER_FILE).exists() and read_order(folder).identity != order.identity:
        raise UsageError(
            f"{folder} holds a tune of other jobs, another site or other options",
            hint="give another --folder, or remove that one",
        )


def _write_site(folder: Path, site: Site, judgement: Judgement) -> str:
    """Write the recommended site file and its diff; return the diff, empty where nothing changes,
    or what to write by hand where the file cannot be changed safely."""
    for name in (TUNED, DIFFERENCE):
        (folder / name).unlink(missing_ok=True)
    if not judgement.shown or judgement.recommended is None:
        return ""
    source = Path(site.source)
    old = source.read_text(encoding="utf-8")
    values = rounded(judgement.recommended.values)
    if not values:
        return ""
    try:
        new = tuned_text(old, values, site.policy, source)
    except UsageError as error:  # the report of a long tune is written all the same
        return f"{error.message}: {error.hint}\n"
    difference = unified(old, new, source.name)
    write_text(folder / TUNED, new)
    write_text(folder / DIFFERENCE, difference)
    return difference
