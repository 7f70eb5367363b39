"""Simulated sites whose gain is known: does ``berth jobs gain`` find it, and claim no other?

Each site has 30 users with two programs each, of which no two take the same time, run times that
vary by 0.3 (in log) between runs of a program, waits, failures, and a truth: what a completed
control job takes over what a completed changed job takes, programs weighing as their jobs. 130
submissions a day for 28 days; ``--seeds`` sites a case. The table says how often the 95 % interval
holds the truth, how often a verdict has the wrong sign (any verdict, where the truth is 1), and how
often there is one.
"""

from __future__ import annotations

import argparse
import math
import random
from dataclasses import dataclass

from berth.plugin.outcomes.measured_gain import measured_gains
from berth.plugin.store.records import DecisionArm, RunSums

DAYS, A_DAY, USERS, NOISE, DAY_S = 28, 130, 30, 0.3, 86_400.0


@dataclass(frozen=True)
class Case:
    """How the changes act at a site, and what its jobs are like."""

    time: float = 1.0
    """Time of a changed job over that of a control job, run and wait."""
    shares: tuple[float, float] = (0.1, 0.1)
    """Share of control jobs before and after the middle, from which on jobs wait nine times as
    long."""
    recorded: bool = True
    """False: decisions of an earlier Berth, which recorded neither share nor version."""
    tasks: int = 1
    """Tasks of one submission in five, which all share the submission's luck."""
    dominant: float = 0.0
    """Share of submissions of one user."""
    cancelled: float = 0.0
    """Share of changed jobs that their users cancel while they wait, twice as long as others."""
    spread: float = 0.0
    """Deviation, in log, of ``time`` between programs."""
    failed: float = 0.02
    """Share of changed jobs that fail."""


CASES = {
    "constant share, nothing gained": Case(),
    "share 0.02 then 0.30, nothing gained": Case(shares=(0.02, 0.3)),
    "share 0.30 then 0.05, nothing gained": Case(shares=(0.3, 0.05)),
    "arrays, nothing gained": Case(tasks=40),
    "one user has 70 %, nothing gained": Case(dominant=0.7),
    "30 % of waiting changed jobs cancelled": Case(time=1.1, cancelled=0.3),
    "harm 0.94, share 0.02 then 0.30": Case(time=1 / 0.94, shares=(0.02, 0.3)),
    "share 0.02 then 0.30, not recorded": Case(shares=(0.02, 0.3), recorded=False),
    "20 % shorter": Case(time=0.8),
    "20 % shorter, 30 % fail": Case(time=0.8, failed=0.3),
    "gain differs by program": Case(time=0.9, spread=0.3),
    "arrays of one user with 70 %, 20 % shorter": Case(time=0.8, tasks=40, dominant=0.7),
}


def simulated(case: Case, seed: int) -> tuple[list[RunSums], dict[str, DecisionArm], float]:
    """Return the finished jobs of a site, their decisions, and the true ratio."""
    draw = random.Random(seed)  # noqa: S311
    programs = [
        (f"user{number // 2}", f"p{number}", 3000.0 * math.exp(draw.gauss(0.0, 0.7)),
         case.time * math.exp(draw.gauss(0.0, case.spread)))
        for number in range(2 * USERS)
    ]  # fmt: skip
    runs, arms = [], {}
    true_s = {program: [0.0, 0.0, 0.0, 0.0] for _, program, _, _ in programs}
    for number in range(DAYS * A_DAY):
        time_s = number * DAY_S / A_DAY
        is_late = time_s > DAYS * DAY_S / 2
        share, wait_s = case.shares[is_late], 5400.0 if is_late else 600.0
        is_dominant = draw.random() < case.dominant
        user, program, base_s, factor = draw.choice(programs[:2] if is_dominant else programs)
        is_control = draw.random() < share
        arms[str(number)] = DecisionArm(
            time_s, "keep" if is_control else "edit", "control" if is_control else "placed",
            None, *_as_recorded(case, share, is_control=is_control),
        )  # fmt: skip
        luck = draw.gauss(0.0, NOISE)
        tasks = case.tasks if draw.random() < 0.2 else 1
        for _ in range(tasks):
            took_s = draw.expovariate(1 / wait_s)
            took_s += base_s * math.exp(luck if tasks > 1 else draw.gauss(0.0, NOISE))
            state = "completed"
            if not is_control:
                took_s *= factor
                if draw.random() < case.cancelled:
                    took_s, state = 2 * wait_s, "cancelled"
            if state == "completed" and draw.random() < (0.02 if is_control else case.failed):
                state = "failed"
            runs.append(
                RunSums(user, state, str(number), took_s, program, None, "any", None, None, None,
                        None, time_s, time_s + took_s)
            )  # fmt: skip
            as_written_s = wait_s + base_s * math.exp(NOISE**2 / 2)
            changed_s = factor * as_written_s * (1 - case.cancelled) + 2 * wait_s * case.cancelled
            sums = true_s[program]
            sums[0] += as_written_s
            sums[1] += changed_s
            sums[2] += share * as_written_s + (1 - share) * changed_s
            sums[3] += 1
    completed = 0.98 / ((1 - case.failed) * (1 - case.cancelled))
    as_written, changed = (
        sum(sums[arm] * sums[3] / sums[2] for sums in true_s.values() if sums[3]) for arm in (0, 1)
    )
    return runs, arms, as_written / changed / completed


def _as_recorded(
    case: Case, share: float, *, is_control: bool
) -> tuple[str | None, str | None, float | None, str | None]:
    if not case.recorded:
        return None, None, None, None
    return "written" if is_control else "changed", "written", share, "1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{'case':<44} {'truth':>6} {'said':>6} {'width':>6} {'holds':>7} {'wrong':>7} verdicts")
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    for name, case in CASES.items():
        held = wrong = clear = 0
        truths, said, widths = [], [], []
        for seed in seeds:
            runs, arms, truth = simulated(case, seed)
            gain = measured_gains(runs, arms)[0]
            assert gain.ratio is not None
            assert gain.ratio_interval is not None
            assert gain.mismatch is None, gain.mismatch
            low, high = gain.ratio_interval
            held += low <= truth <= high
            clear += gain.is_clear
            wrong += gain.is_clear and (abs(truth - 1) < 1e-3 or (gain.ratio > 1) != (truth > 1))
            truths.append(truth)
            said.append(gain.ratio)
            widths.append(math.log(high / low) / 2)
        count = len(seeds)
        figures = f"{_mid(truths):6.2f} {_mid(said):6.2f} {_mid(widths):6.2f}"
        counts = " ".join(f"{of:3}/{count:<3}" for of in (held, wrong, clear))
        print(f"{name:<44} {figures} {counts}", flush=True)


def _mid(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
