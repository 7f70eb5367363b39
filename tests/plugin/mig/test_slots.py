"""Slurm's numbers of slices, and the files that hold them, which several nodes may write at once.

Whatever a job holds keeps its number, and the total never changes.
"""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import BerthError
from berth.plugin.mig.errors import PlanRefused
from berth.plugin.slurm.mig import publishing, slots
from berth.plugin.slurm.mig.slots import (
    SLOTS,
    GresSlot,
    arrange,
    gres_conf,
    gres_of,
    node_gres,
    numbers,
    read_slots,
    type_name,
    with_node_gres,
)
from berth.policies.mig import GpuInstance, Layout, lookup
from berth.policies.mig.layout import enumerate_states

STATES = enumerate_states(lookup("A100-SXM4-40GB").plain()).layouts
GPUS = ("GPU-a", "GPU-b")
TOTAL = 14


def devices(layouts: list[Layout]) -> list[GresSlot]:
    return [
        GresSlot(i.profile, gpu, i)
        for gpu, layout in zip(GPUS, layouts, strict=False)
        for i in layout.instances
    ]


def as_slurm_numbers(slots: tuple[GresSlot, ...]) -> list[GresSlot]:
    """The order in which Slurm 22.05 numbers the lines: by type groups of ``Gres=``."""
    groups = [part.split(":")[1] for part in gres_of(slots).split(",")]
    return [slot for name in groups for slot in slots if slot.type == name]


two_layouts = st.lists(st.sampled_from(STATES), min_size=1, max_size=2)


@given(two_layouts)
def test_an_arrangement_is_numbered_by_slurm_as_it_is_written(layouts: list[Layout]) -> None:
    slots = arrange(devices(layouts), TOTAL, {})
    assert len(slots) == TOTAL
    assert as_slurm_numbers(slots) == list(slots)
    assert sorted(map(str, (s for s in slots if s.gpu))) == sorted(map(str, devices(layouts)))


@given(two_layouts, st.data())
def test_slices_that_jobs_hold_keep_their_numbers(
    layouts: list[Layout], data: st.DataObject
) -> None:
    before = arrange(devices(layouts), TOTAL, {})
    real = [n for n, slot in enumerate(before) if slot.gpu]
    held_numbers = data.draw(st.lists(st.sampled_from(real), unique=True)) if real else []
    held = {n: before[n] for n in held_numbers}
    busy = [
        Layout(tuple(sorted(s.instance for s in held.values() if s.gpu == g and s.instance)))
        for g in GPUS[: len(layouts)]
    ]
    target = [
        data.draw(st.sampled_from([x for x in STATES if x.contains(b.instances)])) for b in busy
    ]
    try:
        after = arrange(devices(target), TOTAL, held)
    except PlanRefused:
        return
    assert len(after) == TOTAL
    assert as_slurm_numbers(after) == list(after)
    for number, slot in held.items():
        assert after[number] == slot
    assert sorted(map(str, (s for s in after if s.gpu))) == sorted(map(str, devices(target)))


def test_the_order_that_gave_a_slice_to_two_jobs_is_not_made() -> None:
    """By first appearance the 3g would move from number 6 to 4 under the job that holds it."""
    before = (*(GresSlot("1g.5gb", "GPU-a", GpuInstance(n, "1g.5gb")) for n in (0, 1)),
              GresSlot("2g.10gb", "GPU-a", GpuInstance(2, "2g.10gb")), *[GresSlot("off1")] * 3,
              GresSlot("3g.20gb", "GPU-a", GpuInstance(4, "3g.20gb")))  # fmt: skip
    target = Layout.parse("1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 3g.20gb@4")
    after = arrange(devices([target]), 7, {1: before[1], 6: before[6]})
    assert after[6] == before[6]
    assert after[1] == before[1]


def test_a_type_can_grow_beside_jobs_that_hold_the_next_one() -> None:
    before = arrange(devices([Layout.parse("1g.5gb@0 2g.10gb@2 2g.10gb@4")]), 7, {})
    held = {n: slot for n, slot in enumerate(before) if slot.gpu and slot.type == "2g.10gb"}
    more = arrange(devices([Layout.parse("1g.5gb@0 1g.5gb@1 2g.10gb@2 2g.10gb@4")]), 7, held)
    assert all(more[n] == slot for n, slot in held.items())


def test_impossible_numbers_are_refused_with_a_reason() -> None:
    one, other = (GresSlot("1g.5gb", "GPU-a", GpuInstance(n, "1g.5gb")) for n in (0, 6))
    with pytest.raises(PlanRefused, match="do not allow this layout"):
        arrange([one, other], 7, {0: one, 6: other})
    with pytest.raises(PlanRefused, match="do not fit"):
        arrange([one, other], 1, {})
    with pytest.raises(PlanRefused, match="a running job holds"):
        arrange([one], 7, {3: other})


@given(two_layouts)
def test_what_is_written_is_read_back(layouts: list[Layout]) -> None:
    slots = arrange(devices(layouts), TOTAL, {})
    text = gres_conf("n1", slots, lambda _: ("/dev/nvidia0", "/dev/c1"), lambda n: f"/dev/off{n}")
    assert read_slots(text, "n1") == slots
    assert read_slots(text, "n2") is None
    assert SLOTS.validate_json(SLOTS.dump_json(slots)) == slots


@given(st.text(max_size=300))
def test_files_of_somebody_else_are_never_taken_for_ours(text: str) -> None:
    assert read_slots(text, "n1") is None


@given(st.text(max_size=200))
def test_any_gres_used_is_read_without_failing(text: str) -> None:
    numbers(text)


def test_numbers_in_use_are_read() -> None:
    used = "gpu:1g.10gb+me:1(IDX:0),gpu:1g.10gb:3(IDX:1-3),gpu:3g.40gb:0(IDX:N/A),gpu:off:1(IDX:6)"
    assert numbers(used) == (0, 1, 2, 3, 6)
    assert numbers("gpu:a:0(IDX:N/A)") == ()


CONF = """\
# NodeName=n1 Gres=gpu:old:1
ClusterName=c
NodeName=n10 CPUs=4 Gres=gpu:x:1
  NodeName=n1 CPUs=8 Gres=gpu:1g.5gb:7,gpu:a:1 Feature=mig # Gres=stays
PartitionName=p Nodes=n1
"""


def test_only_the_gres_of_the_node_changes() -> None:
    after = with_node_gres(CONF, "n1", "gpu:2g:1", source="slurm.conf")
    assert after == CONF.replace("gpu:1g.5gb:7,gpu:a:1", "gpu:2g:1")
    assert node_gres(after, "n1") == "gpu:2g:1"
    for gres, result in (("gpu:b:2", "gpu:b:2,nic:2"), ("(null)", "nic:2"), ("nic:2", "nic:2")):
        beside = with_node_gres("NodeName=n1 Gres=gpu:a:1,nic:2\n", "n1", gres, source="s")
        assert beside == f"NodeName=n1 Gres={result}\n"
    added = with_node_gres("NodeName=n1 CPUs=2\n", "n1", "gpu:a:1", source="slurm.conf")
    assert added == "NodeName=n1 CPUs=2 Gres=gpu:a:1\n"


@pytest.mark.parametrize(
    "text", ["", "NodeName=n[1-4] CPUs=2\n", "NodeName=n1 A=1\nNodeName=n1 A=1\n"]
)
def test_a_node_without_a_line_of_its_own_is_refused(text: str) -> None:
    with pytest.raises(BerthError, match="NodeName=n1"):
        with_node_gres(text, "n1", "gpu:a:1", source="slurm.conf")


def test_a_line_in_two_parts_is_refused() -> None:
    with pytest.raises(BerthError, match="write it in one"):
        with_node_gres("NodeName=n1 CPUs=2 \\\n Gres=gpu:a:1\n", "n1", "gpu:b:1", source="s")


def test_types_are_part_of_nvmls_own_name() -> None:
    assert type_name("3g.20gb") in "NVIDIA A100-SXM4-40GB 3g.20gb"  # AutoDetect=nvml takes such
    assert type_name("1g.5gb", "a100_{profile}") == "a100_1g.5gb"
    for pattern in ("slice", "{profile} x", "a,{profile}"):
        with pytest.raises(PlanRefused):
            type_name("1g.5gb", pattern)


NODES = [f"gpu{n:02}" for n in range(12)]


def test_nodes_that_are_cut_at_once_do_not_undo_each_others_lines(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("".join(f"NodeName={n} Gres=gpu:7g.40gb:1\n" for n in NODES))
    conf.chmod(0o640)

    def cut(node: str) -> None:
        with publishing.one_writer(conf, timeout_s=60):
            text = publishing.read_config_file(conf)
            new = slots.with_node_gres(text, node, f"gpu:of-{node}:7", source="slurm.conf")
            publishing.replace_config_file(conf, new)

    with ThreadPoolExecutor(len(NODES)) as pool:
        list(pool.map(cut, NODES))
    assert {slots.node_gres(conf.read_text(), n) for n in NODES} == {f"gpu:of-{n}:7" for n in NODES}
    assert stat.S_IMODE(conf.stat().st_mode) == 0o640


def test_a_writer_that_does_not_end_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("")
    with (
        publishing.one_writer(conf, timeout_s=1),
        pytest.raises(BerthError, match="another node's cut"),
        publishing.one_writer(conf, timeout_s=0.1),
    ):
        pytest.fail("two at once")
    with publishing.one_writer(conf, timeout_s=0.1):
        pass


def test_a_file_system_without_locks_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refused)
    with publishing.one_writer(tmp_path / "slurm.conf", timeout_s=0.1):
        pass
