"""A new platform by few workloads: near the kind's prior, honest about what is not known."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from toy_profiles import examples, profile

from berth.pilot.documents import write_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.profile import Profile
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE, Calibration, Formula, load
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.suite import suite_profiles, timed
from berth.predictor.hardware import platforms
from berth.predictor.learning.programs.adapt import adapt, adapted
from berth.predictor.learning.programs.columns import pair_columns, pairs_of
from berth.predictor.learning.programs.prior import shrunk_prior

NEW = "p100-16gb"
NODE = "rome-7742"
SLOWER = 1.6
"""The made-up P100 is so much slower than its roofline says."""


def campaign(count: int, factor: float = SLOWER, noise: float = 0.05) -> list[Profile]:
    """The toy workloads here, and on the new platform by its roofline times ``factor``."""
    known = platforms.load()
    rng = np.random.default_rng(3)
    found = []
    for example in examples(kernels=count, sizes=(4000000,)):
        here = example.profile
        trial = profile(here.name, platform=NEW, runtime_s=1.0)
        columns = pair_columns(pairs_of([here, trial], known[NEW], known), known[NEW], known)
        roof = float(columns.fixed_s[0] + columns.parallel_s[0] * factor)
        runtime_s = roof * math.exp(rng.normal(0, noise))
        found += [here, profile(here.name, platform=NEW, runtime_s=runtime_s)]
    return found


def columns_of(profiles):
    known = platforms.load()
    return pair_columns(pairs_of(profiles, known[NEW], known), known[NEW], known)


def write(tmp_path: Path, toy_bundle: Path, profiles) -> Path:
    known = platforms.load()
    out = tmp_path / "adapted"
    adapt(toy_bundle, profiles, known[NEW], known, out, command="test")
    return out


def test_without_labels_the_prior_stays() -> None:
    start = Formula(bias=0.2, carry=0.1, reduction_s=1e-5)
    empty = columns_of(campaign(1)).take(np.array([], dtype=int))
    assert shrunk_prior(empty, start) == start


def test_the_more_labels_the_nearer_to_them() -> None:
    start, truth = Formula(bias=0.0, carry=0.0), math.log(SLOWER)
    biases = [shrunk_prior(columns_of(campaign(k)), start).bias for k in (1, 4, 12)]
    assert abs(biases[2] - truth) < abs(biases[1] - truth) < abs(biases[0] - truth)
    assert abs(biases[2] - truth) < 0.15
    assert biases[0] < 0.3


def test_one_odd_workload_hardly_moves_the_prior() -> None:
    odd = campaign(6, factor=1.0)
    slow = odd[1].runtime.model_copy(update={"median_s": odd[1].runtime.median_s * 100})
    odd[1] = odd[1].model_copy(update={"runtime": slow})
    assert abs(shrunk_prior(columns_of(odd), Formula(bias=0.0, carry=0.0)).bias) < 0.15


def test_few_labels_have_the_interval_of_a_platform_without_any_at_least() -> None:
    kind = Calibration(bias=0.0, carry=0.0, reduction_s=0.0, score_quantile=0.5)
    few, many = (adapted(columns_of(campaign(count)), kind).score_quantile for count in (3, 14))
    assert few >= 0.5 * 1.5
    assert many < few


def test_an_adapted_bundle_loads_and_predicts_the_platform(tmp_path, toy_bundle) -> None:
    out = write(tmp_path, toy_bundle, campaign(14))
    known = platforms.load()
    here = campaign(1)[0]
    before = Predictor.load(toy_bundle).predict(here, known[NEW], reference=known[here.platform])
    after = Predictor.load(out).predict(here, known[NEW], reference=known[here.platform])
    assert before.basis is Basis.PRIOR
    assert after.basis is Basis.CALIBRATED
    truth = campaign(1)[1].runtime.median_s
    assert abs(math.log(after.runtime_s.mid / truth)) < abs(math.log(before.runtime_s.mid / truth))
    assert after.runtime_s.low < truth < after.runtime_s.high


def test_with_few_workloads_its_basis_stays_a_prior(tmp_path, toy_bundle) -> None:
    out = write(tmp_path, toy_bundle, campaign(4))
    known = platforms.load()
    here = campaign(1)[0]
    found = Predictor.load(out).predict(here, known[NEW], reference=known[here.platform])
    assert found.basis is Basis.PRIOR


def test_other_platforms_are_predicted_as_before(tmp_path, toy_bundle) -> None:
    out, known, here = write(tmp_path, toy_bundle, campaign(4)), platforms.load(), campaign(1)[0]
    old, new = Predictor.load(toy_bundle), Predictor.load(out)
    for name in ("quartz", "lassen-v100", "mi50-32gb"):
        args = {"reference": known[here.platform]}
        assert old.predict(here, known[name], **args) == new.predict(here, known[name], **args)


def test_adapting_again_replaces_the_platform(tmp_path, toy_bundle) -> None:
    first = write(tmp_path, toy_bundle, campaign(3))
    again = write(tmp_path / "again", first, campaign(5))
    entries = [e for e in load(again).manifest.labelled if e.platform == NEW]
    assert [e.rows for e in entries] == [5]


def test_the_same_labels_give_the_same_bundle(tmp_path, toy_bundle) -> None:
    one = write(tmp_path / "one", toy_bundle, campaign(3))
    two = write(tmp_path / "two", toy_bundle, campaign(3))
    assert load(one).id == load(two).id != load(toy_bundle).id


def test_the_reference_kernels_tell_loops_and_no_programs(tmp_path: Path) -> None:
    known = platforms.load()
    here = list(suite_profiles().values())
    there = timed(NODE, {p.name: 2.0 * p.runtime.median_s for p in here})
    adapt(DEFAULT_BUNDLE, [*here, *there], known[NODE], known, tmp_path / "out", command="test")
    (entry,) = [e for e in load(tmp_path / "out").manifest.labelled if e.platform == NODE]
    assert entry.own_time is None
    assert entry.prior is not None


def test_adapting_needs_no_training_library() -> None:
    code = (
        "import sys, berth.predictor.learning.programs.adapt\n"
        "print(sorted({'xgboost', 'sklearn', 'scipy', 'onnx', 'onnxmltools', 'pandas'}"
        " & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def spoilt(what: str) -> list[Profile]:
    found = campaign(2)
    if what == "alone":
        return found[1:2]
    if what == "failed":
        found[1] = found[1].model_copy(update={"exit_status": 1})
    if what == "elsewhere":
        return [found[0], found[2]]
    if what == "twice":
        found.append(found[1])
    if what == "ambiguous":
        found.append(found[0])
    if what == "unknown":
        found[0] = found[0].model_copy(update={"platform": "nowhere"})
    if what == "counts":
        runs_on = found[1].runs_on.model_copy(update={"gpus": 2})
        found[1] = found[1].model_copy(update={"runs_on": runs_on})
    return found


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("alone", "was measured on 'p100-16gb' only"),
        ("failed", "did not complete"),
        ("elsewhere", "no profile was measured on 'p100-16gb'"),
        ("twice", "was run on 'p100-16gb' twice"),
        ("ambiguous", "has 2 profiles elsewhere"),
        ("unknown", "not a known platform"),
        ("counts", "used 1, 2 GPUs"),
    ],
)
def test_profiles_that_cannot_be_learnt_from_write_nothing(
    tmp_path, toy_bundle, what, said
) -> None:
    known = platforms.load()
    with pytest.raises(UsageError, match=said):
        adapt(toy_bundle, spoilt(what), known[NEW], known, tmp_path / "o", command="t")
    assert not (tmp_path / "o").exists()


def test_a_changed_bundle_is_not_adapted(tmp_path, toy_bundle) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(toy_bundle, broken)
    (broken / "range.json").write_text("{}")
    known = platforms.load()
    with pytest.raises(DocumentError):
        adapt(broken, campaign(2), known[NEW], known, tmp_path / "o", command="t")


def test_the_command_takes_single_profiles_and_lines_of_them(tmp_path, toy_bundle, capsys) -> None:
    profiles = campaign(3)
    lines = tmp_path / "here.jsonl"
    lines.write_text("".join(p.model_dump_json(by_alias=True) + "\n" for p in profiles[::2]))
    files = [lines]
    for index, there in enumerate(profiles[1::2]):
        files.append(tmp_path / f"{index}.json")
        write_json(files[-1], there)
    out = tmp_path / "out"
    assert run("train", "--adapt", toy_bundle, "--platform", NEW, *files, "--out", out) == 0
    assert f"{NEW} by 3 workloads" in capsys.readouterr().out
    assert load(out).manifest.labelled[0].platform == NEW


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--adapt", "default"), "go together"),
        (("--platform", NEW), "go together"),
        (("--adapt", "default", "--platform", NEW), "no PROFILES"),
        (("--adapt", "default", "--platform", NEW, "--task", "llm"), "'llm' is not one of"),
        (("--adapt", "nowhere", "--platform", "p1000", "none.json"), "does not exist"),
        (("a.jsonl", "b.jsonl"), "--task programs needs --adapt BUNDLE"),
    ],
)
def test_wrong_use_is_one_sentence(tmp_path, capsys, words, said) -> None:
    assert run("train", *words, "--out", tmp_path / "out") == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()
