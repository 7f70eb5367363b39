"""CPUs by any name, their scores, and what is estimated where nobody published a score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run

from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.predictor.hardware import platforms
from berth.predictor.hardware.core_speed import (
    BENCHMARK_DEVIATION,
    core_score,
    core_scores,
    processor_score,
)
from berth.predictor.hardware.processor import cores, processors
from berth.predictor.hardware.processor_names import (
    core_named,
    find_processor,
    get_processor,
    known_processor,
)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("AMD EPYC 7742 64-Core Processor", "epyc-7742"),
        ("Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz", "e5-2680v3"),
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "e5-2670"),
        ("Intel(R) Xeon(R) Platinum 8358P CPU @ 2.60GHz", "xeon-8358p"),
        ("12th Gen Intel(R) Core(TM) i9-12900KS", "i9-12900ks"),
        ("AMD Ryzen 7 5700X 8-Core Processor", "ryzen-5700x"),
        ("AWS Graviton3", "graviton3"),
        ("xeon-8358p", "xeon-8358p"),
    ],
)
def test_a_processor_is_found_by_any_of_its_names(name: str, canonical: str) -> None:
    found = find_processor(name)
    assert found is not None
    assert found.name == canonical


def test_every_processor_is_found_by_its_own_names_and_by_no_others() -> None:
    for processor in processors().values():
        for name in (processor.name, processor.model, *processor.aliases):
            assert find_processor(name) is processor, name


@pytest.mark.parametrize("name", ["AMD EPYC", "Intel(R) Xeon(R) Processor", "", "quartz"])
def test_a_name_without_a_model_is_no_processor(name: str) -> None:
    assert find_processor(name) is None


def test_an_unknown_processor_is_refused_with_the_three_nearest() -> None:
    with pytest.raises(UsageError) as refused:
        get_processor("Xeon Gold 9999")
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("did you mean xeon-6")


def test_a_model_that_is_not_listed_is_a_typical_one_of_its_line_and_says_so() -> None:
    cloud = get_processor("AMD EPYC 9R45 96-Core Processor")
    assert (cloud.core, cloud.cores) == ("zen-5", 96)
    assert cloud.source.startswith("not listed: as epyc-9655")
    listed = processor_score(processors()["epyc-9655"])
    assert processor_score(cloud).deviation > listed.deviation > 0


def test_every_processor_says_where_its_figures_are_from() -> None:
    sources = {processor.name: processor.source for processor in processors().values()}
    assert all(len(source) > 20 for source in sources.values())
    assert "not verified" in sources["graviton2"]


NAMES = Path(__file__).with_name("processor_names.txt")


def test_every_name_of_machines_in_clouds_and_lists_tells_its_core_or_none() -> None:
    rows = [line.split("\t") for line in NAMES.read_text().splitlines()]
    assert len(rows) >= 300
    wrong = {n: core and core.name for n, c in rows if (core := core_named(n)) != cores().get(c)}
    assert wrong == {}


def test_each_core_has_a_score_and_can_be_a_platform() -> None:
    assert {core.name for core in core_scores().cores} == set(cores())
    for core in cores().values():
        typical = known_processor(core.name)
        assert typical is not None
        assert typical.core == core.name


def test_a_platform_has_the_score_of_its_file_before_that_of_its_processor() -> None:
    rome = platforms.shipped()["rome-7742"]
    published = core_score(rome)
    assert published is not None
    assert (published.integer, published.deviation) == (1.0, 0.0)
    own = published.model_copy(update={"integer": 0.9, "source": "our own runs"})
    signature = rome.signature.model_copy(update={"core_score": own})
    assert core_score(rome.model_copy(update={"signature": signature})) == own


def test_estimated_scores_say_how_well_they_are_known() -> None:
    of = {name: core_score(platforms.shipped()[name]) for name in ("cascadelake-6248", "power9")}
    assert 0 < of["cascadelake-6248"].deviation < of["power9"].deviation
    assert core_score(platforms.shipped()["lassen-v100"]) is None


def test_benchmark_kernels_tell_the_core_of_a_processor_without_a_name() -> None:
    known = platforms.shipped()["epyc-genoa-vm"]
    score = known.signature.core_score
    assert score is not None
    twice = {name: seconds / 2 for name, seconds in known.signature.kernel_times_s.items()}
    signature = known.signature.model_copy(update={"core_score": None, "kernel_times_s": twice})
    vm = {"name": "vm", "processor": "AMD EPYC (family 25 model 17)"}
    of_kernels = core_score(known.model_copy(update={**vm, "signature": signature}))
    assert of_kernels is not None
    assert of_kernels.integer == pytest.approx(2 * score.integer)
    assert of_kernels.deviation > max(score.deviation, BENCHMARK_DEVIATION)


def test_benchmark_kernels_of_a_busy_machine_tell_nothing() -> None:
    known = platforms.shipped()["epyc-genoa-vm"]
    waited = {name: 10 * seconds for name, seconds in known.signature.kernel_times_s.items()}
    signature = known.signature.model_copy(update={"core_score": None, "kernel_times_s": waited})
    assert core_score(known.model_copy(update={"name": "vm", "signature": signature})) is None


@pytest.mark.parametrize(
    ("processor", "words"),
    [
        ("AMD EPYC 7742 64-Core Processor", None),
        ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "known within 9%"),
        ("AMD EPYC 7743 64-Core Processor", "did you mean epyc-7763 or"),
        ("Frobnicator 9000", "nothing tells how fast its cores are"),
    ],
)
def test_an_added_platform_says_how_well_its_cores_are_known(
    processor: str, words: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    rome = platforms.shipped()["rome-7742"]
    node = rome.model_copy(update={"name": "node", "processor": processor})
    file, folder = tmp_path / "node.json", tmp_path / "platforms"
    file.write_text(to_json(node))
    folder.mkdir()
    monkeypatch.setenv(platforms.FOLDER_VARIABLE, str(folder))
    assert run("site", "platform", "add", str(file)) == 0
    printed = capsys.readouterr().out
    assert (words in printed) if words else printed.endswith(" now\n")


def test_a_score_without_a_source_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(to_json(platforms.shipped()["rome-7742"]))
    document["signature"]["core_score"] = {"integer": 1.1, "floating_point": 1.2}
    file = tmp_path / "node.json"
    file.write_text(json.dumps(document))
    monkeypatch.setenv(platforms.FOLDER_VARIABLE, str(tmp_path))
    assert run("site", "platform", "add", str(file)) == 2
    assert "signature.core_score.source: is missing" in capsys.readouterr().err


def test_the_command_finds_a_processor_and_offers_the_nearest(capsys) -> None:
    assert run("site", "platform", "list", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz") == 0
    printed = capsys.readouterr().out
    assert "skylake-server" in printed
    assert "~0.97" in printed  # estimated
    assert run("site", "platform", "list", "Xeon Gold 9999") == 2
    assert "xeon-6" in capsys.readouterr().err
    assert run("site", "platform", "show", "EPYC 7742") == 0
    assert '"boost_hz": 3400000000.0' in capsys.readouterr().out


def test_the_command_finds_an_accelerator_and_offers_its_neighbours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("site", "platform", "list", "AMD Instinct MI250X") == 0
    assert "mi250x-128gb" in capsys.readouterr().out
    assert run("site", "platform", "list", "Instinct MI251X") == 2
    assert "mi250x-128gb" in capsys.readouterr().err
