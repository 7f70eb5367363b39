"""Profiles of one program on several numbers of nodes: read, and put together to one workload."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from berth.pilot.documents import read_json
from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.predictor.core.workload import Workload, workload_of


def with_nodes(
    workload: Workload, others: Sequence[Path], *, all_of_them: bool = False
) -> tuple[Workload, tuple[Path, ...]]:
    """The workload with the runs of ``others`` on other numbers of nodes, and those left over.

    Left over are profiles of other platforms, unless ``all_of_them`` must be runs of the same
    one. Raises UsageError for runs that do not belong together, DocumentError.
    """
    measured = workload.document
    if not others:
        return workload, ()
    if not isinstance(measured, Profile):
        if not all_of_them:
            return workload, tuple(others)
        raise UsageError(
            f"{others[0]}: several files are the profiles of one program on several numbers of "
            f"nodes, and {workload.name!r} is no profile"
        )
    found = {path: read_json(path, Profile) for path in others}
    same = [p for p in found.values() if all_of_them or _on_other_nodes(measured, p)]
    if not same:
        return workload, tuple(others)
    from berth.predictor.families.program.node_runs import together  # noqa: PLC0415 - loads numpy

    made = workload_of(together([measured, *same]).model_copy(update={"name": measured.name}))
    left = tuple(path for path, profile in found.items() if profile not in same)
    return dataclasses.replace(made, name=workload.name), left


def _on_other_nodes(measured: Profile, other: Profile) -> bool:
    nodes = (measured.runs_on.nodes or 1, other.runs_on.nodes or 1)
    return other.platform == measured.platform and nodes[0] != nodes[1]
