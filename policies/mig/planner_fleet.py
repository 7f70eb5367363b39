"""MIG planner for many GPUs: an integer model with one variable for each GPU group and layout.

GPUs in the same state form a group. A *column* is one possible layout of a group; its integer
variable is the number of GPUs in the group that get this layout. Jobs are flows from job types to
kinds of slots. OR-tools' CP-SAT solves the objectives one after the other, each with the values
reached before as constraints, and its bound proves how good the result is. (A model with one
variable for each job does not close the gap on 32 GPUs and 120 jobs.)

Until the re-cuts are minimised, only running instances of a GPU matter, not idle ones: groups that
differ only in idle instances are merged, and only columns that no other column dominates are kept.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from berth.pilot.errors import ToolMissing
from berth.policies.mig.columns import (
    GroupBundle,
    bundles_by_group,
    bundles_by_slots,
    dealt_out,
    merged,
)
from berth.policies.mig.plan import PlanObjective
from berth.policies.mig.problem import PlanningProblem, SlotKind
from berth.policies.mig.solution import Solution, SolvedStage, stage_order

SEED = 20_261_121
MANY_FLOWS = 2000
"""Above this number of (job type, slot kind) pairs, re-cuts get a heuristic start solution."""


def solve(problem: PlanningProblem, *, time_limit_s: float) -> Solution:
    """Return the best solution found within ``time_limit_s`` seconds, with a bound for each
    objective.

    A bound is None where the solver computed none. One worker is the fastest here and the only
    deterministic number. Raises ToolMissing without OR-tools.
    """
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415 - heavy, and an extra
    except ImportError:
        raise ToolMissing(
            "OR-tools", needed_for="planning a fleet exactly", hint="pip install 'berth[mig]'"
        ) from None
    fewer, groups = merged(problem)
    solution = _Stages(fewer, cp_model, time_limit_s).run()
    return replace(solution, taken=dealt_out(problem, groups, solution.taken))


class _FleetModel:
    """One CP-SAT model over bundles of GPUs."""

    def __init__(self, problem: PlanningProblem, cp: Any, bundles_: Sequence[GroupBundle]) -> None:
        self.problem = problem
        self.cp = cp
        self.bundles = bundles_
        self.model = cp.CpModel()
        self.takes: list[list[Any]] = []
        self.flows: dict[tuple[int, SlotKind], Any] = {}
        supply: dict[SlotKind, list[Any]] = defaultdict(list)
        for bundle in bundles_:
            row = [self.model.new_int_var(0, bundle.size, "") for _ in bundle.columns]
            self.model.add(sum(row) == bundle.size)
            self.takes.append(row)
            for variable, column in zip(row, bundle.columns, strict=True):
                for kind, number in column.counts:
                    supply[kind].append(number * variable)
        uses: dict[SlotKind, list[Any]] = defaultdict(list)
        for type_, edges in enumerate(problem.edges):
            count = problem.types[type_].count
            own_flows = []
            for kind in sorted(edges):
                if kind in supply:
                    flow = self.model.new_int_var(0, count, "")
                    self.flows[type_, kind] = flow
                    uses[kind].append(flow)
                    own_flows.append(flow)
            if own_flows:
                self.model.add(sum(own_flows) <= count)
        for kind, users in uses.items():
            self.model.add(sum(users) <= sum(supply[kind]))

    def expression(self, objective: PlanObjective, priority: int | None = None) -> Any:
        """Return the objective as a linear expression that the solver maximises."""
        if objective is PlanObjective.GPUS:
            return -sum(
                variable
                for row, bundle in zip(self.takes, self.bundles, strict=True)
                for variable, column in zip(row, bundle.columns, strict=True)
                if column.counts or bundle.is_busy
            )
        if objective is PlanObjective.RECUTS:
            return -sum(
                column.recuts * variable
                for row, bundle in zip(self.takes, self.bundles, strict=True)
                for variable, column in zip(row, bundle.columns, strict=True)
            )
        terms = []
        for (type_, kind), flow in self.flows.items():
            edge = self.problem.edges[type_][kind]
            if objective is PlanObjective.JOBS:
                if self.problem.types[type_].priority == priority:
                    terms.append(flow)
            elif objective is PlanObjective.THROUGHPUT:
                terms.append(edge.throughput * flow)
            elif objective is PlanObjective.ENERGY:
                terms.append(-edge.energy * flow)
        return sum(terms)


class _Stages:
    """Solve the objectives one after the other; each reached value is a constraint on the later
    ones."""

    def __init__(self, problem: PlanningProblem, cp: Any, time_limit_s: float) -> None:
        self.problem = problem
        self.cp = cp
        self.deadline = time.monotonic() + time_limit_s
        self.stages: list[SolvedStage] = []
        assert PlanObjective.RECUTS in problem.order  # noqa: S101 - objectives.ordered sees to it
        self.fixed: list[tuple[PlanObjective, int | None, int]] = []
        self.limit_ms: int | None = None
        self.columns = _FleetModel(problem, cp, bundles_by_slots(problem))
        # A start that is always feasible: each bundle's first column, no job placed.
        self.values = dict.fromkeys(self.columns.flows, 0)
        self.taking = [[b.size] + [0] * (len(b.columns) - 1) for b in self.columns.bundles]

    def run(self) -> Solution:
        """Solve the objectives in order and return the counts of the last solution."""
        merged = True
        todo = stage_order(self.problem)
        for n, (objective, priority) in enumerate(todo):
            if objective is PlanObjective.RECUTS and merged:
                merged = False
                self._rebuild()
            share = 1.0 if n == len(todo) - 1 else 0.6
            if objective is PlanObjective.MAKESPAN:
                self._least_makespan(share)
            else:
                self._improve(objective, priority, share)
        return self._solution()

    def _rebuild(self) -> None:
        """Split the merged bundles into single groups, before minimising the changes of instances.

        Which instances must be destroyed and created depends on each GPU's idle instances.
        """
        bundles_ = bundles_by_group(self.problem, self.columns.bundles, self.taking)
        self.columns = _FleetModel(self.problem, self.cp, [b for b, _ in bundles_])
        self.taking = [start for _, start in bundles_]
        for objective, priority, value in self.fixed:
            self.columns.model.add(self.columns.expression(objective, priority) >= value)
        if self.limit_ms is not None:
            self._forbid(self.columns.model, self.limit_ms)
        if len(self.columns.flows) > MANY_FLOWS:
            self._polish()

    def _polish(self) -> None:
        """Search for fewer re-cuts (instances destroyed or created) with the placed jobs fixed.

        The result is a start for the solver, without a proof.
        """
        self._hint(self.columns.model)
        model = self.columns.model.clone()
        for key, flow in self.columns.flows.items():
            model.add(model.get_int_var_from_proto_index(flow.index) == self.values[key])
        model.maximize(self.columns.expression(PlanObjective.RECUTS))
        solver = self._solver(0.3 * self._left_s())
        if solver.solve(model) in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            self._read(solver)

    def _left_s(self) -> float:
        return max(0.05, self.deadline - time.monotonic())

    def _solver(self, seconds: float) -> Any:
        solver = self.cp.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = SEED
        # The linear relaxation is tight already: cuts, symmetry and probing only cost time.
        solver.parameters.cut_level = 0
        solver.parameters.hint_conflict_limit = 1
        solver.parameters.symmetry_level = 0
        solver.parameters.cp_model_probing_level = 0
        return solver

    def _improve(self, objective: PlanObjective, priority: int | None, share: float) -> None:
        expression = self.columns.expression(objective, priority)
        model = self.columns.model
        model.maximize(expression)
        if self.stages:
            self._hint(model)
        solver = self._solver(share * self._left_s())
        status = solver.solve(model)
        model.clear_objective()
        if status in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            self._read(solver)
            value = self._value(objective, priority)
            bound = value if status == self.cp.OPTIMAL else int(solver.best_objective_bound)
        else:
            value, bound = self._value(objective, priority), None
        self.stages.append(SolvedStage(objective, value, bound))
        self.fixed.append((objective, priority, value))
        model.add(expression >= value)

    def _least_makespan(self, share: float) -> None:
        """Find the least makespan by bisection over the possible ends of jobs, each a feasibility
        problem."""
        ends = sorted({0, *(self.problem.edges[t][k].finish_ms for t, k in self.columns.flows)})
        used = [self.problem.edges[t][k].finish_ms for (t, k), n in self.values.items() if n]
        low, high = 0, ends.index(max(used, default=0))
        proven = True
        stop = time.monotonic() + share * self._left_s()
        while low < high:
            middle = (low + high) // 2
            trial = self.columns.model.clone()
            self._forbid(trial, ends[middle])
            solver = self._solver(max(0.05, stop - time.monotonic()))
            status = solver.solve(trial)
            if status in (self.cp.OPTIMAL, self.cp.FEASIBLE):
                self._read(solver)
                used = [
                    self.problem.edges[t][k].finish_ms for (t, k), n in self.values.items() if n
                ]
                high = ends.index(max(used, default=0))
            else:
                proven = proven and status == self.cp.INFEASIBLE
                low = middle + 1
        self.limit_ms = ends[high]
        self._forbid(self.columns.model, self.limit_ms)
        self.stages.append(
            SolvedStage(PlanObjective.MAKESPAN, -self.limit_ms, -self.limit_ms if proven else None)
        )

    def _forbid(self, model: Any, limit_ms: int) -> None:
        for (type_, kind), flow in self.columns.flows.items():
            if self.problem.edges[type_][kind].finish_ms > limit_ms:
                model.add(model.get_int_var_from_proto_index(flow.index) == 0)

    def _hint(self, model: Any) -> None:
        model.clear_hints()
        for key, flow in self.columns.flows.items():
            model.add_hint(flow, self.values[key])
        for row, start in zip(self.columns.takes, self.taking, strict=True):
            for variable, number in zip(row, start, strict=True):
                model.add_hint(variable, number)

    def _read(self, solver: Any) -> None:
        self.values = {key: solver.value(flow) for key, flow in self.columns.flows.items()}
        self.taking = [[solver.value(v) for v in row] for row in self.columns.takes]

    def _value(self, objective: PlanObjective, priority: int | None) -> int:
        columns = [
            (column, number, bundle)
            for bundle, row in zip(self.columns.bundles, self.taking, strict=True)
            for column, number in zip(bundle.columns, row, strict=True)
        ]
        if objective is PlanObjective.GPUS:
            return -sum(n for c, n, b in columns if c.counts or b.is_busy)
        if objective is PlanObjective.RECUTS:
            return -sum(c.recuts * n for c, n, _ in columns)
        total = 0
        for (type_, kind), number in self.values.items():
            edge = self.problem.edges[type_][kind]
            if objective is PlanObjective.JOBS:
                total += number * (self.problem.types[type_].priority == priority)
            elif objective is PlanObjective.THROUGHPUT:
                total += number * edge.throughput
            elif objective is PlanObjective.ENERGY:
                total -= number * edge.energy
        return total

    def _solution(self) -> Solution:
        chosen = tuple(
            (bundle.groups[0], column.option, number)
            for bundle, row in zip(self.columns.bundles, self.taking, strict=True)
            for column, number in zip(bundle.columns, row, strict=True)
            if number
        )
        taken = tuple((t, k, n) for (t, k), n in sorted(self.values.items()) if n)
        return Solution(chosen, taken, tuple(self.stages))
