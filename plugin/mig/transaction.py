"""Changes the GPUs from the recorded MIG layout to the planned one, or back to the recorded one.

Forward: drain, repartition, verify, publish, release. Any failure on the way turns back: restore
the recorded layout, verify, publish it, release. After a crash ``resume`` reads journal and GPUs.
It goes forward where the new layout already is in place or where a running job prevents going back,
otherwise back. An instance is destroyed only if it belongs to one of the two layouts, no process
uses it at that moment and the scheduler has allocated it to no job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from berth.pilot.errors import BerthError
from berth.pilot.units import format_seconds
from berth.plugin.host import HOST, Clock
from berth.plugin.mig.blueprint import Blueprint, InstanceChanges, changes
from berth.plugin.mig.errors import Busy, RolledBack, Unfinished
from berth.plugin.mig.inventory import Fleet, GpuRecord, InstanceRecord
from berth.plugin.mig.journal import ApplyJournal, Record
from berth.plugin.mig.node import Keeper, NoKeeper, Notice
from berth.plugin.mig.nvml import Nvml
from berth.policies.mig import GpuInstance

BACK_ATTEMPTS = 3
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class ApplyTerms:
    """The old and the new layout of one apply, and the scheduler's notice; the journal's first
    record."""

    id: str
    old: Blueprint
    new: Blueprint
    notice: Notice

    @property
    def reason(self) -> str:
        """Return the reason given for draining the node, which identifies the drain as Berth's."""
        return f"berth: cutting MIG slices ({self.id})"

    def to_record(self) -> Record:
        """Return the terms as plain data for the journal."""
        return dict(_terms().dump_python(self, mode="json"))

    @classmethod
    def from_record(cls, record: Record) -> ApplyTerms:
        """Return the terms in a journal record. Raises BerthError where they cannot be read."""
        try:
            return _terms().validate_python(record)
        except ValidationError:
            raise BerthError(
                "the journal's first record is not readable",
                hint="look at the layout with `berth mig show`, then remove the journal by hand",
            ) from None


@cache
def _terms() -> TypeAdapter[ApplyTerms]:
    return TypeAdapter(ApplyTerms)


class Transaction:
    """A change of the GPUs' MIG layouts in progress."""

    def __init__(
        self,
        terms: ApplyTerms,
        nvml: Nvml,
        keeper: Keeper,
        journal: ApplyJournal,
        *,
        wait_s: float = 0.0,
        tell: Callable[[str], None] = lambda _: None,
        clock: Clock = HOST.clock,
    ) -> None:
        self._clock = clock
        self.terms = terms
        self._nvml = nvml
        self._keeper = keeper
        self._journal = journal
        self._wait_s = wait_s
        self._tell = tell
        self._published = False

    def run(self) -> None:
        """Change the GPUs to the new layout. Raises Busy or RolledBack with the old layout in
        place, or Unfinished."""
        self._journal.begin(self.terms.to_record())
        try:
            self._forth_until_published()
        except BaseException as error:
            self._turn_back(error)
            if isinstance(error, Busy) or not isinstance(error, Exception):
                raise
            raise RolledBack(
                f"{_sentence(error)}; the layout is what it was before",
                hint=getattr(error, "hint", None),
            ) from error
        self._finish("new")

    def resume(self, records: list[Record]) -> str:
        """Continue after a crash; return the layout in place at the end: ``new`` or ``old``.

        Raises Unfinished.
        """
        kinds = [record.get("kind") for record in records]
        self._published = "publish" in kinds
        preferred = "old" if "back" in kinds else "new" if self._stands(self.terms.new) else "old"
        try:
            self._go(preferred)
        except Busy as error:
            other = "new" if preferred == "old" else "old"
            try:
                self._go(other)
            except Busy:
                raise self._unfinished(error) from error
            except BerthError as failure:
                raise self._unfinished(failure) from failure
            return other
        except BerthError as error:
            raise self._unfinished(error) from error
        return preferred

    def _go(self, way: str) -> None:
        if way == "old":
            self._journal.append("back", reason="resumed after a crash")
            self._back()
        else:
            self._forth_until_published()
        self._finish(way)

    def _forth_until_published(self) -> None:
        if not isinstance(self._keeper, NoKeeper):
            self._tell("draining the node")
        self._keeper.drain(self.terms.reason)
        self._wait_until_idle()
        self._cut(self.terms.new)
        self._journal.append("cut")
        self._publish("new")

    def _publish(self, way: str) -> None:
        self._journal.append("publish", to=way)
        self._published = True
        if not isinstance(self._keeper, NoKeeper):
            self._tell("telling the scheduler")
        self._keeper.publish(self.terms.notice[way], self._nvml.read())

    def _finish(self, outcome: str) -> None:
        step = "the node could not be released"
        try:
            self._keeper.release(self.terms.reason)
            step = "that could not be written down"
            self._journal.append("end", outcome=outcome)
        except BerthError as error:
            raise Unfinished(
                f"the {outcome} layout stands, but {step}: {_sentence(error)}",
                hint="`berth mig apply --resume` tries again",
            ) from error

    def _turn_back(self, error: BaseException) -> None:
        self._tell(f"turning back: {_sentence(error)}")
        last: BaseException = error
        for _ in range(BACK_ATTEMPTS):
            try:
                self._journal.append("back", reason=_sentence(error))
                self._back()
                self._finish("old")
            except BerthError as failure:
                last = failure
                continue
            return
        raise self._unfinished(last) from error

    def _back(self) -> None:
        self._keeper.drain(self.terms.reason)
        self._cut(self.terms.old)
        if self._published:
            self._publish("old")

    def _unfinished(self, error: BaseException) -> Unfinished:
        return Unfinished(
            f"stopped between the old and the new layout: {_sentence(error)}",
            hint="the node stays drained; once that is mended, run `berth mig apply --resume`",
        )

    def _stands(self, blueprint: Blueprint) -> bool:
        fleet = {gpu.uuid: gpu for gpu in self._nvml.read()}
        return all(u in fleet and not changes(fleet[u], p) for u, p in blueprint.items())

    def _wait_until_idle(self) -> None:
        deadline = self._clock.monotonic() + self._wait_s
        waiting_for = ""
        while True:
            fleet = self._nvml.read()
            todo = self._todo(fleet, self.terms.new)
            try:
                return self._check_idle(fleet, todo)
            except Busy as error:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    raise
                if waiting_for != error.message:
                    waiting_for = error.message
                    self._tell(f"waiting for at most {format_seconds(left)}: {waiting_for}")
                self._clock.sleep(min(POLL_S, left))

    def _todo(self, fleet: Fleet, blueprint: Blueprint) -> list[InstanceChanges]:
        """Return the changes that reach ``blueprint``, for each GPU that needs any.

        Raises BerthError where a GPU is gone, has MIG off, or has instances of neither layout.
        """
        by_uuid = {gpu.uuid: gpu for gpu in fleet}
        todo = []
        for uuid, pieces in blueprint.items():
            gpu = by_uuid.get(uuid)
            if gpu is None or not gpu.enabled:
                state = "is gone" if gpu is None else "has MIG off"
                raise BerthError(f"GPU {uuid} {state}", hint="enable it: nvidia-smi -mig 1")
            needed = changes(gpu, pieces)
            self._refuse_foreign(gpu, needed)
            todo.append(needed)
        return [needed for needed in todo if needed]

    def _refuse_foreign(self, gpu: GpuRecord, needed: InstanceChanges) -> None:
        ours = {p.instance for b in (self.terms.old, self.terms.new) for p in b[gpu.uuid]}
        foreign = [str(r.instance) for r in needed.destroy if r.instance not in ours]
        if foreign:
            raise BerthError(
                f"GPU {gpu.uuid} has instances that somebody else made: {', '.join(foreign)}",
                hint="destroy them by hand, or take them into a new plan",
            )

    def _check_idle(self, fleet: Fleet, todo: list[InstanceChanges]) -> None:
        allocated = (
            self._keeper.allocated(fleet) if any(needed.destroy for needed in todo) else frozenset()
        )
        for needed in todo:
            for record in needed.destroy:
                self._check_one(needed, record, record.pids, allocated)

    def _check_one(
        self,
        needed: InstanceChanges,
        record: InstanceRecord,
        pids: tuple[int, ...],
        allocated: frozenset[tuple[str, GpuInstance]] = frozenset(),
    ) -> None:
        where, hint = f"{record.instance} on GPU {needed.index}", "--wait 30m waits for its end"
        if pids:
            who = ", ".join(map(str, pids[:4]))
            raise Busy(f"{where} is in use by process {who}", hint=hint)
        if (needed.uuid, record.instance) in allocated:
            raise Busy(f"{where} is allocated to a job", hint=hint)

    def _cut(self, blueprint: Blueprint) -> None:
        """Destroy and create instances until the GPUs match the blueprint, and verify that they
        do."""
        fleet = self._nvml.read()
        todo = self._todo(fleet, blueprint)
        self._check_idle(fleet, todo)
        for needed in todo:
            for record in needed.destroy:
                self._check_one(needed, record, self._nvml.pids(needed.uuid, record))
                self._step("destroy", needed, record.instance)
                self._nvml.destroy(needed.uuid, record)
            for piece in needed.create:
                self._step("create", needed, piece.instance)
                self._nvml.create(needed.uuid, piece.instance, piece.compute)
        if not self._stands(blueprint):
            raise BerthError("the driver accepted every step, but the layout is another one")

    def _step(self, kind: str, needed: InstanceChanges, instance: GpuInstance) -> None:
        self._tell(f"{kind} {instance} on GPU {needed.index}")
        self._journal.append(kind, gpu=needed.uuid, instance=str(instance))


def _sentence(error: Any) -> str:
    if isinstance(error, BerthError):
        return error.message
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return f"{type(error).__name__}: {error}"
