"""Simulated sites whose gain is known: does ``berth jobs gain`` find it, and claim no other?

Each site has 30 users with programs of their own and shared ones, run times that vary by 0.3 (in
log) between runs of a program, waits, failures, and predictions that are wrong in the way that the
case says. 400 jobs a day, of which 5 % are control jobs, for 14 days; ``--seeds`` sites a case.
The table says how often the 95 % interval holds the truth, how wide it is beside that of an oracle
which knows every run's noise to have the deviation that it has, and how often a gain is claimed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from dataclasses import dataclass

from berth.plugin.outcomes.measured_gain import measured_gains
from berth.plugin.store.records import DecisionRanking, RunSums

USERS, PROGRAMS, NOISE = 30, 60, 0.3
DAY_S = 86_400.0


@dataclass(frozen=True)
class Case:
    """How the changes act at a site, and how its predictions are wrong."""

    time: float = 1.0
    """Real time in the chosen place over that in the other."""
    bias: float = 1.0
    """Predicted over real time in the other place."""
    error: float = 0.1
    """Deviation of the predictions' error, in log."""
    is_cursed: bool = False
    """True: only jobs whose chosen place is *predicted* faster are changed."""
    failed: float = 0.02
    """Share of changed jobs that fail."""
    wait_s: float = 0.0
    """Mean wait of a changed job beyond that of others."""
    spread: float = 0.0
    """Deviation, in log, of ``time`` between programs."""


CASES = {
    "nothing gained": Case(),
    "10 % faster": Case(time=1 / 1.1),
    "20 % shorter": Case(time=0.8),
    "25 % longer, predicted 20 % shorter": Case(time=1.25, bias=1.5),
    "nothing gained, other place 1.5 times too long": Case(bias=1.5),
    "nothing gained, places chosen by luck": Case(error=0.5, is_cursed=True),
    "20 % shorter, 30 % fail": Case(time=0.8, failed=0.3),
    "20 % shorter, waits longer": Case(time=0.8, wait_s=400.0),
    "gain differs by program": Case(time=0.9, spread=0.3),
}


@dataclass
class Site:
    """The finished jobs of a simulated site, and what is true of them."""

    outcomes: list[RunSums]
    decisions: dict[str, DecisionRanking]
    true_ratio: float
    """Mean time to a completed job unchanged over that changed, programs weighing as their jobs."""
    oracle_log_width: float


def simulated(case: Case, share: float, days: int, jobs_a_day: int, seed: int) -> Site:
    """Return a site of one case; ``share``: that of control jobs."""
    draw = random.Random(seed)  # noqa: S311
    programs = []
    for number in range(PROGRAMS):
        base_s = 1800.0 * math.exp(draw.gauss(0.0, 0.7))
        time = case.time * math.exp(draw.gauss(0.0, case.spread))
        chosen_s = base_s * time * math.exp(draw.gauss(0.0, case.error))
        other_s = base_s * case.bias * math.exp(draw.gauss(0.0, case.error))
        users = range(USERS) if number % 2 else [number % USERS]
        if not (case.is_cursed and chosen_s >= other_s):
            programs.append((f"program{number}", base_s, time, chosen_s, other_s, users))
    site = Site([], {}, 0.0, 0.0)
    ratios, counts, noise = [], [0, 0], 0.0
    for number in range(days * jobs_a_day):
        name, base_s, time, chosen_s, other_s, users = draw.choice(programs)
        is_control = draw.random() < share
        user, at_s = f"user{draw.choice(users)}", number * DAY_S / jobs_a_day
        wait_s = draw.expovariate(1 / 300.0)
        run_s = base_s * (1.0 if is_control else time) * math.exp(draw.gauss(0.0, NOISE))
        if not is_control and case.wait_s:
            wait_s += draw.expovariate(1 / case.wait_s)
        failed = draw.random() < (0.02 if is_control else case.failed)
        mean_s = math.exp(NOISE**2 / 2) * base_s
        unchanged_s = (mean_s + 300.0) / 0.98
        changed_s = (mean_s * time + 300.0 + case.wait_s) / (1 - case.failed)
        ratios.append((unchanged_s, changed_s, base_s))
        counts[is_control] += 1
        wide = max(1.3, math.exp(1.645 * case.error))
        predicted = {
            place: (mid_s / wide, mid_s, mid_s * wide)
            for place, mid_s in (("fast", chosen_s), ("slow", other_s))
        }
        rows = [{"candidate": place, "runtime_s": ends} for place, ends in predicted.items()]
        ran = "slow" if is_control else "fast"
        site.decisions[str(number)] = DecisionRanking(
            "keep" if is_control else "edit", "fast", json.dumps(rows), None,
            "control" if is_control else "placed",
        )  # fmt: skip
        site.outcomes.append(
            RunSums(
                user, "failed" if failed else "completed", str(number), run_s, name, None,
                ran, None, *predicted[ran], at_s, at_s + wait_s + run_s,
            )
        )  # fmt: skip
        noise += ((math.exp(NOISE**2) - 1) * mean_s**2 + 300.0**2) / (mean_s + 300.0) ** 2
    means = {base: (unchanged, changed) for unchanged, changed, base in ratios}
    relative = [_relative(*means[base], share) for _, _, base in ratios]
    site.true_ratio = sum(r[0] for r in relative) / sum(r[1] for r in relative)
    noise = math.sqrt(noise / len(ratios))
    if counts[1]:
        site.oracle_log_width = 1.96 * noise * math.sqrt(1 / counts[0] + 1 / counts[1])
    return site


def _relative(unchanged_s: float, changed_s: float, share: float) -> tuple[float, float]:
    """Return both times over the mean time of the program's jobs."""
    mean_s = share * unchanged_s + (1 - share) * changed_s
    return unchanged_s / mean_s, changed_s / mean_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--jobs", type=int, default=400, help="jobs a day [400]")
    parser.add_argument("--control", type=float, default=0.05, help="share of control jobs [0.05]")
    asked = parser.parse_args()
    print(f"{'case':<48} {'truth':>6} {'said':>6} {'holds':>6} {'/oracle':>8} {'claims':>7}")
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    for name, case in CASES.items():
        held = claimed = 0
        truths, said, widths = [], [], []
        for seed in seeds:
            site = simulated(case, asked.control, asked.days, asked.jobs, seed)
            gain = measured_gains(site.outcomes, site.decisions)[0]
            assert gain.ratio is not None
            assert gain.ratio_interval is not None
            low, high = gain.ratio_interval
            held += low <= site.true_ratio <= high
            claimed += low > 1.0
            truths.append(site.true_ratio)
            said.append(gain.ratio)
            widths.append(math.log(high / low) / 2 / site.oracle_log_width)
        count = len(seeds)
        print(f"{name:<48} {_mid(truths):6.2f} {_mid(said):6.2f} {held:3}/{count:<3} "
              f"{_mid(widths):7.2f} {claimed:4}/{count:<3}", flush=True)  # fmt: skip


def _mid(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
