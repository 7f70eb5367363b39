"""A site's platform from few runs: the bundle that comes of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import model_samples
import numpy as np
import pytest

from berth.pilot.dl.document import Outcome
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli import main
from berth.predictor.core.arrays import read_arrays
from berth.predictor.core.prediction import Basis
from berth.predictor.families.graph.latency.features import work_of
from berth.predictor.families.graph.transfer import bundle
from berth.predictor.graphs.reader import read_graph
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import roof_of
from berth.predictor.learning.graphs import adapt
from lab.latency.timm_devices import DEVICES, platform_of

NEW = "epyc-genoa-vm"
FACTOR = 3.0


@pytest.fixture(scope="module")
def known() -> dict[str, platforms.Platform]:
    return dict(platforms.shipped())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return model_samples.models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def adapted(
    tiny_bundle: Path,
    files: list[Path],
    known: dict[str, platforms.Platform],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """By the first eight models."""
    out = tmp_path_factory.mktemp("adapted") / "bundle"
    runs = model_samples.runs(files[:8], roof_of(known[NEW], known, 1), factor=FACTOR)
    samples = adapt.samples_of(runs, adapt.from_files(files[:8]), known[NEW], known)
    found = adapt.adapt(tiny_bundle, known[NEW], samples, out, command="a test")
    assert found.samples == 16
    assert np.median(found.after) < np.median(found.before)
    return out


def test_a_model_never_measured_there_is_predicted_by_the_samples(
    adapted: Path, tiny_bundle: Path, files: list[Path], known: dict[str, platforms.Platform]
) -> None:
    roof = roof_of(known[NEW], known, 1)
    for path in files[8:]:
        taken = model_samples.run_of(path, roof, batch=2, factor=FACTOR).latency
        work = work_of(read_graph(path, batch=2))
        found = bundle.load(adapted).seconds(work, roof, Numbers.FP32, 2)
        blind = bundle.load(tiny_bundle).seconds(work, roof, Numbers.FP32, 2)
        assert taken is not None
        off = abs(np.log(found.mid / taken.median_s))
        assert off < 0.3
        assert off < abs(np.log(blind.mid / taken.median_s))
    assert bundle.load(adapted).basis(NEW) is Basis.CALIBRATED
    assert bundle.load(tiny_bundle).basis(NEW) is Basis.PRIOR


def test_a_case_is_asked_of_its_own_device_and_stack(
    adapted: Path, files: list[Path], known: dict[str, platforms.Platform]
) -> None:
    """A model that was measured is predicted as the process stands on its own case."""
    posterior, residual, _, _ = bundle.read(adapted)
    own = np.flatnonzero(posterior.cases.device == posterior.devices.index(NEW))
    told = posterior.log_seconds(posterior.cases[own]) - posterior.cases.log_roof[own]
    assert np.abs(told - residual[own]).max() < 0.1
    roof = roof_of(known[NEW], known, 1)
    work = work_of(read_graph(files[0], batch=1))
    one = posterior.cases[own[:1]]
    found = posterior.seconds(work, roof, Numbers.FP32, 1).mid
    assert posterior.stacks[int(one.stack[0])] == f"{NEW}/fp32/onnxruntime/1"
    assert np.log(found) == pytest.approx(float(posterior.log_seconds(one)[0]), abs=0.05)


def test_weights_are_those_of_all_cases_solved_at_once(adapted: Path) -> None:
    posterior, residual, noise, _ = bundle.read(adapted)
    matrix = posterior.kernel.covariance(
        posterior.cases, posterior.cases, posterior.own[posterior.cases.device]
    )
    matrix += np.diag(noise**2)
    assert matrix @ posterior.weights == pytest.approx(residual - posterior.offset, abs=1e-3)


def test_samples_given_again_replace_the_former_ones(
    adapted: Path, files: list[Path], known: dict[str, platforms.Platform], tmp_path: Path
) -> None:
    runs = model_samples.runs(files[:4], roof_of(known[NEW], known, 1))
    samples = adapt.samples_of(runs, adapt.from_files(files), known[NEW], known)
    adapt.adapt(adapted, known[NEW], samples, tmp_path / "again", command="a test")
    posterior = bundle.load(tmp_path / "again")
    assert posterior.samples == {NEW: 8}
    assert len(posterior.cases) == len(bundle.load(adapted).cases) - 8


def test_the_same_samples_give_the_same_bundle(
    tiny_bundle: Path, files: list[Path], known: dict[str, platforms.Platform], tmp_path: Path
) -> None:
    runs = model_samples.runs(files[:4], roof_of(known[NEW], known, 1))
    samples = adapt.samples_of(runs, adapt.from_files(files), known[NEW], known)
    ids = {
        adapt.adapt(tiny_bundle, known[NEW], samples, tmp_path / name, command="x").manifest.id
        for name in ("one", "two")
    }
    assert len(ids) == 1


def test_the_interval_counts_models_and_not_their_runs(
    adapted: Path, files: list[Path], known: dict[str, platforms.Platform], tmp_path: Path
) -> None:
    roof = roof_of(known[NEW], known, 1)
    runs = [
        model_samples.run_of(files[0], roof, batch=batch) for batch in (1, 2, 3, 4, 6, 8, 12, 16)
    ]
    samples = adapt.samples_of(runs, adapt.from_files(files), known[NEW], known)
    found = adapt.adapt(adapted, known[NEW], samples, tmp_path / "one", command="a test")
    assert (found.samples, found.models) == (8, 1)
    one = bundle.load(tmp_path / "one")
    assert one.models(NEW) == 1
    assert one.log_width(NEW, gpu=False) == one.log_width_of(1, gpu=False)
    assert one.log_width_of(1, gpu=False) > one.log_width_of(8, gpu=False)
    assert bundle.load(adapted).models(NEW) == 8


def test_runs_that_say_nothing_are_left_out_and_none_at_all_is_refused(
    files: list[Path], known: dict[str, platforms.Platform]
) -> None:
    roof = roof_of(known[NEW], known, 1)
    good = model_samples.run_of(files[0], roof)
    failed = good.model_copy(
        update={"outcome": Outcome.CRASHED, "reason": "no", "latency": None, "processor_time": None}
    )
    own = adapt.from_files(files)
    assert len(adapt.samples_of([good, failed], own, known[NEW], known)) == 1
    with pytest.raises(UsageError, match="none of the 1 runs is of inference"):
        adapt.samples_of([failed], own, known[NEW], known)
    with pytest.raises(UsageError, match="the model of none of the 1 runs"):
        adapt.samples_of([good], adapt.from_files([]), known[NEW], known)
    two = good.model_copy(update={"setting": good.setting.model_copy(update={"threads": 2})})
    with pytest.raises(UsageError, match="1, 2 threads"):
        adapt.samples_of([good, two], own, known[NEW], known)


def test_a_platform_of_the_data_set_is_not_replaced(
    tiny_bundle: Path, files: list[Path], known: dict[str, platforms.Platform], tmp_path: Path
) -> None:
    place = known["i7-12700h"]
    runs = model_samples.runs(files[:2], roof_of(place, known, 1))
    samples = adapt.samples_of(runs, adapt.from_files(files), place, known)
    with pytest.raises(UsageError, match="in the data set already"):
        adapt.adapt(tiny_bundle, place, samples, tmp_path / "no", command="x")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("broken", ["cut", "nan"])
def test_a_damaged_file_of_arrays_is_one_sentence(
    adapted: Path, tmp_path: Path, broken: str
) -> None:
    path = tmp_path / bundle.CASES
    raw = (adapted / bundle.CASES).read_bytes()
    if broken == "cut":
        path.write_bytes(raw[:-200])
    else:
        np.savez(path, weights=np.array(["x"], dtype=object), allow_pickle=True)
    with pytest.raises(DocumentError, match="is not a file of arrays"):
        read_arrays(path, 2**20)


def test_arrays_larger_than_they_may_be_are_refused(adapted: Path) -> None:
    with pytest.raises(DocumentError, match="holds more than 100 bytes"):
        read_arrays(adapted / bundle.CASES, 100)


def run(*arguments: object) -> int:
    try:
        main([str(one) for one in arguments])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def test_commands_adapt_and_predict(
    tiny_bundle: Path,
    files: list[Path],
    known: dict[str, platforms.Platform],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = model_samples.runs(files[:6], roof_of(known[NEW], known, 1), factor=FACTOR)
    log = tmp_path / "runs.jsonl"
    log.write_text("".join(run.model_dump_json(by_alias=True) + "\n" for run in runs))
    train = ["train", "--task", "models", "--adapt", tiny_bundle]
    out = tmp_path / "site"
    assert run(*train, "--platform", NEW, log, *files, "--out", out) == 0
    assert "12 runs" in capsys.readouterr().out
    assert run("predict", files[-1], "--platform", NEW, "--bundle", out, "--json") == 0
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert [(one["platform"], one["basis"]) for one in found] == [(NEW, "calibrated")]
    assert run(*train, "--platform", NEW, tmp_path / "a.csv", "--out", out) == 2
    assert "neither runs nor a model" in capsys.readouterr().err
    assert run(*train, "--platform", "h100-80gb", log, *files, "--out", tmp_path / "n") == 2
    assert f"the runs are of: {NEW}" in capsys.readouterr().err


def test_advice_names_as_many_models_as_asked(
    tiny_bundle: Path, files: list[Path], known: dict[str, platforms.Platform]
) -> None:
    works = [work_of(read_graph(path, batch=1)) for path in files]
    place = (roof_of(known[NEW], known, 1), Numbers.FP32)
    order = adapt.advised(tiny_bundle, works, place, batch=1, count=5)
    assert len(set(order)) == 5
    assert set(order) <= set(range(len(files)))


def test_the_shipped_bundle_is_whole_and_knows_its_devices() -> None:
    posterior = bundle.load()
    assert {platform_of(name) for name in DEVICES} == set(posterior.devices)
    assert not posterior.samples
    assert posterior.log_width_of(32, gpu=True) < posterior.log_width_of(0, gpu=True)
    assert posterior.log_width_of(32, gpu=False) < posterior.log_width_of(0, gpu=False)
    told = posterior.log_seconds(posterior.cases[:50]) - posterior.cases.log_roof[:50]
    assert np.abs(told - bundle.read(bundle.DEFAULT_TRANSFER)[1][:50]).max() < 0.2
