"""Set-ups that are valid to read and useless: each is named by doctor, with its remedy."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from berth_daemon import NODES, PARTITIONS, Harbour, fake_slurm, harbour

from berth.pilot.errors import BerthError
from berth.plugin.doctor import settings
from berth.plugin.doctor.cluster import check_cluster
from berth.plugin.doctor.examine import examine
from berth.plugin.doctor.settings import check_paths, check_settings
from berth.plugin.findings import Finding, Status, fail
from berth.plugin.site.load import load_site
from berth.plugin.slurm.scheduler import Slurm


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harbour]:
    with harbour() as made:
        monkeypatch.setattr(settings, "_TEMPORARY", (made.folder / "temporary",))
        monkeypatch.setenv("PATH", f"{made.folder}/bin:{os.environ['PATH']}")
        yield made


def wrong_of(site: Harbour, text: str, partitions: str, nodes: str) -> list[Finding]:
    """What doctor says is wrong of the site file's text and the cluster."""
    fake_slurm(site.folder / "bin", partitions=partitions, nodes=nodes)
    site.site_file.write_text(text)
    try:
        read = load_site(site.site_file)
    except BerthError as error:
        return [fail("site file", error.message, error.hint)]
    checks = (check_settings(read), check_paths(read), check_cluster(read, Slurm()))
    return [f for check in checks for f in check if f.status is not Status.OK]


def text_of(site: Harbour) -> str:
    return site.site_file.read_text()


CPU = 'name = "cpu"\n'
LONG = "/run/" + "a" * 110
CASES: dict[str, tuple[str, str, str]] = {
    # name: what stands there, what is written instead, what doctor says
    "no price": ("[fit]", '[policy]\nobjective = "cheapest"\n[fit]', "no candidate has a price"),
    "some prices": (
        "[fit]",
        '[policy]\nobjective = "cheapest"\n[fit]',
        "no job goes to gpu, without a price",
    ),
    "long socket": ('socket = "berth.sock"', f'socket = "{LONG}"', "at most 107"),
    "long users' socket": ('user_socket = "users.sock"', f'user_socket = "{LONG}"', "at most 107"),
    "one socket": ('user_socket = "users.sock"', 'user_socket = "berth.sock"', "are both"),
    "list of users": ("interactive = true", 'interactive = true\nusers = ["root"]', "it is a list"),
    "400 GPUs": ("gpus_per_node = 4\ncores_per_node = 32", "gpus_per_node = 400\ncores_per_node = 4",
                 "400 GPUs beside 4 cores"),
    "narrow intervals": ("[fit]", "[policy]\nmax_interval_ratio = 1.1\n[fit]", "max_interval_ratio"),
    "stale at once": ("[fit]", "[policy]\nstale_after_s = 1\n[fit]", "(stale-state)"),
    "never learns": ("state_refresh_s = 1.0", "state_refresh_s = 1.0\noutcomes_refresh_s = 0",
                     "ends of jobs are never read"),
    "in and out": ("interactive = true", 'users = { include = ["root"], exclude = ["root"] }',
                   "included and excluded"),
    "strange partition": ("interactive = true", 'partitions = { include = ["cpuu"] }', "cpuu are no part"),
    "nobody asks": ('auto_partition = "auto"', "", "no job is ever placed"),
    "unknown user": ("interactive = true", 'users = { include = ["no-such-user"] }', "knows no user"),
    "unknown admin": ("state_refresh_s = 1.0", 'state_refresh_s = 1.0\nadmins = ["no-such-user"]',
                      "daemon.admins: this host knows no user"),
    "no reference": ('reference_platform = "rome-7742"', 'reference_platform = "quartz"',
                     "pilots have no place to run"),
    "pilots in auto": ('auto_partition = "auto"', 'auto_partition = "auto"\nreference_partition = "auto"',
                       "pilots would run in auto"),
    "switch without a folder": ('kill_switch = "off"', 'kill_switch = "/nowhere/off"', "there is no folder"),
    "store without a folder": ('store = "', 'store = "/nowhere/store.db"  # ', "there is no folder /nowhere"),
    "store in memory": ('store = "', 'store = "/run/berth.db"  # ', "does not outlive a restart"),
    "memory without a unit": ('memory_per_node = "256G"\nnodes = 2', 'memory_per_node = "256M"\nnodes = 2',
                              "256 MiB of memory"),
    "too many nodes": ("nodes = 2", "nodes = 20", "nodes = 20, and partition cpu has 2 such"),
    "too many GPUs": ("gpus_per_node = 4", "gpus_per_node = 8", "no node has more than 4 gpu:a100"),
    "too much memory": ('"256G"\nnodes = 2', '"2T"\nnodes = 2', "no node has more than 256"),
    "store at home": ('store = "', 'store = "~/store.db"  # ', "another file for each user"),
    "hasty filter": ("state_refresh_s = 1.0", "state_refresh_s = 1.0\ndeadline_ms = 1",
                     "gives up before most answers"),
    "GPU place without GPUs": ('gres = "gpu:a100"\n', "", "a100-80gb is a GPU, and jobs sent there get none"),
    "other name": ('partition = "gpu"', 'partition = "GPU"', "there is no partition GPU"),
    "control beside shadow": ("[fit]", '[policy]\ncontrol = "written"\n[fit]', "moves none"),
    "list without fit": ("[fit]", '[policy]\ncontrol = "list"\n[fit]', "control jobs are left as written"),
}  # fmt: skip
CLUSTERS: dict[str, tuple[str, str, str]] = {
    "short auto": ("PartitionName=auto AllowAccounts=ALL AllowQos=ALL Default=NO MaxTime=UNLIMITED",
                   "PartitionName=auto AllowAccounts=ALL AllowQos=ALL Default=NO MaxTime=1:00:00",
                   "auto allows less time than others"),
    "small auto": ("DefaultTime=NONE State=UP TotalCPUs=128 TotalNodes=2 Nodes=cpu[1-2]\n",
                   "DefaultTime=NONE MaxNodes=1 State=UP TotalCPUs=128 TotalNodes=2 Nodes=cpu[1-2]\n",
                   "auto allows less nodes than others"),
    "auto for some": ("PartitionName=auto AllowAccounts=ALL", "PartitionName=auto AllowAccounts=phys",
                      "auto is for some accounts only (phys)"),
    "closed auto": ("PartitionName=auto ", "PartitionName=auto RootOnly=YES ",
                    "users may not submit to partition auto"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_site_file_that_leaves_jobs_alone_is_named(name: str, site: Harbour) -> None:
    old, new, says = CASES[name]
    if name == "control beside shadow":
        site.write_site(mode="shadow")
    text = text_of(site)
    assert old in text
    text = text.replace(old, new, 1)
    if name == "some prices":
        text = text.replace(CPU, CPU + "price_per_core_hour = 0.05\n")
    if name == "nobody asks":
        text = text.replace("interactive = true", "unnamed_partition = false")
    found = wrong_of(site, text, PARTITIONS, NODES)
    named = [finding for finding in found if says in finding.text]
    assert named, found
    assert all(finding.advice for finding in named)


@pytest.mark.parametrize("name", CLUSTERS)
def test_an_auto_partition_that_refuses_what_the_site_can_run_is_named(
    name: str, site: Harbour
) -> None:
    old, new, says = CLUSTERS[name]
    head, _, auto = PARTITIONS.rpartition("PartitionName=auto")
    auto = f"PartitionName=auto{auto}"
    assert old in auto
    found = wrong_of(site, text_of(site), head + auto.replace(old, new), NODES)
    named = [finding for finding in found if says in finding.text]
    assert named, found
    assert all(finding.advice for finding in named)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Partitions=gpu", "Partitions=other", "gpu: partition gpu has no node"),
        ("Arch=x86_64", "Arch=aarch64", "cpu has the architecture x86_64 (there: aarch64)"),
    ],
)
def test_nodes_that_take_none_of_the_jobs_are_named(
    old: str, new: str, says: str, site: Harbour
) -> None:
    found = wrong_of(site, text_of(site), PARTITIONS, NODES.replace(old, new))
    assert any(says in finding.text and finding.advice for finding in found), found


def test_nodes_that_are_all_down_are_named(site: Harbour) -> None:
    down = NODES.replace("State=IDLE Partitions=gpu", "State=DOWN Partitions=gpu")
    found = wrong_of(site, text_of(site), PARTITIONS, down)
    assert [finding.text for finding in found if "all 1 nodes" in finding.text] == [
        "gpu: all 1 nodes are down or drained: no job is placed there"
    ]


def test_what_everybody_may_write_or_is_no_socket_is_named(site: Harbour) -> None:
    site.site_file.chmod(0o666)
    site.socket.write_text("x")
    read = load_site(site.site_file)
    texts = [finding.text for finding in check_paths(read)]
    assert any("everybody on this host may write to" in text for text in texts)
    assert any("is no socket" in text for text in texts)
    site.folder.chmod(0o777)
    texts = [finding.text for finding in check_paths(read)]
    assert any("everybody may make" in text for text in texts)


def test_a_sound_site_has_no_findings(site: Harbour) -> None:
    found = wrong_of(site, text_of(site), PARTITIONS, NODES)
    assert [finding.text for finding in found if finding.check != "auto queue"] == []


def test_a_byte_order_mark_is_no_fault(site: Harbour) -> None:
    assert load_site(site.site_file).name == "tests"
    site.site_file.write_text("\ufeff" + text_of(site))
    assert load_site(site.site_file).name == "tests"


def test_a_controller_that_is_down_costs_one_line_and_is_not_waited_for(site: Harbour) -> None:
    fake_slurm(site.folder / "bin")
    scontrol = site.folder / "bin" / "scontrol"
    scontrol.write_text(
        '#!/bin/sh\ncase "$*" in *ping*) echo "Slurmctld(primary) at head is DOWN"; echo "**"; exit 1;; '
        "esac\nexec sleep 1000\n"
    )
    found = [f for f in examine(load_site(site.site_file)) if f.check == "scheduler"]
    assert [f.status for f in found] == [Status.FAIL]
    assert "Slurmctld(primary) at head is DOWN" in found[0].text
    assert found[0].advice
    scontrol.write_text("#!/bin/sh\nexec sleep 1000\n")
    assert "did not answer within 2 s" in (Slurm().why_silent() or "")


def test_the_list_is_long_enough() -> None:
    assert len(CASES) + len(CLUSTERS) >= 25
    assert Path(settings.__file__).exists()
