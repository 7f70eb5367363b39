"""What limits a program is named as the served prediction has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from toy_profiles import PLATFORM, profile

from berth.pilot.documents import write_json
from berth.pilot.profile import Profile
from berth.plugin.cli import main
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.explain import Bottleneck, bottlenecks
from berth.predictor.families.program.predictor import Predictor, usable_cores
from berth.predictor.hardware import platforms
from berth.predictor.hardware.ceilings import Allocation

NAMES = ("quartz", "lassen-v100", "h100-80gb", "epyc-genoa-9654", PLATFORM)


def points_of(one: Profile, names: Sequence[str] = NAMES) -> list[Allocation]:
    known = platforms.load()
    return [
        Allocation(known[n], 1 if known[n].is_gpu else usable_cores(one, known[n])) for n in names
    ]


def explained_by(predictor: Predictor, one: Profile) -> dict[str, Bottleneck]:
    reference = platforms.load().get(one.platform)
    found = bottlenecks(predictor, one, points_of(one), reference=reference)
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
def test_what_limits_a_program_is_that_of_its_served_prediction(
    predictor: Predictor, name: str
) -> None:
    one = PROGRAMS[name]
    reference = platforms.load().get(one.platform)
    served = predictor.predict_points(one, points_of(one), reference=reference)
    found = bottlenecks(predictor, one, points_of(one), reference=reference)
    for prediction, limited in zip(served, found, strict=True):
        assert limited.platform == prediction.platform
        assert limited.speedup == pytest.approx(prediction.speedup.mid, rel=1e-6)
        assert limited.bound is prediction.bound
        assert 0 < limited.limit_share <= 1


@pytest.mark.parametrize(
    ("name", "bound", "limit"),
    [
        ("launches", Bound.LAUNCH, "starting parallel regions or kernels"),
        ("atomics", Bound.LATENCY, "contended atomic updates"),
        ("stream", Bound.MEMORY, "main-memory traffic"),
    ],
)
def test_the_limiting_resource_of_a_gpu_is_named(
    predictor: Predictor, name: str, bound: Bound, limit: str
) -> None:
    found = explained_by(predictor, PROGRAMS[name])["h100-80gb"]
    assert (found.bound, found.limit) == (bound, limit)
    assert f"{bound.value}-bound there" in found.sentence()
    assert limit in found.sentence()


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
    assert reason["limit"] == "starting parallel regions or kernels"
    main([*arguments, "--json"])
    assert "explanations" not in json.loads(capsys.readouterr().out)
