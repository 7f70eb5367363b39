"""Answers one request line with one reply line, from tables in memory; never raises an exception.

The steps of answering a submission: parse the line (``protocol``), find the job's workload
(``requests``, ``recognised``), decide on a placement (``policies.decide``), check the requested
memory (``right_sizing``), write the edits and the user's message into a reply (``protocol``), and
hand the answer to the recorder.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from berth.pilot.version import VERSION
from berth.plugin.daemon import protocol, requests
from berth.plugin.daemon.fitting import (
    Watch,
    failed_in_slice,
    fit,
    need_of,
    slice_key,
    wants_slices,
)
from berth.plugin.daemon.protocol import Ask, Refusal, parse
from berth.plugin.daemon.recognised import PastJobKeys, matched_workload, with_shape
from berth.plugin.daemon.record import Answered, Identifiers
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.stats import AnswerStats, Breakers
from berth.plugin.daemon.verdicts import (
    MEMORY_EDITS,
    TELLS_USERS,
    Arm,
    Submission,
    SubmitVerdict,
    as_control,
    in_own_queue,
    kept_at_once,
    message_to_user,
    no_forecast,
    verdict_of,
)
from berth.plugin.daemon.view import Kept, SiteView, Snapshot, killed
from berth.plugin.history.matching import JobDescription, workload_key
from berth.plugin.host import HOST, Host
from berth.plugin.store.records import CHANGED
from berth.plugin.usernames import UserNames
from berth.plugin.workloads.names import resolved
from berth.policies.codes import BY_FIT, Code
from berth.policies.settings import Control
from berth.policies.slice_choice import profiles_that_will_do
from berth.policies.values import Candidate, CandidateState, Mode, Request

log = logging.getLogger("berth.serve")

Record = Callable[[Answered], None]
Keep = Callable[[float, str, bytes, bytes, str | None], None]
"""A function that writes an answer to the journal before the reply is sent. Arguments: time, mode,
request line, reply line, and the user's name where the request has only the uid.
"""


_NOT_LOOKED_AT = frozenset(
    (Code.OPTED_OUT, Code.BAD_MODE, Code.NOT_COVERED_USER, Code.NOT_COVERED_ACCOUNT,
     Code.NOT_COVERED_QUEUE, Code.NOT_COVERED_KIND)
)  # fmt: skip
"""Codes of jobs whose requested memory is not compared with what past jobs needed."""


def _keep_nothing(
    _time_s: float, _mode: str, _request: bytes, _reply: bytes, _user: str | None
) -> None:
    """Discard the answer: for services that keep no journal."""


class Service:
    """Answers request lines from the tables ``site`` (the site file), ``shelf`` (forecasts) and
    ``snapshot`` (cluster state).

    Background threads replace each of the three by a single assignment; a request reads each of
    them once.
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
        self._draw = secrets.SystemRandom().random
        """Returns a random number from 0 to 1; jobs with one below ``policy.control_share`` are
        control jobs."""
        self._clock, self._files = host.clock, host.files
        self.site = site
        self.shelf = Shelf()
        self.snapshot = Snapshot()
        self.stats = AnswerStats(host.clock)
        self.breakers = Breakers()
        self._record = record
        self._keep = keep
        self._background = background
        self._names = names or UserNames()
        self._identifiers = identifiers or Identifiers(host.clock)

    def handle(self, line: bytes) -> bytes:
        """Return the reply to one request line; on any internal error the reply is a valid
        "keep"."""
        started_ns = self._clock.perf_counter_ns()
        try:
            ask = parse(line)
            if ask.op == "decide":
                return self._decide(line, ask, started_ns)
            self.stats.counts[ask.op] += 1
            return protocol.answer(self._pong() if ask.op == "ping" else self.status())
        except Refusal as refusal:
            self.stats.counts["refused"] += 1
            return protocol.reply("keep", code=Code.BAD_REQUEST, problem=str(refusal))
        except Exception:
            self.stats.counts["internal-errors"] += 1
            if self.stats.counts["internal-errors"] <= 100:
                log.exception("a request failed; its job is left as it is")
            return protocol.KEEP_LINE

    def status(self) -> dict[str, object]:
        """Return the fields of the reply to a ``stats`` request."""
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
                candidate.name: _state_of(candidate, snapshot.states[candidate.name])
                for candidate in self.site.decider.candidates
                if candidate.name in snapshot.states
            },
            **self._background(),
        }

    def _pong(self) -> dict[str, object]:
        mode = Mode.OFF if killed(self.site.kill_switch, self._files) else self.site.mode
        return {"version": VERSION, "mode": mode.value}

    def _decide(self, line: bytes, ask: Ask, started_ns: int) -> bytes:
        site, job = self.site, ask.job
        if ask.scheduler not in site.schedulers:
            raise Refusal(f"scheduler is not {' or '.join(site.schedulers)}")
        if ask.streak is not None:
            self.breakers.reported(ask.scheduler, ask.streak, self._clock.time())
        off = site.mode is Mode.OFF
        if off or killed(site.kill_switch, self._files):
            code = Code.OFF if off else Code.KILL_SWITCH
            self.stats.decided(Mode.OFF.value, "keep", code, self._took_us(started_ns))
            return protocol.reply("keep", code=code)
        if job.user is None and job.uid is not None:
            job.user = self._names.of(job.uid)
        mode = requests.effective_mode(site.mode, job.mode)
        question = Submission(
            line,
            ask,
            mode,
            site,
            self.shelf,
            self.snapshot,
            PastJobKeys(job, site.programs),
            started_ns,
        )
        named = requests.choice(job)
        kept = kept_at_once(question, named)
        choice = named
        if named.workload is not None:
            name = resolved(job.user or "", named.workload, question.shelf.names)
            choice = named._replace(workload=name)
        elif kept is None:
            choice = matched_workload(question.shelf, job, question.past, named.file)
        request = requests.request(
            job, choice,
            auto_queue=site.auto_queue, own_queues=question.snapshot.own_queues,
        )  # fmt: skip
        verdict = None if kept is None else SubmitVerdict(kept.code, kept.sentence)
        if verdict is None:
            request, verdict = self._judged(question, request)
            if verdict.code in BY_FIT:
                mode = requests.effective_mode(mode, site.fit_mode.value)
                question = question._replace(mode=mode)
            if mode is Mode.ENFORCE and verdict.changes:
                verdict = self._drawn(question, request, verdict)
        if not verdict.is_control:
            self._look_at_memory(question, request, verdict)
        described = None
        if kept is None and named.workload is None:
            described = question.past.described
        return self._answer(question, request, verdict, described)

    def _drawn(
        self, question: Submission, request: Request, verdict: SubmitVerdict
    ) -> SubmitVerdict:
        """Return the verdict with the arm that is drawn for a job which Berth would change."""
        settings = question.site.decider.settings
        control, share = settings.control, settings.control_share
        is_the_list = verdict.code in BY_FIT and control is Control.LIST
        if control is Control.NONE or is_the_list:
            return verdict
        if self._draw() >= share:
            return replace(verdict, arm=Arm(CHANGED, control, share))
        as_list = None
        if control is Control.LIST and question.site.fit_mode is Mode.ENFORCE:
            _, as_list = self._judged(question, replace(request, workload=None))
        return as_control(verdict, Arm(control.value, control, share), as_list)

    def _judged(self, question: Submission, request: Request) -> tuple[Request, SubmitVerdict]:
        """Return the verdict on a job, and the request in the form that the decision used."""
        site, shelf, job, states = (
            question.site, question.shelf, question.ask.job, question.snapshot.states,
        )  # fmt: skip
        now_s = question.snapshot.now_s(self._clock.monotonic())
        if request.queue is not None and not request.wants_placement:
            decided = in_own_queue(
                request, request.queue,
                site=site, shelf=shelf, snapshot=question.snapshot, now_s=now_s,
            )  # fmt: skip
            if isinstance(decided, Kept):
                return request, SubmitVerdict(decided.code, decided.sentence)
            return request, verdict_of(job, request, decided)
        name = request.workload
        forecast = None if name is None else shelf.forecast(name, request.user)
        follows = forecast is not None and forecast.follows_shape
        request = with_shape(request, job, site, follows=follows)
        by_use = ""
        if forecast is not None and forecast.kind == "history":
            allowed = wants_slices(site.slices_from_use, job)
            by_use = slice_key(request.user, name) if allowed and name else ""
            if by_use and failed_in_slice(question.snapshot.guard, by_use, now_s):
                allowed, by_use = False, ""
            request = replace(request, slices_from_use=allowed)
        decision = site.decider.decide(request, states, forecast, now_s)
        if decision.code == Code.NO_WORKLOAD and name is not None:
            return request, no_forecast(name, is_known=name in shelf.names)
        verdict = verdict_of(job, request, decision)
        if (
            by_use
            and verdict.code not in BY_FIT
            and any(decision.chosen in names for names in site.slice_queues.values())
        ):
            verdict.slice_key = by_use
        return request, verdict

    def _look_at_memory(
        self, question: Submission, request: Request, verdict: SubmitVerdict
    ) -> None:
        """Compare the requested memory with the measured need; put a message or an edit into the
        verdict.
        """
        needs, mode, changes = question.shelf.memory_needs, question.mode, verdict.changes
        asked = request.resources.memory_bytes_per_node
        if not needs or not asked or mode not in TELLS_USERS or verdict.code in _NOT_LOOKED_AT:
            return
        own = (workload_key(request.user, request.workload),) if request.workload else ()
        need = need_of(needs.get, itertools.chain(question.past, own))
        if need is None:
            return
        nodes = max(1, request.resources.nodes)
        shared_anew = not MEMORY_EDITS.isdisjoint(changes) or changes.get("nodes", nodes) != nodes
        enforced = mode is Mode.ENFORCE
        watch = Watch(question.snapshot.guard, self._clock.time(), enforced, shared_anew)
        verdict.memory = memory = fit(
            question.ask.job, request, need, question.site.right_sizing, watch
        )
        if memory is None:
            return
        verdict.reason = f"{verdict.reason} {memory.sentence}".lstrip()
        if memory.memory_mib is not None:
            if not changes:
                verdict.code = Code.MEMORY_FIT
            changes["memory_mib_per_node"] = memory.memory_mib

    def _answer(
        self,
        question: Submission,
        request: Request,
        verdict: SubmitVerdict,
        described: JobDescription | None,
    ) -> bytes:
        """Count, record and journal the answer to a submission, and return the reply line."""
        ask, mode, decision = question.ask, question.mode, verdict.decision
        makes_changes = mode is Mode.ENFORCE and verdict.is_made
        action = "edit" if verdict.changes and makes_changes else "keep"
        name, now_s = self._identifiers.next(), self._clock.time()
        latency_us = self._took_us(question.started_ns)
        self.stats.decided(mode, action, verdict.code, latency_us)
        self._record(
            Answered(
                name, now_s, ask.scheduler, mode, action, verdict.code, verdict.reason, request,
                decision, verdict.changes, latency_us, described, verdict.arm,
            )
        )  # fmt: skip
        fitted = verdict.memory if action == "edit" else None
        slices: Sequence[str] = ()
        if decision is not None and question.site.has_slices:
            slices = profiles_that_will_do(decision)
        reply = protocol.reply(
            action,
            changes=verdict.changes if action == "edit" else None,
            stamp=protocol.stamp(
                name,
                action,
                verdict.code,
                chosen=decision.chosen if decision else None,
                workload=request.workload,
                bundle=decision.bundle if decision else "",
                slices=slices,
                fit="" if fitted is None else fitted.key,
                use=verdict.slice_key if action == "edit" else "",
            ),
            message=message_to_user(question, request, verdict),
            decision=name,
            code=verdict.code,
        )
        user = None if ask.names_its_user else ask.job.user
        self._keep(now_s, mode.value, question.line, reply, user)
        return reply

    def _took_us(self, started_ns: int) -> int:
        return (self._clock.perf_counter_ns() - started_ns) // 1000


def _state_of(candidate: Candidate, state: CandidateState) -> dict[str, object]:
    return {
        "platform": candidate.platform,
        "slices": candidate.slice_of is not None,
        "up": state.up,
        "idle_cores": state.idle_cores,
        "idle_gpus": state.idle_gpus,
        "pending_jobs": state.pending_jobs,
        "expects_waits": state.waits is not None,
    }
