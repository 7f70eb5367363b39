"""Bundles of relative performance: what is written loads again and says the same, or is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from linear_family import LinearFamily, linear_onnx
from toy_rows import toy

from berth.pilot.errors import BerthError, DocumentError, UsageError
from berth.plugin.cli.command_line import berth
from berth.predictor.core.bundle import MANIFEST
from berth.predictor.families.program.range_check import RANGE
from berth.predictor.families.relative import bundle as bundles
from berth.predictor.families.relative.bundle import ONNX
from lab.relative.train import train, write

FAMILY = LinearFamily()


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A trained bundle and the folder that it was trained into."""
    folder = tmp_path_factory.mktemp("once")
    manifest = train(
        toy(), folder / "bundle", sources={"toy": "0" * 64}, seed=0, command="x", family=FAMILY
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
    rows = toy().knowing()
    loaded = bundles.load(tmp_path / "bundle")
    ours = FAMILY.fit(toy(), 0).log_seconds(rows)
    assert np.abs(loaded.log_seconds(rows) - ours).max() < 1e-4
    assert loaded.id == trained.id
    assert trained.figures["median_time_error"] < 1


def test_nothing_but_the_bundle_is_left(once) -> None:
    assert [path.name for path in once[1].iterdir()] == ["bundle"]


def test_the_same_rows_and_seed_give_the_same_id(trained, tmp_path) -> None:
    sources = {"toy": "0" * 64}
    again = train(toy(), tmp_path / "b", sources=sources, seed=0, command="y", family=FAMILY)
    assert again.id == trained.id


def test_a_run_cut_short_writes_nothing(tmp_path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(toy(), tmp_path / "b", sources={}, seed=0, command="x", family=FAMILY, advance=stop)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [RANGE, "CARD.md"])
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
        ("kind", "cost-model", "kind"),
    ],
)
def test_another_manifest_is_refused(trained, tmp_path, key, value, message) -> None:
    path = tmp_path / "bundle" / MANIFEST
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, key: value}), encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        bundles.load(tmp_path / "bundle")


def test_a_network_takes_its_own_platforms_only(trained, tmp_path) -> None:
    with pytest.raises(UsageError, match="not these platforms"):
        bundles.load(tmp_path / "bundle").log_seconds(toy().with_platforms(["cpu", "gpu"]))


def test_a_bundle_that_says_something_else_is_never_written(trained, tmp_path) -> None:
    fitted = FAMILY.fit(toy(), 0)
    other = {ONNX: linear_onnx(fitted.weights + 0.01), **ranges(tmp_path)}
    with pytest.raises(BerthError, match="differs from the trained one"):
        write(tmp_path / "net", trained, other, fitted, toy())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


def test_one_application_cannot_be_left_out(tmp_path) -> None:
    with pytest.raises(UsageError, match="1 applications are fewer"):
        train(toy(1), tmp_path / "b", sources={}, seed=0, command="x", family=FAMILY)
    assert not list(tmp_path.iterdir())


def test_the_commands_know_such_a_bundle(trained, tmp_path) -> None:
    folder = str(tmp_path / "bundle")
    shown = CliRunner().invoke(berth, ["train", "bundle", "show", folder])
    assert shown.exit_code == 0, shown.output
    assert "relative performance, linear" in shown.output
    card = CliRunner().invoke(berth, ["train", "bundle", "show", "--card", folder])
    assert "Leave-one-application-out" in card.output
    assert "whole" in CliRunner().invoke(berth, ["train", "bundle", "verify", folder]).output
