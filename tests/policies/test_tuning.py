"""The tune on a replay whose best settings are known: found, resumed, pruned, judged honestly."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
from stand_in_replayer import DAY_S, StandIn

from berth.pilot.errors import BerthError, UsageError
from berth.policies.settings import PolicySettings, Weights
from berth.policies.tuning import (
    METRICS,
    PARAMETERS,
    TracePart,
    Tuning,
    judge,
    settings_with,
    values_of,
)
from berth.policies.tuning.differences import differences
from berth.policies.tuning.figures import ReplayFigures
from berth.policies.tuning.judgement import pick
from berth.policies.tuning.parameters import chosen
from berth.policies.tuning.storage import (
    Patience,
    StorageAway,
    progress_of,
    settle_running,
    storage_answers,
    without_password,
)
from berth.policies.tuning.study import Tried, Tuned

TODAY = PolicySettings(weights=Weights(wait=0.2))
TRAIN, FIRST, TEST = (
    TracePart(0, 20 * DAY_S),
    TracePart(0, 7 * DAY_S),
    TracePart(20 * DAY_S, 29 * DAY_S),
)


def tuning(replayer: StandIn | None = None, *, identity: str = "one", first: bool = True) -> Tuning:
    return Tuning(
        replayer or StandIn(),
        TODAY,
        chosen(["objective", "weights.wait", "weights.cost", "alike_within"]),
        (METRICS["finish"], METRICS["cost"]),
        TRAIN,
        FIRST if first else None,
        identity,
    )


def tuned(*tried: Tried, front: tuple[Tried, ...] | None = None) -> Tuned:
    """The result of these trials, the first one today's policy."""
    return Tuned(tried[0], tried, tried if front is None else front, None)  # type: ignore[arg-type]


def trial(number: int, wait: float, *scores: float, killed: int = 0) -> Tried:
    return Tried(number, {"weights.wait": wait}, scores, killed)


def begun(folder: Path, replayer: StandIn | None = None) -> tuple[Tuning, optuna.Study]:
    tune = tuning(replayer)
    return tune, tune.study(str(folder / "journal"))


class Turned(StandIn):
    """A replay in which the weight of waiting that is good on the training weeks harms later."""

    def replay(self, policy: PolicySettings, part: TracePart) -> ReplayFigures:
        """See TraceReplayer."""
        early, later = (
            StandIn.replay(self, policy.model_copy(update={"weights": Weights(wait=wait)}), part)
            for wait in (policy.weights.wait, policy.weights.wait + 2.0)
        )
        is_test = early.submit_s >= TEST.begin_s
        return replace(early, wait_s=np.where(is_test, later.wait_s, early.wait_s))


BETTER = tuned(trial(0, 0.2, 10.0), trial(1, 2.0, 5.0), front=(trial(1, 2.0, 5.0),))


def test_it_finds_what_is_better_and_starts_from_todays(tmp_path: Path) -> None:
    tune, study = begun(tmp_path)
    tune.work(study, 40, seed=1)
    result = tune.found(study)
    assert result.progress.finished >= 40
    assert result.today.values["weights.wait"] == 0.2
    best = pick(result)
    assert best.scores[0] < result.today.scores[0]
    assert best.scores[1] <= 1.01 * result.today.scores[1]
    scores = [one.scores for one in result.front]
    assert scores == sorted(scores)
    assert not any(a[0] <= b[0] and a[1] <= b[1] for a in scores for b in scores if a is not b)
    verdict = judge(result, tune.replayer, TODAY, tune.metrics, train=TRAIN, test=TEST)
    assert verdict.shown
    assert verdict.policy.weights.wait == pytest.approx(float(best.values["weights.wait"]))
    assert verdict.differences[0].change < 0
    assert "mean time from submission to end" in verdict.reason


def test_hopeless_trials_see_the_first_part_only(tmp_path: Path) -> None:
    replayer = StandIn()
    tune, study = begun(tmp_path, replayer)
    tune.work(study, 40, seed=1)
    progress = progress_of(study)
    assert progress.stopped > 0
    whole = sum(part == TRAIN for _, part in replayer.asked)
    assert whole <= progress.done
    assert sum(part == FIRST for _, part in replayer.asked) >= progress.stopped + whole


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    tune = tuning()
    tune.work(tune.study(str(tmp_path / "journal")), 5, seed=1)
    seen = []
    study = tune.study(str(tmp_path / "journal"))
    tune.work(study, 8, seed=2, show=seen.append)
    assert seen[0].finished == 5
    assert progress_of(study).finished == 8
    assert [t.number for t in study.get_trials(deepcopy=False)] == list(range(8))


def test_a_storage_holds_one_tune(tmp_path: Path) -> None:
    tuning().study(str(tmp_path / "journal"))
    with pytest.raises(UsageError, match="holds a tune of other jobs"):
        tuning(identity="two").study(str(tmp_path / "journal"))


def test_a_database_will_do(tmp_path: Path) -> None:
    tune = tuning()
    study = tune.study(f"sqlite:///{tmp_path / 'tune.db'}")
    tune.work(study, 3, seed=1)
    assert progress_of(study).finished == 3


@pytest.mark.parametrize("storage", ["/no/such/folder/journal", "nonsense://x", "sqlite:////no/x"])
def test_a_storage_that_cannot_be_used_is_refused(storage: str) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        tuning().study(storage)


def test_a_policy_that_raises_stops_the_tune_with_its_reason(tmp_path: Path) -> None:
    tune, study = begun(tmp_path, StandIn(broken=True))
    with pytest.raises(BerthError, match="trials fail: the policy raised"):
        tune.work(study, 50, seed=1)


def test_a_metric_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    tune = replace(tuning(), metrics=(METRICS["energy"],))
    study = tune.study(str(tmp_path / "journal"))
    with pytest.raises(BerthError, match="the metric energy is not known"):
        tune.work(study, 50, seed=1)


def _worker(storage: str, trials: int, seed: int, suicidal: bool) -> None:
    tune = tuning()
    if suicidal:
        replay = tune.replayer.replay
        calls = []

        def dying(policy: PolicySettings, part: TracePart) -> object:
            calls.append(part)
            if len(calls) > 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return replay(policy, part)

        tune.replayer.replay = dying  # type: ignore[method-assign]
    tune.work(tune.study(storage), trials, seed=seed)


def test_a_killed_worker_costs_its_own_trial_only(tmp_path: Path) -> None:
    storage = str(tmp_path / "journal")
    tune = tuning()
    study = tune.study(storage)
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=_worker, args=(storage, 12, i, i == 0)) for i in range(2)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert [one.exitcode for one in workers] == [-signal.SIGKILL, 0]
    progress = progress_of(study)
    assert progress.finished >= 12
    assert progress.running == 1
    settle_running(study)
    assert progress_of(study).running == 0
    assert progress_of(study).failed == 1


def test_trials_that_nobody_works_on_are_lost_or_surplus(tmp_path: Path) -> None:
    tune, study = begun(tmp_path)
    tune.work(study, 2, seed=1)
    for worker in ("killed", "stopped", "stopped", "elsewhere", "", ""):
        trial = study.ask()
        if worker:
            trial.set_user_attr("worker", worker)
    # The older one of "stopped" it gave up before; of the two without a name "fresh" has one.
    settle_running(study, ("stopped", "fresh"), lambda name: name == "killed")
    progress = progress_of(study)
    assert (progress.done, progress.failed, progress.surplus, progress.running) == (2, 3, 2, 1)
    settle_running(study, (), lambda _: False)
    assert progress_of(study) == progress


def test_todays_policy_is_replayed_again_where_its_worker_was_killed(tmp_path: Path) -> None:
    tune, study = begun(tmp_path)
    study.ask()
    settle_running(study)
    tune.work(study, 5, seed=1)
    assert tune.found(study).today is None
    tune.replay_today(study)
    today = tune.found(study).today
    assert today.values["weights.wait"] == 0.2
    tune.replay_today(study)
    assert progress_of(study).finished == 6


def test_a_storage_that_goes_away_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.policies.tuning.storage.time.sleep", lambda _: None)
    tune = tuning()
    study = tune.study(f"sqlite:///{tmp_path / 'tune.db'}")
    replay, storage = tune.replayer.replay, study._storage
    calls, down = list[TracePart](), list[str]()

    def replay_once_away(policy: PolicySettings, part: TracePart) -> object:
        calls.append(part)
        if len(calls) == 3:
            down.extend(("set_trial_state_values", "get_trial"))
            raise optuna.exceptions.StorageInternalError
        return replay(policy, part)

    def failing(name: str) -> Callable[..., object]:
        asked = getattr(storage, name)

        def ask(*words: object, **named: object) -> object:
            if name in down:
                down.remove(name)
                raise optuna.exceptions.StorageInternalError
            return asked(*words, **named)

        return ask

    monkeypatch.setattr(tune.replayer, "replay", replay_once_away)
    for name in ("set_trial_state_values", "get_trial"):
        monkeypatch.setattr(storage, name, failing(name))
    tune.work(study, 4, seed=1)
    assert not down
    assert progress_of(study).finished == 4

    def gone() -> None:
        raise optuna.exceptions.StorageInternalError

    with pytest.raises(StorageAway, match="does not answer"):
        storage_answers(gone)
    with pytest.raises(StorageAway):
        Patience(most_s=0.0).wait(StorageAway())


def test_passwords_of_databases_are_not_shown() -> None:
    assert without_password("postgresql+psycopg://a:b:c@h/d") == "postgresql+psycopg://a:***@h/d"
    assert without_password("postgresql://a@h:5/d") == "postgresql://a@h:5/d"
    assert without_password("/a/b:c@d") == "/a/b:c@d"
    with pytest.raises(UsageError) as refused:
        tuning().study("postgresql+psycopg://ada:sesame@127.0.0.1:1/x")
    assert "sesame" not in refused.value.message
    assert "\n" not in refused.value.message


def test_values_and_settings_go_both_ways() -> None:
    values = values_of(TODAY, PARAMETERS.values())
    assert values["weights.wait"] == 0.2
    assert "weights.cost" not in values  # fastest does not look at it
    assert settings_with(TODAY, values) == TODAY
    other = settings_with(TODAY, {"objective": "balanced", "weights.cost": 2.0, "time_margin": 1.5})
    assert (other.objective, other.weights.cost, other.weights.wait) == ("balanced", 2.0, 0.2)
    with pytest.raises(UsageError, match="there is no parameter 'weight'"):
        chosen(["weight"])


def test_equal_policies_differ_by_nothing_and_nothing_is_recommended() -> None:
    figures = StandIn().replay(TODAY, TEST)
    for one in differences(figures, figures, tuple(METRICS[n] for n in ("finish", "cost")), TEST):
        assert (one.change, one.low, one.high) == (0.0, 0.0, 0.0)
        assert not one.better
        assert not one.worse
    same = Tried(0, values_of(TODAY, PARAMETERS.values()), (10.0, 10.0), 0)
    verdict = judge(tuned(same), StandIn(), TODAY, (METRICS["finish"],), train=TRAIN, test=TEST)
    assert verdict.recommended is None
    assert not verdict.shown


def test_what_is_worse_on_the_test_weeks_is_not_recommended() -> None:
    lucky, killing = trial(1, 3.0, 9.0), trial(2, 2.0, 8.0, killed=5)
    result = tuned(trial(0, 0.2, 10.0), lucky, killing, front=(killing, lucky))
    assert pick(result) == lucky
    verdict = judge(result, Turned(), TODAY, (METRICS["finish"],), train=TRAIN, test=TEST)
    assert not verdict.shown
    assert (verdict.recommended, verdict.dropped) == (None, ("weights.wait",))


def test_a_setting_that_serves_one_metric_and_harms_another_is_not_recommended() -> None:
    cheap = Tried(1, {"objective": "balanced"}, (10.0, 0.5), 0)
    result = tuned(Tried(0, {"objective": "fastest"}, (10.0, 1.0), 0), cheap, front=(cheap,))
    metrics = (METRICS["finish"], METRICS["cost"])
    verdict = judge(result, StandIn(), TODAY, metrics, train=TRAIN, test=TEST)
    assert not verdict.shown
    assert verdict.reason.endswith("is worse: keep today's.")


def walked(weeks: int, change: float, seed: int) -> tuple[ReplayFigures, ReplayFigures]:
    """Two replays of a job an hour whose difference has a luck of its own in each week."""
    random = np.random.default_rng(seed)
    before = StandIn(days=7 * weeks, jobs=168 * weeks).replay(TODAY, TracePart(0, 1e9))
    before = replace(before, wait_s=np.zeros(len(before.wait_s)), runtime_s=before.wait_s)
    luck = random.normal(change, 0.1, weeks)[(before.submit_s // (7 * DAY_S)).astype(int)]
    return before, replace(before, runtime_s=before.runtime_s * (1 + luck))


@pytest.mark.parametrize(("weeks", "test_weeks"), [(4, 1), (4, 2), (12, 3)])
def test_intervals_hold_the_true_change_as_often_as_they_say(weeks: int, test_weeks: int) -> None:
    part = TracePart(7 * DAY_S * (weeks - test_weeks), 7 * DAY_S * weeks)
    held = 0
    for seed in range(200):
        (row,) = differences(*walked(weeks, -0.1, seed), (METRICS["finish"],), part)
        held += row.low <= -0.1 <= row.high
    assert 180 <= held <= 199


def test_an_effect_on_the_training_weeks_alone_is_no_reason_for_a_line() -> None:
    values: dict[str, float | str] = {"weights.wait": 2.0, "alike_within": 1.5}

    class LuckyList(StandIn):
        def replay(self, policy: PolicySettings, part: TracePart) -> ReplayFigures:
            figures = super().replay(policy.model_copy(update={"alike_within": 1.5}), part)
            is_lucky = policy.alike_within != 1.5 and figures.submit_s < TEST.begin_s
            return replace(figures, wait_s=figures.wait_s * np.where(is_lucky, 2.0, 0.99))

    picked = Tried(1, values, (5.0,), 0)
    today = Tried(0, {"weights.wait": 0.2, "alike_within": 1.25}, (10.0,), 0)
    result = tuned(today, picked, front=(picked,))
    verdict = judge(result, LuckyList(), TODAY, (METRICS["finish"],), train=TRAIN, test=TEST)
    assert verdict.recommended is not None
    assert verdict.recommended.values == {"weights.wait": 2.0}


def test_settings_that_change_nothing_stay_at_todays_values() -> None:
    values = {"weights.wait": 2.0, "max_interval_ratio": 4.7, "weights.cost": 1.9}
    picked = Tried(1, values, (5.0,), 0)
    result = tuned(trial(0, 0.2, 10.0), picked, front=(picked,))
    verdict = judge(result, StandIn(), TODAY, (METRICS["finish"],), train=TRAIN, test=TEST)
    assert verdict.shown
    assert verdict.recommended is not None
    assert verdict.recommended.values == {"weights.wait": 2.0}
    assert verdict.policy == settings_with(TODAY, {"weights.wait": 2.0})


def test_nothing_is_judged_where_no_setting_has_an_effect() -> None:
    picked = Tried(1, {"max_interval_ratio": 4.7}, (5.0,), 0)
    result = tuned(Tried(0, {"max_interval_ratio": 30.0}, (10.0,), 0), picked, front=(picked,))
    verdict = judge(result, StandIn(), TODAY, (METRICS["finish"],), train=TRAIN, test=TEST)
    assert (verdict.recommended, verdict.dropped) == (None, ("max_interval_ratio",))
    assert "No setting changes a metric by more than chance" in verdict.reason


def test_what_guards_jobs_is_tuned_by_name_only() -> None:
    assert {"max_interval_ratio", "time_margin"}.isdisjoint(each.name for each in chosen([]))
    assert [each.name for each in chosen(["time_margin"])] == ["time_margin"]


def test_why_nothing_is_judged_is_said_as_it_is() -> None:
    metrics = (METRICS["finish"], METRICS["cost"])

    def reason(*others: Tried) -> str:
        return judge(
            tuned(trial(0, 0.2, 10.0, 1.0), *others),
            StandIn(),
            TODAY,
            metrics,
            train=TRAIN,
            test=TEST,
        ).reason

    assert reason() == "No trial was better than today's policy on the training weeks: keep it."
    assert "better in one metric was worse in another" in reason(Tried(1, {}, (5.0, 2.0), 0))
    assert "had more jobs killed by their time limit: keep" in reason(Tried(1, {}, (5.0, 0.5), 3))


def test_one_day_of_jobs_has_no_interval_and_nothing_is_recommended() -> None:
    day = TracePart(20 * DAY_S, 21 * DAY_S)
    verdict = judge(BETTER, StandIn(), TODAY, (METRICS["finish"],), train=TRAIN, test=day)
    assert not verdict.shown
    assert not verdict.differences[0].known
    assert "less than two days of jobs" in verdict.reason


def test_what_a_change_does_to_other_metrics_is_judged_too() -> None:
    verdict = judge(BETTER, StandIn(), TODAY, (METRICS["finish"],), train=TRAIN, test=TEST)
    names = {one.metric.name for one in verdict.others}
    assert names == set(METRICS) - {"finish", "energy"}  # of which the stand-in knows nothing


def test_metrics_by_hand() -> None:
    figures = StandIn().replay(TODAY, TEST).rows(np.array([0, 1]))
    figures = replace(
        figures, wait_s=np.array([0.0, 90.0]), runtime_s=np.array([1.0, 10.0]),
        user=np.array([0, 1]), cost=np.array([1.0, 3.0]), energy_j=np.array([5.0, 7.0]),
    )  # fmt: skip
    result = {name: metric.of(figures) for name, metric in METRICS.items()}
    assert result["finish"] == 50.5
    assert result["wait"] == 45.0
    assert result["p95-wait"] == pytest.approx(85.5)
    assert result["slowdown"] == pytest.approx((1.0 + 10.0) / 2)
    assert (result["cost"], result["energy"]) == (2.0, 6.0)
    assert result["unfairness"] == pytest.approx(4.5 / 5.5)
