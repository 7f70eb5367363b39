"""Doctor's checks of the scheduler's queues and nodes against the site file's candidates."""

from __future__ import annotations

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.pilot.units import format_bytes
from berth.plugin.findings import Findings, fail, ok, warn
from berth.plugin.scheduler import ClusterFacts, NodeFacts, Scheduler, states_of
from berth.plugin.scheduler.states import own_queues_of
from berth.plugin.site.site import Site
from berth.policies.codes import Code
from berth.policies.gate import loss_of, move_of
from berth.policies.values import Candidate, Request, Resources

_LEAST_OF_MEMORY = 0.9
"""Share of a candidate's memory that its nodes have at least: schedulers report a little less."""


def check_cluster(site: Site, scheduler: Scheduler) -> Findings:
    """Check that the scheduler answers and has the queues and nodes that the candidates need."""
    try:
        facts = scheduler.read()
    except (SchedulerError, ToolMissing) as error:
        yield fail("scheduler", error.message, error.hint)
        return
    word = scheduler.queue_word
    yield ok("scheduler", f"{facts.version}: {len(facts.queues)} {word}s, {len(facts.nodes)} nodes")
    yield from _queues(site, facts, word)


def _queues(site: Site, facts: ClusterFacts, word: str) -> Findings:
    there = {c.slice_of for c in site.candidates if c.slice_of and c.queue in facts.queues}
    for candidate in site.candidates:
        # Where each MIG profile has a queue of its own, the queues of unused profiles may be
        # missing.
        if candidate.queue not in facts.queues and candidate.slice_of not in there:
            yield fail(
                "candidate",
                f"{candidate.name}: there is no {word} {candidate.queue}",
                f"correct the site file: there are {', '.join(sorted(facts.queues)[:20])}",
            )
    if site.auto_queue is not None and site.auto_queue not in facts.queues:
        yield fail(
            "auto partition",
            f"there is no {word} {site.auto_queue}: jobs for it are refused",
            f"add it to the scheduler's configuration, with the nodes of all {word}s",
        )
    elif site.auto_queue is not None and site.policy.list_queues:
        yield from _auto(site, facts, word)
    if site.auto_queue in facts.queues:
        yield from _auto_limits(site, facts, word)
    yield from _closed(site, facts, word)
    for candidate in site.candidates:
        nodes = [node for node in facts.nodes if candidate.queue in node.queues]
        if nodes and candidate.slice_of is None:
            yield from _check_candidate(candidate, nodes, word)
        elif candidate.queue in facts.queues and not nodes:
            yield warn(
                "candidate",
                f"{candidate.name}: {word} {candidate.queue} has no node",
                "give it nodes, or take the place out of the site file",
            )
    yield from _slices(site, facts, word)


def _auto(site: Site, facts: ClusterFacts, word: str) -> Findings:
    """Warn where jobs of the auto queue that stay there are refused, or where the gate keeps its
    plainest job from a candidate's queue."""
    auto = facts.queues[site.auto_queue or ""]
    if not auto.up:
        return
    lacking: set[str] = set()
    for candidate in site.candidates:
        nodes = [node for node in facts.nodes if candidate.queue in node.queues]
        if nodes and not any(auto.name in node.queues for node in nodes):
            lacking.add(candidate.queue)
    if lacking:
        yield warn(
            "auto partition",
            f"{word} {auto.name} has no node of {', '.join(sorted(lacking))}: jobs that only these "
            "take are refused whenever Berth does not answer",
            "give it the nodes of all partitions; a larger Weight keeps other jobs off GPU nodes",
        )
    for code, kept_from in sorted(_kept_by_the_gate(site, facts).items()):
        yield warn(
            "auto partition",
            f"jobs of {auto.name} that name no memory and no time limit are not sent to "
            f"{', '.join(sorted(kept_from))} ({code}: {next(iter(kept_from.values()))})",
            _OF_THE_GATE[code].format(auto=auto.name),
        )
    if facts.refuses_lists:
        yield ok(
            "auto partition",
            "EnforcePartLimits=ALL: jobs get only lists of partitions whose nodes Slurm reports",
        )


def _auto_limits(site: Site, facts: ClusterFacts, word: str) -> Findings:
    """Report limits of the auto queue by which the scheduler refuses jobs that a candidate takes:
    it checks them before Berth can move the job."""
    auto = facts.queues[site.auto_queue or ""]
    others = [facts.queues[c.queue] for c in site.candidates if c.queue in facts.queues]
    if auto.not_for_users is not None:
        yield fail(
            "auto partition",
            f"users may not submit to {word} {auto.name} ({auto.not_for_users})",
            f"open it to users, or name another {word}: site.auto_{word}",
        )
    for what, limit, largest, setting in (
        ("time", auto.max_time_s, [q.max_time_s for q in others], "MaxTime"),
        ("nodes", auto.bounds.max_nodes, [q.bounds.max_nodes for q in others], "MaxNodes"),
        ("cores a node", auto.bounds.max_cores_per_node,
         [q.bounds.max_cores_per_node for q in others], "MaxCPUsPerNode"),
        ("memory a node", auto.bounds.max_memory_bytes_per_node,
         [q.bounds.max_memory_bytes_per_node for q in others], "MaxMemPerNode"),
    ):  # fmt: skip
        if limit is not None and any(other is None or other > limit for other in largest):
            yield warn(
                "auto partition",
                f"{word} {auto.name} allows less {what} than others: jobs that need more are "
                "refused before Berth sees them",
                f"give it the largest limit of all {word}s ({setting})",
            )
    for what, allowed, named in (
        ("accounts", auto.allowed_accounts, [q.allowed_accounts for q in others]),
        ("QOS", auto.allowed_qos, [q.allowed_qos for q in others]),
    ):
        if allowed is not None and any(
            other is None or not set(other) <= set(allowed) for other in named
        ):
            yield warn(
                "auto partition",
                f"{word} {auto.name} is for some {what} only ({', '.join(allowed[:5])}): the "
                "others' jobs are refused there",
                f"allow all {what} that may use the other {word}s",
            )


_OF_THE_GATE = {
    Code.LESS_MEMORY: "set the default memory of {auto} to the smallest of the others "
    "(DefMemPerCPU)",
    Code.LESS_TIME: "set the default time limit of {auto} (DefaultTime), or "
    'gate.allow = ["less-time"]',
    Code.BILLS_MORE: "give {auto} the billing weights of the others (TRESBillingWeights), or set "
    "gate.bill_factor",
    Code.LOWER_PRIORITY: "give {auto} the lowest PriorityTier of all, or set "
    'gate.allow = ["lower-priority"]',
    Code.WHOLE_NODES: "give {auto} OverSubscribe=EXCLUSIVE if all partitions have it, or set "
    'gate.allow = ["whole-nodes"]',
    Code.HARDWARE_THREADS: 'set gate.allow = ["hardware-threads"] if its jobs may get threads '
    "for cores",
}
"""What to do where the gate keeps a job from a queue because of how the auto queue is set up."""


def _kept_by_the_gate(site: Site, facts: ClusterFacts) -> dict[Code, dict[str, str]]:
    """Return the queues to which a job of one core, or one GPU, of the auto queue is not sent, with
    the reason, by its code."""
    own = own_queues_of(facts, site.candidates).get(site.auto_queue)
    states = states_of(facts, site.candidates)
    kept: dict[Code, dict[str, str]] = {}
    for candidate in site.candidates:
        held = Resources(gpus=int(candidate.is_gpu))
        job = Request("", None, held, queue=site.auto_queue, wants_placement=True, own=own)
        move = move_of(job, candidate, held, states[candidate.name])
        loss = None if move is None else loss_of(move, site.policy.gate)
        if loss is not None and loss.code in _OF_THE_GATE:
            kept.setdefault(loss.code, {})[candidate.queue] = loss.sentence
    return kept


def _slices(site: Site, facts: ClusterFacts, word: str) -> Findings:
    """Warn of GPUs of which none of the site file's slices exists; single slices come and go with
    the MIG layout."""
    candidates_of: dict[str, list[Candidate]] = {}
    for candidate in site.candidates:
        if candidate.slice_of is not None and candidate.gres is not None:
            candidates_of.setdefault(candidate.slice_of, []).append(candidate)
    for whole, slices in candidates_of.items():
        queues = {candidate.queue for candidate in slices}
        nodes = [node for node in facts.nodes if queues.intersection(node.queues)]
        there = {kind for node in nodes for kind in node.gpus}
        wanted = {candidate.gres for candidate in slices}
        if nodes and "gpu" not in wanted and not wanted & there:
            yield warn(
                "candidate",
                f"{', '.join(c.name for c in slices)}: no node of {word} "
                f"{', '.join(sorted(queues))} has {', '.join(sorted(filter(None, wanted)))} "
                f"(there: {', '.join(sorted(there)) or 'no GPUs'})",
                f"correct the site file, or cut {whole} into these slices (berth mig)",
            )


def _closed(site: Site, facts: ClusterFacts, word: str) -> Findings:
    """Warn of queues of the site file that are not up: their candidates are left out of
    decisions."""
    names_by_queue: dict[str, list[str]] = {}
    for candidate in site.candidates:
        names_by_queue.setdefault(candidate.queue, []).append(candidate.name)
    for queue, names in names_by_queue.items():
        state = facts.queues.get(queue)
        if state is not None and not state.up:
            yield warn(
                "candidate",
                f"{', '.join(names)}: {word} {queue} is {state.closed or 'not up'}",
                "no job is placed there until it is up; if that is for good, take it out of the "
                "site file",
            )
    auto = None if site.auto_queue is None else facts.queues.get(site.auto_queue)
    if auto is not None and not auto.up:
        yield warn(
            "auto partition",
            f"{word} {auto.name} is {auto.closed or 'not up'}",
            f"jobs name it to be placed: set it up, or take auto_{word} out of the site file",
        )


def _check_candidate(candidate: Candidate, nodes: list[NodeFacts], word: str) -> Findings:
    """Report requests that no node of the candidate's queue can satisfy, so that jobs would never
    start."""
    correct = "correct the site file (berth site init shows what the scheduler has)"
    where = f"{candidate.name}: no node of {word} {candidate.queue} has"
    if candidate.gres is not None:
        there = sorted({kind for node in nodes for kind in node.gpus})
        if not any(candidate.gres in (kind, "gpu") for kind in there):
            others = f"there: {', '.join(there)}" if there else "there are no GPUs"
            yield fail("candidate", f"{where} {candidate.gres} ({others})", correct)
            return
    missing = [f for f in candidate.features if not any(f in node.features for node in nodes)]
    if missing:
        text = f"{where} the feature {', '.join(missing)}"
        yield fail("candidate", text, correct)
    there = sorted({node.architecture for node in nodes})
    if candidate.architecture not in there:
        yield fail(
            "candidate",
            f"{where} the architecture {candidate.architecture} (there: {', '.join(there)})",
            "architecture of the candidate, or a platform of that architecture",
        )
    yield from _counts(candidate, nodes, word)
    if not any(node.cores >= candidate.cores_per_node for node in nodes):
        most = max(node.cores for node in nodes)
        text = f"{where} {candidate.cores_per_node} cores (at most {most})"
        yield warn("candidate", text, correct)


def _counts(candidate: Candidate, nodes: list[NodeFacts], word: str) -> Findings:
    """Warn where the site file gives a candidate more nodes, GPUs or memory than there are, or
    where none of its nodes can be used."""
    own = [
        node
        for node in nodes
        if set(candidate.features) <= set(node.features)
        and (candidate.gres in (None, "gpu") or candidate.gres in node.gpus)
    ]
    if not own:
        return
    correct = "correct the site file (berth site init shows what the scheduler has)"
    if candidate.nodes is not None and candidate.nodes > len(own):
        yield warn(
            "candidate",
            f"{candidate.name}: nodes = {candidate.nodes}, and {word} {candidate.queue} has "
            f"{len(own)} such",
            correct,
        )
    if candidate.gres is not None:
        most = max(
            count
            for node in own
            for kind, count in {**node.gpus, "": 0}.items()
            if candidate.gres in (kind, "gpu") or not kind
        )
        if 0 < most < candidate.gpus_per_node:
            yield warn(
                "candidate",
                f"{candidate.name}: gpus_per_node = {candidate.gpus_per_node}, and no node has "
                f"more than {most} {candidate.gres}",
                correct,
            )
    memory, largest = candidate.memory_bytes_per_node, max(node.memory_bytes for node in own)
    if memory is not None and 0 < largest < memory * _LEAST_OF_MEMORY:
        yield warn(
            "candidate",
            f"{candidate.name}: memory_per_node is {format_bytes(memory)}, and no node has more "
            f"than {format_bytes(largest)}",
            correct,
        )
    if not any(node.usable for node in own):
        yield warn(
            "candidate",
            f"{candidate.name}: all {len(own)} nodes are down or drained: no job is placed there",
            "sinfo -R, or flux resource status, says why",
        )
