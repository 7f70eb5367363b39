"""Re-partition MIG GPUs during a replay, as ``berth mig auto`` does on a real cluster.

Between events of the kernel, the same functions as in ``berth mig auto`` plan for the waiting and
the expected jobs, with and without re-cutting, and decide whether the gain is worth it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from berth.policies.mig.demands import Arrival, Demand, SliceOption, expected
from berth.policies.mig.layout import GpuInstance, GpuState, Layout, Running
from berth.policies.mig.plan import GpuPlan, worth_recutting
from berth.policies.mig.planner import plan
from berth.policies.replay.cluster import SlicedGpus
from berth.policies.replay.inputs import Inputs
from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.claims import claim, unclaim
from berth.policies.replay.kernel.loop import look
from berth.policies.replay.kernel.state import State
from berth.policies.replay.replayed import Recut
from berth.policies.replay.settings import Recutting
from berth.policies.replay.trace import Ints

MOST_WAITING = 200
"""Most waiting jobs that are planned for; later jobs in the queue are ignored."""
TIME_LIMIT_S = 10.0
"""Time limit of one planning run in seconds, as in ``berth mig auto``."""


@dataclass
class _ReplayedGpu:
    """One GPU: its layout, and the rows of its possible slices in the state's ``capacity``."""

    of: SlicedGpus
    number: int
    rows: dict[GpuInstance, int]
    layout: Layout

    @property
    def name(self) -> str:
        return f"{self.of.name}/{self.number}"


class Recutter:
    """Re-partition the cluster's MIG GPUs during a replay, where the gain for waiting jobs is worth
    it.

    ``next_s``: the next time (in the replay) at which ``act`` must be called.
    """

    def __init__(self, inputs: Inputs) -> None:
        units = inputs.units
        self._rules: Recutting | None = inputs.settings.recutting
        self.next_s = math.inf
        self.done: list[Recut] = []
        self._gpus: list[_ReplayedGpu] = []
        self._profiles: dict[int, tuple[tuple[str, str], ...]] = {}
        """For each partition number, the GPU model and profile of each kind of its slices."""
        for sliced in inputs.cluster.sliced:
            gpus = [_ReplayedGpu(sliced, n, {}, sliced.layout) for n in range(sliced.count)]
            for kind, row, number, instance in sliced.instances():
                gpus[number].rows[instance] = units.first[kind] + row
            self._gpus += gpus
            kinds = {sliced.kind(p): (sliced.geometry.gpu, p) for p in sliced.profiles}
            for place, part in enumerate(inputs.cluster.partitions):
                profiles = tuple(kinds[name] for name in part.kinds if name in kinds)
                if profiles:
                    self._profiles[place] = (*self._profiles.get(place, ()), *profiles)
        rows = sorted(row for gpu in self._gpus for row in gpu.rows.values())
        self._claim_of = {row: n for n, row in enumerate(rows)}
        self._first_claim = 0
        self._ready: list[tuple[float, list[int], list[int]]] = []
        """For each re-cut: when its GPU is ready, rows to open then, rows that jobs still hold."""
        self._look_s = math.inf
        """Time of the next planning run."""
        self._last_s: float | None = None
        self.there = self._counts(len(inputs.cluster.partitions))
        """[partitions] number of existing slices, with those of GPUs that are being re-cut."""
        self._will_do: dict[int, Sequence[int]] = {}
        self._seen = 0
        self._came: deque[Arrival] = deque()

    def begin(self, state: State) -> None:
        """Close the slices that do not exist in the initial layouts."""
        self._first_claim = len(state.claims) - len(self._claim_of)
        for gpu in self._gpus:
            for instance, row in gpu.rows.items():
                state.claims[self._claim(row), at.C_ALLOC] = row
                if instance not in gpu.layout.instances:
                    self._close(state, row, math.inf)
        if self._rules is not None:
            self.next_s = self._look_s = float(state.clock[at.NOW]) + self._rules.every_s

    def would_do(self, job: int, partitions: Sequence[int]) -> None:
        """Note which partitions' slices would suit a job that was placed, whether or not they exist
        now."""
        self._will_do[job] = partitions

    def act(self, state: State) -> None:
        """Carry out what is due now: open the slices of re-partitioned GPUs, or plan new
        layouts."""
        now_s = float(state.clock[at.NOW])
        rules = self._rules
        if rules is None:
            return
        for ready_s, closed, held in self._ready:
            if ready_s <= now_s:
                for row in closed:
                    self._open(state, row)
                for row in held:
                    unclaim(state, self._claim(row))
        self._ready = [event for event in self._ready if event[0] > now_s]
        hopeless = False
        if now_s >= self._look_s:
            self._look_s += rules.every_s
            hopeless = not self._ready and not self._think(state, rules, now_s)
        state.parts[0, at.P_DIRTY] = 1
        look(state)
        over = state.counters[at.NEXT] >= len(state.jobs) and not state.counters[at.HEAP]
        if over and hopeless and not self._ready:
            self.next_s = math.inf
        else:
            self.next_s = min([self._look_s, *(event[0] for event in self._ready)])

    def _think(self, state: State, rules: Recutting, now_s: float) -> bool:
        """Plan slices for the waiting and expected jobs, and re-partition the GPUs if it is worth
        it.

        False: a later run with the same queue would not re-partition either.
        """
        self._remember(state, rules, now_s)
        demands = list(self._waiting(state))
        if rules.window_s > 0:
            demands += expected(
                self._came, now_s=now_s, window_s=rules.window_s, horizon_s=rules.horizon_s
            )
        if not demands:
            return False
        states = [self._state_of(state, gpu) for gpu in self._gpus]
        new, stay = (
            plan(
                states, demands, rules.objectives, solver=rules.solver,
                time_limit_s=TIME_LIMIT_S, recut=recut,
            )
            for recut in (True, False)
        )  # fmt: skip
        verdict = worth_recutting(new, stay, rules.patience, now_s=now_s, last_recut_s=self._last_s)
        if not verdict.recut:
            waits = self._last_s is not None and now_s - self._last_s < rules.patience.min_dwell_s
            return waits and bool(new.recuts)
        by_name = {gpu.name: gpu for gpu in self._gpus}
        for gpu_plan in new.gpus:
            if gpu_plan.recuts:
                self._cut(state, by_name[gpu_plan.state.gpu], gpu_plan, now_s, rules.cost_s)
        self._last_s = now_s
        self.there = self._counts(len(self.there))
        return True

    def _cut(
        self, state: State, gpu: _ReplayedGpu, gpu_plan: GpuPlan, now_s: float, cost_s: float
    ) -> None:
        ready_s = now_s + cost_s
        opens: list[int] = []
        held: list[int] = []
        for instance in gpu_plan.destroyed:
            self._close(state, gpu.rows[instance], math.inf)
        for instance in gpu_plan.created:
            row = gpu.rows[instance]
            state.claim_times[self._claim(row), at.D_END] = ready_s
            opens.append(row)
        for instance in gpu.layout.instances:
            row = gpu.rows[instance]
            if instance not in gpu_plan.target.instances:
                continue
            if self._is_idle(state, row):
                self._close(state, row, ready_s)
                opens.append(row)
            else:  # the job continues, but no other may start here until the GPU is ready
                claim(state, self._claim(row), now_s, ready_s)
                held.append(row)
        self.done.append(
            Recut(now_s, gpu.of.name, gpu.number, gpu.layout, gpu_plan.target, ready_s)
        )
        gpu.layout = gpu_plan.target
        self._ready.append((ready_s, opens, held))

    def _state_of(self, state: State, gpu: _ReplayedGpu) -> GpuState:
        running = tuple(
            Running(instance)
            for instance in gpu.layout.instances
            if not self._is_idle(state, gpu.rows[instance])
        )
        return GpuState(gpu.name, gpu.of.geometry, gpu.layout, running)

    def _waiting(self, state: State) -> Iterator[Demand]:
        o, count = int(state.parts[0, at.P_HEAD]), 0
        while o >= 0 and count < MOST_WAITING:
            demand = self._demand(state, int(state.options[o, at.O_JOB]))
            if demand is not None:
                count += 1
                yield demand
            o = int(state.options[o, at.O_AFTER_ME])

    def _demand(self, state: State, job: int) -> Demand | None:
        first, count = (int(state.jobs[job, c]) for c in (at.J_FIRST, at.J_COUNT))
        options, most = [], 0
        for o in range(first, first + count):
            for gpu, profile in self._profiles.get(int(state.options[o, at.O_PART]), ()):
                lasts_s = float(state.spans[o, at.S_PLAN])
                options.append(
                    SliceOption(profile, gpu, throughput=1.0 / lasts_s, runtime_s=lasts_s)
                )
                most = max(most, int(state.options[o, at.O_UNITS]))
        return Demand(f"job {job}", tuple(options), max(most, 1)) if options else None

    def _remember(self, state: State, rules: Recutting, now_s: float) -> None:
        """Record the jobs submitted since the last planning run and drop those older than the
        window."""
        until = int(state.counters[at.NEXT])
        for job in range(self._seen, until):
            will_do = self._will_do.pop(job, None)
            demand = self._demand(state, job)
            asked = [] if demand is None else [(o.gpu, o.profile) for o in demand.options]
            if will_do is not None:
                asked = [profile for place in will_do for profile in self._profiles.get(place, ())]
            if asked:
                # Jobs that can use the same slices count as equal, whatever their run times.
                plain = tuple(SliceOption(p, g, 1.0, 1.0) for g, p in dict.fromkeys(asked))
                kind = Demand(_names(plain), plain)
                came_s = float(state.moments[job, at.T_SUBMIT])
                self._came.append(Arrival(came_s, kind, 1 if demand is None else demand.count))
        self._seen = until
        while self._came and self._came[0].at_s <= now_s - rules.window_s:
            self._came.popleft()

    def _counts(self, partitions: int) -> Ints:
        counts = np.zeros(partitions, np.int64)
        for place, profiles in self._profiles.items():
            for gpu in self._gpus:
                layout = gpu.layout.counts()
                counts[place] += sum(
                    layout.get(profile, 0) for of, profile in profiles if of == gpu.of.geometry.gpu
                )
        return counts

    def _claim(self, row: int) -> int:
        return self._first_claim + self._claim_of[row]

    def _is_idle(self, state: State, row: int) -> bool:
        return bool((state.free[row] == state.capacity[row]).all())

    def _close(self, state: State, row: int, until_s: float) -> None:
        """Close a slice, so that no job starts on it before ``until_s``."""
        state.free[row] -= state.capacity[row]
        claim(state, self._claim(row), float(state.clock[at.NOW]), until_s)

    def _open(self, state: State, row: int) -> None:
        state.free[row] += state.capacity[row]
        unclaim(state, self._claim(row))


def _names(options: Sequence[SliceOption]) -> str:
    return " or ".join(f"{option.gpu} {option.profile}" for option in options)
