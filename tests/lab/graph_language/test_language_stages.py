"""The whole pipeline on a tiny random model: every stage, resumed, refused, tested."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `language`")

import tiny_latency
import torch

from berth.pilot.errors import BerthError, DocumentError, UsageError
from lab.ground.splits import few
from lab.published.graph_language.corpus import Group, divide
from lab.published.graph_language.evaluate_language import (
    LANGUAGE,
    described,
    language_report,
    results,
)
from lab.published.graph_language.stages import REGRESS
from lab.published.graph_language.texts import depth, summary

STAGES = ["pretrain", "align", "regress", "adapt-device-5090", "adapt-family-vit"]


def weights(stages, stage):
    from safetensors.torch import load_file

    card = stages.states.card(stage)
    return load_file(stages.parts.out / card.weights)


def test_every_stage_runs_and_a_second_run_does_nothing(make_stages, tmp_path) -> None:
    done = make_stages(tmp_path).all()
    assert list(done) == STAGES
    assert all(card.done for card in done.values())
    assert [len(done[name].losses) for name in STAGES] == [2, 1, 2, 3, 3]
    again = make_stages(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert again.all() == done
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_resumed_after_every_few_steps_the_weights_are_the_same(make_stages, tmp_path) -> None:
    whole = make_stages(tmp_path / "whole")
    whole.regress()
    stages = make_stages(tmp_path / "parts")
    for name in ("pretrain", "align", "regress"):
        for _ in range(20):
            stages = make_stages(tmp_path / "parts", stop_after=2)
            if getattr(stages, name)().done:
                break
        assert weights(stages, name).keys() == weights(whole, name).keys()
        for key, value in weights(whole, name).items():
            assert torch.equal(weights(stages, name)[key], value), (name, key)
        assert stages.states.card(name).losses == whole.states.card(name).losses


def test_the_same_seed_gives_the_same_weights_and_another_one_others(make_stages, tmp_path) -> None:
    first, second, other = (
        make_stages(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    for stages in (first, second, other):
        stages.pretrain()
    one, two, three = (weights(stages, "pretrain") for stages in (first, second, other))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], three[key]) for key in one)


def test_alignment_leaves_the_encoder_as_it_was(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    stages.align()
    before, after = weights(stages, "pretrain"), weights(stages, "align")
    encoder = [key for key in after if key.startswith("encoder.")]
    assert encoder
    assert all(torch.equal(after[key], before[f"autoencoder.{key}"]) for key in encoder)
    stages.regress()
    assert any(not torch.equal(weights(stages, "regress")[key], after[key]) for key in encoder), (
        "regression trains it"
    )


def test_only_lora_is_kept_of_the_language_model(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    stages.regress()
    kept = [key for key in weights(stages, "regress") if key.startswith("language.")]
    assert kept
    assert all(".lora_" in key for key in kept)


def test_tied_word_vectors_are_not_kept_under_their_other_name(make_stages, tmp_path) -> None:
    transformers = pytest.importorskip("transformers")
    stages = make_stages(tmp_path)
    folder = tmp_path / "tied"
    stages.parts.language.words.save_pretrained(str(folder))
    config = transformers.AutoConfig.from_pretrained(str(stages.parts.checkpoint.folder))
    config.tie_word_embeddings = True
    transformers.LlamaForCausalLM(config).save_pretrained(str(folder))
    tied = make_stages(tmp_path / "out", language_model={"path": str(folder), "rank": 4})
    tied.align()
    kept = [key for key in weights(tied, "align") if key.startswith("language.")]
    assert kept
    assert all(".lora_" in key for key in kept)
    whole = make_stages(tmp_path / "all", language_model={"path": str(folder), "rank": 0})
    assert whole.align().done, "both names of a tied weight are kept and read back"
    assert (
        make_stages(tmp_path / "all", language_model={"path": str(folder), "rank": 0}).align().done
    )


def test_a_damaged_state_is_refused(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    stages.pretrain()
    path = stages.parts.out / stages.states.card("pretrain").weights
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(DocumentError, match="its checksum differs") as caught:
        make_stages(tmp_path).pretrain()
    assert "remove pretrain.json" in (caught.value.hint or "")


def test_a_state_without_its_weights_is_refused(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    stages.pretrain()
    (stages.parts.out / stages.states.card("pretrain").weights).unlink()
    with pytest.raises(DocumentError, match="cannot be read"):
        make_stages(tmp_path).pretrain()


def test_a_card_that_is_no_card_is_refused(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    stages.pretrain()
    (stages.parts.out / "pretrain.json").write_text('{"stage": "pretrain"}')
    with pytest.raises(DocumentError):
        make_stages(tmp_path).pretrain()


def test_other_settings_do_not_go_on_from_old_weights(make_stages, tmp_path) -> None:
    make_stages(tmp_path).pretrain()
    changed = make_stages(tmp_path, pretrain={"epochs": 2, "batch": 4, "mask": 0.3})
    with pytest.raises(DocumentError, match="other settings or data"):
        changed.pretrain()


def test_a_stage_that_diverges_says_so(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    with torch.no_grad():
        stages.parts.autoencoder.mask.fill_(float("nan"))
    with pytest.raises(BerthError, match="stage pretrain diverged at step 1"):
        stages.pretrain()


def test_no_epochs_leave_a_stage_out(make_stages, tmp_path) -> None:
    stages = make_stages(
        tmp_path, pretrain={"epochs": 0, "batch": 4}, align={"epochs": 0, "batch": 4}
    )
    assert stages.regress().done
    assert stages.states.card("pretrain").steps == stages.states.card("align").steps == 0


def test_every_method_is_tested_on_the_same_rows_and_failures_count(make_stages, tmp_path) -> None:
    stages = make_stages(tmp_path)
    found = results(stages)
    assert list(dict.fromkeys(one.group for one in found)) == ["device 5090", "family vit"]
    for group in ("device 5090", "family vit"):
        methods = [(one.method, one.given) for one in found if one.group == group]
        assert methods == [(name, given) for given in (0, 3) for name in ("GNN", LANGUAGE)]
    assert {one.figures.rows for one in found} == {6}
    told = [one for one in found if one.method == LANGUAGE]
    # Two epochs on twenty rows teach the tiny model nothing: it writes no numbers.
    assert sum(one.failures for one in told) > 0
    for one in told:
        if one.failures == one.figures.rows:
            assert (one.figures.mean_error, one.figures.within_10) == (1.0, 0.0)
    again = language_report(make_stages(tmp_path)).text()
    assert language_report(stages).text() == again, "stored answers give the same table"


def test_a_random_model_is_called_random(make_stages, tmp_path) -> None:
    model = {"random": {"layers": 1, "width": 16, "heads": 2}, "rank": 0}
    stages = make_stages(tmp_path, language_model=model)
    stages.regress()
    assert len(list(stages.parts.out.glob("random-*/config.json"))) == 1
    assert "RANDOMLY INITIALISED" in described(stages)


def test_the_sentence_variant_reads_the_prompt_by_path(make_stages, tmp_path) -> None:
    transformers = pytest.importorskip("transformers")
    stages = make_stages(tmp_path)
    folder = tmp_path / "encoder"
    stages.parts.language.words.save_pretrained(str(folder))
    size = len(stages.parts.language.words)
    config = transformers.BertConfig(
        vocab_size=size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(str(folder))
    found = results(make_stages(tmp_path, sentences=str(folder)))
    assert "GNN + sentence embedding" in {one.method for one in found}


def test_rows_are_dealt_as_in_all_other_tables() -> None:
    table = tiny_latency.runs()
    dealt = divide(
        table, [Group("device", "5090")], samples=3, base=100, test=100, seed=7
    ).adaptations[0]
    split = few(table.architecture, np.flatnonzero(table.device == "5090"), 3, 7)
    assert dealt.given.tolist() == split.train.tolist()
    assert dealt.test.tolist() == split.test.tolist()


def test_the_base_and_the_tests_share_nothing() -> None:
    table = tiny_latency.runs()
    groups = [Group("device", "5090"), Group("family", "vit")]
    dealt = divide(table, groups, samples=3, base=100, test=100, seed=0)
    assert not set(table.device[dealt.base]) & {"5090"}
    assert not set(table.family[dealt.base]) & {"vit"}
    for one in dealt.adaptations:
        assert len(one.given) == 3
        assert not set(table.architecture[one.given]) & set(table.architecture[one.test])
    assert set(table.family[dealt.adaptations[0].test]) == {"conv"}
    assert set(table.device[dealt.adaptations[1].test]) == {"3090"}


def test_rows_without_a_graph_are_left_out() -> None:
    table = tiny_latency.runs()
    some = dataclasses.replace(table, graph=np.where(table.device == "3090", -1, table.graph))
    with pytest.raises(UsageError, match="no rows are left for the base"):
        divide(some, [Group("device", "5090")], samples=3, base=9, test=9, seed=0)


def test_a_group_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(UsageError, match="no rows of device 'tpu'") as caught:
        divide(tiny_latency.runs(), [Group("device", "tpu")], samples=3, base=9, test=9, seed=0)
    assert "3090, 5090" in (caught.value.hint or "")


def test_a_group_with_too_few_models_says_so() -> None:
    with pytest.raises(UsageError, match="too few for 32"):
        divide(tiny_latency.runs(), [Group("family", "vit")], samples=32, base=9, test=9, seed=0)


def test_the_summary_counts_what_is_there() -> None:
    graph = tiny_latency.graphs().graphs[0]
    text = summary(graph)
    assert text.startswith(f"{len(graph)} nodes, {graph.edges.shape[1]} edges, depth ")
    assert f"{graph.parameters} parameters" in text
    assert f"Conv {graph.count('Conv')}" in text


def test_depth_is_that_of_the_longest_path() -> None:
    graph = tiny_latency.graphs().graphs[0]
    rows = np.array([[0, 0, 1, 2, 3], [1, 2, 4, 3, 4]], np.int32)
    assert depth(dataclasses.replace(graph, kind=graph.kind[:5], edges=rows)) == 4


def test_resumption_needs_no_finished_stage(make_stages, tmp_path) -> None:
    stopped = make_stages(tmp_path, stop_after=1)
    card = stopped.regress()
    assert (card.stage, card.done) == (REGRESS, False)
