"""Past jobs on whole GPUs, of which accounting recorded the use, are planned on slices."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from gpu_jobs import SITE, import_jobs, run

from berth.plugin.daemon.app import view
from berth.plugin.daemon.memory_guard import Guard
from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Snapshot
from berth.plugin.site.load import load_site
from berth.plugin.store import Store
from berth.policies.values import CandidateState


def workload_of(here: list[str]) -> str:
    (line, *_) = [
        one for one in run("workload", "list", *here).splitlines() if one.startswith("alice/")
    ]
    return line.split()[0]


def test_seven_jobs_of_3_gib_and_12_percent_share_one_gpu(tmp_path: Path) -> None:
    here = import_jobs(tmp_path, "3G", "12")
    fleet = {
        "schema": "berth.mig-fleet/1",
        "gpus": [{"name": "g1/0", "model": "A100-40GB", "layout": []}],
    }
    (tmp_path / "fleet.json").write_text(json.dumps(fleet))
    name = workload_of(here)
    words = ("mig", "plan", "--fleet", str(tmp_path / "fleet.json"), "--workload", f"{name}=7")
    planned = json.loads(run(*words, *here, "--json"))
    assert sum(len(gpu["placements"]) for gpu in planned["gpus"]) == 7
    said = run("mig", "recommend", name, "--gpu", "A100-40GB", *here)
    assert "Smallest: 1g.5gb." in said


@pytest.mark.parametrize(
    ("memory", "host", "smallest"),
    [("3G", "200G", "1g.5gb"), ("18G", "1G", "none"), ("10G", "1G", "3g.20gb"), ("0", "1G", "7g")],
)
def test_a_slice_is_chosen_by_gpu_memory_and_never_by_the_hosts(
    tmp_path: Path, memory: str, host: str, smallest: str
) -> None:
    here = import_jobs(tmp_path, memory, "30", host=host)
    said = run("mig", "recommend", workload_of(here), "--gpu", "A100-40GB", *here)
    expected = {"none": "Smallest: 7g.40gb.", "7g": "Smallest: 7g.40gb."}
    assert expected.get(smallest, f"Smallest: {smallest}.") in said


SLICES = """\
[[candidates]]
name = "slice"
platform = "a100-40gb"
partition = "mig"
gpus_per_node = 4
cores_per_node = 32
memory_per_node = "256G"
[candidates.slices]
[candidates.translation]
gpus = 1
"""


def advised(folder: Path, here: list[str], more: str = "", site_keys: str = "") -> tuple[str, Any]:
    """Return what berth jobs advise says of a site with ``more``, and the slice in its JSON."""
    site = SITE.replace("FOLDER", str(folder)).replace('name = "lab"', f'name = "lab"\n{site_keys}')
    (folder / "berth.toml").write_text(site + more)
    words = ("jobs", "advise", *here)
    return run(*words), json.loads(run(*words, "--json"))[0]["slice"]


def test_advise_names_the_slice_the_reason_the_submission_and_the_way_back(tmp_path: Path) -> None:
    here = import_jobs(tmp_path, "3G", "12")
    said, on_slice = advised(tmp_path, here, SLICES)
    assert "try a 1g.5gb of A100-40GB: at most 3.0 GiB of its 4.8 GiB and 12 %" in said
    assert "in 8 runs; at most 1.8 times as long there" in said
    assert "sbatch --partition=mig --gres=gpu:1g.5gb:1 (back to a whole GPU:" in said
    assert (on_slice["profile"], on_slice["gpu_peak_bytes"]) == ("1g.5gb", 3 * 2**30)
    assert on_slice["slowdown_at_most"] == pytest.approx(1 + 0.12 * 7)  # an eighth of the GPU
    said, _ = advised(tmp_path, here, SLICES, 'auto_partition = "auto"')
    assert "sbatch --partition=auto --comment=berth-slice:fit" in said
    said, on_slice = advised(tmp_path, here)
    assert "this site has no such slices" in said
    assert on_slice["submit"] == ""


@pytest.mark.parametrize(("memory", "utilisation"), [("30G", "12"), ("0", "12")])
def test_advise_names_no_slice_that_is_not_known_to_do(
    tmp_path: Path, memory: str, utilisation: str
) -> None:
    said, on_slice = advised(tmp_path, import_jobs(tmp_path, memory, utilisation), SLICES)
    assert on_slice is None
    assert "try a" not in said


def test_a_job_that_gets_a_slice_by_use_carries_its_key_and_none_after_one_failed(
    tmp_path: Path,
) -> None:
    import_jobs(tmp_path, "3G", "12")
    site = SITE.replace("FOLDER", str(tmp_path)).replace(
        'name = "lab"', 'name = "lab"\nauto_partition = "auto"'
    )
    (tmp_path / "berth.toml").write_text(f'mode = "enforce"\n{site}\n{SLICES}')
    read = load_site(tmp_path / "berth.toml")
    store = Store.open(read.daemon.store)
    service = Service(view(read), lambda _: None)
    service.shelf = Shelf().updated(store.changes_since(0))
    now_s = time.time()
    states = {
        "gpu": CandidateState(True, 64, 0, 9, now_s, 2),
        "slice-1g.5gb": CandidateState(True, 64, 4, 0, now_s, 2),
    }

    def reply(comment: str, guard: Guard) -> dict[str, Any]:
        snapshot = Snapshot(MappingProxyType(states), now_s, time.monotonic(), guard)
        service.snapshot = snapshot
        job = {
            "user": "alice", "name": "infer.sh", "queue": "auto", "queues": ["auto", "gpu", "mig"],
            "kind": "batch", "gres": "gpu:1", "tasks": 1, "cpus_per_task": 8,
            "memory_mib_per_node": 100, "time_limit_min": 60, "comment": comment,
        }  # fmt: skip
        line = json.dumps({"v": 1, "op": "decide", "scheduler": "slurm", "job": job}).encode()
        return dict(json.loads(service.handle(line)))

    wanted = reply("berth-slice:fit", Guard())
    assert wanted["edits"]["queue"] == "mig", wanted
    words = parse_stamp(wanted["stamp"]) or {}
    assert len(words["use"]) == 16
    for age_s, is_moved in ((60.0, False), (2 * 86_400.0, True)):
        failed = Guard(stopped=MappingProxyType({words["use"]: now_s - age_s}))
        edits = reply("berth-slice:fit", failed).get("edits", {})
        assert (edits.get("queue") == "mig") is is_moved
    assert "use=" not in reply("", Guard()).get("stamp", "")
    store.close()
