"""A program on several nodes: fitted to runs on some, honest beyond them, abstaining far beyond."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import run
from hypothesis import given
from hypothesis import strategies as st
from toy_profiles import profile

from berth.pilot.documents import write_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Interconnect
from berth.pilot.profile import NodePoint, Profile
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis
from berth.predictor.core.workload import workload_of
from berth.predictor.families.program.node_runs import NodeRun, grows, one_node, together
from berth.predictor.families.program.node_scaling import fitted, scaling_of
from berth.predictor.hardware import platforms

HOME = "epyc-genoa-vm"
Law = Callable[[float], float]


def on(nodes: int, seconds: float, *, size: float | None = None, **changes: object) -> Profile:
    """The toy program on so many nodes, two ranks on each."""
    made = profile(runtime_s=seconds, peak=1e9 * nodes)
    runs_on = made.runs_on.model_copy(update={"nodes": nodes, "ranks": 2 * nodes})
    workload = made.workload.model_copy(update={"size": size})
    return made.model_copy(update={"runs_on": runs_on, "workload": workload, **changes})


def measured(growth: Law, *counts: int) -> Profile:
    return together([on(n, growth(n)) for n in counts])


def forecast_of(found: Profile, bundle: Path) -> Forecast:
    return Forecaster((bundle,)).forecast(workload_of(found), platforms.load())


def amdahl(nodes: float) -> float:
    return 1 + 10 / nodes


def test_what_ran_is_kept_and_what_lies_between_and_beyond_is_fitted(toy_bundle: Path) -> None:
    forecast = forecast_of(measured(amdahl, 1, 2, 4), toy_bundle)
    for nodes in (1, 2, 3, 4, 6, 8):
        found = forecast.at(HOME, 2 * nodes, nodes)
        assert found is not None
        assert found.runtime_s.low <= amdahl(nodes) <= found.runtime_s.high
        assert found.runtime_s.mid == pytest.approx(amdahl(nodes), rel=0.02)
        assert found.abstained is None
        assert found.nodes == nodes
        assert found.basis is (Basis.MEASURED if nodes in (1, 2, 4) else Basis.SCALED)
    widths = []
    for nodes in (4, 5, 6, 8):
        found = forecast.at(HOME, 2 * nodes, nodes)
        assert found is not None
        widths.append(found.runtime_s.high / found.runtime_s.low)
    assert widths == sorted(widths)


def test_far_beyond_it_abstains_and_says_what_to_run(toy_bundle: Path) -> None:
    forecast = forecast_of(measured(amdahl, 1, 2, 4), toy_bundle)
    far = forecast.prediction(HOME, 18, 9)
    assert far is not None
    assert far.abstained is not None
    assert "measured on 1, 2, 4 nodes, which tells of at most 8" in far.abstained
    alone = forecast_of(on(1, 11.0), toy_bundle).prediction(HOME, 4, 2)
    assert alone is not None
    assert alone.abstained is not None
    assert "measured on one node only" in alone.abstained
    assert "berth pilot submit --nodes 1,2,4" in alone.abstained
    assert alone.runtime_s.low < 11 / 2 * 1.1
    assert alone.runtime_s.high > 11.0


def test_every_answer_is_the_same_after_its_json(toy_bundle: Path) -> None:
    forecast = forecast_of(measured(amdahl, 1, 2, 4), toy_bundle)
    again = Forecast.from_json(forecast.to_json())
    assert again.to_json() == forecast.to_json()
    for name in forecast.curves:
        for nodes in (1, 3, 7, 20):
            ours, theirs = forecast.at(name, nodes, nodes), again.at(name, nodes, nodes)
            assert ours is not None
            assert theirs is not None
            assert theirs.abstained == ours.abstained
            assert theirs.runtime_s.mid == pytest.approx(ours.runtime_s.mid, rel=1e-4)
    unscaled = replace(forecast_of(on(1, 11.0), toy_bundle), nodes=None)
    plain = Forecast.from_json(unscaled.to_json()).prediction(HOME, 4, 2)
    assert plain is not None
    assert plain.abstained is None


LAWS: tuple[Callable[[random.Random], Law], ...] = (
    lambda r: _growth(r.uniform(0, 0.3), r.uniform(0.7, 1)),
    lambda r: _growth(0.02, 1, latency=r.uniform(0, 0.08)),
    lambda r: _growth(0.0, 1, surface=r.uniform(0, 0.15), latency=r.uniform(0, 0.05)),
    lambda r: _growth(0.05, 1, rounds=r.uniform(0, 0.03)),
    lambda r: _power(r.uniform(0.7, 1.0)),
)


def _growth(
    serial: float, shared: float, *, latency: float = 0, surface: float = 0, rounds: float = 0
) -> Law:
    def growth(n: float) -> float:
        moved = surface * n ** (-2 / 3) if n > 1 else 0.0
        return serial + shared / n + latency * math.log2(n) + moved + rounds * (n - 1)

    return growth


def _power(exponent: float) -> Law:
    return lambda n: n**-exponent


@pytest.mark.parametrize("counts", [(1, 2, 4), (1, 2), (1, 2, 4, 8)])
def test_intervals_hold_for_growths_of_many_kinds(counts: tuple[int, ...]) -> None:
    """At twice the largest number that was measured, with runs that repeat to 2 %."""
    r, most = random.Random(3), 2 * counts[-1]  # noqa: S311 - the same each time
    known = platforms.load()
    held, wide = [], []
    for number in range(60):
        growth = LAWS[number % len(LAWS)](r)
        runs = [on(n, growth(n) * math.exp(r.gauss(0, 0.02))) for n in counts]
        scaling = scaling_of(together(runs), {HOME: known[HOME]}, {})
        time = scaling.ratio(HOME, most).time
        held.append(time.low <= growth(most) / growth(1) <= time.high)
        wide.append(time.high / time.low)
    assert sum(held) >= 0.9 * len(held)
    assert sorted(wide)[len(wide) // 2] < 2.5


@given(
    st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=5),
    st.booleans(),
)
def test_any_times_are_fitted_by_something(times: list[float], weak: bool) -> None:
    runs = [NodeRun(2**i, t, 0.02, None) for i, t in enumerate(times)]
    for terms in fitted(runs, weak=weak):
        assert all(seconds > 0 for seconds in terms.seconds.values())
        assert terms.total(64) > 0


def test_weak_scaling_is_found_by_the_sizes_and_needs_no_gain(toy_bundle: Path) -> None:
    runs = [on(n, 10 + 0.3 * math.log2(n), size=1e6 * n) for n in (1, 2, 4)]
    found = together(runs)
    assert grows(found)
    forecast = forecast_of(found, toy_bundle)
    eight = forecast.at(HOME, 16, 8)
    assert eight is not None
    assert eight.runtime_s.low <= 10.9 <= eight.runtime_s.high
    same = forecast.runtime_at(HOME, 16, 8e6, 8)
    assert same is not None
    assert same.mid == pytest.approx(eight.runtime_s.mid)
    assert not grows(together([on(n, 1.0, size=1e6) for n in (1, 2)]))
    with pytest.raises(UsageError, match="neither stayed nor grew"):
        together([on(1, 1.0, size=1e6), on(2, 1.0, size=5e6)])


def test_communication_moves_with_the_networks_and_computation_with_the_cores() -> None:
    known = platforms.load()
    slow = Interconnect(latency_s=50e-6, bytes_per_s=1e8)
    fast = Interconnect(latency_s=1e-6, bytes_per_s=1e10)
    home = known[HOME].model_copy(update={"interconnect": slow})
    there = known["rome-7742"].model_copy(update={"interconnect": fast})
    unknown = known["quartz"]
    found = measured(lambda n: 10 / n + 0.5 * math.log2(n), 1, 2, 4)
    speedups = {there.name: 1.0, unknown.name: 1.0}
    ratios = {
        name: scaling_of(found, {p.name: p for p in (home, there, unknown)}, speedups).ratio(
            name, 4
        )
        for name in (HOME, there.name, unknown.name)
    }
    assert ratios[HOME].time.mid == pytest.approx(0.35, rel=0.01)
    assert ratios[there.name].time.mid < 0.3
    wide = ratios[unknown.name].time
    assert wide.high / wide.low > 2 * ratios[HOME].time.high / ratios[HOME].time.low


def test_gpus_and_other_kinds_of_hardware_are_not_told_from_cpu_nodes(toy_bundle: Path) -> None:
    forecast = forecast_of(measured(amdahl, 1, 2, 4), toy_bundle)
    gpu = forecast.prediction("lassen-v100", 2, 2)
    assert gpu is not None
    assert gpu.abstained is not None
    assert forecast.nodes is not None
    why = forecast.nodes.why_not("lassen-v100", 2)
    assert why == f"how its time changes with nodes was measured on {HOME} only"


def test_a_main_run_on_several_nodes_is_as_one_of_them_saw_it(toy_bundle: Path) -> None:
    two = on(2, 6.0)
    share = one_node(two)
    assert share.runs_on.ranks == 2
    assert share.value("instructions") == pytest.approx((two.value("instructions") or 0) / 2)
    assert share.value("fp64_ratio") == two.value("fp64_ratio")
    found = forecast_of(two, toy_bundle).at(HOME, 4, 2)
    assert found is not None
    assert found.runtime_s.mid == pytest.approx(6.0, rel=0.01)
    assert found.abstained is None


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (on(1, 5.0), "two profiles are of 1 node"),
        (on(2, 5.0, platform="quartz"), "runs on several numbers of nodes are of one platform"),
        (on(2, 5.0, complete=False), "did not complete"),
        (on(2, 5.0, runtime=None), "did not complete"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(other: Profile, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        together([on(1, 10.0), other])
    assert said in f"{caught.value.message} {caught.value.hint}"


def test_another_executable_is_refused() -> None:
    two = on(2, 5.0)
    other = two.workload.model_copy(update={"executable_sha256": "b" * 64, "command": ("./no",)})
    one = on(1, 10.0)
    first = one.workload.model_copy(update={"executable_sha256": "a" * 64})
    with pytest.raises(UsageError, match="not of the program"):
        together(
            [one.model_copy(update={"workload": first}), two.model_copy(update={"workload": other})]
        )


def test_memory_is_never_more_than_the_same_on_every_node() -> None:
    found = measured(amdahl, 1, 2, 4).model_copy(
        update={
            "peak_memory_bytes": 1e9,
            "node_scaling": tuple(
                NodePoint(nodes=n, ranks=n, runtime_s=amdahl(n), peak_memory_bytes=m)
                for n, m in ((2, 1.2e9), (4, 1.5e9))
            ),
        }
    )
    known = platforms.load()
    scaling = scaling_of(found, {HOME: known[HOME]}, {})
    for nodes, low, high in ((2, 1.2, 1.2), (3, 1.2, 1.5), (4, 1.5, 1.5), (8, 1.5, 3.0)):
        memory = scaling.ratio(HOME, nodes).memory
        assert memory.mid >= low
        assert memory.high == pytest.approx(high)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = []
    for nodes in (1, 2, 4):
        found.append(tmp_path / f"n{nodes}.json")
        write_json(found[-1], on(nodes, amdahl(nodes)))
    return found


def test_predict_shows_each_number_of_nodes(
    files: list[Path], toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("predict", *files, "--bundle", toy_bundle, "--platform", HOME, "--nodes", "1,2,4,8,16")
    assert run(*asked, "--json") == 0
    rows = {p["nodes"]: p for p in json.loads(capsys.readouterr().out)["predictions"]}
    assert [rows[n]["basis"] for n in (1, 2, 4, 8)] == ["measured"] * 3 + ["scaled"]
    assert rows[8]["cores"] == 16
    assert rows[8]["abstained"] is None
    assert "at most 8" in rows[16]["abstained"]
    assert run(*asked) == 0
    assert "8 nodes, 16 cores" in capsys.readouterr().out


@pytest.mark.parametrize("nodes", ["0", "a", "1,,2", "1,-2", "", "100000001"])
def test_numbers_of_nodes_that_are_none_are_refused(
    files: list[Path], nodes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", files[0], "--nodes", nodes) == 2
    assert "1,2,4" in capsys.readouterr().err


def test_other_kinds_of_workload_have_no_nodes_to_ask_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
             "num_attention_heads": 4, "intermediate_size": 128}
        )
    )  # fmt: skip
    assert run("predict", config, "--nodes", "2") == 2
    assert "--nodes means nothing" in capsys.readouterr().err


def test_several_profiles_are_one_workload_in_the_store(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{tmp_path}/berth.db"
    assert run("workload", "add", *files, "--name", "app", "--store", store) == 0
    capsys.readouterr()
    assert run("workload", "show", "app", "--store", store, "--json") == 0
    document = json.loads(capsys.readouterr().out)["document"]
    assert [point["nodes"] for point in document["node_scaling"]] == [2, 4]
    assert run("workload", "refresh", "--store", store) == 0
    assert run("workload", "add", *files[:1], files[0], "--name", "b", "--store", store) == 2
    assert "two profiles are of 1 node" in capsys.readouterr().err
