"""The whole pipeline on a tiny random model: every stage, stored, refused, tested."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `language`")

import tiny_latency
import torch

from berth.pilot.errors import BerthError, DocumentError, UsageError
from lab.ground.splits import few
from lab.published.graph_language.corpus import divide
from lab.published.graph_language.evaluate_language import (
    LANGUAGE,
    described,
    language_report,
    results,
)
from lab.published.graph_language.language_config import LanguageConfig
from lab.published.graph_language.texts import depth, summary

STAGES = ["pretrain", "align", "regress", "adapt-device-5090", "adapt-family-vit"]


def weights(stages, stage):
    from safetensors.torch import load_file

    return load_file(stages.out / f"{stage}.safetensors")


def test_every_stage_runs_and_a_second_run_does_nothing(make_stages, tmp_path) -> None:
    losses = make_stages(tmp_path).all()
    assert [len(losses[name]) for name in STAGES] == [2, 1, 2, 3, 3]
    again = make_stages(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert again.all() == losses
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_the_same_seed_gives_the_same_weights_and_another_one_others(make_stages, tmp_path) -> None:
    first, second, other = (
        make_stages(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    for stages in (first, second, other):
        stages.pretrain()
    one, two, three = (weights(stages, "pretrain") for stages in (first, second, other))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], three[key]) for key in one)


def test_alignment_leaves_the_encoder_and_lora_the_rest_as_they_were(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    stages.align()
    before, after = weights(stages, "pretrain"), weights(stages, "align")
    encoder = [key for key in after if key.startswith("encoder.")]
    assert encoder
    assert all(torch.equal(after[key], before[f"autoencoder.{key}"]) for key in encoder)
    stages.regress()
    regressed = weights(stages, "regress")
    assert any(not torch.equal(regressed[key], after[key]) for key in encoder)
    stored = [key for key in regressed if key.startswith("language.")]
    assert stored
    assert all(".lora_" in key for key in stored)


def test_tied_word_vectors_are_stored_and_read_back(make_stages, tmp_path) -> None:
    transformers = pytest.importorskip("transformers")
    stages = make_stages(tmp_path)
    folder = tmp_path / "tied"
    stages.language.words.save_pretrained(str(folder))
    config = transformers.AutoConfig.from_pretrained(str(stages.checkpoint.folder))
    config.tie_word_embeddings = True
    transformers.LlamaForCausalLM(config).save_pretrained(str(folder))
    for rank in (4, 0):
        model = {"path": str(folder), "rank": rank}
        losses = make_stages(tmp_path / str(rank), language_model=model).align()
        again = make_stages(tmp_path / str(rank), language_model=model)
        assert again.align() == losses
        lora = [".lora_" in key for key in weights(again, "align") if key.startswith("language.")]
        assert all(lora) if rank else not any(lora)


def test_what_was_stored_otherwise_or_damaged_is_refused(make_stages, tmp_path) -> None:
    make_stages(tmp_path).pretrain()
    changed = make_stages(tmp_path, pretrain={"epochs": 2, "batch": 4, "mask": 0.3})
    with pytest.raises(DocumentError, match="other settings or data") as caught:
        changed.pretrain()
    assert "remove it" in (caught.value.hint or "")
    path = changed.out / "pretrain.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DocumentError, match="is not a whole safetensors file"):
        make_stages(tmp_path).pretrain()


def test_a_stage_that_diverges_says_so(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    with torch.no_grad():
        stages.autoencoder.mask.fill_(float("nan"))
    with pytest.raises(BerthError, match="stage pretrain diverged at step 1"):
        stages.pretrain()


def test_no_epochs_leave_a_stage_out(make_stages, tmp_path) -> None:
    none = {"epochs": 0, "batch": 4}
    losses = make_stages(tmp_path, pretrain=none, align=none).all()
    assert losses["pretrain"] == losses["align"] == []
    assert losses["regress"]


def test_every_method_is_tested_on_the_same_rows_and_failures_count(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    table = results(stages)
    assert list(dict.fromkeys(one.group for one in table)) == ["device 5090", "family vit"]
    for group in ("device 5090", "family vit"):
        methods = [(one.method, one.given) for one in table if one.group == group]
        assert methods == [(LANGUAGE, given) for given in (0, 3)]
    assert {one.figures.rows for one in table} == {6}
    written = [one for one in table if one.method == LANGUAGE]
    # Two epochs on twenty rows teach the tiny model nothing: it writes no numbers.
    assert sum(one.failures for one in written) > 0
    for one in written:
        if one.failures == one.figures.rows:
            assert (one.figures.mean_error, one.figures.within_10) == (1.0, 0.0)
    again = language_report(make_stages(tmp_path)).text()
    assert language_report(stages).text() == again, "stored answers give the same table"


def test_a_random_model_is_called_random(make_stages, tmp_path) -> None:
    model = {"random": {"layers": 1, "width": 16, "heads": 2}, "rank": 0}
    stages = make_stages(tmp_path, language_model=model)
    stages.regress()
    assert len(list(stages.out.glob("random-*/config.json"))) == 1
    assert "RANDOMLY INITIALISED" in described(stages)


def config(*adapt: dict[str, str], samples: int = 3) -> LanguageConfig:
    return LanguageConfig.model_validate(
        {"language_model": {"path": "x"}, "adapt": adapt, "samples": samples, "rows": 100}
    )


def test_the_base_and_the_tests_share_nothing() -> None:
    table = tiny_latency.runs()
    divided = divide(table, config({"device": "5090"}, {"family": "vit"}))
    assert not set(table.device[divided.base]) & {"5090"}
    assert not set(table.family[divided.base]) & {"vit"}
    for fold in divided.adaptations:
        assert len(fold.train) == 3
        assert not set(table.architecture[fold.train]) & set(table.architecture[fold.test])
    assert set(table.family[divided.adaptations[0].test]) == {"conv"}
    assert set(table.device[divided.adaptations[1].test]) == {"3090"}


def test_rows_are_given_as_in_all_other_tables() -> None:
    table = tiny_latency.runs()
    (fold,) = divide(table, config({"device": "5090"})).adaptations
    split = few(table.architecture, np.flatnonzero(table.device == "5090"), 3, 0)
    assert fold.train.tolist() == split.train.tolist()
    assert fold.test.tolist() == split.test.tolist()


def test_a_group_that_cannot_be_learnt_or_tested_says_so() -> None:
    table = tiny_latency.runs()
    with pytest.raises(UsageError, match="no rows of device 'tpu'") as caught:
        divide(table, config({"device": "tpu"}))
    assert "3090, 5090" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="too few for 32"):
        divide(table, config({"family": "vit"}, samples=32))
    unknown = dataclasses.replace(table, graph=np.where(table.device == "3090", -1, table.graph))
    with pytest.raises(UsageError, match="no rows are left for the base"):
        divide(unknown, config({"device": "5090"}))


def test_the_summary_counts_what_is_there() -> None:
    graph = tiny_latency.graphs().graphs[0]
    text = summary(graph)
    assert text.startswith(f"{len(graph)} nodes, {graph.edges.shape[1]} edges, depth ")
    assert f"{graph.parameters} parameters" in text
    assert f"Conv {graph.count('Conv')}" in text
    rows = np.array([[0, 0, 1, 2, 3], [1, 2, 4, 3, 4]], np.int32)
    assert depth(dataclasses.replace(graph, kind=graph.kind[:5], edges=rows)) == 4
