"""From a request line to a reply line: pure look-ups, and never an exception."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from berth.pilot.version import VERSION
from berth.plugin.daemon import replies, requests
from berth.plugin.daemon.answered import Answered, Present, Repeat, Repeats
from berth.plugin.daemon.decision_cache import DecisionCache
from berth.plugin.daemon.filter_breaker import Breakers
from berth.plugin.daemon.identifiers import Identifiers
from berth.plugin.daemon.matched import Past, by_script
from berth.plugin.daemon.messages import Ask, Job, Refusal, parse
from berth.plugin.daemon.script_shape import names_its_shape, packs_steps
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.stats import Stats
from berth.plugin.daemon.view import Kept, SiteView, Snapshot
from berth.plugin.history.matching import Described, workload_key
from berth.plugin.host import HOST, Files, Host
from berth.plugin.outcomes.exploring import Ledger, allowance_for
from berth.plugin.right_sizing.fitting import Fit, Watch, fit, need_of
from berth.plugin.site.candidates import is_padding
from berth.plugin.site.site import Show
from berth.plugin.usernames import UserNames
from berth.plugin.workloads.names import may_use, resolved
from berth.policies.codes import Code
from berth.policies.constraints import names_no_type
from berth.policies.slice_choice import profiles_that_will_do
from berth.policies.values import Candidate, CandidateState, Decision, Mode, Request

log = logging.getLogger("berth.serve")


Record = Callable[[Answered], None]
Keep = Callable[[float, str, bytes, bytes, str | None], None]
"""Takes the time, the mode, the question and the answer, before the answer is sent; and the user's
name where the question has only the number."""


def _keep_nothing(
    _time_s: float, _mode: str, _request: bytes, _reply: bytes, _user: str | None
) -> None:
    """For services without a journal."""


class Service:
    """Answers lines from the present ``site``, ``shelf`` and ``snapshot``.

    Those three are replaced by background threads (one assignment each); a request reads each
    of them once.
    """

    def __init__(
        self,
        site: SiteView,
        record: Record,
        *,
        background: Callable[[], Mapping[str, object]] = dict,
        names: UserNames | None = None,
        keep: Keep = _keep_nothing,
        host: Host = HOST,
        identifiers: Identifiers | None = None,
    ) -> None:
        self._clock, self._files = host.clock, host.files
        self.site = site
        self.shelf = Shelf()
        self.snapshot = Snapshot()
        self.ledger: Ledger | None = None
        """Of jobs that were sent somewhere to learn; None: none ever is."""
        self.stats = Stats(host.clock)
        self.breakers = Breakers()
        self._record = record
        self._keep = keep
        self._line = b""
        self._present = Present(site, self.shelf, self.snapshot)
        self._background = background
        self._names = names or UserNames()
        self._identifiers = identifiers or Identifiers(host.clock)
        self._decisions = DecisionCache(host.clock)
        self._repeats = Repeats(host.clock)

    def handle(self, line: bytes) -> bytes:
        """The reply to one request line; whatever goes wrong, it is a valid keep."""
        started_ns = self._clock.perf_counter_ns()
        self._line = line
        self._present = Present(self.site, self.shelf, self.snapshot)
        try:
            known = self._repeats.of(line, self._present)
            if known is not None and not self._killed(self.site):
                return self._again(known, started_ns)
            ask = parse(line)
            if ask.op == "decide":
                return self._decide(ask, started_ns)
            self.stats.counts[ask.op] += 1
            return replies.answer(self._pong() if ask.op == "ping" else self.status())
        except Refusal as refusal:
            self.stats.counts["refused"] += 1
            return replies.reply("keep", code=Code.BAD_REQUEST, problem=str(refusal))
        except Exception:
            self.stats.counts["internal-errors"] += 1
            if self.stats.counts["internal-errors"] <= 100:
                log.exception("a request failed; its job is left as it is")
            return replies.KEEP_LINE

    def status(self) -> dict[str, object]:
        """What ``stats`` answers."""
        snapshot = self.snapshot
        age = self._clock.monotonic() - snapshot.monotonic_s if snapshot.monotonic_s else None
        return {
            **self._pong(),
            **self.stats.summary(),
            "breakers": self.breakers.summary(self.site.schedulers),
            "state_age_s": None if age is None else round(age, 3),
            "candidates": len(self.site.decider.candidates),
            "workloads": len(self.shelf.names),
            "forecasts": len(self.shelf),
            "learnt": self.shelf.learnt,
            "store_revision": self.shelf.revision,
            "places": {
                candidate.name: _place(candidate, snapshot.states[candidate.name])
                for candidate in self.site.decider.candidates
                if candidate.name in snapshot.states
            },
            **({} if self.ledger is None else {"explored": self.ledger.summary()}),
            **self._background(),
        }

    def _killed(self, site: SiteView) -> bool:
        return killed(site.kill_switch, self._files)

    def _pong(self) -> dict[str, object]:
        mode = Mode.OFF if self._killed(self.site) else self.site.mode
        return {"version": VERSION, "mode": mode.value}

    def _decide(self, ask: Ask, started_ns: int) -> bytes:
        site, job = self.site, ask.job
        if ask.scheduler not in site.schedulers:
            raise Refusal(f"scheduler is not {' or '.join(site.schedulers)}")
        if ask.streak is not None:
            self.breakers.reported(ask.scheduler, ask.streak, self._clock.time())
        if site.mode is Mode.OFF or self._killed(site):
            code = Code.OFF if site.mode is Mode.OFF else Code.KILL_SWITCH
            took_us = (self._clock.perf_counter_ns() - started_ns) // 1000
            self.stats.decided(Mode.OFF.value, "keep", code, took_us)
            return replies.reply("keep", code=code)
        if job.user is None and job.uid is not None:
            job.user = self._names.of(job.uid)
        mode = requests.effective_mode(site.mode, job.mode)
        chosen = requests.choice(job)
        kept = self._kept_at_once(site, job, mode, chosen)
        past, what = Past(job), None
        if kept is None and chosen.workload is None:
            what = past.what
            chosen = by_script(self.shelf, job, past, chosen.file)
        elif chosen.workload is not None:
            named = resolved(job.user or "", chosen.workload, self.shelf.names)
            chosen = chosen._replace(workload=named)
        request = requests.request(
            job,
            chosen,
            auto_queue=site.auto_queue,
            default_memory=self.snapshot.default_memory,
        )
        decision = allowance = None
        if kept is None and request.queue is not None and not request.wants_placement:
            kept, decision = self._in_own_queue(site, request, request.queue)
        elif kept is None:
            forecast = (
                self.shelf.forecast(chosen.workload, job.user or "") if chosen.workload else None
            )
            if forecast is None and chosen.workload is not None:
                kept = self._no_forecast(chosen.workload)
            else:
                follows = forecast is not None and forecast.follows_shape
                request = with_shape(request, job, site, follows=follows)
                if self.ledger is not None and mode is Mode.ENFORCE:
                    allowance = allowance_for(self.ledger, job.kind, job.comment, request, forecast)
                decision = self._decisions.decide(site, self.snapshot, request, forecast, allowance)
        return self._reply(
            ask,
            mode,
            request,
            past,
            decision=decision,
            kept=kept,
            what=what,
            started_ns=started_ns,
            lasts=allowance is None,
        )

    def _memory(
        self, job: Job, past: Past, request: Request, mode: Mode, code: str, *, shared_anew: bool
    ) -> Fit | None:
        """What is to be said and done about the memory that it asks for."""
        needs = self.shelf.memory_needs
        asked = request.resources.memory_bytes_per_node
        if not needs or not asked or mode not in _ANSWERED or code in _NOT_LOOKED_AT:
            return None
        own = (workload_key(request.user, request.workload),) if request.workload else ()
        need = need_of(needs.get, itertools.chain(past, own))
        if need is None:
            return None
        now_s, enforced = self._clock.time(), mode is Mode.ENFORCE
        watch = Watch(self.snapshot.guard, now_s, enforced, shared_anew)
        return fit(job, request, need, self.site.right_sizing, watch)

    def _kept_at_once(
        self, site: SiteView, job: Job, mode: Mode, chosen: requests.Choice
    ) -> Kept | None:
        if chosen.opted_out:
            return _OPTED_OUT
        if mode is Mode.OFF:
            return _BAD_MODE
        if chosen.problem is not None:
            return Kept(chosen.code, chosen.problem)
        if job.user is None and job.uid is not None:
            return Kept(Code.NOT_COVERED_USER, f"The name of user {job.uid} is not known yet.")
        if chosen.workload is not None and not may_use(job.user or "", chosen.workload):
            return Kept(Code.NO_WORKLOAD, f"{chosen.workload} is another user's workload.")
        return site.covers(job)

    def _in_own_queue(
        self, site: SiteView, request: Request, queue: str
    ) -> tuple[Kept | None, Decision | None]:
        """Such a job stays where it is; at most it is told which type of slice its GPU is to be."""
        if site.auto_queue is not None and site.auto_queue in queue.split(","):
            return Kept(
                Code.OWN_QUEUE,
                f"-p {queue} names partitions beside {site.auto_queue}: Berth chooses only for "
                f"-p {site.auto_queue} alone.",
            ), None
        names = site.slice_queues.get(queue)
        if not names or request.gres is None or not names_no_type(request.gres):
            return Kept(Code.OWN_QUEUE, f"You chose {queue} yourself."), None
        forecast = self.shelf.forecast(request.workload, request.user) if request.workload else None
        if forecast is not None:
            decision = self._decisions.decide(site, self.snapshot, request, forecast)
            changes = replies.edits(request, decision)
            if decision.chosen in names and changes.keys() == {"gres"}:
                return None, decision
        states = (self.snapshot.states.get(name) for name in names)
        return untyped_gpu(
            request.gres, queue, next((s for s in states if s is not None), None)
        ), None

    def _no_forecast(self, workload: str) -> Kept:
        if workload in self.shelf.names:
            return Kept(
                Code.NO_FORECAST,
                f"Nothing is predicted yet of {workload}: berth workload refresh {workload}.",
            )
        return Kept(Code.NO_WORKLOAD, f"There is no workload named {workload} in the store.")

    def _reply(
        self,
        ask: Ask,
        mode: Mode,
        request: Request,
        past: Past,
        *,
        decision: Decision | None,
        kept: Kept | None,
        what: Described | None,
        started_ns: int,
        lasts: bool,
    ) -> bytes:
        """``what``: the job's program, where it names no workload; ``lasts``: the answer is the
        same while the tables are."""
        changes: replies.Edits = {}
        code, reason = kept or ("", "")
        if decision is not None:
            code, reason = decision.code, decision.reason
            changes = replies.edits(request, decision)
            if ask.job.kind == "interactive":
                if request.resources.nodes == 0 and changes.get("nodes") == 1:
                    del changes["nodes"]  # wherever the tasks are, each node has the GPUs
                asked = request.needs.memory_form is not None
                if not (_SHAPE if asked else _LAYOUT).isdisjoint(changes):
                    (code, reason), changes = _INTERACTIVE_SHAPE, {}
            if "shape" in request.pinned and not _SHAPE.isdisjoint(changes):
                (code, reason), changes = _PINNED_SHAPE, {}
        nodes = max(1, request.resources.nodes)
        shared_anew = not _MEMORY.isdisjoint(changes) or changes.get("nodes", nodes) != nodes
        memory = self._memory(ask.job, past, request, mode, code, shared_anew=shared_anew)
        if memory is not None:
            reason = f"{reason} {memory.sentence}".lstrip()
            if memory.memory_mib is not None:
                code = code if changes or code == Code.EXPLORED else Code.MEMORY_FIT
                changes["memory_mib_per_node"] = memory.memory_mib
        action = "edit" if changes and mode is Mode.ENFORCE else "keep"
        message = self._message(ask, mode, request, code, reason, changes=changes, memory=memory)
        name = self._identifiers.next()
        self._spend(name, request, decision)
        latency_us = (self._clock.perf_counter_ns() - started_ns) // 1000
        self.stats.decided(mode, action, code, latency_us)
        now_s = self._clock.time()
        answered = Answered(
            name,
            now_s,
            ask.scheduler,
            mode,
            action,
            code,
            reason,
            request,
            decision,
            changes,
            latency_us,
            what,
        )
        self._record(answered)
        reply = replies.reply(
            action,
            changes=changes if action == "edit" else None,
            stamp=replies.stamp(
                name,
                action,
                code,
                chosen=decision.chosen if decision else None,
                workload=request.workload,
                bundle=decision.bundle if decision else "",
                slices=profiles_that_will_do(decision) if decision else (),
                fit=memory.key if memory is not None and action == "edit" else "",
            ),
            message=message,
            decision=name,
            code=code,
        )
        user = None if ask.names_its_user else ask.job.user
        self._keep(now_s, mode.value, self._line, reply, user)
        turns = self._present.site.decider.objective.turns
        # Memory may be answered otherwise at any moment, and who takes turns each time.
        if ask.names_its_user and memory is None and lasts and not turns:
            until_s = math.inf if decision is None else self._decisions.until_s
            self._repeats.put(self._line, self._present, Repeat(until_s, answered, reply))
        return reply

    def _message(
        self,
        ask: Ask,
        mode: Mode,
        request: Request,
        code: str,
        reason: str,
        *,
        changes: replies.Edits,
        memory: Fit | None,
    ) -> str | None:
        """The line for the user as the site wants it; None: nothing is said."""
        site = self._present.site
        if site.show is Show.NONE or mode not in _ANSWERED:
            return None
        if changes and mode is Mode.ENFORCE:
            return replies.message(reason, opt_out=site.schedulers[ask.scheduler].opt_out)
        if changes:
            return replies.message(f"Berth would choose: {reason}")
        if site.show is not Show.ALL:
            return None
        asked = request.wants_placement or request.workload or code == Code.UNTYPED_GPU
        if asked and code not in _NOT_AT_SUBMISSION:
            return replies.message(reason)
        return None if memory is None else replies.message(memory.sentence)

    def _spend(self, name: str, request: Request, decision: Decision | None) -> None:
        """Count what a decision to learn takes of the budget."""
        if decision is not None and decision.explored is not None and self.ledger is not None:
            self.ledger.take(name, request.workload or "", decision.explored.core_hours)

    def _again(self, known: Repeat, started_ns: int) -> bytes:
        """The same answer under a name of its own, recorded like the first."""
        before, name = known.answered, self._identifiers.next()
        reply = known.reply.replace(before.id.encode(), name.encode())
        latency_us = (self._clock.perf_counter_ns() - started_ns) // 1000
        self.stats.decided(before.mode, before.action, before.code, latency_us)
        now_s = self._clock.time()
        self._record(before.again(name, now_s, latency_us))
        self._keep(now_s, before.mode.value, self._line, reply, None)  # its line has the name
        return reply


def _place(candidate: Candidate, state: CandidateState) -> dict[str, object]:
    return {
        "platform": candidate.platform,
        "slices": candidate.slice_of is not None,
        "up": state.up,
        "idle_cores": state.idle_cores,
        "idle_gpus": state.idle_gpus,
        "pending_jobs": state.pending_jobs,
        "expects_waits": state.waits is not None,
    }


def untyped_gpu(gres: str, queue: str, state: CandidateState | None) -> Kept:
    """What a user must know whose ``--gres=gpu:1`` goes to nodes with slices."""
    types = () if state is None else tuple(t for t in state.gpu_types if ":" in t)
    named = [t for t in types if not is_padding(t)]
    may_get = "a slice of any size"
    if len(named) < len(types):
        may_get += ", or a part of a GPU that is switched off"
    hint = f": {', '.join(f'--gres={t}:1' for t in named[:_TYPES_NAMED])}" if named else ""
    return Kept(
        Code.UNTYPED_GPU,
        f"{gres} names no type; in {queue} it may get {may_get}. Name one{hint}.",
    )


_TYPES_NAMED = 8
_ANSWERED = (Mode.ADVISE, Mode.ENFORCE)
_NOT_LOOKED_AT = frozenset(
    (Code.OPTED_OUT, Code.BAD_MODE, Code.NOT_COVERED_USER, Code.NOT_COVERED_ACCOUNT,
     Code.NOT_COVERED_QUEUE, Code.NOT_COVERED_KIND)
)  # fmt: skip
_NOT_AT_SUBMISSION = frozenset((Code.OPTED_OUT, Code.NO_WORKLOAD, Code.NO_FORECAST))
"""Of those `berth why` speaks: a program that Berth does not know is no news to its user."""
_OPTED_OUT = Kept(Code.OPTED_OUT, "You asked Berth to leave this job alone.")
_BAD_MODE = Kept(Code.BAD_MODE, "BERTH_MODE is not off, shadow, advise or enforce.")
_INTERACTIVE_SHAPE = Kept(
    Code.INTERACTIVE_SHAPE,
    "srun and salloc keep the tasks, cores and memory that you gave them.",
)
_PINNED_SHAPE = Kept(
    Code.PINNED_SHAPE,
    "You asked for whole nodes, or in a form that Berth cannot write anew.",
)
_LAYOUT = frozenset(("nodes", "tasks", "cpus_per_task"))
_MEMORY = frozenset(("memory_mib_per_node", "memory_mib_per_cpu"))
_SHAPE = _LAYOUT | _MEMORY


def with_shape(request: Request, job: Job, site: SiteView, *, follows: bool) -> Request:
    """Return the request with what its script says: whether its shape may change, and whether it
    starts several steps at once. What could not be read might say so.

    ``follows``: its workload takes the tasks and cores that it is given.
    """
    interactive = job.kind == "interactive"  # srun and salloc start what they were given
    unread = bool(job.script_unread)
    packs = unread or packs_steps(job.script or "")
    keeps = False
    if follows or site.changes_shapes:
        keeps = interactive or unread or names_its_shape(job.script or "")
    if not (packs or keeps or follows):
        return request
    return replace(request, keeps_shape=keeps, packs_steps=packs, follows_shape=follows)


def killed(switch: Path | None, files: Files = HOST.files) -> bool:
    """Whether the kill switch is there. One that cannot be looked at stops us, too."""
    if switch is None:
        return False
    try:
        return files.exists(switch)
    except OSError:
        return True
