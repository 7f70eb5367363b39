"""Recorded lines through the real Jobspec, validator and stock frobnicators, with ours before them.

The classes come from the flux-python wheel, which has no library to run on: see wheel_driver.py.
`make flux-python` puts it in an environment of its own; BERTH_FLUX_PYTHON names another one.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon, move_to
from flux_bench import RECORDED, asking, flux_config, recorded_lines, without_notes

from berth.plugin.flux.filter import FILTER_PATH

HERE = Path(__file__).parent
FLUX_PYTHON = Path(
    os.environ.get(
        "BERTH_FLUX_PYTHON", HERE.parents[1] / ".venv" / "flux-python" / "bin" / "python"
    )
)


@pytest.fixture(scope="module", autouse=True)
def wheel() -> None:
    """Skip, saying how to get it, where the wheel is not."""
    probe = "import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, ['flux', 'ply'])))"
    try:
        found = subprocess.run([FLUX_PYTHON, "-c", probe], check=False).returncode == 0
    except OSError:
        found = False
    if not found:
        pytest.skip(
            f"NOT TESTED WITH FLUX'S CLASSES: no flux-python at {FLUX_PYTHON}; "
            "`make flux-python` puts it there"
        )


def through(config: Path, plugins: list[str], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the worker answers to these lines."""
    done = subprocess.run(
        [FLUX_PYTHON, HERE / "wheel_driver.py", config, *plugins],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


STOCK = ["defaults", "constraints"]
LINES, ANSWERS = recorded_lines("frob_in"), recorded_lines("frob_out")
BY_ANOTHER = 5
"""This one was changed by a plugin of whoever recorded it (``placer``)."""


def compare(answers: list[dict[str, Any]]) -> None:
    """As recorded, all eleven of them but one, and nothing printed."""
    assert len(answers) == len(ANSWERS) == 11
    assert "placer_reason" in ANSWERS[BY_ANOTHER]["data"]["attributes"]["system"]
    for number, (answer, expected) in enumerate(zip(answers, ANSWERS, strict=True)):
        assert answer.pop("printed") == ""
        assert answer["errnum"] == 0
        if number != BY_ANOTHER:
            assert answer == expected


def test_the_stock_ones_answer_as_the_recorded_ones_did() -> None:
    compare(through(RECORDED / "rpc_config.get.json", STOCK, LINES))


def test_ours_before_them_changes_nothing_without_a_daemon() -> None:
    compare(through(RECORDED / "rpc_config.get.json", [str(FILTER_PATH), *STOCK], LINES))


def configured(folder: Path) -> Path:
    path = folder / "config.json"
    settings = {"socket": str(folder / "berth.sock"), "deadline_ms": 500}
    path.write_text(json.dumps(flux_config(kill_switch=str(folder / "off"), **settings)))
    return path


def test_kept_jobs_differ_by_the_stamp_only(folder: Path) -> None:
    with FakeDaemon(folder / "berth.sock", lambda _: {**KEEP, "stamp": "berth/1 id=x"}):
        answers = through(configured(folder), [str(FILTER_PATH), *STOCK], LINES)
    for answer in answers:
        assert answer["data"]["attributes"]["user"]["berth"] == {"decision": "berth/1 id=x"}
        answer["data"] = without_notes(answer["data"])
    compare(answers)


def test_placed_jobs_get_what_the_queue_requires_and_pass_the_validator(folder: Path) -> None:
    lines = [{**line, "jobspec": asking()} for line in LINES]
    edits = {"gres": "gpu:1", "nodes": 1, "cpus_per_task": 8, "features": "h200"}
    with FakeDaemon(folder / "berth.sock", lambda _: move_to("gpu", **edits)):
        answers = through(configured(folder), [str(FILTER_PATH), *STOCK], lines)
    for answer in answers:
        assert (answer["errnum"], answer["printed"]) == (0, "")
        system = answer["data"]["attributes"]["system"]
        assert system["queue"] == "gpu"
        assert system["constraints"] == {"properties": ["h200", "gpunode"]}
        assert system["duration"] in (600.0, "10m")
        (slot,) = answer["data"]["resources"]
        assert [leaf["count"] for leaf in slot["with"]] == [8, 1]
