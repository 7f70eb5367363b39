"""From the site file to a Site: references checked, defaults taken from the platforms."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from berth.pilot.documents import Document, read_json, read_toml, unknown_key
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.plugin.scheduler.protocol import Scheduler
from berth.plugin.scheduler.registry import SCHEDULERS, own_table
from berth.plugin.site.document import (
    CandidateTable,
    CoverageTable,
    EnergyTable,
    IncludeExclude,
    PlatformTable,
    PolicyTable,
    SiteDocument,
)
from berth.plugin.site.energy import intensity, powers
from berth.plugin.site.site import (
    Coverage,
    DaemonSettings,
    LearningSettings,
    NameFilter,
    RightSizing,
    Site,
)
from berth.plugin.site.slices import expanded
from berth.policies import digest
from berth.policies.carbon import Intensity
from berth.policies.objectives import OBJECTIVES
from berth.policies.settings import Explore, PolicySettings, Weights
from berth.policies.values import Candidate, Mode, Translation
from berth.predictor.hardware import platforms as known_platforms
from berth.predictor.hardware.mig.slices import derived, part_of


def load_site(path: Path) -> Site:
    """Read and check one site file. Raises DocumentError: one sentence naming the key at fault."""
    return build_site(read_toml(path, SiteDocument), path)


def build_site(document: SiteDocument, path: Path) -> Site:
    """The Site that ``document``, read from ``path``, describes. Raises DocumentError."""
    platforms = _platforms(document, path)
    scheduler = SCHEDULERS.load(document.site.scheduler)
    settings = _scheduler_settings(document, scheduler, path)
    carbon = intensity(document.energy, path)
    candidates = _candidates(document, scheduler, platforms, path, carbon)
    reference = document.site.reference_platform
    if reference is not None and reference not in platforms:
        raise _unknown(path, "site.reference_platform", reference, platforms)
    auto = document.site.auto_partition
    used = {c.platform for c in candidates} | ({reference} if reference else set())
    _check_auto(document, auto, path)
    kept = {name: platforms[name] for name in sorted(used)}
    policy = _policy(document.policy, scheduler)
    _check_objective(document.mode, policy, candidates, path)
    daemon = document.daemon
    return Site(
        source=str(path),
        digest=digest.of_text(
            document.model_dump_json(by_alias=True),
            *([] if settings is None else [settings.model_dump_json()]),
            *(p.model_dump_json() for p in kept.values()),
            *([] if carbon is None else [repr(carbon)]),
        ),
        name=document.site.name,
        scheduler=document.site.scheduler,
        scheduler_settings=settings,
        mode=document.mode,
        currency=document.site.currency,
        reference_platform=reference,
        reference_queue=document.site.reference_partition,
        auto_queue=auto,
        policy=policy,
        daemon=DaemonSettings(
            socket=_beside(path, daemon.socket),
            user_socket=_beside(path, daemon.user_socket),
            admins=daemon.admins,
            open_sharing=daemon.sharing == "open",
            workloads_per_user=daemon.workloads_per_user,
            store=daemon.store,
            deadline_ms=daemon.deadline_ms,
            kill_switch=_beside(path, daemon.kill_switch),
            ruled_out=_beside(path, daemon.ruled_out),
            scheduler_users=daemon.scheduler_users or scheduler.daemon_users or (scheduler.name,),
            state_refresh_s=daemon.state_refresh_s,
            outcomes_refresh_s=daemon.outcomes_refresh_s,
            waits_refresh_s=daemon.waits_refresh_s,
            breaker_failures=daemon.breaker_failures,
            breaker_open_s=daemon.breaker_open_s,
        ),
        coverage=_coverage(document.coverage),
        show=document.messages.show,
        platforms=kept,
        bundles=tuple(_beside(path, name) for name in document.predictor.bundles),
        learning=LearningSettings(**document.learning.model_dump()),
        right_sizing=RightSizing(
            document.right_sizing.advise,
            *(
                frozenset(names)
                for names in (
                    document.right_sizing.users,
                    document.right_sizing.accounts,
                    document.right_sizing.programs,
                )
            ),
        ),
        candidates=candidates,
        carbon_file=None
        if document.energy.carbon_file is None
        else _beside(path, document.energy.carbon_file),
    )


def _scheduler_settings(
    document: SiteDocument, scheduler: type[Scheduler], path: Path
) -> Document | None:
    """The scheduler's own table, checked by its own document; None: there is none."""
    for name, table in (document.model_extra or {}).items():
        if name != scheduler.name and name not in SCHEDULERS.names():
            raise unknown_key(path, name, SiteDocument)
        if name != scheduler.name:
            raise DocumentError(
                path, f"is not for this site: its scheduler is {scheduler.name!r}", key=name
            )
        return own_table(name, table, scheduler.settings_type, source=path)
    return None


def _beside(path: Path, text: str) -> Path:
    """A relative path in the site file is relative to the file."""
    return path.absolute().parent / text


def _platforms(document: SiteDocument, path: Path) -> dict[str, Platform]:
    """Shipped platforms and the site's, the latter's prices put in."""
    found = dict(known_platforms.load())
    seen: set[str] = set()
    for index, table in enumerate(document.platforms):
        key = f"platforms.{index}"
        if table.name in seen:
            raise DocumentError(path, f"{table.name!r} is defined twice", key=f"{key}.name")
        seen.add(table.name)
        found[table.name] = _priced(_platform(table, key, path, found), table)
    return found


def _platform(
    table: PlatformTable, key: str, path: Path, known: Mapping[str, Platform]
) -> Platform:
    if table.file is None:
        return _known(table.name, known, f"{key}.name", path)
    try:
        platform = read_json(_beside(path, table.file), Platform)
    except DocumentError as error:
        raise DocumentError(path, error.message, key=f"{key}.file", hint=error.hint) from None
    if platform.name != table.name:
        raise DocumentError(
            path, f"{table.file} holds platform {platform.name!r}", key=f"{key}.name"
        )
    return platform


def _priced(platform: Platform, table: PlatformTable) -> Platform:
    changes = {
        name: value
        for name, value in (
            ("price_per_hour", table.price_per_hour),
            ("power_w", table.power_w),
            ("idle_power_w", table.idle_power_w),
        )
        if value is not None
    }
    return platform.model_copy(update=changes) if changes else platform


def _candidates(
    document: SiteDocument,
    scheduler: type[Scheduler],
    platforms: dict[str, Platform],
    path: Path,
    carbon: Intensity | None,
) -> tuple[Candidate, ...]:
    """``platforms`` is filled up with those of slices."""
    result: list[Candidate] = []
    targets: dict[tuple[str, str | None, str | None], str] = {}
    for index, written in enumerate(document.candidates):
        key = f"candidates.{index}"
        whole = _known(written.platform, platforms, f"{key}.platform", path)
        for one, platform in expanded(written, whole, key, path, typed=scheduler.typed_gpus):
            platforms.setdefault(platform.name, platform)
            table = _in_own_terms(scheduler, one, platforms, key, path)
            if any(c.name == table.name for c in result):
                raise DocumentError(path, f"{table.name!r} is defined twice", key=f"{key}.name")
            place = (table.partition, table.constraint, table.gres)
            if place in targets:
                raise DocumentError(
                    path,
                    f"is the same place as candidate {targets[place]!r}",
                    key=f"{key}.partition",
                )
            targets[place] = table.name
            result.append(_candidate(table, platforms, key, path, document.energy, carbon=carbon))
    return tuple(result)


def _known(name: str, platforms: Mapping[str, Platform], key: str, path: Path) -> Platform:
    """The platform of that name; ``GPU-mig-PROFILE`` is made where there is none."""
    found = platforms.get(name) or derived(name, platforms)
    if found is None:
        raise _unknown(path, key, name, platforms)
    return found


def _in_own_terms(
    scheduler: type[Scheduler],
    table: CandidateTable,
    platforms: Mapping[str, Platform],
    key: str,
    path: Path,
) -> CandidateTable:
    """The table with properties as the constraint, and one name for GPUs where types have none."""
    if table.properties is not None:
        if table.constraint is not None:
            raise DocumentError(path, "is what constraint says; write one", key=f"{key}.properties")
        table = table.model_copy(update={"constraint": "&".join(table.properties) or None})
    platform = platforms.get(table.platform)
    if scheduler.typed_gpus or platform is None or not platform.is_gpu:
        return table
    if table.gres not in (None, "gpu"):
        raise DocumentError(
            path,
            f"is {table.gres!r}; {scheduler.title} counts GPUs and slices of every kind as `gpu`",
            key=f"{key}.gres",
            hint="leave it out, and give each kind a queue or a property of its own",
        )
    return table.model_copy(update={"gres": "gpu"})


def _candidate(
    table: CandidateTable,
    platforms: Mapping[str, Platform],
    key: str,
    path: Path,
    energy: EnergyTable,
    *,
    carbon: Intensity | None,
) -> Candidate:
    platform = platforms[table.platform]
    sliced = platform.kind is PlatformKind.MIG
    cores = table.cores_per_node
    if platform.is_gpu:
        if cores is None:
            raise DocumentError(
                path,
                "is missing; a GPU platform does not tell the cores of its node",
                key=f"{key}.cores_per_node",
            )
        gpus = table.gpus_per_node or 1
    else:
        if table.gpus_per_node is not None or table.gres is not None:
            wrong = "gres" if table.gres is not None else "gpus_per_node"
            raise DocumentError(
                path, f"is for GPU platforms; {platform.name} is a CPU", key=f"{key}.{wrong}"
            )
        gpus, cores = 0, cores or platform.cores
    rule = table.translation
    return Candidate(
        name=table.name,
        platform=platform.name,
        queue=table.partition,
        constraint=table.constraint,
        gres=table.gres,
        translation=Translation(
            gpus=rule.gpus,
            cpus_per_gpu=rule.cpus_per_gpu,
            tasks_per_gpu=rule.tasks_per_gpu,
            max_nodes=rule.max_nodes,
            max_cores=rule.max_cores,
            keep_memory=rule.keep_memory,
            keep_tasks=rule.keep_tasks,
        ),
        cores_per_node=cores,
        memory_bytes_per_node=table.memory_per_node
        if table.memory_per_node is not None or platform.is_gpu
        else int(platform.memory_bytes),
        gpus_per_node=gpus,
        gpu_memory_bytes=int(platform.memory_bytes) if platform.is_gpu else None,
        slice_of=platform.parent if sliced else None,
        slice_part=part_of(platform, platforms) if sliced else 1.0,
        nodes=table.nodes,
        features=table.features,
        max_time_s=table.max_time,
        default_time_s=table.default_time,
        **_prices(table, platform, cores),
        **powers(table, platform, cores, energy),
        carbon=carbon,
        targets=tuple(t.value for t in table.targets or platform.targets),
        architecture=table.architecture or platform.architecture,
        instruction_sets=platform.instruction_sets
        if table.instruction_sets is None
        else table.instruction_sets,
        allowed_users=_names(table.users),
        allowed_accounts=_names(table.accounts),
        allowed_qos=_names(table.qos),
    )


def _prices(table: CandidateTable, platform: Platform, cores: int) -> dict[str, float | None]:
    """The candidate's own prices; where it has none, the platform's for what a job holds of it."""
    own = {
        "price_per_node_hour": table.price_per_node_hour,
        "price_per_gpu_hour": table.price_per_gpu_hour,
        "price_per_core_hour": table.price_per_core_hour,
    }
    if platform.price_per_hour is not None and all(price is None for price in own.values()):
        if platform.is_gpu:
            own["price_per_gpu_hour"] = platform.price_per_hour
        else:
            own["price_per_core_hour"] = platform.price_per_hour / cores
    return own


def _check_objective(
    mode: Mode, policy: PolicySettings, candidates: tuple[Candidate, ...], path: Path
) -> None:
    """The objective can be made for this site, and is none to compare with where jobs change."""
    objective = OBJECTIVES.load(policy.objective)
    if objective.baseline and mode in (Mode.ADVISE, Mode.ENFORCE):
        raise DocumentError(
            path,
            f"{policy.objective!r} is a baseline to compare with",
            key="policy.objective",
            hint="it is taken with mode shadow or off, and by berth place --policy",
        )
    try:
        objective.of(policy, sorted(candidates, key=lambda c: c.name))
    except UsageError as error:
        raise DocumentError(path, error.message, key="policy.objective", hint=error.hint) from None


def _check_auto(document: SiteDocument, auto: str | None, path: Path) -> None:
    if auto is None:
        return
    for index, table in enumerate(document.candidates):
        if table.partition == auto:
            raise DocumentError(
                path,
                f"is {auto!r}, the partition that means Berth chooses; a candidate is a real place",
                key=f"candidates.{index}.partition",
            )


def _policy(table: PolicyTable, scheduler: type[Scheduler]) -> PolicySettings:
    return PolicySettings(
        objective=table.objective,
        weights=Weights(**table.weights.model_dump()),
        allow_prior=table.allow_prior,
        may_raise_time_limit=table.may_raise_time_limit,
        time_margin=table.time_margin,
        max_interval_ratio=table.max_interval_ratio,
        stale_after_s=table.stale_after_s,
        list_queues=scheduler.lists_queues,
        alike_within=table.alike_within,
        list_by=table.list_by,
        slices=table.slices,
        untyped_gpus=table.untyped_gpus,
        deadline_limits=table.deadline_limits,
        order=table.order,
        explore=Explore(
            core_hours=table.explore.core_hours,
            period_s=86_400.0 * table.explore.days,
            share=table.explore.share,
            worst=table.explore.worst,
            next_jobs=table.explore.next_jobs,
            excluded_users=tuple(sorted(table.explore.excluded_users)),
        ),
    )


def _coverage(table: CoverageTable) -> Coverage:
    def names(part: IncludeExclude) -> NameFilter:
        return NameFilter(frozenset(part.include), frozenset(part.exclude))

    return Coverage(
        users=names(table.users),
        accounts=names(table.accounts),
        queues=names(table.partitions),
        unnamed_queue=table.unnamed_partition,
        interactive=table.interactive,
        arrays=table.arrays,
        het=table.het,
    )


def _names(names: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _unknown(path: Path, key: str, name: str, known: Iterable[str]) -> DocumentError:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else "`berth platform list` shows the shipped ones"
    return DocumentError(path, f"there is no platform {name!r}", key=key, hint=hint)
