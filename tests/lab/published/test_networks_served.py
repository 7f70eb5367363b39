"""VAE + DNN and xAMM from runs to a bundle to a prediction, through the commands alone."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
import small_network
from click.testing import CliRunner
from site_profiles import profile, write_site
from small_network import NETWORK, networked
from xamm_tables import BANDWIDTH, COUNTERS, write_case, write_runs

pytest.importorskip("torch", reason="needs the extra `deep`")

from berth.pilot.documents import read_toml
from berth.plugin.cli.command_line import berth
from berth.predictor.families.relative import bundle
from lab.__main__ import lab
from lab.published.vae import vae_dnn
from lab.published.vae.network import VaeDnn
from lab.published.vae.vae_dnn import VaeFamily
from lab.published.xamm.experiment import XammConfig, training_rows

SMALL = VaeDnn(
    latent=3, hidden=(32,), dnn=(64, 64), calibration_epochs=50, vae_epochs=150, dnn_epochs=150
)
DOCS = Path(__file__).resolve().parents[3] / "docs" / "published.md"


def run(command, *words: object) -> str:
    result = CliRunner().invoke(command, [str(word) for word in words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def predicted(path: Path, folder: Path) -> dict[str, dict]:
    document = json.loads(run(berth, "predict", path, "--bundle", folder, "--json"))
    return {one["platform"]: one for one in document["predictions"]}


@pytest.mark.slow
def test_a_network_learns_from_a_site_s_profiles_and_predicts_with_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vae_dnn, "VaeFamily", partial(VaeFamily, settings=SMALL))
    site, folder = write_site(tmp_path / "site", applications=5), tmp_path / "bundle"
    assert "5 applications" in run(lab, "vae-dnn", site, "--reference", "here", "--train", folder)
    manifest = bundle.verify(folder)
    assert (manifest.family, manifest.kind, manifest.reference) == ("VAE + DNN", "onnx", "here")
    assert bundle.ONNX in manifest.files
    assert manifest.log_widths is not None
    path = tmp_path / "new.json"
    path.write_text(json.dumps(profile("new-3", 2e8, 3e8)), encoding="utf-8")
    found = predicted(path, folder)
    assert found["here"]["basis"] == "measured"
    for name in ("big", "gpu"):
        runtime = found[name]["runtime_s"]
        assert runtime["low"] < runtime["mid"] < runtime["high"]
        assert found[name]["basis"] == "calibrated"


@pytest.fixture
def xamm_case(tmp_path: Path) -> Path:
    """Five applications on three machines; of ``delta`` only benchmark data are known."""
    config = write_case(tmp_path, embedding='"attention"')
    names = ["lulesh", "kripke", "laghos", "amg", "quicksilver"]
    write_runs(tmp_path / "train.csv", names, list(BANDWIDTH)[:3])
    return config


@pytest.mark.slow
def test_xamm_is_served_as_one_graph_also_for_a_machine_without_times(
    xamm_case: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bundle"
    run(lab, "xamm", xamm_case, "--train", folder)
    rows, family = training_rows(read_toml(xamm_case, XammConfig), tmp_path)
    assert rows.platforms == ("alpha", "beta", "gamma", "delta")
    fitted = family.fit(rows, 0)
    served = bundle.load(folder).log_seconds(rows.knowing())
    assert served == pytest.approx(fitted.log_seconds(rows.knowing()), abs=1e-4)
    data = profile("new-3", 2e8, 3e8) | {"platform": "alpha"}
    data["counters"] = {
        name: {"value": value, "quality": "measured", "source": "test"}
        for name, value in zip(COUNTERS, rows.values[0].tolist(), strict=True)
    }
    path = tmp_path / "new.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    found = predicted(path, folder)
    assert found["beta"]["basis"] == "calibrated"
    assert found["delta"]["basis"] == "prior"
    assert found["beta"]["runtime_s"]["low"] < found["beta"]["runtime_s"]["high"]


def test_the_committed_network_is_what_training_gives(tmp_path: Path) -> None:
    folders = small_network.trained(tmp_path), NETWORK
    sources = [bundle.verify(folder).training.sources for folder in folders]
    assert sources[0] == sources[1]
    asked = json.dumps(networked().model_dump(mode="json", by_alias=True))
    (tmp_path / "new.json").write_text(asked)
    times = [
        predicted(tmp_path / "new.json", f)["h100-80gb"] for f in (tmp_path / "network", NETWORK)
    ]
    assert times[0]["runtime_s"]["mid"] == pytest.approx(times[1]["runtime_s"]["mid"], rel=0.1)
    assert {one["basis"] for one in times} == {"calibrated"}


def test_the_page_says_how_to_train_both() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for name in ("vae-dnn", "xamm"):
        assert re.search(rf"python -m lab {name} .*--train", text)
