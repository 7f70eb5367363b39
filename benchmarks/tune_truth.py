"""Simulated sites whose jobs come from one law: is what a tune recommends really better?

For each of ten sites, ``berth replay tune`` sees 28 days of jobs. Then today's and the recommended
policy are replayed on a year of other jobs from the same law, and each line of the recommendation
is taken back there. The table says whether the recommendation is better on the year, whether the
claim's 95 % interval holds the change on the year, and which lines change no metric by more than
the noise of the year.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from berth.plugin.site import load_site
from berth.plugin.tune.replaying import open_replayer
from berth.policies.tuning.differences import DAY_S, WEEK_S, differences
from berth.policies.tuning.parameters import settings_with
from berth.policies.tuning.replayer import METRICS, Part

OLD, NEW = "rome-7742", "epyc-genoa-9654"
SITE = """schema = "berth.site/1"
[policy]
objective = "{objective}"
[policy.weights]
wait = {wait}
"""
PLACE = """[[candidates]]
name = "{name}"
platform = "{platform}"
partition = "{name}"
nodes = {nodes}
cores_per_node = 64
"""
HEADER = (
    "submit_s,user,partition,cores,limit_s,"
    f"seconds@{OLD},seconds@{NEW},predicted@{OLD},predicted@{NEW}\n"
)


def write_jobs(path: Path, days: float, law: int, seed: int) -> int:
    """Write jobs that come from the law with number ``law``: its users, ratios, errors, rate."""
    of_law, draw = random.Random(law), random.Random(seed)  # noqa: S311
    mean_ratio, error = of_law.uniform(0.55, 0.95), of_law.choice([0.1, 0.2, 0.4])
    rate = of_law.uniform(80.0, 130.0) / DAY_S
    users = [
        (
            math.exp(of_law.gauss(0, 1)),
            of_law.gauss(math.log(3600), 0.8),
            of_law.choice([8, 16, 32, 64, 128, 256]),
            mean_ratio * math.exp(of_law.gauss(0, 0.4)),
        )
        for _ in range(40)
    ]
    weights, at_s, count = [user[0] for user in users], 0.0, 0
    with path.open("w") as out:
        out.write(HEADER)
        while True:
            at_s += draw.expovariate(1.9 * rate)
            hour, day = at_s / 3600 % 24, int(at_s // DAY_S) % 7
            busy = (1.6 if 8 <= hour < 19 else 0.6) * (1.15 if day < 5 else 0.6)
            if draw.random() > busy / 1.9:
                continue
            if at_s > days * DAY_S:
                return count
            number = draw.choices(range(len(users)), weights)[0]
            _, log_s, cores, ratio = users[number]
            run_s = min(DAY_S, max(30.0, math.exp(draw.gauss(log_s, 0.9))))
            ratio *= math.exp(draw.gauss(0, 0.1))
            limit_s = 1.05 * run_s * max(1.0, ratio) * draw.choice([1.5, 2, 4, 8])
            held = min(1024, max(1, int(cores * draw.choice([0.5, 1, 1, 2]))))
            times = [run_s, run_s * ratio]
            times += [time * math.exp(draw.gauss(0, error)) for time in times]
            words = ",".join(f"{time:.1f}" for time in times)
            out.write(f"{at_s:.0f},u{number},old,{held},{limit_s:.0f},{words}\n")
            count += 1


def write_site(path: Path, law: int) -> None:
    """Write a site of two kinds of nodes with a policy that may be good or bad for it."""
    draw = random.Random(1000 + law)  # noqa: S311
    text = SITE.format(objective=draw.choice(["fastest", "earliest", "balanced"]),
                       wait=draw.choice([0.0, 0.5, 1.0]))  # fmt: skip
    for name, platform in (("old", OLD), ("new", NEW)):
        text += PLACE.format(name=name, platform=platform, nodes=draw.choice([16, 20, 24]))
    path.write_text(text)


def tuned(folder: Path, trials: int) -> dict[str, object]:
    """Return what ``berth replay tune --json`` prints for the site in ``folder``."""
    berth = str(Path(sys.executable).with_name("berth"))
    words = [
        "replay", "tune", str(folder / "month.csv"), "--site", str(folder / "berth.toml"),
        "--folder", str(folder / "tune"), "--trials", str(trials), "--json",
    ]  # fmt: skip
    done = subprocess.run([berth, *words], stdout=subprocess.PIPE, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def main() -> None:
    """Print a line a site, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first site [0]")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--days", type=int, default=364, help="days of the other jobs [364]")
    asked = parser.parse_args()
    finish = METRICS["finish"]
    recommended = better = held = lines = idle_lines = 0
    for law in range(asked.first, asked.first + asked.sites):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_site(folder / "berth.toml", law)
            jobs = write_jobs(folder / "month.csv", 28, law, seed=1)
            write_jobs(folder / "year.csv", asked.days, law, seed=2)
            result = tuned(folder, asked.trials)
            if not result["recommended"]:
                print(f"site {law}: {jobs} jobs; as it is: {result['reason']}", flush=True)
                continue
            site = load_site(folder / "berth.toml")
            year = open_replayer(site, folder / "year.csv", {})
            part = Part(0.0, year.span_s + 1.0)
            values = dict(result["values"])  # type: ignore[call-overload]
            before = year.replay(site.policy, part)
            after = year.replay(settings_with(site.policy, values), part)
            (change,) = differences(before, after, (finish,), WEEK_S)
            claim = result["differences"][0]  # type: ignore[index]
            holds = claim["low"] <= change.change <= claim["high"]
            idle = []
            for key in values:
                rest = {other: value for other, value in values.items() if other != key}
                without = year.replay(settings_with(site.policy, rest), part)
                (effect,) = differences(after, without, (finish,), WEEK_S)
                if not (effect.better or effect.worse):
                    idle.append(key)
            recommended, better, held = recommended + 1, better + change.better, held + holds
            lines, idle_lines = lines + len(values), idle_lines + len(idle)
            print(
                f"site {law}: {jobs} jobs; {', '.join(f'{k} = {v}' for k, v in values.items())}; "
                f"claimed {claim['change']:+.1%} ({claim['low']:+.1%} to {claim['high']:+.1%}), "
                f"on the year {change.change:+.1%} ({change.low:+.1%} to {change.high:+.1%})"
                f"{'' if holds else ': OUTSIDE'}"
                f"{'' if not idle else '; without effect there: ' + ', '.join(idle)}",
                flush=True,
            )
    print(
        f"{recommended} of {asked.sites} sites get a recommendation: {better} are better on other "
        f"jobs, the claim's interval holds {held}; {idle_lines} of {lines} lines without effect"
    )


if __name__ == "__main__":
    main()
