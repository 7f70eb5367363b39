"""The table of measured latencies: families, splits that keep groups apart."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from small_models import convolutional

from berth.pilot.errors import DocumentError
from lab.ground.splits import Split
from lab.latency import described_graphs, own_runs
from lab.latency.latency_bundle import usual_settings
from lab.latency.model_names import family_of
from lab.latency.samples import settings
from lab.latency.timm_runs import FAMILY, MODEL, Runs


def rows(models: int = 12, devices: tuple[str, ...] = ("3090", "i7_12700h")) -> Runs:
    """Each model on each device under two versions of torch, 10 % apart."""
    pairs = [(m, d, t) for m in range(models) for d in devices for t in (210, 240)]
    count = len(pairs)
    own = {
        "model": [f"m{m}" for m, _, _ in pairs],
        "architecture": [f"m{m - m % 2}" for m, _, _ in pairs],
        "family": [f"f{m % 4}" for m, _, _ in pairs],
        "device": [d for _, d, _ in pairs],
        "torch": [t for _, _, t in pairs],
        "precision": ["amp"] * count, "layout": ["nchw"] * count,
        "image_size": [224] * count, "batch": [8] * count, "graph": [-1] * count,
        "compiled": [False] * count, "training": [False] * count,
        "cuda": [0.0] * count,
        "seconds": [(m + 1) * (1.1 if t == 240 else 1.0) for m, _, t in pairs],
    }  # fmt: skip
    return Runs(**{one.name: np.array(own[one.name]) for one in fields(Runs)})


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("resnet50d", "resnet"), ("tv_resnet50", "resnet"), ("seresnext50_32x4d", "resnet"),
        ("nf_ecaresnet101", "resnet"), ("resnetv2_50x1_bit", "resnet"), ("resnest50d", "resnest"),
        ("res2net50_26w_4s", "res2net"), ("cs3sedarknet_l", "darknet"), ("vgg11_bn", "vgg"),
        ("tf_efficientnetv2_l", "efficientnet"), ("deit3_base_patch16_224", "vit"),
        ("tiny_vit_5m_224", "tiny"), ("tinynet_a", "efficientnet"), ("regnetz_c16", "regnet"),
        ("sebotnet33ts_256", "botnet"), ("swinv2_tiny_window8_256", "swin"),
    ],
)  # fmt: skip
def test_a_family_is_found_by_the_name(model: str, family: str) -> None:
    assert family_of(model) == family


@pytest.mark.parametrize(
    ("split", "column"), [(MODEL, "architecture"), (FAMILY, "family"), (Split("random rows"), "")]
)
def test_folds_cover_all_rows_once_and_keep_groups_apart(split: Split, column: str) -> None:
    table, split = rows(), replace(split, count=4)
    folds = split.folds(table, 3)
    assert sorted(np.concatenate([one.test for one in folds]).tolist()) == list(range(len(table)))
    for one in folds:
        assert not set(one.train.tolist()) & set(one.test.tolist())
        if column:
            of = getattr(table, column)
            assert not set(of[one.train].tolist()) & set(of[one.test].tolist())
    assert [one.test.tolist() for one in split.folds(table, 3)] == [f.test.tolist() for f in folds]


def test_described_graphs_are_read_as_they_were_written(tmp_path: Path) -> None:
    for name in ("small_224", "other_192"):
        made = convolutional(blocks=2, channels=8 if name == "small_224" else 16)
        (tmp_path / f"{name}.onnx").write_bytes(made.SerializeToString())
    (tmp_path / "broken_1.onnx").write_bytes(b"no model")
    data, refused = described_graphs.describe(tmp_path)
    assert list(refused) == ["broken_1"]
    table = tmp_path / "described_graphs.npz"
    table.write_bytes(data)
    found = described_graphs.read(table)
    assert {(one.model, one.image_size) for one in found} == {("small", 224), ("other", 192)}
    assert all(len(one.work.group) == len(one.work.macs) > 0 for one in found.values())
    with pytest.raises(DocumentError, match="not a table"):
        described_graphs.read(tmp_path / "broken_1.onnx")


def test_the_committed_table_can_be_read() -> None:
    found = described_graphs.read()
    assert len(found) > 100
    assert all(np.isfinite(one.features).all() for one in found.values())


def test_a_setting_names_platform_precision_layout_and_software() -> None:
    assert sorted(set(settings(rows()).tolist())) == [
        "i7-12700h | amp | nchw | torch 2.1.0", "i7-12700h | amp | nchw | torch 2.4.0",
        "rtx-3090-24gb | amp | nchw | torch 2.1.0", "rtx-3090-24gb | amp | nchw | torch 2.4.0",
    ]  # fmt: skip


def test_the_newest_eager_setting_of_a_platform_and_precision_is_the_usual_one() -> None:
    names = [
        "g | amp | nchw | torch 2.1.0", "g | amp | nchw | torch 2.4.0",
        "g | amp | nhwc | torch 2.9.1", "g | amp | nchw | torch 2.9.1, compiled",
        "g | bf16 | nchw | torch 2.9.1, compiled", "g | amp_bf16 | nchw | torch 2.9.1, compiled",
    ]  # fmt: skip
    assert usual_settings(names) == {
        "g | amp | nchw | torch 2.4.0", "g | amp_bf16 | nchw | torch 2.9.1, compiled",
        own_runs.SETTING,
    }  # fmt: skip
