"""Simulated sites whose jobs come from one law: is what a tune recommends really better?

Each of ten sites has two kinds of nodes whose speeds differ by program, users with long and short
jobs, and a setting of today. At five, today's setting is wrong at a load at which waiting counts;
at three, nothing is to be gained; at two, training weeks tempt: one user's campaign, or a few large
jobs. ``berth replay tune`` sees 28 days. The truth is the change on the same weeks of other months
from the same law (without the campaign), which are replayed on single nodes; its noise, and that of
each recommended line, is the 95 % interval over these months. Beside it: the best single setting
of a list that a person would try on the training weeks.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from berth.plugin.site import load_site
from berth.plugin.tune.replaying import open_replayer
from berth.policies.settings import PolicySettings
from berth.policies.tuning.differences import DAY_S, student_t
from berth.policies.tuning.parameters import settings_with
from berth.policies.tuning.replayer import Part
from berth.policies.tuning.trace_replayer import TraceReplayer

OLD, NEW = "rome-7742", "epyc-genoa-9654"
MONTH_S, TRAIN_SHARE = 28 * DAY_S, 0.7
HEADER = (
    "submit_s,user,partition,cores,limit_s,"
    f"seconds@{OLD},seconds@{NEW},predicted@{OLD},predicted@{NEW}\n"
)
PLACE = """[[candidates]]
name = "{name}"
platform = "{platform}"
partition = "{name}"
nodes = {nodes}
cores_per_node = 64
price_per_core_hour = {price}
power_per_core_w = {power}
"""
BY_HAND: tuple[dict[str, float | str], ...] = (
    {"objective": "earliest"}, {"objective": "fastest"}, {"weights.wait": 0.0},
    {"weights.wait": 1.0}, {"weights.wait": 2.0}, {"alike_within": 1.5}, {"alike_within": 2.0},
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What is set today at sites of a kind, and what is special about their jobs."""

    policy: str
    """Lines of ``[policy]``."""
    is_wrong: bool = False
    """Whether something is to be gained by another setting."""
    loads: tuple[float, float] = (0.7, 1.0)
    """Range of the work submitted over the cores' capacity."""
    ratios: tuple[float, float] = (0.55, 0.95)
    """Range of the mean time on new nodes over that on old ones."""
    ratio_spread: float = 0.4
    """Deviation, in log, of users' speed ratios of the two kinds of nodes."""
    users: int = 40
    cores: tuple[int, ...] = (8, 16, 32, 64, 128)
    campaign: bool = False
    """Whether the training weeks have a campaign of jobs whose predictions are wrong."""
    parameters: str = ""


KINDS = {
    "waits ignored": Kind(
        'objective = "fastest"\nalike_within = 1.0\nweights = {wait = 0.0}', is_wrong=True,
        loads=(0.5, 0.7), ratios=(0.4, 0.6),
    ),
    "cost weighs": Kind(
        'objective = "balanced"\nweights = {time = 1.0, cost = 2.0, wait = 0.5}', is_wrong=True
    ),
    "energy weighs": Kind(
        'objective = "balanced"\nweights = {time = 1.0, cost = 0.0, energy = 3.0, wait = 0.2}',
        is_wrong=True,
    ),
    "waits count fourfold": Kind(
        'objective = "fastest"\nalike_within = 1.0\nweights = {wait = 4.0}', is_wrong=True
    ),
    "margin too strict": Kind(
        'objective = "earliest"\ntime_margin = 3.0', is_wrong=True,
        parameters="objective,weights.wait,alike_within,time_margin",
    ),
    "good already": Kind('objective = "earliest"'),
    "idle": Kind('objective = "fastest"', loads=(0.15, 0.3)),
    "equal nodes": Kind('objective = "earliest"', ratios=(1.0, 1.0), ratio_spread=0.0),
    "campaign": Kind('objective = "earliest"', campaign=True),
    "few large jobs": Kind('objective = "earliest"', users=5, cores=(64, 128, 192)),
}  # fmt: skip


class Law:
    """The law with a number: its nodes, users, ratios, errors and rate."""

    def __init__(self, kind: Kind, number: int) -> None:
        self.kind = kind
        draw = random.Random(number)  # noqa: S311
        self.error = draw.choice([0.1, 0.2, 0.4])
        mean_ratio = draw.uniform(*kind.ratios)
        self.users = [
            (
                math.exp(draw.gauss(0, 1)),
                draw.gauss(math.log(3600), 1.2),
                draw.choice(kind.cores),
                mean_ratio * math.exp(draw.gauss(0, kind.ratio_spread)),
            )
            for _ in range(kind.users)
        ]
        work = [self.job(draw) for _ in range(4000)]
        mean_core_s = sum(cores * (old_s + new_s) / 2 for _, cores, old_s, new_s in work) / 4000
        self.rate = draw.uniform(80.0, 120.0) * (0.25 if kind.users < 10 else 1.0) / DAY_S
        nodes = self.rate * mean_core_s / draw.uniform(*kind.loads) / 64
        share = draw.uniform(0.35, 0.65)
        self.nodes = {
            "old": max(4, round(share * nodes)),
            "new": max(4, round(nodes - share * nodes)),
        }

    def job(self, draw: random.Random) -> tuple[int, int, float, float]:
        """Return a job's user, cores and seconds on both kinds of nodes."""
        weights = [user[0] for user in self.users]
        number = draw.choices(range(len(weights)), weights)[0]
        _, log_s, cores, ratio = self.users[number]
        run_s = min(DAY_S, max(30.0, math.exp(draw.gauss(log_s, 0.9))))
        held = min(256, max(1, int(cores * draw.choice([0.5, 1, 1, 2]))))
        spread = 0.1 if self.kind.ratio_spread else 0.0
        return number, held, run_s, run_s * ratio * math.exp(draw.gauss(0, spread))

    def lines(self, draw: random.Random) -> Iterator[tuple[float, str]]:
        """Yield the lines of a month's jobs with their submission."""
        at_s = 0.0
        while (at_s := at_s + draw.expovariate(1.9 * self.rate)) < MONTH_S:
            busy = 1.6 if 8 <= at_s / 3600 % 24 < 19 else 0.6
            if draw.random() > busy * (1.15 if at_s // DAY_S % 7 < 5 else 0.6) / 1.9:
                continue
            user, cores, old_s, new_s = self.job(draw)
            limit_s = 1.05 * max(old_s, new_s) * draw.choice([1.5, 2, 4, 8])
            times = [old_s, new_s]
            times += [time_s * math.exp(draw.gauss(0, self.error)) for time_s in times]
            words = ",".join(f"{time_s:.1f}" for time_s in times)
            yield at_s, f"{at_s:.0f},u{user},old,{cores},{limit_s:.0f},{words}\n"

    def write_month(self, path: Path, seed: int, *, campaign: bool = False) -> int:
        """Write a month of jobs; ``campaign``: with 40 jobs a day, from day 2 to 9, that take twice
        as long on new nodes and are predicted to take half as long there. Return their number."""
        draw = random.Random(seed)  # noqa: S311
        lines = list(self.lines(draw))
        for number in range(320 if campaign else 0):
            at_s = (2 + number / 40) * DAY_S
            lines.append((at_s, f"{at_s:.0f},c,old,32,29000,3600,7200,3600,1800\n"))
        path.write_text(HEADER + "".join(line for _, line in sorted(lines)))
        return len(lines)

    def site_text(self) -> str:
        """Return the site file."""
        places = (("old", OLD, 0.01, 3.0), ("new", NEW, 0.03, 6.0))
        return f'schema = "berth.site/1"\n[policy]\n{self.kind.policy}\n' + "".join(
            PLACE.format(
                name=name, platform=platform, nodes=self.nodes[name], price=price, power=power
            )
            for name, platform, price, power in places
        )


class Truth:
    """The months that no tune saw: mean time to the end of a policy's jobs on the test weeks."""

    def __init__(self, months: list[TraceReplayer], today: PolicySettings) -> None:
        self._months, self._today = months, today
        self._sums: dict[PolicySettings, np.ndarray[Any, np.dtype[np.float64]]] = {}

    def sums_s(self, values: Mapping[str, float | str]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return [months] the sum of all jobs' times from submission to end."""
        policy = settings_with(self._today, values)
        if policy not in self._sums:
            test = Part(TRAIN_SHARE * MONTH_S, MONTH_S)
            self._sums[policy] = np.array(
                [
                    month.replay(policy, Part(0.0, MONTH_S)).within(test).finish_s.sum()
                    for month in self._months
                ]
            )
        return self._sums[policy]

    def change(
        self, values: Mapping[str, float | str], base: Mapping[str, float | str]
    ) -> tuple[float, float]:
        """Return the relative change from the settings ``base`` to ``values``, and its noise."""
        before, after = self.sums_s(base), self.sums_s(values)
        ratio, months = after.sum() / before.sum(), len(before)
        off = after - ratio * before
        noise = math.sqrt((off**2).sum() * months / (months - 1)) / before.sum()
        return ratio - 1, student_t(months - 1) * noise


def best_by_hand(month: TraceReplayer, today: PolicySettings) -> dict[str, float | str]:
    """Return the setting of ``BY_HAND`` under which jobs of the training weeks end first."""
    train = Part(0.0, TRAIN_SHARE * MONTH_S)
    pools = month.in_pools()
    return min(
        ({}, *BY_HAND),
        key=lambda values: pools.replay(settings_with(today, values), train).finish_s.mean(),
    )


def tuned(folder: Path, trials: int, parameters: str) -> dict[str, Any]:
    """Return what ``berth replay tune --json`` prints for the site in ``folder``."""
    berth = str(Path(sys.executable).with_name("berth"))
    words = [
        "replay", "tune", str(folder / "month.csv"), "--site", str(folder / "berth.toml"),
        "--folder", str(folder / "tune"), "--trials", str(trials), "--parameters", parameters,
        "--train", str(TRAIN_SHARE), "--json",
    ]  # fmt: skip
    done = subprocess.run([berth, *words], stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Print the figures of each site, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--first", type=int, default=100, help="number of the first site [100]")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--months", type=int, default=8, help="months of the truth [8]")
    asked = parser.parse_args()
    recommended = better = held = lines = idle_lines = missed = 0
    for number in range(asked.first, asked.first + asked.sites):
        name, kind = list(KINDS.items())[number % len(KINDS)]
        law = Law(kind, number)
        with tempfile.TemporaryDirectory() as folder_name:
            folder = Path(folder_name)
            site_file, file = folder / "berth.toml", folder / "month.csv"
            site_file.write_text(law.site_text())
            months = []
            site = load_site(site_file)
            for seed in range(1, asked.months + 1):
                law.write_month(file, 1000 * number + seed)
                months.append(open_replayer(site, file, {}))
            jobs = law.write_month(file, 1000 * number, campaign=kind.campaign)
            truth = Truth(months, site.policy)
            by_hand = best_by_hand(open_replayer(site, file, {}), site.policy)
            result = tuned(folder, asked.trials, kind.parameters)
        hours = truth.sums_s({}).sum() / 3600
        hand, hand_noise = truth.change(by_hand, {})
        print(
            f"\nsite {number}, {name}: {jobs} jobs, {len(months)} months; {hours:,.0f} h in all "
            f"today; by hand {_text(by_hand)}: true change {hand:+.1%} +- {hand_noise:.1%}",
            flush=True,
        )
        if not result["recommended"]:
            is_missed = kind.is_wrong and hand + hand_noise < -0.05
            missed += is_missed
            print(f"  as it is{' (MISSED)' * is_missed}: {result['reason']}", flush=True)
            continue
        values: dict[str, float | str] = dict(result["values"])
        change, noise = truth.change(values, {})
        claim = result["differences"][0]
        holds = claim["low"] <= change <= claim["high"]
        is_better = change + noise < 0
        print(
            f"  {_text(values)}: claimed {claim['change']:+.1%} ({claim['low']:+.1%} to "
            f"{claim['high']:+.1%}), true {change:+.1%} +- {noise:.1%}"
            f"{'' if is_better else ' NOT BETTER'}{'' if holds else ' OUTSIDE'}",
            flush=True,
        )
        for key in values:
            rest = {other: value for other, value in values.items() if other != key}
            effect, noise = truth.change(rest, values)
            is_idle = effect - noise < 0
            idle_lines += is_idle
            print(
                f"    without {key}: {effect:+.2%} +- {noise:.2%}"
                f"{' NOT NEEDED' if is_idle else ''}",
                flush=True,
            )
        recommended, better, held = recommended + 1, better + is_better, held + holds
        lines += len(values)
    print(
        f"\n{recommended} of {asked.sites} sites get a recommendation: {better} are better on "
        f"other months, the claim's interval holds {held}; {idle_lines} of {lines} lines change "
        f"less than their noise; {missed} wrong settings that a hand would mend stay"
    )


def _text(values: Mapping[str, float | str]) -> str:
    words = (f"{k} = {v if isinstance(v, str) else format(v, '.3g')}" for k, v in values.items())
    return ", ".join(words) or "as it is"


if __name__ == "__main__":
    main()
