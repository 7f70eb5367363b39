"""VAE + DNN: learns, does so again alike, lives with missing labels, refuses what cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_rows import toy

pytest.importorskip("torch", reason="needs the extra `deep`")

from berth.pilot.errors import UsageError
from berth.predictor.core.bundle import open_model
from berth.predictor.families.relative.bundle import OnnxModel
from berth.predictor.families.relative.rows import Rows
from lab.published.vae.network import VaeDnn, train_network
from lab.published.vae.vae_dnn import VaeFamily
from lab.relative.families import log_features

SMALL = VaeDnn(
    latent=3,
    hidden=(32,),
    dnn=(96, 96, 96),
    calibration_epochs=150,
    vae_epochs=300,
    dnn_epochs=200,
    vae_learning_rate=5e-3,
)
FAMILY = VaeFamily(cpus=("cpu",), settings=SMALL)


def bound(count: int = 24) -> Rows:
    """Memory-bound rows are as fast on both, compute-bound ones eight times faster on the GPU."""
    random = np.random.default_rng(0)
    compute = random.random(count) < 0.5
    work = random.uniform(12, 18, count)
    here = work - 20
    there = np.where(compute, here - np.log(8), here + 0.1)
    return Rows(
        counters=("flops", "bytes"),
        values=np.exp(np.column_stack([work + 3 * compute, work])),
        platforms=("cpu", "gpu"),
        reference="cpu",
        log_seconds=np.column_stack([here, there]),
        applications=tuple(f"app{i % 4}" for i in range(count)),
        kernels=tuple("kernel" for _ in range(count)),
        sizes=tuple(str(i) for i in range(count)),
    )


def test_it_learns_what_counters_tell() -> None:
    rows = bound(80)
    seen, asked = rows.take(range(60)), rows.take(range(60, 80))
    guess = FAMILY.fit(seen, 0).log_seconds(asked.knowing())[:, 1]
    faster = asked.log_speedup[:, 1] > 1
    assert ((asked.log_reference - guess > 1) == faster).mean() >= 0.9


def test_known_times_are_given_back() -> None:
    rows = bound()
    assert FAMILY.fit(rows, 0).log_seconds(rows) == pytest.approx(rows.log_seconds)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_predictions_and_another_seed_others() -> None:
    rows = toy()
    found = [FAMILY.fit(rows, seed).log_seconds(rows.knowing()) for seed in (1, 1, 2)]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_missing_labels_and_counters_are_lived_with() -> None:
    rows = bound()
    times, values = rows.log_seconds.copy(), rows.values.copy()
    times[::3, 1] = np.nan
    values[1::4, 0] = np.nan
    told = replace(rows, log_seconds=times, values=values)
    found = FAMILY.fit(told, 0).log_seconds(told.knowing())
    assert np.isfinite(found).all()


def test_constant_counters_and_a_platform_without_labels_give_finite_times() -> None:
    rows = toy()
    times = rows.log_seconds.copy()
    times[:, 2] = np.nan
    told = replace(rows, values=np.ones_like(rows.values), log_seconds=times)
    assert np.isfinite(FAMILY.fit(told, 0).log_seconds(told.knowing())).all()


def test_the_decoder_is_calibrated_on_rows_that_are_fastest_on_a_cpu() -> None:
    rows = bound()
    chosen = FAMILY.on_cpu(rows).astype(bool)
    assert (chosen == (rows.log_speedup[:, 1] < 0)).all()
    assert VaeFamily(counted_on_cpu=True).on_cpu(rows).all()


def test_all_steps_lower_their_loss_and_too_few_cpu_rows_leave_the_first_out() -> None:
    rows = bound()
    _, history = train_network(log_features(rows), rows.log_speedup, np.ones(len(rows)), SMALL, 0)
    assert history.calibration[-1] < history.calibration[0]
    assert np.isfinite(history.vae).all()
    assert history.feedback[-1] < history.feedback[0]
    assert history.dnn[-1] < history.dnn[0]
    _, history = train_network(log_features(rows), rows.log_speedup, np.zeros(len(rows)), SMALL, 0)
    assert not history.calibration


def test_served_as_a_bundles_model_it_says_the_same(tmp_path: Path) -> None:
    rows = bound()
    fitted = FAMILY.fit(rows, 0)
    path = tmp_path / "model.onnx"
    path.write_bytes(fitted.onnx(rows))
    served = OnnxModel(rows.counters, rows.platforms, rows.reference, open_model(path))
    guess, ours = (model.log_seconds(rows.knowing()) for model in (served, fitted))
    assert guess == pytest.approx(ours, abs=1e-4)


def test_nothing_to_learn_from_is_said() -> None:
    rows = toy()
    nothing = np.full_like(rows.log_speedup, np.nan)
    with pytest.raises(UsageError, match="two rows and one label"):
        train_network(log_features(rows), nothing, np.zeros(len(rows)), SMALL, 0)
    with pytest.raises(UsageError, match="two rows and one label"):
        FAMILY.fit(rows.take([0]), 0)
