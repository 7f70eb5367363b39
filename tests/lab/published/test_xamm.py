"""xAMM: new machines by their benchmark data, one configuration."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from toy_rows import toy
from xamm_tables import write_case, write_machines, write_runs

pytest.importorskip("torch", reason="needs the extra `deep`")


from berth.pilot.documents import read_toml
from berth.pilot.errors import DocumentError, UsageError
from lab.__main__ import lab
from lab.published.xamm.embedding import Attention, Embedding
from lab.published.xamm.experiment import XammConfig, run
from lab.published.xamm.family import XammFamily, regressor
from lab.published.xamm.samples import read_benchmarks, read_runs, samples_of

RAW = '"raw"'
"""Embedding of the tests that are not about embeddings: nothing to train."""


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("xamm")
    config = write_case(folder)
    run(read_toml(config, XammConfig), folder)
    return folder


def predictions(folder: Path) -> list[dict[str, str]]:
    with (folder / "xamm" / "predictions.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_a_sample_never_has_its_own_machine_as_a_target() -> None:
    samples = samples_of(toy(), ["cpu", "gpu"], ["cpu", "gpu", "slice"])
    assert len(samples) == 24
    for source, row in zip(samples.sources, samples.log_speedup, strict=True):
        known = np.isfinite(row)
        assert not known[samples.targets.index(source)]
        assert known.sum() == 2


@pytest.mark.parametrize("embedding", Embedding)
def test_every_embedding_gives_finite_times_and_the_same_again(embedding) -> None:
    rows = toy(applications=3)
    from lab.published.xamm.benchmarks import signatures

    family = XammFamily(
        embedding,
        benchmarks=lambda r: signatures(r, (("app0", "kernel"), ("app1", "kernel"))),
        attention=Attention(epochs=3),
    )
    first, again = (family.fit(rows, 0).log_seconds(rows.knowing()) for _ in range(2))
    assert np.isfinite(first).all()
    assert np.array_equal(first, again)


def test_without_machine_models_targets_cannot_be_told_apart() -> None:
    rows = toy()
    blind = XammFamily(Embedding.RAW, lambda _: None).fit(rows, 0)
    guess = blind.log_seconds(rows.knowing())
    assert guess[:, 1] == pytest.approx(guess[:, 2])


def test_one_machine_only_is_refused() -> None:
    rows = toy()
    alone = replace(rows, log_seconds=rows.knowing().log_seconds)
    with pytest.raises(UsageError, match="measured on one machine only"):
        XammFamily(Embedding.RAW, lambda _: None).fit(alone, 0)


def test_one_file_makes_machine_models_trains_and_tests(case: Path) -> None:
    rows = predictions(case)
    assert {row["target"] for row in rows} == {"gamma", "delta"}
    assert all(row["with_amm"] == "yes" for row in rows)
    for row in rows:
        assert float(row["speedup"]) * float(row["runtime_ratio"]) == pytest.approx(1, rel=1e-4)
    machines = json.loads((case / "xamm" / "amm.json").read_text(encoding="utf-8"))
    assert sorted(machines) == ["alpha", "beta", "delta", "gamma"]


def test_without_benchmark_data_the_model_without_machines_answers(tmp_path: Path) -> None:
    config = write_case(tmp_path, embedding=RAW, machine_data="")
    tested, _ = run(read_toml(config, XammConfig), tmp_path)
    assert not any(one.with_machines for one in tested)


def test_a_machine_that_has_only_benchmark_data_is_tested(tmp_path: Path) -> None:
    config = write_case(tmp_path, embedding=RAW)
    tested, _ = run(read_toml(config, XammConfig), tmp_path)
    assert [(one.target, one.with_machines) for one in tested] == [("gamma", True), ("delta", True)]
    assert all(one.mape["minivite"] >= 0 for one in tested)


def test_signatures_of_platforms_are_benchmark_data(tmp_path: Path) -> None:
    folder = tmp_path / "platforms"
    folder.mkdir()
    found = read_benchmarks(folder)
    assert "lassen-v100" in found.complete()


def test_the_command_prints_what_it_did_and_how_good_it_is(tmp_path: Path) -> None:
    config = write_case(tmp_path, embedding=RAW)
    found = CliRunner().invoke(lab, ["xamm", str(config)])
    assert found.exit_code == 0, found.output
    assert "predictions.csv" in found.output
    found = CliRunner().invoke(lab, ["xamm", str(config), "--json"])
    assert {t["target"] for t in json.loads(found.output)["tested"]} == {"gamma", "delta"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"app_train_data": ""}, "app_train_data"),
        ({"source_machine": ""}, "source_machine"),
        ({"embeding": '"vae"'}, "embeding"),
    ],
)
def test_a_configuration_that_lacks_or_misspells_a_key_names_it(
    tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(DocumentError, match=message):
        read_toml(write_case(tmp_path, **changes), XammConfig)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("application,config,machine,loads\n", "no column 'runtime_s'"),
        ("application,config,machine,runtime_s\na,1,m,1\n", "no counters"),
        ("application,config,machine,runtime_s,loads\n", "no rows"),
        ("application,config,machine,runtime_s,loads\na,1,m,0,3\n", "line 2: runtime_s must"),
        ("application,config,machine,runtime_s,loads\na,1,m,x,3\n", "line 2: runtime_s is 'x'"),
        ("application,config,machine,runtime_s,loads\na,1,m,1,nan\n", "line 2: loads is 'nan'"),
        ("application,config,machine,runtime_s,loads\na,1,m,1\n", "line 2 has another number"),
        ("application,config,machine,runtime_s,loads\na,1,m,1,2\na,1,m,1,2\n", "same run as in"),
    ],
)
def test_a_table_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        read_runs(path)


def test_rounding_of_a_served_vector_does_not_send_it_down_another_branch() -> None:
    inputs = np.repeat(np.array([[-1.0151, 0.2], [-0.2959, 0.7], [-2.9322, 0.4]]), 8, axis=0)
    model = regressor(0).fit(inputs, np.repeat([0.0, 1.0, 5.0], 8))
    for nudge in (-1e-5, 1e-5):
        assert model.predict(inputs + nudge).tolist() == model.predict(inputs).tolist()


def test_a_spreadsheets_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("application,config,machine,runtime_s,loads\na,1,m,2,3\n", "utf-8-sig")
    assert read_runs(path).applications == ("a",)


def test_a_counter_that_the_model_needs_is_named(tmp_path: Path) -> None:
    config = write_case(tmp_path, embedding=RAW)
    text = (tmp_path / "test.csv").read_text(encoding="utf-8").replace("branch_ratio", "other")
    (tmp_path / "test.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="'branch_ratio'"):
        run(read_toml(config, XammConfig), tmp_path)


def test_benchmark_data_of_other_machines_are_refused_before_training(tmp_path: Path) -> None:
    config = write_case(tmp_path, embedding=RAW)
    write_machines(tmp_path / "machines.csv", ["delta"])
    with pytest.raises(UsageError, match=r"none of the machines of train\.csv"):
        run(read_toml(config, XammConfig), tmp_path)
    assert not (tmp_path / "xamm").exists()


def test_one_application_on_one_machine_is_refused(tmp_path: Path) -> None:
    config = write_case(tmp_path, embedding=RAW, machine_data="")
    write_runs(tmp_path / "train.csv", ["lulesh"], ["alpha"])
    with pytest.raises(UsageError, match="measured on one machine only"):
        run(read_toml(config, XammConfig), tmp_path)
