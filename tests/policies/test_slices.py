"""MIG slices among the candidates: what is ruled out, which one is taken, what is edited."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_builders import (
    DEFAULTS,
    GIB,
    NOW_S,
    cpu,
    curve,
    decided,
    forecast,
    gpu,
    ranked_as,
    request,
    state,
    states,
)

from berth.policies.constraints import names_no_type
from berth.policies.settings import PolicySettings, SliceAim
from berth.policies.values import Candidate, Decision
from berth.predictor.core.prediction import Basis


def part(profile: str, share: float, memory_gib: float, **changes: Any) -> Candidate:
    """A slice of an A100 in partition ``mig``."""
    return gpu(
        f"slice-{profile}",
        queue="mig",
        gres=f"gpu:{profile}",
        gpu_memory_bytes=int(memory_gib * GIB),
        gpus_per_node=7,
        slice_of="a100-40gb",
        slice_part=share,
        price_per_gpu_hour=2.8 * share,
        **changes,
    )


SMALL, MEDIUM, LARGE = (
    part("1g.5gb", 1 / 7, 4.75),
    part("2g.10gb", 2 / 7, 9.75),
    part("3g.20gb", 0.5, 19.6),
)
SLICES = (SMALL, MEDIUM, LARGE)
TIMES_S = {"slice-1g.5gb": 2000.0, "slice-2g.10gb": 900.0, "slice-3g.20gb": 800.0}


def choose(
    *candidates: Candidate,
    memory_gib: float = 2.0,
    settings: PolicySettings = DEFAULTS,
    present: dict[str, Any] | None = None,
    curve_changes: dict[str, Any] | None = None,
    kind: str = "program",
    **asked: Any,
) -> Decision:
    now = states(*candidates) | {name: state(**new) for name, new in (present or {}).items()}
    curves = [
        curve(name, seconds, gpus=True, needs_bytes=memory_gib * GIB, **(curve_changes or {}))
        for name, seconds in TIMES_S.items()
    ]
    predicted = forecast(*curves, curve("cpu", 1e5), kind=kind)
    wanted = request(**{"tasks": 1, "wants_placement": True, "queue": "auto", **asked})
    return decided(wanted, candidates, predicted, now=now, settings=settings)


def test_the_smallest_slice_whose_memory_reaches_the_upper_end_is_taken() -> None:
    for memory_gib, name in ((2.0, SMALL.name), (7.0, MEDIUM.name), (14.0, LARGE.name)):
        decision = choose(*SLICES, memory_gib=memory_gib)
        assert decision.chosen == name
        assert "smallest slice that will do" in decision.reason
    assert choose(*SLICES, memory_gib=18.0).chosen is None, "18 GiB x 1.2 may not fit 19.6"


def test_a_larger_slice_is_passed_over_and_says_for_which() -> None:
    passed = ranked_as(choose(*SLICES), LARGE.name)
    assert (passed.code, passed.score) == ("other-slice", None)
    assert SMALL.name in passed.excluded


def test_a_slice_that_no_node_has_now_is_never_asked_for() -> None:
    decision = choose(*SLICES, present={SMALL.name: {"usable_nodes": 0}})
    assert decision.chosen == MEDIUM.name
    assert ranked_as(decision, SMALL.name).code == "not-cut"
    assert "has a 1g.5gb slice" in ranked_as(decision, SMALL.name).excluded
    gone = {c.name: {"usable_nodes": 0} for c in SLICES}
    assert choose(*SLICES, present=gone).code == "not-cut"


def test_a_time_limit_that_the_smallest_would_break_moves_on_to_the_next() -> None:
    assert choose(*SLICES, time_limit_s=1500.0).chosen == MEDIUM.name
    assert choose(*SLICES, time_limit_s=700.0).chosen is None


@pytest.mark.parametrize(
    ("aim", "objective", "name"),
    [
        (SliceAim.SMALLEST, "fastest", SMALL.name),
        (SliceAim.THROUGHPUT, "fastest", MEDIUM.name),
        (SliceAim.OBJECTIVE, "fastest", LARGE.name),
        (SliceAim.OBJECTIVE, "cheapest", MEDIUM.name),
    ],
)
def test_the_site_says_which_slice_is_offered(aim: SliceAim, objective: str, name: str) -> None:
    assert choose(*SLICES, settings=PolicySettings(slices=aim, objective=objective)).chosen == name


def test_the_objective_still_compares_the_slice_with_other_places() -> None:
    decision = choose(*SLICES, cpu())
    assert decision.chosen == SMALL.name
    assert "times faster than cpu" in decision.reason
    whole = gpu("whole", platform="slice-3g.20gb")
    assert choose(*SLICES, whole).chosen == "whole", "the fastest of one slice and a whole GPU"


def test_a_prior_for_a_slice_is_not_acted_on_unless_the_site_says_so() -> None:
    prior = {"basis": Basis.PRIOR}
    assert choose(*SLICES, curve_changes=prior).code == "prior-only"
    bold = PolicySettings(allow_prior=True)
    assert choose(*SLICES, curve_changes=prior, settings=bold).chosen == SMALL.name


def test_several_gpus_are_no_slices_unless_their_type_was_named() -> None:
    assert choose(*SLICES, gpus=2).code == "one-slice"
    assert choose(*SLICES, gpus=2, gres="gpu:2").code == "one-slice"
    assert choose(*SLICES, gpus=2, gres="gpu:2g.10gb:2").chosen == MEDIUM.name


def test_a_gpu_of_any_type_gets_the_type_of_the_slice() -> None:
    decision = choose(*SLICES, gpus=1, gres="gpu:1")
    assert (decision.edit.gres, decision.edit.adds_type) == ("gpu:1g.5gb:1", True)


@pytest.mark.parametrize(
    ("kind", "types", "gres"),
    [
        ("history", ("gpu:1g.5gb",), None),
        ("history", ("gpu:1g.5gb", "gpu:2g.10gb"), "gpu:1g.5gb:1"),
        ("history", (), "gpu:1g.5gb:1"),
        ("program", ("gpu:1g.5gb",), "gpu:1g.5gb:1"),
    ],
)
def test_no_type_is_added_by_use_where_the_queue_has_no_other(
    kind: str, types: tuple[str, ...], gres: str | None
) -> None:
    """Slurm takes no type away: such a job can go back to whole GPUs."""
    decision = choose(
        SMALL, kind=kind, present={SMALL.name: {"gpu_types": types}}, gpus=1, gres="gpu:1"
    )
    assert (decision.edit.queue, decision.edit.gres) == ("mig", gres)
    assert decision.edit.adds_type is (gres is not None)


def test_a_named_type_is_kept() -> None:
    decision = choose(*SLICES, gpus=1, gres="gpu:3g.20gb:1")
    assert decision.chosen == LARGE.name
    assert not decision.edit.adds_type
    assert decision.edit.gres is None


def test_types_of_whole_gpus_are_not_added() -> None:
    whole = gpu("whole", platform="slice-3g.20gb", gres="gpu:a100")
    decision = choose(whole, gpus=1, gres="gpu:1")
    assert not decision.edit.adds_type


def test_slices_read_before_the_scheduler_started_anew_do_not_count() -> None:
    decision = choose(*SLICES, scheduler_since_s=NOW_S - 2)
    assert (decision.chosen, decision.code) == (None, "stale-state")
    assert choose(*SLICES, scheduler_since_s=NOW_S - 60).chosen == SMALL.name
    assert choose(cpu(), scheduler_since_s=NOW_S - 2).chosen == "cpu", "only slices change so"


def test_what_decides_is_in_the_digest() -> None:
    first = choose(*SLICES)
    assert first.id == choose(*reversed(SLICES)).id
    moved = [replace(c, slice_part=0.9) if c is SMALL else c for c in SLICES]
    others = (
        choose(*moved),
        choose(*SLICES, settings=PolicySettings(slices=SliceAim.THROUGHPUT)),
        choose(*SLICES, present={SMALL.name: {"gpu_types": ("gpu:off1",)}}),
        choose(*SLICES, scheduler_since_s=NOW_S - 2),
    )
    assert len({first.id, *(d.id for d in others)}) == 5


@pytest.mark.parametrize(
    ("text", "untyped"),
    [
        ("gpu", True), ("gpu:2", True), ("gres:gpu:1", True), ("gres/gpu=2", True),
        ("gpu:a100:1", False), ("gpu:1g.5gb", False), ("gpu:1,shard:1", False), ("shard:1", False),
        ("gpu:", True), ("mps:1", False), ("gpu:1(S:0)", False),
    ],
)  # fmt: skip
def test_only_bare_gpus_name_no_type(text: str, untyped: bool) -> None:
    assert names_no_type(text) is untyped
