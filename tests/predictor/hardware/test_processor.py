"""CPUs by any name, their scores, and what is estimated where nobody published a score."""

from __future__ import annotations

import math

import pytest
from command_line import run

from berth.pilot.errors import UsageError
from berth.predictor.hardware import platforms
from berth.predictor.hardware.core_speed import (
    SAME_CORE_DEVIATION,
    TREND_DEVIATION,
    core_score,
    estimated_score,
)
from berth.predictor.hardware.processor import (
    core_named,
    cores,
    find_processor,
    get_processor,
    processors,
)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("AMD EPYC 7742 64-Core Processor", "epyc-7742"),
        ("Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz", "e5-2680v3"),
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
        get_processor("EPYC 7743")
    assert refused.value.hint == "did you mean epyc-7763 or epyc-7742 or epyc-7713?"


def test_the_core_of_an_unlisted_processor_is_told_by_its_model_number() -> None:
    names = {
        "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz": "skylake-server",
        "AMD EPYC 7402 24-Core Processor": "zen-2",
        "AMD EPYC 9454 48-Core Processor": "zen-4",
        "Intel(R) Xeon(R) CPU E5-2650 v4 @ 2.20GHz": "broadwell",
    }
    for name, core in names.items():
        found = core_named(name)
        assert found is not None
        assert found.name == core
        assert find_processor(name) is None


def test_scores_without_their_own_are_near_the_published_ones() -> None:
    off = []
    for processor in processors().values():
        if (score := processor.score) is None:
            continue
        others = [p for p in processors().values() if p is not processor]
        guess = estimated_score(cores()[processor.core], processor.boost_hz, others)
        off += [
            math.log(guess.integer / score.integer) / guess.deviation,
            math.log(guess.floating_point / score.floating_point) / guess.deviation,
        ]
    assert sum(abs(each) <= 1.6449 for each in off) / len(off) >= 0.85


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
    assert of["cascadelake-6248"].deviation == SAME_CORE_DEVIATION
    assert of["power9"].deviation == TREND_DEVIATION
    assert core_score(platforms.shipped()["lassen-v100"]) is None


def test_the_command_finds_a_processor_and_offers_the_nearest(capsys) -> None:
    assert run("site", "platform", "list", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz") == 0
    assert "skylake-server" in capsys.readouterr().out
    assert run("site", "platform", "list", "EPYC 7743") == 2
    assert "epyc-7763" in capsys.readouterr().err
    assert run("site", "platform", "show", "EPYC 7742") == 0
    assert '"integer_score": 1.0' in capsys.readouterr().out
