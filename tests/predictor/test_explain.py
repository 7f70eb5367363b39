"""Explanations: they add up to the served prediction, name the right counter and bound."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from toy_profiles import PLATFORM, profile

from berth.pilot.documents import write_json
from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.plugin.cli import main
from berth.plugin.pictures import explained
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.explain import (
    GROUPS,
    CounterEffect,
    SpeedupExplanation,
    explain,
)
from berth.predictor.families.program.predictor import Predictor, usable_cores
from berth.predictor.hardware import platforms
from berth.predictor.hardware.ceilings import Allocation

NAMES = ("quartz", "lassen-v100", "h100-80gb", "epyc-genoa-9654", PLATFORM)


def points_of(one: Profile, names: Sequence[str] = NAMES) -> list[Allocation]:
    known = platforms.load()
    return [
        Allocation(known[n], 1 if known[n].is_gpu else usable_cores(one, known[n])) for n in names
    ]


def explained_by(predictor: Predictor, one: Profile) -> dict[str, SpeedupExplanation]:
    reference = platforms.load().get(one.platform)
    found = explain(predictor, one, points_of(one), reference=reference)
    return {e.platform: e for e in found}


PROGRAMS = {
    "stream": profile(),
    "dense": profile(bytes_moved=1e6, flops=5e9),
    "launches": profile(bytes_moved=1e5, flops=1e4, regions=500.0),
    "atomics": profile(counters={"atomic_ops": 1e9}),
    "regions unknown": profile(regions=None),
    "no loads": profile(counters={"loads": 0.0, "l1_load_misses": 0.0, "l2_load_misses": 0.0}),
    "part of a run": profile().model_copy(
        update={
            "counters": {
                k: m.model_copy(update={"complete": False}) for k, m in profile().counters.items()
            }
        }
    ),
    "elsewhere": profile(platform="somewhere-else"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_effects_multiply_up_to_the_speedup_that_is_served(predictor: Predictor, name: str) -> None:
    one = PROGRAMS[name]
    reference = platforms.load().get(one.platform)
    served = predictor.predict_points(one, points_of(one), reference=reference)
    found = explain(predictor, one, points_of(one), reference=reference)
    for prediction, e in zip(served, found, strict=True):
        assert e.platform == prediction.platform
        assert e.speedup == pytest.approx(prediction.speedup.mid, rel=1e-6)
        product = e.typical_speedup * math.prod(x.factor for x in e.effects)
        assert product == pytest.approx(e.speedup, rel=1e-9)
        assert e.bound is prediction.bound
        assert 0 < e.limit_share <= 1


def test_many_small_regions_are_named_as_what_keeps_the_gpu_from_gaining(
    predictor: Predictor,
) -> None:
    e = explained_by(predictor, PROGRAMS["launches"])["h100-80gb"]
    assert e.bound is Bound.LAUNCH
    assert e.effects[0].name == "parallel regions"
    assert e.effects[0].factor < 0.5
    assert "launch-bound" in e.sentence()
    assert "parallel regions (x1/" in e.sentence()


def test_contended_atomics_are_named(predictor: Predictor) -> None:
    e = explained_by(predictor, PROGRAMS["atomics"])["h100-80gb"]
    assert e.bound is Bound.LATENCY
    assert e.limit == "contended atomic updates"
    assert next(x for x in e.effects if x.name == "atomic updates").factor < 1


def test_a_stream_is_memory_bound_on_a_gpu_by_its_own_memory(predictor: Predictor) -> None:
    e = explained_by(predictor, PROGRAMS["stream"])["h100-80gb"]
    assert e.bound is Bound.MEMORY
    assert e.limit == "main-memory traffic"


def test_what_was_not_measured_moves_nothing(predictor: Predictor) -> None:
    e = explained_by(predictor, PROGRAMS["regions unknown"])["h100-80gb"]
    assert next(x for x in e.effects if x.name == "parallel regions").factor == 1.0


def test_at_home_the_run_itself_tells_the_time(predictor: Predictor) -> None:
    e = explained_by(predictor, PROGRAMS["stream"])[PLATFORM]
    assert e.at_home
    assert e.speedup == pytest.approx(1.0)
    assert all(x.factor == pytest.approx(1.0) for x in e.effects)
    assert "no counter moves it" in e.sentence()


def test_groups_name_counters_of_the_profile_and_cover_each_column_once() -> None:
    columns = [column for _, _, group in GROUPS for column in group]
    assert len(columns) == len(set(columns))
    assert all(counters for _, counters, _ in GROUPS)


def test_at_most_three_effects_are_named_and_none_below_a_per_cent() -> None:
    effects = tuple(
        CounterEffect(f"e{i}", (), f) for i, f in enumerate([3.0, 0.5, 1.2, 1.1, 1.001])
    )
    made = SpeedupExplanation("p", 2.0, 1.0, Bound.MEMORY, "x", 0.5, effects, False, {})
    assert [e.name for e in made.largest] == ["e0", "e1", "e2"]
    still = SpeedupExplanation("p", 1.0, 1.0, Bound.MEMORY, "x", 0.5, effects[4:], False, {})
    assert "no counter moves it by more than 1 %" in still.sentence()


def test_the_command_explains_in_words_and_in_json(
    tmp_path: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    write_json(path, PROGRAMS["launches"])
    arguments = ["predict", str(path), "--bundle", str(toy_bundle), "--platform", "h100-80gb"]
    main([*arguments, "--explain"])
    assert "launch-bound there" in capsys.readouterr().out
    main([*arguments, "--explain", "--json"])
    [reason] = json.loads(capsys.readouterr().out)["explanations"]
    assert reason["bound"] == "launch"
    assert len(reason["effects"]) == len(GROUPS)
    main([*arguments, "--json"])
    assert "explanations" not in json.loads(capsys.readouterr().out)


def test_the_same_explanation_draws_the_same_picture(predictor: Predictor) -> None:
    pytest.importorskip("matplotlib")
    found = list(explained_by(predictor, PROGRAMS["stream"]).values())
    assert explained.svg("stream", found) == explained.svg("stream", found)


def test_a_picture_of_nothing_is_refused(predictor: Predictor) -> None:
    pytest.importorskip("matplotlib")
    found = explained_by(predictor, PROGRAMS["stream"])
    with pytest.raises(UsageError, match="no platform"):
        explained.svg("x", [found[PLATFORM]])
