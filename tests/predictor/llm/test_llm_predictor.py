"""The shipped bundle: whole, ordered, narrow where much was measured, silent where nothing was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import array_file, read_arrays
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.prediction import Basis
from berth.predictor.families.language_model import bundle as bundles
from berth.predictor.families.language_model.bundle import DEFAULT_LLM_BUNDLE, RESIDUALS
from berth.predictor.families.language_model.candidates import RULES, Novelty, decide
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.physics import OFFLINE, SATURATED, TPOT
from berth.predictor.families.language_model.predictor import LlmPredictor
from berth.predictor.families.language_model.residual import ties
from berth.predictor.families.language_model.situation import Similarity
from berth.predictor.hardware import platforms
from berth.predictor.hardware.unit import unit_named, units
from lab import datasets
from lab.datasets.llm import BENCH, SERVING, bench_rows, serving_rows
from lab.llm.cases import models, table

LLAMA3 = models()["meta-llama/Meta-Llama-3-8B"]
present = pytest.mark.skipif(
    not all((datasets.folder() / d.path).is_file() for d in (BENCH, SERVING)),
    reason=f"needs {BENCH.path} and {SERVING.path}: set {datasets.FOLDER_VARIABLE}",
)


@pytest.fixture(scope="module")
def predictor() -> LlmPredictor:
    return LlmPredictor.load()


def test_more_bandwidth_serves_more(predictor: LlmPredictor) -> None:
    chosen = [unit_named(n) for n in ("a100-sxm-40gb", "h100-sxm-80gb")]
    slow, fast = predictor.predict(LLAMA3, LlmLoad(16, 1024, 1024), chosen)
    assert fast.throughput.mid > slow.throughput.mid
    assert slow.abstained is None


def test_nothing_is_calibrated_across_versions_of_the_server(predictor: LlmPredictor) -> None:
    device, load = [unit_named("h100-sxm-80gb")], LlmLoad(16, 1024, 1024)
    (unnamed,) = predictor.predict(LLAMA3, load, device)
    (later,) = predictor.predict(LLAMA3, load, device, "vllm 9.9")
    assert {unnamed.basis, later.basis} == {Basis.SCALED}
    assert predictor.model.log_widths[Novelty.VERSION] > 0
    assert min(unnamed.throughput.log_width, later.throughput.log_width) > 0.2


def test_every_rule_is_computed_beside_the_one_that_answers(predictor: LlmPredictor) -> None:
    devices = [unit_named(n) for n in ("h100-sxm-80gb", "mi355x-288gb", "gb200-nvl72")]
    for one in predictor.predict(LLAMA3, LlmLoad(16, 1024, 1024), devices):
        assert tuple(one.by_rule) == RULES
        assert all(0 < rate < 1e7 for rate in one.by_rule.values())
        assert one.rule in RULES


def test_the_rule_that_answers_is_the_best_of_the_held_out_folds(predictor: LlmPredictor) -> None:
    for head in predictor.model.heads.values():
        for choice in head.entry.choices:
            assert choice.rule is decide(choice.errors)
            plain = min(choice.errors[rule].median_error for rule in RULES[:2])
            assert choice.errors[choice.rule].median_error <= 1.02 * plain


def test_nothing_measured_is_said(predictor: LlmPredictor) -> None:
    (found,) = predictor.predict(LLAMA3, LlmLoad(1, 128, 128), [unit_named("tpu-v6e-32gb")])
    assert found.basis is Basis.PRIOR
    assert "nothing was measured on tpu-v6e-32gb" in str(found.abstained)


def test_what_does_not_fit_is_not_predicted(predictor: LlmPredictor) -> None:
    seventy = models()["meta-llama/Meta-Llama-3-70B"]
    place = [unit_named("a100-sxm-40gb")]
    (one,) = predictor.predict(seventy, LlmLoad(1, 128, 128), place)
    assert not one.fits
    assert "does not fit" in str(one.abstained)
    (eight,) = predictor.predict(seventy, LlmLoad(1, 128, 128, tensor_parallel=8), place)
    assert eight.fits


def test_intervals_widen_with_what_is_unknown() -> None:
    model = bundles.load()
    for head in (each.entry for each in model.heads.values()):
        inside = Similarity(Novelty.NOTHING, "h100-sxm-80gb", True)
        relative = replace(inside, novelty=Novelty.DEVICE, is_measured=False)
        far = replace(inside, novelty=Novelty.LOAD, outside=True)
        for new in (far, relative, replace(inside, novelty=Novelty.COMBINATION)):
            assert head.log_width(new, {}) > head.log_width(inside, {})
        both = replace(relative, outside=True)
        parts = [head.log_width(new, {}) for new in (relative, far)]
        assert head.log_width(both, {}) == pytest.approx(math.hypot(*parts))
        other = replace(inside, novelty=Novelty.SERVER, framework="vllm")
        assert head.log_width(other, model.log_widths) > head.log_width(inside, {})
        assert head.log_width(replace(inside, apart=True), {}) == bundles.UNMEASURED
    full, version = model.heads[SATURATED].entry, model.log_widths[Novelty.VERSION]
    assert full.log_width(far, model.log_widths) >= version > full.log_width(far, {})


@pytest.mark.parametrize("name", [
    "a100-sxm-80gb", "a100-40gb", "h100-80gb", "h200-141gb", "b200-sxm-180gb", "l40s-48gb",
    "mi300x-192gb",
])  # fmt: skip
def test_the_default_load_is_answered_where_vllm_was_measured_nearby(
    predictor: LlmPredictor, name: str
) -> None:
    device = units(platforms.shipped()).get(name) or unit_named(name)
    (served,) = predictor.predict(LLAMA3, LlmLoad(1, 1024, 128), [device])
    assert served.abstained is None
    assert served.basis in {Basis.CALIBRATED, Basis.SCALED}
    assert served.tuned_log_width < math.log(3)


def test_every_device_is_answered_in_order(predictor: LlmPredictor) -> None:
    places = list(units(platforms.shipped()).values())
    found = predictor.predict(LLAMA3, LlmLoad(4, 512, 512), places, "trtllm", 300.0)
    assert [p.device for p in found] == [d.name for d in places]
    for p in found:
        assert all(math.isfinite(v.high) for v in (p.throughput, p.ttft_s, p.tpot_s))
    assert predictor.predict(LLAMA3, LlmLoad(1, 1, 1), []) == []


def test_the_same_question_has_the_same_answer_beside_others(predictor: LlmPredictor) -> None:
    places = list(units(platforms.shipped()).values())
    work = LlmLoad(8, 1024, 128)
    together = predictor.predict(LLAMA3, work, places)
    alone = [predictor.predict(LLAMA3, work, [d])[0] for d in places]
    assert [p.throughput.mid for p in together] == pytest.approx([p.throughput.mid for p in alone])


@pytest.mark.slow
@present
def test_the_shipped_bundle_knows_what_it_was_trained_on(predictor: LlmPredictor) -> None:
    for head, worst in ((OFFLINE, 0.05), (TPOT, 0.1)):
        found = predictor.model.heads[head]
        data = table(head)
        assert set(found.entry.models) == set(data.codes.models)
        tied = ties(data.cases, data.frameworks, found.entry)
        from lab.llm.effects import physics

        said = physics(data, found.entry.effects) + found.residual(tied, data.numbers)
        assert np.median(np.abs(np.expm1(said - data.log_seconds))) < worst


@present
def test_the_data_sets_are_read_as_their_notes_say() -> None:
    rows = bench_rows()
    assert len(rows) == 3791
    assert all(r.latency_s > 0 for r in rows)
    served = serving_rows()
    assert len(set(served)) == len(served)
    assert {r.system for r in served} == {"b200_sxm", "b300_sxm", "h100_sxm"}


def test_servers_on_one_device_are_within_each_others_intervals(predictor: LlmPredictor) -> None:
    device = unit_named("h100-sxm-80gb")
    measured, other = (
        predictor.predict(LLAMA3, LlmLoad(1, 1024, 128), [device], name)[0]
        for name in ("vllm", "sglang")
    )
    assert other.abstained is None
    assert other.basis is Basis.SCALED
    assert other.throughput.low < measured.throughput.high
    assert measured.throughput.low < other.throughput.high


@pytest.mark.parametrize("spoil", [
    lambda arrays: arrays.pop("weights/ttft"),
    lambda arrays: arrays.update({"ties/tpot": arrays["ties/tpot"][1:]}),
    lambda arrays: arrays.update({"numbers/offline": arrays["numbers/offline"] * np.nan}),
    lambda arrays: arrays.update({"weights/ttft": np.array(["a"])}),
], ids=["missing", "a row too few", "not a number", "a text"])  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(spoil: Callable[..., object], tmp_path: Path) -> None:
    arrays = read_arrays(DEFAULT_LLM_BUNDLE / RESIDUALS, 2**30)
    spoil(arrays)
    with pytest.raises(DocumentError, match=r"residuals\.npz"):
        write_bundle(
            tmp_path / "b", bundles.verify(), {RESIDUALS: array_file(arrays)}, load=bundles.load
        )


def test_the_bundle_is_small_and_says_its_figures() -> None:
    size = sum(p.stat().st_size for p in DEFAULT_LLM_BUNDLE.iterdir())
    assert size < 1_000_000
    manifest = bundles.verify()
    assert any("new combination" in name for name in manifest.figures)
    assert "not verified" in (DEFAULT_LLM_BUNDLE / "CARD.md").read_text(encoding="utf-8")
