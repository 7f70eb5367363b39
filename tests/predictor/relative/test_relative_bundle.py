"""Bundles of relative performance: what is written loads again and says the same, or is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from test_cost_model import FAMILY, physical

from berth.pilot.documents import to_json
from berth.pilot.errors import BerthError, DocumentError, UsageError
from berth.plugin.cli.command_line import berth
from berth.predictor.core.bundle import MANIFEST
from berth.predictor.families.program.bundle import RANGE
from berth.predictor.families.relative import bundle as bundles
from berth.predictor.families.relative.bundle import MODEL_FILE, ONNX
from berth.predictor.families.relative.cost_model import cost_model_file
from berth.predictor.learning.relative import train as training
from berth.predictor.learning.relative.train import Exported, train, write


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A trained bundle and the folder that it was trained into."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(training.train.__kwdefaults__, "family", FAMILY)
        manifest = train(
            physical(),
            folder / "bundle",
            sources={"toy": "0" * 64},
            seed=0,
            command="berth train",
        )
    return manifest, folder


@pytest.fixture
def trained(once, tmp_path):
    """The same, as a copy that a test may spoil."""
    shutil.copytree(once[1] / "bundle", tmp_path / "bundle")
    return once[0]


def ranges(folder) -> dict[str, bytes]:
    """The training ranges that the trained bundle has."""
    return {RANGE: (folder / "bundle" / RANGE).read_bytes()}


def test_what_is_loaded_says_what_was_trained(trained, tmp_path) -> None:
    rows = physical(seed=1).knowing()
    loaded = bundles.load(tmp_path / "bundle")
    ours = FAMILY.fit(physical(), 0).log_seconds(rows)
    assert np.abs(loaded.log_seconds(rows) - ours).max() < 1e-9
    assert loaded.id == trained.id
    assert trained.figures["median_time_error"] < 1


def test_nothing_but_the_bundle_is_left(once) -> None:
    assert [path.name for path in once[1].iterdir()] == ["bundle"]


def test_the_same_rows_and_seed_give_the_same_id(trained, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(training.train.__kwdefaults__, "family", FAMILY)
    again = train(
        physical(), tmp_path / "again", sources={"toy": "0" * 64}, seed=0, command="x",
    )  # fmt: skip
    assert again.id == trained.id


def test_a_run_cut_short_writes_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(training.train.__kwdefaults__, "family", FAMILY)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(physical(), tmp_path / "bundle", sources={}, seed=0, command="x", advance=stop)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [MODEL_FILE, "CARD.md"])
def test_a_tampered_bundle_is_refused(trained, tmp_path, name) -> None:
    path = tmp_path / "bundle" / name
    path.write_text(path.read_text(encoding="utf-8").replace("1", "2", 1), encoding="utf-8")
    with pytest.raises(DocumentError, match="checksum differs"):
        bundles.load(tmp_path / "bundle")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("schema", "berth.relative-bundle/99", "newer Berth"),
        ("schema", "berth.slices-bundle/1", "berth.relative-bundle/1"),
        ("reference", "elsewhere", "does not match its own id"),
        ("kind", "pickle", "kind"),
    ],
)
def test_another_manifest_is_refused(trained, tmp_path, key, value, message) -> None:
    path = tmp_path / "bundle" / MANIFEST
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, key: value}), encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        bundles.load(tmp_path / "bundle")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"view": "crystal ball"}, "unknown here"),
        ({"terms": ("launch", "reference", "work", "luck")}, "'luck'"),
        ({"trend_share": (0.1,)}, "shape"),
        ({"counters": ("instructions",)}, "shape"),
    ],
)
def test_a_model_that_does_not_fit_together_is_never_written(
    trained, tmp_path, change, message
) -> None:
    rows = physical()
    fitted = FAMILY.fit(rows, 0)
    broken = cost_model_file(fitted).model_copy(update=change)
    exported = Exported("cost-model", {MODEL_FILE: to_json(broken).encode(), **ranges(tmp_path)})
    with pytest.raises(DocumentError, match=message):
        write(tmp_path / "new", trained, exported, fitted, rows)
    assert not (tmp_path / "new").exists()


def linear_onnx(slope: float) -> bytes:
    """log_speedup = features x slope, in three columns."""
    weights = np.zeros((3, 3), dtype=np.float32)
    weights[0, 1] = slope
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["features", "weights"], ["log_speedup"])],
        "linear",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("log_speedup", TensorProto.FLOAT, [None, 3])],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


class Linear:
    """What the trainer of ``linear_onnx`` would say."""

    def log_seconds(self, rows):
        guess = np.tile(rows.log_reference[:, None], (1, 3))
        guess[:, 1] -= 0.1 * np.log1p(rows.values[:, 0])
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


def test_any_onnx_model_can_be_a_bundle(trained, tmp_path) -> None:
    rows = physical()
    manifest = trained.model_copy(update={"kind": "onnx", "family": "linear"})
    write(
        tmp_path / "net",
        manifest,
        Exported("onnx", {ONNX: linear_onnx(0.1), **ranges(tmp_path)}),
        Linear(),
        rows,
    )
    loaded = bundles.load(tmp_path / "net")
    asked = rows.knowing()
    assert np.abs(loaded.log_seconds(asked) - Linear().log_seconds(asked)).max() < 1e-4
    with pytest.raises(UsageError, match="not these platforms"):
        loaded.log_seconds(rows.with_platforms(["cpu", "gpu"]))


def test_a_bundle_that_says_something_else_is_never_written(trained, tmp_path) -> None:
    manifest = trained.model_copy(update={"kind": "onnx", "family": "linear"})
    exported = Exported("onnx", {ONNX: linear_onnx(0.2), **ranges(tmp_path)})
    with pytest.raises(BerthError, match="differs from the trained one"):
        write(tmp_path / "net", manifest, exported, Linear(), physical())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


def test_one_application_cannot_be_left_out(tmp_path) -> None:
    with pytest.raises(UsageError, match="1 applications are fewer"):
        train(
            physical(applications=1), tmp_path / "b", sources={}, seed=0, command="x",
            )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_the_commands_know_such_a_bundle(trained, tmp_path) -> None:
    folder = str(tmp_path / "bundle")
    shown = CliRunner().invoke(berth, ["train", "bundle", "show", folder])
    assert shown.exit_code == 0, shown.output
    assert "relative performance, cost model" in shown.output
    card = CliRunner().invoke(berth, ["train", "bundle", "show", "--card", folder])
    assert "Leave-one-application-out" in card.output
    assert "whole" in CliRunner().invoke(berth, ["train", "bundle", "verify", folder]).output


def test_more_rows_than_a_bundle_holds_are_refused_before_it_is_written(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setitem(training.train.__kwdefaults__, "family", FAMILY)
    monkeypatch.setattr(training, "MAX_KEYS", 5_500)
    with pytest.raises(UsageError, match="24 workloads on 3 platforms are more than a bundle"):
        train(physical(), tmp_path / "b", sources={}, seed=0, command="x")
    assert not (tmp_path / "b").exists()
