"""What history expects: from Slurm's queue, remembered from one look to the next."""

from __future__ import annotations

import time
from pathlib import Path

from fake_nvml import FakeFleet
from hypothesis import given
from hypothesis import strategies as st

from berth.plugin.mig.automatic import expected_demands, remember, remembered, think
from berth.plugin.mig.node import SlicesAsked
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.settings import OutlookSettings, TriggerSettings
from berth.plugin.slurm.mig.queue import seen_now
from berth.policies.mig.demands import Demand, SliceOption

NOW_S = 1_790_000_000.0
H = 3600.0


def line(
    job: str,
    ago_s: float,
    gres: str,
    nodes: int = 1,
    stamp: str = "",
    state: str = "COMPLETED",
    used: str = "1:00",
) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW_S - ago_s))
    return f"{job}|{at}|{state}|{used}|{nodes}|1|{gres}|N/A|N/A|N/A|{stamp}\n"


def rules(folder: Path, **changes: object) -> OutlookSettings:
    return OutlookSettings.model_validate(
        {"memory": str(folder / "a" / "arrivals.json"), "horizon_s": H, **changes}
    )


def look(found: OutlookSettings, text: str, *, now_s: float = NOW_S) -> dict[str, int]:
    made = expected_demands(
        found,
        lambda: seen_now({"1g.5gb", "3g.20gb"}, command=lambda _: text),
        now_s=now_s,
        say=lambda _: None,
    )
    assert all(d.priority < 0 for d in made), "what waits comes first"
    return {d.name: d.count for d in made}


def test_what_slurm_forgets_between_two_looks_still_counts(tmp_path: Path) -> None:
    found = rules(tmp_path)
    first = "".join(line(str(n), 2 * H, "gres:gpu:1g.5gb:1") for n in range(6))
    second = line("7", 60, "gres/gpu:1g.5gb=2") + line("8_1", 60, "gres:gpu:3g.20gb:1")
    assert look(found, first) == {"1g.5gb": 1}
    assert look(found, second) == {"1g.5gb": 2}, "8 in 4 hours are 2 an hour; one 3g is too few"
    assert look(found, second) == {"1g.5gb": 2}, "the same job is counted once"
    assert look(found, "", now_s=NOW_S + 5 * H) == {}


def test_jobs_that_are_submitted_and_cancelled_are_not_expected_again(tmp_path: Path) -> None:
    """S6: else any user steers the cuts with an array that costs him nothing."""
    found = rules(tmp_path)

    def array(state: str, used: str) -> str:
        tasks = range(100)
        return "".join(
            line(f"9_{n}", 60, "gres:gpu:1g.5gb:1", state=state, used=used) for n in tasks
        )

    assert look(found, array("CANCELLED", "0:00")) == {}
    assert look(found, array("PENDING", "0:00"))["1g.5gb"] > 0, "as long as they wait"
    assert look(found, array("CANCELLED", "0:00")) == {}
    assert look(found, array("PENDING", "0:00"))["1g.5gb"] > 0
    assert look(found, "") == {}, "cancelled, and forgotten by Slurm before the next look"
    assert look(found, array("CANCELLED", "2:10:00"))["1g.5gb"] > 0, "those that ran did need it"


def test_only_types_of_these_gpus_count(tmp_path: Path) -> None:
    text = "".join(
        line(str(n), 60, gres)
        for n, gres in enumerate(["gres:gpu:4", "gres:gpu:h200:4", "N/A", "gres:gpu:off1:4"])
    )
    assert look(rules(tmp_path), text + "odd line\n||||\n") == {}


def test_a_job_counts_for_every_slice_that_the_filter_says_will_do(
    fleet: FakeFleet, tmp_path: Path
) -> None:
    """It was given the whole GPU, or left elsewhere, because nothing smaller was cut."""
    fleet.fill(0, [("7g.40gb", 0)])
    stamp = "site berth/1 id=x action=edit code=placed to=s slices=1g.5gb,7g.40gb,9g.90gb"
    text = "".join(
        line(str(n), 60, gres, stamp=stamp)
        for n, gres in enumerate(["gres:gpu:7g.40gb:1", "N/A"] * 14)
    )
    foreseen = expected_demands(
        rules(tmp_path),
        lambda: seen_now({"1g.5gb", "7g.40gb"}, command=lambda _: text),
        now_s=NOW_S,
        say=lambda _: None,
    )
    assert [(d.name, d.count) for d in foreseen] == [("1g.5gb or 7g.40gb", 7)]
    trigger = TriggerSettings(enabled=True, min_dwell_s=0, min_gain=0.05)
    with Nvml() as nvml:
        made = think(nvml.read(), (), foreseen, trigger, now_s=NOW_S, last_cut_s=None)
    assert made.target is not None
    ((_, target),) = made.target.layouts.items()
    assert target.counts() == {"1g.5gb": 7}


def test_jobs_on_several_nodes_count_on_each(tmp_path: Path) -> None:
    assert look(rules(tmp_path), line("1", 60, "gres:gpu:1g.5gb:2", nodes=4)) == {"1g.5gb": 2}


def test_a_crowd_of_impossible_jobs_costs_no_time(tmp_path: Path) -> None:
    text = "".join(line(str(n), 60, "gres:gpu:1g.5gb:9999", nodes=9999) for n in range(2000))
    assert look(rules(tmp_path), text) == {"1g.5gb": 2000 * 10_000 // 4}


def test_switched_off_it_asks_nothing(tmp_path: Path) -> None:
    assert look(rules(tmp_path, enabled=False), line("1", 60, "gres:gpu:1g.5gb:40")) == {}
    assert not (tmp_path / "a").exists()


def test_a_memory_that_is_damaged_or_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    found = rules(tmp_path)
    text = line("1", 60, "gres:gpu:1g.5gb:40")
    Path(found.memory).parent.mkdir()
    Path(found.memory).write_text("{")
    assert look(found, text) == {"1g.5gb": 10}
    (tmp_path / "file").write_text("")
    assert look(rules(tmp_path, memory=f"{tmp_path}/file/arrivals.json"), text) == {"1g.5gb": 10}


def test_the_memory_forgets_what_is_older_than_the_window(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.json"
    old = SlicesAsked(job="1", submit_s=NOW_S - 3 * H, profiles=("1g.5gb",), count=1)
    new = SlicesAsked(job="2", submit_s=NOW_S - H, profiles=("1g.5gb",), count=1)
    remember(path, [old, new], now_s=NOW_S, window_s=4 * H)
    assert remembered(path) == (old, new)
    remember(path, [], now_s=NOW_S, window_s=2 * H)
    assert remembered(path) == (new,)


def test_a_gpu_is_cut_for_jobs_that_are_expected_and_only_after_those_that_wait(
    fleet: FakeFleet, tmp_path: Path
) -> None:
    fleet.fill(0, [("7g.40gb", 0)])
    text = "".join(line(str(n), 60, "gres:gpu:1g.5gb:1") for n in range(28))
    found = rules(tmp_path)
    foreseen = expected_demands(
        found,
        lambda: seen_now({"1g.5gb"}, command=lambda _: text),
        now_s=NOW_S,
        say=lambda _: None,
    )
    waits = Demand("3g.20gb", (SliceOption("3g.20gb"),), count=2)
    trigger = TriggerSettings(enabled=True, min_dwell_s=0, min_gain=0.05)
    with Nvml() as nvml:
        gpus = nvml.read()
    for demands, layout in (
        (foreseen, {"1g.5gb": 7}),
        ((waits, *foreseen), {"3g.20gb": 2}),
    ):
        made = think(gpus, (), demands, trigger, now_s=NOW_S, last_cut_s=None)
        assert made.target is not None
        ((_, target),) = made.target.layouts.items()
        counts = target.counts()
        assert {name: counts.get(name) for name in layout} == layout


@given(st.text(max_size=300))
def test_any_answer_of_squeue_is_read_without_failing(text: str) -> None:
    list(seen_now({"1g.5gb"}, command=lambda _: text))
