"""Doctor's checks of the site file's settings: values that are valid each, and useless together.

Nothing here asks the scheduler or the daemon: only the site file, this host's users and its disks
are looked at.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path

from berth.plugin.findings import Findings, fail, warn
from berth.plugin.site.site import Site
from berth.plugin.store.database import Database
from berth.policies.codes import Code
from berth.policies.objectives import OBJECTIVES
from berth.policies.settings import Control
from berth.policies.values import Candidate, Mode

LONGEST_SOCKET = 107
"""Bytes of a Unix socket's path that fit into the kernel's address, without its final NUL."""
MOST_GPUS = 16
"""GPUs of a node above which doctor asks whether the number is right."""
SHORTEST_INTERVAL = 1.2
"""Widest interval, upper over lower end, below which hardly any prediction passes."""
LEAST_DEADLINE_MS = 5.0
"""Deadline of the submit filter below which a busy host answers too late."""
_OF_EVERYBODY = stat.S_IWOTH
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - looked for, not used  # nosec B108
_FEWEST_INODES = 1000
_SHOWN = 5
_LACKS = {
    Code.NO_PRICE: ("a price", "price_per_core_hour or price_per_gpu_hour"),
    Code.NO_ENERGY: ("its power", "power_w of the platform, or power_per_core_w"),
}


def check_settings(site: Site) -> Findings:
    """Report settings by which every job, or every job of a place, is left alone."""
    yield from _objective(site)
    yield from _limits(site)
    for candidate in site.candidates:
        yield from _shape(candidate)
        if candidate.is_gpu and candidate.gres is None:
            yield fail(
                "candidate",
                f"{candidate.name}: {candidate.platform} is a GPU, and jobs sent there get none",
                'gres = "gpu:TYPE" of the candidate, or a platform that is a CPU',
            )
    yield from _coverage(site)
    yield from _unknown_users(site)
    names = {candidate.platform for candidate in site.candidates}
    reference = site.reference_platform
    if reference is not None and site.candidates and reference not in names:
        yield warn(
            "site file",
            f"no candidate is on the reference platform {reference}: pilots have no place to run",
            "name a platform of a candidate: site.reference_platform",
        )
    if site.reference_queue is not None and site.reference_queue == site.auto_queue:
        yield warn(
            "site file",
            f"pilots would run in {site.auto_queue}, where Berth chooses their place",
            "name a partition of the reference platform: site.reference_partition",
        )


def _objective(site: Site) -> Findings:
    """Report an objective whose numbers the site file lacks."""
    objective = OBJECTIVES.load(site.policy.objective)
    code = objective.missing[0]
    if code not in _LACKS or not site.candidates:
        return
    if "cost" in objective.weights and not site.policy.weights.cost:
        return
    what, keys = _LACKS[code]
    without = [candidate.name for candidate in site.candidates if not _has(code, candidate)]
    if len(without) == len(site.candidates):
        yield fail(
            "policy",
            f"objective {site.policy.objective}, and no candidate has {what}: every job is left "
            f"alone ({code})",
            f'{keys}; or objective = "fastest"',
        )
    elif without:
        yield warn(
            "policy",
            f"objective {site.policy.objective}: no job goes to {_some(without)}, without {what}",
            keys,
        )


def _has(code: Code, candidate: Candidate) -> bool:
    prices = (
        candidate.price_per_core_hour,
        candidate.price_per_gpu_hour,
    )
    powers = (candidate.power_per_gpu_w, candidate.power_per_core_w)
    if code == Code.NO_PRICE:
        return any(price is not None for price in prices)
    return any(watts is not None for watts in powers)


def _limits(site: Site) -> Findings:
    """Report limits and periods that leave no job, or delay all."""
    policy, daemon = site.policy, site.daemon
    if policy.max_interval_ratio < SHORTEST_INTERVAL:
        yield warn(
            "policy",
            f"max_interval_ratio = {policy.max_interval_ratio:g}: no prediction is so exact, so "
            "every job is left alone (interval-too-wide)",
            "leave it out (30), or set 4 or more",
        )
    if policy.stale_after_s <= daemon.state_refresh_s:
        yield fail(
            "policy",
            f"the cluster's state is stale after {policy.stale_after_s:g} s and read every "
            f"{daemon.state_refresh_s:g} s: jobs are left alone between readings (stale-state)",
            "stale_after_s of three times daemon.state_refresh_s or more",
        )
    if daemon.deadline_ms < LEAST_DEADLINE_MS:
        yield warn(
            "daemon",
            f"deadline_ms = {daemon.deadline_ms:g}: the filter gives up before most answers",
            "leave it out (50)",
        )
    if site.learning.enabled and not daemon.outcomes_refresh_s:
        yield warn(
            "learning",
            "[learning] is on, and outcomes_refresh_s = 0: the ends of jobs are never read",
            "leave daemon.outcomes_refresh_s out, or [learning] enabled = false",
        )
    if policy.control is not Control.NONE and site.mode is not Mode.ENFORCE:
        yield warn(
            "policy",
            f'control = "{policy.control}" leaves jobs alone to compare with, and mode '
            f"{site.mode.value} moves none",
            'control = "none" until mode = "enforce"',
        )
    if policy.control is Control.LIST and site.policy.fit.mode is not Mode.ENFORCE:
        yield warn(
            "policy",
            'control = "list" needs mode = "enforce" of [fit]: control jobs are left as written',
            'control = "written"',
        )


def _shape(candidate: Candidate) -> Findings:
    """Report numbers of a candidate that no node has."""
    cores, gpus = candidate.cores_per_node, candidate.gpus_per_node
    correct = "correct the site file (berth site init shows what the scheduler has)"
    if gpus > max(cores, 1) or (gpus > MOST_GPUS and candidate.slice_of is None):
        yield warn(
            "candidate",
            f"{candidate.name}: {gpus} GPUs beside {cores} cores on a node",
            f"gpus_per_node is the number of one node; {correct}",
        )
    memory = candidate.memory_bytes_per_node
    if memory is not None and memory < 2**30:
        yield warn(
            "candidate",
            f"{candidate.name}: {memory / 2**20:.0f} MiB of memory on a node",
            f'write memory_per_node with its unit ("256G"); {correct}',
        )
    most = candidate.translation.max_cores
    if most is not None and most < 1:
        yield warn("candidate", f"{candidate.name}: max_cores is {most}", correct)
    if candidate.allowed_users is not None and not candidate.allowed_users:
        yield warn("candidate", f"{candidate.name}: allowed_users is empty: nobody", correct)


def _coverage(site: Site) -> Findings:
    """Report filters of `[coverage]` that let no job through."""
    cover = site.coverage
    for word, names in (("users", cover.users), ("accounts", cover.accounts)):
        both = sorted({*names.include} & {*names.exclude})
        if both:
            yield warn(
                "coverage",
                f"{word}: {_some(both)} are included and excluded: excluded counts",
                f"take them out of coverage.{word}.exclude or .include",
            )
    queues = {candidate.queue for candidate in site.candidates}
    known = queues | {site.auto_queue}
    strange = sorted({*cover.partitions.include, *cover.partitions.exclude} - known)
    if strange:
        yield warn(
            "coverage",
            f"partitions: {_some(strange)} are no partition of the site file",
            f"there are: {', '.join(sorted(filter(None, known)))}",
        )
    if site.auto_queue is None and not cover.unnamed_partition:
        yield fail(
            "coverage",
            "there is no auto partition, and jobs that name no partition are not covered: no job "
            "is ever placed",
            "name site.auto_partition, or coverage.unnamed_partition = true",
        )


def _unknown_users(site: Site) -> Findings:
    """Report users of the site file that this host does not know."""
    named = {
        "daemon.admins": set(site.daemon.admins),
        "coverage.users": {*site.coverage.users.include, *site.coverage.users.exclude},
        "right_sizing.users": set(site.right_sizing.users),
        "slices_from_use.users": set(site.slices_from_use.users),
        "candidates: allowed_users": {
            user for each in site.candidates for user in each.allowed_users or ()
        },
    }
    for key, users in named.items():
        unknown = sorted(user for user in users if not _is_known(user))
        if unknown:
            yield warn(
                "users",
                f"{key}: this host knows no user {_some(unknown)}",
                "correct the name; groups and accounts are no users here",
            )


def _is_known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):
        return False
    return True


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


def check_paths(site: Site) -> Findings:
    """Check the paths that the site file names: length, kind, and who may write there."""
    daemon = site.daemon
    sockets = {"daemon.socket": daemon.socket, "daemon.user_socket": daemon.user_socket}
    for key, path in sockets.items():
        size = len(os.fsencode(str(path)))
        if size > LONGEST_SOCKET:
            yield fail(
                "socket",
                f"{key} is {size} bytes long, and a Unix socket's path has at most "
                f"{LONGEST_SOCKET}: the daemon cannot listen there",
                "name a shorter path, as /run/berth/berth.sock",
            )
        elif path.exists() and not path.is_socket():
            yield fail(
                "socket", f"{path} is there and is no socket", "remove it, or name another path"
            )
    if daemon.socket == daemon.user_socket:
        yield fail(
            "socket",
            f"daemon.socket and daemon.user_socket are both {daemon.socket}",
            "give each a path of its own, as berth.sock and berth-users.sock",
        )
    yield from _switch(daemon.kill_switch)
    if daemon.store.startswith("~"):
        yield fail(
            "store",
            f"{daemon.store} is another file for each user: the daemon's is not root's",
            "name its whole path, as /var/lib/berth/berth.db: daemon.store",
        )
    yield from _store(Database(daemon.store).path)
    for path in (Path(site.source), *site.bundles):
        if _writable_by_all(path):
            yield warn(
                "site file",
                f"everybody on this host may write to {path}, and so decide where jobs run",
                f"chmod o-w {path}",
            )


def _switch(switch: Path) -> Findings:
    if _writable_by_all(switch.parent) or switch.parent in _TEMPORARY:
        yield warn(
            "kill switch",
            f"everybody may make {switch}, and so stop Berth",
            "name a path in a folder of root or the daemon's user: daemon.kill_switch",
        )
    if not switch.parent.is_dir():
        yield warn(
            "kill switch",
            f"there is no folder {switch.parent}: nobody can make the kill switch in a hurry",
            f"mkdir -p {switch.parent}",
        )


def _store(file: Path | None) -> Findings:
    """Check the folder of a store that is a file."""
    if file is None:
        return
    if file.is_dir():
        yield fail("store", f"{file} is a folder", "name a file in it: daemon.store")
    elif not file.parent.is_dir():
        yield fail(
            "store",
            f"there is no folder {file.parent}: the daemon cannot make its store",
            f"install -d -o berth {file.parent}",
        )
    elif any(file.is_relative_to(folder) for folder in (*_TEMPORARY, Path("/run"))):
        yield warn(
            "store",
            f"{file} does not outlive a restart of the host, or is tidied away",
            "put it below /var/lib/berth: daemon.store",
        )
    elif os.statvfs(file.parent).f_files > 0 and (
        os.statvfs(file.parent).f_favail < _FEWEST_INODES
    ):
        yield warn(
            "disk",
            f"{file.parent} has no more files to give (df -i)",
            "remove files there, or move the store: daemon.store",
        )


def _writable_by_all(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    sticky = status.st_mode & stat.S_ISVTX and not path.is_file()
    return bool(status.st_mode & _OF_EVERYBODY) and not sticky
