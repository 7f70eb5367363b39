"""Sites, programs and jobs drawn from a seed, so that most of them have something to decide."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from policy_builders import GIB, NOW_S, FixedRights, H, cpu, curve, forecast, gpu, request

from berth.policies.limits import Denied, Limit, Rights, Scope
from berth.policies.settings import Control, PolicySettings, SliceAim, Weights
from berth.policies.values import (
    UNBOUNDED,
    Candidate,
    CandidateState,
    Decision,
    DefaultMemory,
    Demands,
    MemoryForm,
    QueueBounds,
    Ranked,
    Request,
    RuledOut,
    TaskArray,
    Translation,
)
from berth.predictor.core.forecast import Forecast, WorkUnit
from berth.predictor.core.prediction import Basis, MemoryUse
from berth.predictor.core.sizes import SizeGrowth

T = TypeVar("T")
OBJECTIVES = (*("fastest",) * 3, "cheapest", "balanced", "least-energy", "least-energy")


@dataclass(frozen=True)
class Case:
    """What a decision is made from, and a later state of the same places."""

    request: Request
    candidates: tuple[Candidate, ...]
    forecast: Forecast
    settings: PolicySettings
    states: dict[str, CandidateState]
    later: dict[str, CandidateState]


def case(seed: int) -> Case:
    """The case of a seed: always the same."""
    draw = _Draw(seed)
    places = tuple(draw.place(f"c{i}") for i in range(draw.number(3, 5)))
    states = {place.name: draw.state(place) for place in places if draw.often()}
    later = dict(states)
    changed = draw.of(tuple(states)) if states else None
    if changed is not None:
        later[changed] = draw.state(next(p for p in places if p.name == changed))
    return Case(draw.request(), places, draw.forecast(places), draw.settings(), states, later)


class _Draw:
    """Random values of each kind."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"berth-{seed}")  # noqa: S311 - cases, always the same

    def of(self, values: tuple[T, ...]) -> T:
        return values[int(self._random.random() * len(values))]

    def number(self, low: int, high: int) -> int:
        return low + int(self._random.random() * (high - low + 1))

    def seldom(self, value: T, otherwise: T, share: float = 0.06) -> T:
        return value if self._random.random() < share else otherwise

    def often(self) -> bool:
        return self._random.random() < 0.97

    def place(self, name: str) -> Candidate:
        is_gpu = self._random.random() < 0.45
        limit = self.seldom(self.of((600.0, 2 * H, 24 * H)), 48 * H, 0.25)
        values: dict[str, Any] = {
            "queue": self.of(("q0", "q1", "q2")),
            "cores_per_node": self.of((8, 32, 64)),
            "memory_bytes_per_node": self.of((16 * GIB, 128 * GIB, 128 * GIB, None)),
            "nodes": self.of((1, 4, 16, None)),
            "features": self.of(((), ("rome",), ("rome", "ib"))),
            "constraint": self.seldom("rome", None),
            "max_time_s": self.seldom(None, limit),
            "default_time_s": self.seldom(H, None),
            "allowed_users": self.seldom(frozenset({"bob"}), None, 0.07),
            "allowed_accounts": self.seldom(frozenset({"physics"}), None),
            "allowed_qos": self.seldom(frozenset({"normal"}), None),
            "translation": Translation(
                gpus=self.number(0, 2) if is_gpu else 0,
                cpus_per_gpu=self.of((None, 4, 8)),
                tasks_per_gpu=self.seldom(4, None),
                max_nodes=self.seldom(2, None),
                max_cores=self.seldom(self.of((4, 16)), None),
                keep_tasks=self.of((None, True, False)),
            ),
        }
        if not is_gpu:
            return cpu(name, price_per_core_hour=self.of((0.02, 0.05, None)), **values)
        if self._random.random() < 0.4:
            part = self.of((1 / 7, 2 / 7, 0.5))
            values |= {
                "slice_of": "a100-40gb", "slice_part": part, "gpus_per_node": 7,
                "gpu_memory_bytes": int(40 * GIB * part), "gres": f"gpu:{part:.2f}g",
            }  # fmt: skip
        return gpu(name, price_per_gpu_hour=self.of((0.5, 3.0)), **values)

    def forecast(self, places: tuple[Candidate, ...]) -> Forecast:
        curves = [
            curve(
                place.platform,
                self.of((20.0, 400.0, 3000.0, 9000.0)),
                gpus=place.is_gpu,
                factor=self.of((1.05, 1.2, 1.5, self.seldom(7.0, 2.0))),
                needs_bytes=self.of((0.5, 3.0, 9.0)) * GIB,
                basis=self.seldom(Basis.PRIOR, Basis.CALIBRATED, 0.1),
                abstained=self.seldom("unlike any seen", None, 0.05),
            )
            for place in places
            if self.often()
        ]
        return forecast(
            *curves,
            targets=self.seldom(("cpu",), ("cpu", "cuda")),
            unit=self.seldom(WorkUnit.STEP, WorkUnit.JOB, 0.1),
            sizes=SizeGrowth.fit(
                ((1000.0, 100.0, 2.0 * GIB), (2000.0, 190.0, 3.5 * GIB)), size=1000.0
            ),
            doubted={"c1": "its intervals failed"} if self._random.random() < 0.05 else {},
        )

    def request(self) -> Request:
        gpus = self.seldom(self.number(1, 5), 0, 0.2)
        memory = self.of((None, None, 2 * GIB, 20 * GIB, 3 * GIB + 12_345))
        form = self.seldom(MemoryForm.CORE, MemoryForm.NODE, 0.3)
        return request(
            user=self.of(("ada", "bob")),
            account=self.of(("physics", "chemistry", None)),
            nodes=self.of((0, 0, 1, 2, 3)),
            tasks=self.of((1, 2, 8, 33)),
            cpus_per_task=self.of((1, 1, 2, 6)),
            gpus=gpus,
            memory_bytes_per_node=memory,
            keeps_shape=self.seldom(True, False),
            follows_shape=self.seldom(True, False),
            default_memory=self.seldom(None, self.default_memory(), 0.5),
            queue=self.seldom("q1", self.of(("auto", None)), 0.1),
            wants_placement=self.often(),
            pinned=self.seldom((self.of(("nodes", "gres", "constraint", "qos", "licenses")),), ()),
            features=self.seldom(self.of(("rome", "rome&ib", "a|b")), None),
            gres=f"gpu:{gpus}" if gpus and self._random.random() < 0.5 else None,
            qos=self.seldom(self.of(("normal", "long")), None),
            time_limit_s=self.of((None, None, 600.0, 2 * H, 12 * H)),
            size=self.seldom(self.of((500.0, 1500.0, 4000.0)), None, 0.2),
            allowed_queues=self.seldom(frozenset({"q0", "q1"}), None, 0.2),
            array=self.seldom(TaskArray(5), None),
            needs=Demands(
                tasks_per_node=self.seldom(self.number(1, 4), None),
                max_nodes=self.seldom(4, 0),
                min_cores_per_node=self.seldom(self.of((4, 32)), 0),
                memory_form=None if memory is None else form,
                all_memory=self.seldom(True, False, 0.05),
                exclusive=self.seldom(True, False),
                cores_per_gpu=self.seldom(4, 0),
            ),
        )

    def default_memory(self) -> DefaultMemory:
        return DefaultMemory(
            bytes_per_gpu=self.seldom(8 * GIB, None),
            bytes_per_core=self.seldom(2 * GIB, None, 0.6),
            bytes_per_node=self.seldom(6 * GIB, None),
            node_bytes=self.of((16 * GIB, 128 * GIB)),
            node_cores=self.of((8, 32)),
            whole_nodes=self.seldom(True, False),
        )

    def settings(self) -> PolicySettings:
        return PolicySettings(
            objective=self.of(OBJECTIVES),
            weights=Weights(wait=self.of((0.0, 1.0, 1.0))),
            strict=self._random.random() < 0.8,
            allow_prior=self.seldom(True, False),
            may_raise_time_limit=self.seldom(True, False, 0.5),
            time_margin=self.of((1.0, 1.2)),
            list_queues=self.seldom(True, False, 0.5),
            alike_within=self.of((1.25, 2.0)),
            control=Control.WRITTEN if (share := self.seldom(0.1, 0.0, 0.3)) else Control.NONE,
            control_share=share or 0.05,
            slices=self.of(tuple(SliceAim)),
        )

    def state(self, place: Candidate) -> CandidateState:
        bounds = UNBOUNDED
        if self._random.random() < 0.4:
            bounds = QueueBounds(
                min_nodes=self.seldom(2, 0),
                max_nodes=self.seldom(self.number(1, 3), None),
                max_cores_per_node=self.seldom(self.of((4, 16)), None),
                max_memory_bytes_per_node=self.seldom(4 * GIB, None),
                max_memory_bytes_per_core=self.seldom(GIB, None),
                default_memory_bytes_per_core=self.seldom(GIB // 2, None),
                max_time_s=self.seldom(H, None),
                exclusive=self.seldom(True, False),
                weighted=self.seldom(True, False),
            )
        rights: Rights | None = None
        if self._random.random() < 0.2:
            rights = FixedRights(self.seldom(Denied("you have no association"), (self.limit(),)))
        put_back = RuledOut(place.name, "ada", "lu", "QOSMaxCpuPerJobLimit", "17", NOW_S)
        return CandidateState(
            up=self.often(),
            idle_cores=self.of((0, 8, 128)),
            idle_gpus=self.of((0, 8)),
            pending_jobs=self.of((0, 0, 1, 7)),
            as_of_s=NOW_S - self.seldom(1e4, 5.0, 0.04),
            usable_nodes=self.of((None, 4, 4, self.of((0, 1, 2)))),
            gpu_types=(place.gres or "",) if place.is_gpu else (),
            bounds=bounds,
            ruled_out=self.seldom((put_back,), (), 0.07),
            rights=rights,
        )

    def limit(self) -> Limit:
        resource = self.of(("cpu", "mem", "node", "gres/gpu", "billing"))
        scope = self.of(tuple(one for one in Scope if one is not Scope.RUNNING))
        amount = float(self.of((2, 64, 640))) * (1024 if resource == "mem" else 1)
        if scope is Scope.TIME:
            return Limit(scope, float(self.of((600, 7200))), "QOS long")
        if scope is Scope.SECONDS:
            amount *= 3600.0
        return Limit(scope, amount, "account physics", resource)


def shown(decision: Decision) -> str:
    """A decision in one line: what is done, why, and each place with its score or what excludes."""
    edit = decision.edit
    changes = [] if edit is None else [
        f"{key}={_short(value)}"
        for key in ("queue", "constraint", "gres", "adds_type", "resources", "time_limit_s")
        if (value := getattr(edit, key))
    ]  # fmt: skip
    rows = ", ".join(_row(row) for row in decision.ranked)
    return f"{decision.code} {decision.chosen} [{' '.join(changes)}] {decision.reason} <{rows}>"


def _row(row: Ranked) -> str:
    runtime = "" if row.runtime_s is None else f" {row.runtime_s.mid:.4g}s"
    use = row.memory or MemoryUse()
    need = use.gpu_bytes or use.host_bytes
    memory = "" if need is None else f" {need.high / GIB:.3g}G"
    cost = "" if row.cost is None else f" {row.cost:.3g}$"
    speedup = "" if row.speedup is None else f" {row.speedup.mid:.3g}x"
    verdict = row.code or f"{row.score:.5g}{'?' * row.guess}{'!' * bool(row.warning)}"
    return f"{row.candidate} {verdict} {_short(row.resources)}{runtime}{speedup}{memory}{cost}"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if hasattr(value, "cpus_per_task"):
        memory = value.memory_bytes_per_node
        parts = f"{value.nodes}n{value.tasks}x{value.cpus_per_task}"
        parts += f"+{value.gpus}gpu" if value.gpus else ""
        return parts if memory is None else f"{parts}/{memory}"
    return str(value)
