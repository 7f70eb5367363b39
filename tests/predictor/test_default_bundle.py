"""The shipped bundle: whole, described, and sane on the programs it was made from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from berth.pilot.profile import read_profiles
from berth.predictor.core.bundle import CARD
from berth.predictor.families.program import bundle as bundles
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms
from lab.datasets import folder
from lab.datasets.rajaperf import LABELS, RAJAPERF
from lab.kernels.examples import PROFILES, digest, read_examples

ALL = platforms.shipped()


@pytest.fixture(scope="module")
def shipped() -> Predictor:
    return Predictor.load()


def test_it_is_whole_and_labelled() -> None:
    manifest = bundles.verify(DEFAULT_BUNDLE)
    assert {entry.platform for entry in manifest.labelled} == set(LABELS)
    assert manifest.training.rows == 180
    assert manifest.training.kernels == 60
    assert manifest.reference == "epyc-genoa-vm"


def test_its_card_says_what_it_is_of() -> None:
    card = (DEFAULT_BUNDLE / CARD).read_text(encoding="utf-8")
    manifest = bundles.verify(DEFAULT_BUNDLE)
    for needed in ("lab programs --train", "Leave-one-kernel-out", "Limits", *LABELS.values()):
        assert needed in card
    assert manifest.figures
    for name in manifest.figures:
        assert name in card


def test_its_labelled_platforms_are_described_as_they_are_now() -> None:
    manifest = bundles.verify(DEFAULT_BUNDLE)
    for entry in manifest.labelled:
        # Names of instruction sets say where a program runs, not how fast; a labelled platform
        # needs no score of its processor.
        apart = {"accelerator": None, "processor": None, "instruction_sets": ()}
        now = ALL[entry.platform].model_copy(update=apart)
        assert entry.hardware.model_copy(update=apart) == now


def test_nearly_all_of_its_own_kernels_are_in_range(shipped: Predictor) -> None:
    abstained = [
        p.profile
        for profile in read_profiles(PROFILES)
        for p in [shipped.predict(profile, ALL["quartz"], reference=ALL[profile.platform])]
        if p.abstained
    ]
    assert len(abstained) <= 9


@pytest.mark.skipif(
    not (folder() / RAJAPERF.path).is_file(), reason=f"needs {RAJAPERF.path}: set BERTH_DATASETS"
)
def test_it_was_trained_on_the_committed_profiles_and_fits_them(shipped: Predictor) -> None:
    examples = read_examples()
    manifest = bundles.verify(DEFAULT_BUNDLE)
    ours = digest(e.profile.model_dump_json(by_alias=True, exclude_none=True) for e in examples)
    assert manifest.training.profiles_sha256 == ours
    for name in LABELS:
        errors, inside = [], []
        for e in examples:
            found = shipped.predict(e.profile, ALL[name], reference=ALL[e.profile.platform])
            errors.append(abs(math.log(found.runtime_s.mid / e.seconds[name])))
            inside.append(found.runtime_s.low <= e.seconds[name] <= found.runtime_s.high)
        assert float(np.median(errors)) < 0.1
        assert float(np.mean(inside)) >= 0.9
