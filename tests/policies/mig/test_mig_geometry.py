"""Geometry: the counts that NVIDIA's placements give, and legality under every change."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mig_strategies import geometries, layouts

from berth.pilot.errors import UsageError
from berth.policies.mig import (
    Geometry,
    GpuInstance,
    GpuState,
    Layout,
    Media,
    Running,
    SliceProfile,
    diff,
    known_gpus,
    lookup,
)
from berth.policies.mig.layout import arrange, enumerate_states


@pytest.mark.parametrize("gpu", [g for g in known_gpus() if lookup(g).compute_slices == 7])
def test_seven_slice_parts_have_the_published_numbers_of_states(gpu: str) -> None:
    plain = lookup(gpu).plain()
    assert len(enumerate_states(plain).layouts) == 723
    assert len(enumerate_states(plain).maximal) == 78
    single = plain.restricted(
        p.name for p in plain.profiles if (p.compute_slices, p.memory_slices) != (1, 2)
    )
    assert len(enumerate_states(single).layouts) == 298
    assert len(enumerate_states(single).maximal) == 19


def test_an_a30_has_26_states_and_5_maximal_ones() -> None:
    states = enumerate_states(lookup("A30").plain())
    assert (len(states.layouts), len(states.maximal)) == (26, 5)


def test_enumerating_takes_milliseconds() -> None:
    geometry = replace(lookup("A100-40GB").plain(), gpu="a model not enumerated before")
    start = time.thread_time()
    enumerate_states(geometry)
    assert time.thread_time() - start < 0.25  # 13 ms on an idle machine
    start = time.thread_time()
    enumerate_states(geometry)
    assert time.thread_time() - start < 0.01


@pytest.mark.parametrize("gpu", known_gpus())
def test_the_table_is_what_adding_one_instance_after_the_other_reaches(gpu: str) -> None:
    geometry = lookup(gpu).plain() if lookup(gpu).compute_slices == 7 else lookup(gpu)
    reached, frontier = {Layout()}, [Layout()]
    while frontier:
        layout = frontier.pop()
        for instance in layout.additions(geometry):
            larger = layout.plus(instance)
            if larger not in reached:
                reached.add(larger)
                frontier.append(larger)
    assert reached == set(enumerate_states(geometry).layouts)


@pytest.mark.parametrize("gpu", known_gpus())
def test_every_configuration_that_is_set_is_the_one_that_is_got(gpu: str) -> None:
    """Numbers of instances -> a layout -> the same numbers; and nothing moves needlessly."""
    geometry = lookup(gpu)
    seen = set()
    for layout in enumerate_states(geometry.plain()).layouts:
        assert arrange(geometry, layout.counts(), current=layout) == layout
        counts = tuple(sorted(layout.counts().items()))
        if counts not in seen:
            seen.add(counts)
            assert arrange(geometry, dict(counts)).counts() == dict(counts)


@settings(deadline=None)
@given(st.data(), geometries)
def test_every_placement_of_a_state_is_legal_and_without_overlap(
    data: st.DataObject, geometry: Geometry
) -> None:
    layout = data.draw(layouts(geometry))
    taken: set[int] = set()
    for i in layout.instances:
        p = geometry.profile(i.profile)
        mine = set(range(i.start, i.start + p.memory_slices))
        assert i.start in p.placements
        assert max(mine) < geometry.memory_slices
        assert not mine & taken
        taken |= mine
    assert layout.problem(geometry) is None
    profiles = [geometry.profile(i.profile) for i in layout.instances]
    assert sum(p.compute_slices for p in profiles) <= geometry.compute_slices
    assert all(layout.counts()[p.name] <= p.max_instances for p in profiles)


@settings(deadline=None)
@given(st.data(), geometries)
def test_adding_and_removing_keep_legality(data: st.DataObject, geometry: Geometry) -> None:
    legal = set(enumerate_states(geometry).layouts)
    layout = data.draw(layouts(geometry))
    for instance in layout.instances:
        assert layout.minus(instance) in legal
    for instance in layout.additions(geometry):
        assert layout.plus(instance) in legal


@settings(deadline=None)
@given(st.data(), geometries)
def test_a_layout_is_read_back_from_its_text(data: st.DataObject, geometry: Geometry) -> None:
    layout = data.draw(layouts(geometry))
    assert Layout.parse(str(layout)) == layout


def test_a_four_slice_instance_starts_only_at_0_and_two_threes_waste_one() -> None:
    a100 = lookup("A100-40GB")
    assert "memory slice 0, not at 4" in (Layout.of(("4g.20gb", 4)).problem(a100) or "")
    assert Layout.of(("3g.20gb", 0), ("3g.20gb", 4)).additions(a100) == ()


def test_one_instance_has_the_media_extensions() -> None:
    a100 = lookup("A100-40GB")
    one = Layout.of(("1g.5gb+me", 0), *(("1g.5gb", n) for n in range(1, 7)))
    assert one.problem(a100) is None
    two = Layout.of(("1g.5gb+me", 0), ("1g.5gb+me", 1))
    assert two.problem(a100) == "2 instances of 1g.5gb+me, at most 1 are possible"
    a30 = lookup("A30")
    mixed = Layout.of(("2g.12gb+me", 0), ("1g.6gb+me", 2))
    assert "media extensions" in (mixed.problem(a30) or "")


def test_all_media_engines_leave_only_slices_without_any() -> None:
    rtx = lookup("RTX-PRO-6000")
    assert Layout.of(("1g.24gb+me.all", 0), ("1g.24gb-me", 3)).problem(rtx) is None
    assert Layout.of(("1g.24gb+me.all", 0), ("1g.24gb", 3)).problem(rtx) is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("3g.20gb@0 1g.5gb@2", "overlaps"),
        ("1g.5gb@7", "may start at"),
        ("1g.6gb@0", "no MIG profile"),
    ],
)
def test_impossible_layouts_are_refused_in_one_sentence(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Layout.parse(text).check(lookup("A100-40GB"))


@pytest.mark.parametrize("text", ["1g.5gb", "@3", "1g.5gb@x", "1g.5gb@-1"])
def test_text_that_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Layout.parse(text).check(lookup("A100-40GB"))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB"),
        ("nvidia h100 80gb hbm3", "H100-80GB"),
        ("NVIDIA GH200 480GB", "H100-96GB"),
        ("NVIDIA H200 NVL", "H200-NVL"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
    ],
)
def test_models_are_found_by_the_names_that_drivers_report(name: str, model: str) -> None:
    assert lookup(name).gpu == model


def test_an_unknown_gpu_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(UsageError, match="'A100-40'") as error:
        lookup("A100-40")
    assert "A100-40GB" in (error.value.hint or "")
    with pytest.raises(UsageError, match="zzz"):
        lookup("zzz")


def test_every_profile_fits_into_the_memory_of_the_whole_gpu() -> None:
    for name in known_gpus():
        geometry = lookup(name)
        whole = max(p.memory_bytes for p in geometry.profiles)
        for p in geometry.profiles:
            nominal = int(p.name.split(".")[1].split("gb")[0]) * 2**30
            assert 0.8 * nominal < p.memory_bytes <= nominal, (name, p.name)
            assert p.memory_bytes <= whole
            ids = [q.profile_id for q in geometry.profiles if q.profile_id is not None]
            assert len(ids) == len(set(ids))


def test_nvml_wins_over_the_table_and_the_difference_is_told() -> None:
    table = lookup("A100-40GB")
    changed = tuple(
        replace(p, placements=(0, 2, 4, 5)) if p.name == "2g.10gb" else p
        for p in table.profiles
        if p.name != "1g.10gb"
    )
    nvml = Geometry.from_profiles(table.gpu, changed)
    sentences = [str(d) for d in diff(table, nvml)]
    assert sentences == [
        "1g.10gb: profile is absent by NVML, present by the table",
        "2g.10gb: placements is (0, 2, 4, 5) by NVML, (0, 2, 4) by the table",
    ]
    assert Layout.of(("2g.10gb", 5)).problem(nvml) is None
    assert diff(table, table) == ()


def test_memory_that_is_only_estimated_is_no_difference() -> None:
    table = lookup("B200")
    measured = tuple(replace(p, memory_bytes=p.memory_bytes + 1) for p in table.profiles)
    assert diff(table, Geometry.from_profiles(table.gpu, measured)) == ()


def test_a_geometry_from_plain_data_gives_the_same_states() -> None:
    table = lookup("H100-80GB")
    again = Geometry.from_profiles("H100 by NVML", reversed(table.profiles))
    assert (again.compute_slices, again.memory_slices) == (7, 8)
    assert set(enumerate_states(again).layouts) == set(enumerate_states(table).layouts)


@pytest.mark.parametrize(
    "profile",
    [
        SliceProfile("1g.5gb", 1, 1, 2**30, (), 1),
        SliceProfile("1g.5gb", 1, 0, 2**30, (0,), 1),
        SliceProfile("1g.5gb", 1, 1, 2**30, (-1,), 1),
    ],
)
def test_profiles_that_make_no_sense_are_refused(profile: SliceProfile) -> None:
    with pytest.raises(UsageError, match="does not lie within"):
        Geometry.from_profiles("odd", [profile])


def test_a_gpu_without_profiles_is_refused() -> None:
    with pytest.raises(UsageError, match="no MIG profiles"):
        Geometry.from_profiles("odd", [])


def test_a_busy_instance_that_does_not_exist_is_refused() -> None:
    state = GpuState("n/0", lookup("A30"), Layout(), (Running(GpuInstance(0, "1g.6gb")),))
    with pytest.raises(UsageError, match="does not exist"):
        state.check()


def test_narrowing_a_gpu_does_not_shrink_its_media_engines() -> None:
    narrow = lookup("RTX-PRO-6000").restricted(["1g.24gb"])
    assert narrow.media == lookup("RTX-PRO-6000").media == Media(4, 4, 4, 1)


@pytest.mark.parametrize(
    ("counts", "busy", "why"),
    [
        ({"7g.40gb": 1, "1g.5gb": 1}, "", "cannot hold"),
        ({"3g.20gb": 1, "4g.20gb": 1}, "3g.20gb@0", "while 3g.20gb@0 stays"),
        ({"9g.90gb": 1}, "", "no MIG profile"),
        ({"1g.5gb": -1}, "", "no sense"),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(
    counts: dict[str, int], busy: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        arrange(lookup("A100-40GB"), counts, busy=Layout.parse(busy))


def test_a_profile_goes_by_each_of_its_vendors_names() -> None:
    gb200 = lookup("NVIDIA GB200")
    assert gb200.profile("7g.189gb") is gb200.profile("7g.186gb")
    assert gb200.restricted(["1g.24gb", "3g.93gb"]).by_name.keys() == {"1g.23gb", "3g.93gb"}
    early = replace(
        gb200, profiles=tuple(replace(p, name=p.other_name or p.name) for p in gb200.profiles)
    )
    assert diff(gb200, early) == ()
    assert [d.field for d in diff(gb200, lookup("GB300"))].count("profile") > 5
