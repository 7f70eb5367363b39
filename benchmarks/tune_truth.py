"""Simulated sites whose jobs come from one law: is what a tune recommends really better?

Each of ten sites has two kinds of nodes whose speeds differ by program, users with long and short
jobs, and a setting of today. At five, today's setting is wrong at a load at which waiting counts;
at three, nothing is to be gained; at two, training weeks tempt: one user's campaign, or a few large
jobs. ``berth replay tune`` sees eight weeks. The truth is the change on the same weeks of other
periods from the same law (without the campaign), which are replayed on single nodes; its noise, and
that of each recommended line, is the 95 % interval over these periods. Beside it: the best single
setting of a list that a person would try on the training weeks.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from berth.plugin.site import load_site
from berth.plugin.tune.replaying import open_replayer
from berth.policies.settings import PolicySettings
from berth.policies.tuning.differences import DAY_S, student_t
from berth.policies.tuning.figures import Floats, TracePart
from berth.policies.tuning.parameters import Values, settings_with
from berth.policies.tuning.trace_replayer import TraceReplayer

PERIOD_S, TRAIN_SHARE, LARGE = 56 * DAY_S, 0.5, 0.05
TRAIN, TEST = TracePart(0.0, TRAIN_SHARE * PERIOD_S), TracePart(TRAIN_SHARE * PERIOD_S, PERIOD_S)
HEADER = "submit_s,user,partition,cores,limit_s," + ",".join(
    f"{word}@{platform}"
    for word in ("seconds", "predicted")
    for platform in ("rome-7742", "epyc-genoa-9654")
)
SITE = """schema = "berth.site/1"
[policy]
{policy}
[[candidates]]
name = "old"
platform = "rome-7742"
partition = "old"
nodes = {old}
cores_per_node = 64
price_per_core_hour = 0.01
power_per_core_w = 3.0
[[candidates]]
name = "new"
platform = "epyc-genoa-9654"
partition = "new"
nodes = {new}
cores_per_node = 64
price_per_core_hour = 0.03
power_per_core_w = 6.0
"""
BY_HAND: tuple[Values, ...] = (
    {}, {"objective": "earliest"}, {"objective": "fastest"}, {"weights.wait": 0.0},
    {"weights.wait": 1.0}, {"weights.wait": 2.0}, {"alike_within": 1.5}, {"time_margin": 1.0},
)  # fmt: skip


class Kind(NamedTuple):
    """Says what is set today at a site, and what is special about its jobs."""

    policy: str
    is_wrong: bool = False
    loads: tuple[float, float] = (0.7, 1.0)
    """Range of the work submitted over the cores' capacity."""
    ratios: tuple[float, float] = (0.55, 0.95)
    """Range of the mean time on new nodes over that on old ones; one number: of every job."""
    parameters: str = ""


BALANCED = 'objective = "balanced"\nweights = {{time = 1.0, cost = {}, energy = {}, wait = {}}}'
FASTEST = 'objective = "fastest"\nalike_within = 1.0\nweights = {{wait = {}}}'
EARLIEST = 'objective = "earliest"'
CAMPAIGN, FEW_LARGE = "campaign", "few large jobs"
KINDS = {
    "waits ignored": Kind(FASTEST.format(0.0), True, loads=(0.5, 0.7), ratios=(0.4, 0.6)),
    "cost weighs": Kind(BALANCED.format(2.0, 0.0, 0.5), True),
    "energy weighs": Kind(BALANCED.format(0.0, 3.0, 0.2), True),
    "waits count fourfold": Kind(FASTEST.format(4.0), True),
    "margin too strict": Kind(
        f"{EARLIEST}\ntime_margin = 3.0", True,
        parameters="objective,weights.wait,alike_within,time_margin",
    ),
    "good already": Kind(EARLIEST),
    "idle": Kind('objective = "fastest"', loads=(0.15, 0.3)),
    "equal nodes": Kind(EARLIEST, ratios=(1.0, 1.0)),
    CAMPAIGN: Kind(EARLIEST),
    FEW_LARGE: Kind(EARLIEST),
}  # fmt: skip


class Law:
    """The law with a number: its nodes, users, ratios, errors and rate."""

    def __init__(self, name: str, number: int) -> None:
        draw, kind = random.Random(number), KINDS[name]  # noqa: S311
        self.error = draw.choice([0.1, 0.2, 0.4])
        self._spread = 0.1 if kind.ratios[0] < kind.ratios[1] else 0.0
        mean_ratio = draw.uniform(*kind.ratios)
        is_few = name == FEW_LARGE
        count, cores = (5, (64, 128, 192)) if is_few else (40, (8, 16, 32, 64, 128))
        self._weights = [math.exp(draw.gauss(0, 1)) for _ in range(count)]
        self._users = [
            (draw.gauss(math.log(3600), 1.2), draw.choice(cores),
             mean_ratio * math.exp(draw.gauss(0, 4 * self._spread)))
            for _ in range(count)
        ]  # fmt: skip
        jobs = [self._job(draw) for _ in range(4000)]
        core_s = sum(held * (old_s + new_s) / 2 for _, held, old_s, new_s in jobs) / 4000
        self._rate = draw.uniform(40.0, 60.0) * (0.25 if is_few else 1.0) / DAY_S
        nodes = self._rate * core_s / draw.uniform(*kind.loads) / 64
        share = draw.uniform(0.35, 0.65)
        old, new = (max(4, round(nodes * part)) for part in (share, 1 - share))
        self.site = SITE.format(policy=kind.policy, old=old, new=new)

    def _job(self, draw: random.Random) -> tuple[int, int, float, float]:
        """Return a job's user, cores and seconds on both kinds of nodes."""
        (number,) = draw.choices(range(len(self._users)), self._weights)
        log_s, cores, ratio = self._users[number]
        run_s = min(DAY_S, max(30.0, math.exp(draw.gauss(log_s, 0.9))))
        held = min(256, max(1, int(cores * draw.choice([0.5, 1, 1, 2]))))
        return number, held, run_s, run_s * ratio * math.exp(draw.gauss(0, self._spread))

    def _lines(self, draw: random.Random) -> Iterator[tuple[float, str]]:
        """Yield the lines of a period's jobs with their submission."""
        at_s = 0.0
        while (at_s := at_s + draw.expovariate(1.9 * self._rate)) < PERIOD_S:
            busy = 1.6 if 8 <= at_s / 3600 % 24 < 19 else 0.6
            if draw.random() > busy * (1.15 if at_s // DAY_S % 7 < 5 else 0.6) / 1.9:
                continue
            user, cores, *times = self._job(draw)
            limit_s = 1.05 * max(times) * draw.choice([1.5, 2, 4, 8])
            times += [time_s * math.exp(draw.gauss(0, self.error)) for time_s in times]
            words = ",".join(f"{time_s:.1f}" for time_s in times)
            yield at_s, f"{at_s:.0f},u{user},old,{cores},{limit_s:.0f},{words}\n"

    def write_period(self, path: Path, seed: int, *, campaign: bool = False) -> int:
        """Write a period of jobs and return their number.

        ``campaign``: with 20 jobs a day, from day 2 to 17, that take twice as long on new nodes and
        are predicted to take half as long there.
        """
        lines = list(self._lines(random.Random(seed)))  # noqa: S311
        for number in range(320 if campaign else 0):
            at_s = (2 + number / 20) * DAY_S
            lines.append((at_s, f"{at_s:.0f},c,old,32,29000,3600,7200,3600,1800\n"))
        path.write_text(f"{HEADER}\n" + "".join(line for _, line in sorted(lines)))
        return len(lines)


class Truth:
    """The periods that no tune saw, on whose last weeks policies are compared."""

    def __init__(self, periods: list[TraceReplayer], today: PolicySettings) -> None:
        self._periods, self._today = periods, today
        self._sums: dict[PolicySettings, Floats] = {}

    def _sums_s(self, values: Values) -> Floats:
        """Return [periods] the sum of all jobs' times from submission to end."""
        policy = settings_with(self._today, values)
        if policy not in self._sums:
            whole = [period.replay(policy, TracePart(0.0, PERIOD_S)) for period in self._periods]
            self._sums[policy] = np.array([each.within(TEST).finish_s.sum() for each in whole])
        return self._sums[policy]

    def change(self, values: Values, base: Values) -> tuple[float, float]:
        """Return the relative change from the settings ``base`` to ``values``, and its noise."""
        before, after = self._sums_s(base), self._sums_s(values)
        ratio, periods = float(after.sum() / before.sum()), len(before)
        variance = float(((after - ratio * before) ** 2).sum()) * periods / (periods - 1)
        return ratio - 1, student_t(periods - 1) * math.sqrt(variance) / float(before.sum())


def tuned(folder: Path, trials: int, parameters: str) -> dict[str, Any]:
    """Return what ``berth replay tune --json`` prints for the site in ``folder``."""
    berth = str(Path(sys.executable).with_name("berth"))
    words = [
        "replay", "tune", str(folder / "jobs.csv"), "--site", str(folder / "berth.toml"),
        "--folder", str(folder / "tune"), "--trials", str(trials), "--parameters", parameters,
        "--train", str(TRAIN_SHARE), "--json",
    ]  # fmt: skip
    done = subprocess.run([berth, *words], stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def examined(number: int, trials: int, periods: int) -> dict[str, int]:
    """Tune the site with this number, print its figures and return what counts for the sums."""
    name, kind = list(KINDS.items())[number % len(KINDS)]
    law = Law(name, number)
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        file, site_file = folder / "jobs.csv", folder / "berth.toml"
        site_file.write_text(law.site)
        site, others = load_site(site_file), []
        for seed in range(1, periods + 1):
            law.write_period(file, 1000 * number + seed)
            others.append(open_replayer(site, file, {}))
        truth = Truth(others, site.policy)
        jobs = law.write_period(file, 1000 * number, campaign=name == CAMPAIGN)
        seen = open_replayer(site, file, {}).in_pools()
        hours = [
            seen.replay(settings_with(site.policy, values), TRAIN).finish_s.mean() / 3600
            for values in BY_HAND
        ]
        result = tuned(folder, trials, kind.parameters)
    by_hand = BY_HAND[int(np.argmin(hours))]
    hand, hand_noise = truth.change(by_hand, {})
    print(f"\nsite {number}, {name}: {jobs} jobs, {hours[0]:.2f} h to the end today; by hand "
          f"{_text(by_hand)}: true {hand:+.1%} +- {hand_noise:.1%}")  # fmt: skip
    if not result["recommended"]:
        is_missed = kind.is_wrong and hand + hand_noise < -LARGE
        print(f"  as it is{' (MISSED)' * is_missed}: {result['reason']}", flush=True)
        return {"missed": int(is_missed)}
    values: dict[str, float | str] = dict(result["values"])
    claim = result["differences"][0]
    change, noise = truth.change(values, {})
    holds, is_better = claim["low"] <= change <= claim["high"], change + noise < 0
    print(f"  {_text(values)}: claimed {claim['change']:+.1%} ({claim['low']:+.1%} to "
          f"{claim['high']:+.1%}), true {change:+.1%} +- {noise:.1%}"
          f"{' NOT BETTER' * (not is_better)}{' OUTSIDE' * (not holds)}")  # fmt: skip
    idle = 0
    for key in values:
        rest = {other: value for other, value in values.items() if other != key}
        effect, noise = truth.change(rest, values)
        idle += effect < noise
        mark = " NOT NEEDED" * (effect < noise)
        print(f"    without {key}: {effect:+.2%} +- {noise:.2%}{mark}", flush=True)
    counts = {"recommended": 1, "better": int(is_better), "held": int(holds)}
    return {**counts, "lines": len(values), "idle": idle}


def main() -> None:
    """Print the figures of each site, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--first", type=int, default=200, help="number of the first site [200]")
    parser.add_argument("--trials", type=int, default=25)
    parser.add_argument("--periods", type=int, default=4, help="periods of the truth [4]")
    asked = parser.parse_args()
    sums: Counter[str] = Counter()
    for number in range(asked.first, asked.first + asked.sites):
        sums.update(examined(number, asked.trials, asked.periods))
    print(
        f"\n{sums['recommended']} of {asked.sites} sites get a recommendation: {sums['better']} "
        f"are better on other periods, the claim's interval holds {sums['held']}; {sums['idle']} "
        f"of {sums['lines']} lines change less than their noise; {sums['missed']} wrong settings "
        "that a hand would mend stay"
    )


def _text(values: Values) -> str:
    words = (f"{k} = {v if isinstance(v, str) else format(v, '.3g')}" for k, v in values.items())
    return ", ".join(words) or "as it is"


if __name__ == "__main__":
    main()
