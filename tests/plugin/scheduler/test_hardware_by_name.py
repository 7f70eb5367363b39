"""The hardware of a first site file, guessed from the names of features and gres."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_facts import KNOWN, cluster, node

from berth.pilot.documents import write_json
from berth.pilot.instruction_sets import Has, has, unknown
from berth.plugin.first_site.first import first_site
from berth.plugin.first_site.guess import guess_cpu, guess_gpu, instruction_sets
from berth.plugin.first_site.write import toml_text
from berth.plugin.site import load_site
from berth.plugin.slurm.scheduler import Slurm
from berth.predictor.hardware import platforms


@pytest.mark.parametrize(
    ("features", "name"),
    [
        (("rome",), "rome-7742"),
        (("EPYC-7742",), "rome-7742"),
        (("Genoa", "ib"), "epyc-genoa-9654"),
        (("skylake", "avx512"), "skylake-8176"),
        (("intel", "avx2", "node", "rack7"), None),
        ((), None),
    ],
)
def test_cpus_are_known_by_their_features(features: tuple[str, ...], name: str | None) -> None:
    guess = guess_cpu(node(features=features, cores=128), KNOWN)
    assert (None if guess is None else guess.platform.name) == name


@pytest.mark.parametrize(
    ("gres", "features", "name"),
    [
        ("gpu:h200", (), "h200-141gb"),
        ("gpu:nvidia_a100_80gb_pcie", (), "a100-80gb"),
        ("gpu:a100", ("a100", "80g"), "a100-80gb"),
        ("gpu:a100", (), "a100-40gb"),
        ("gpu:tesla_v100", (), "lassen-v100"),
        ("gpu:mi210", (), "mi210-64gb"),
        ("gpu:a100_3g.20gb", (), "a100-mig-3g.20gb"),
        ("gpu:nvidia_h100_80gb_hbm3_4g.40gb", (), "h100-mig-4g.40gb"),
        ("gpu:1g.10gb", ("h100",), "h100-mig-1g.10gb"),
        ("gpu:rtx3090", (), "rtx-3090-24gb"),
        ("gpu:gtx1080", (), None),
        ("gpu:nvidia_h100_nvl", (), None),
        ("gpu:h100_pcie", (), None),
        ("gpu", (), None),
    ],
)
def test_gpus_are_known_by_their_gres_type(
    gres: str, features: tuple[str, ...], name: str | None
) -> None:
    guess = guess_gpu(gres, node(features=features), KNOWN)
    assert (None if guess is None else guess.platform.name) == name


def test_an_unmeasured_gpu_gets_a_stub_by_its_data_sheet() -> None:
    site = first_site(cluster(node(gpus={"gpu:nvidia_l40s": 4})), KNOWN, Slurm())
    (stub,) = site.stubs.values()
    assert stub.accelerator == "l40s-48gb"
    assert stub.cores == 142
    assert stub.signature.flops_f32_per_s == 91.6e12
    assert "STUB" in stub.description
    assert [c.platform for c in site.candidates] == ["gpu-nvidia_l40s"]


def test_platforms_that_were_measured_are_used() -> None:
    small, large = node(name="a", cores=4), node(name="b", cores=8)
    site = first_site(cluster(small, large), KNOWN, Slurm())
    stub = next(s for s in site.stubs.values() if s.cores == 4)
    measured = stub.model_copy(update={"description": "4 cores of something"})
    again = first_site(cluster(small, large), {**KNOWN, measured.name: measured}, Slurm())
    assert again.stubs[measured.name] == measured
    other = measured.model_copy(update={"name": "ours"})
    added = first_site(cluster(small, large), {**KNOWN, "ours": other}, Slurm())
    assert "ours" in {c.platform for c in added.candidates}
    assert "ours" in added.stubs


def test_a_slice_of_a_gpu_that_nobody_measured_is_a_slice_of_a_stub(tmp_path: Path) -> None:
    facts = cluster(node(gpus={"gpu:a30_1g.6gb": 4, "gpu:a30_2g.11gb": 2, "gpu:a100_1g.9gb+me": 1}))
    site = first_site(facts, KNOWN, Slurm())
    assert [c.platform for c in site.candidates] == [
        "a100-80gb-mig-1g.10gb+me",
        "a30-24gb-mig-1g.6gb",
        "a30-24gb-mig-2g.12gb",
    ]
    (whole,) = site.stubs.values()
    assert (whole.name, "STUB" in whole.description) == ("a30-24gb", True)
    assert "a30-24gb is known by its data sheet only: a stub" in site.candidates[1].remarks
    path = tmp_path / "berth.toml"
    write_json(tmp_path / "platforms" / "a30-24gb.json", whole)
    path.write_text(toml_text(site, name="x"))
    first, second, third = load_site(path).candidates
    assert first.gres == "gpu:a100_1g.9gb+me"
    assert (second.slice_of, third.slice_of) == ("a30-24gb", "a30-24gb")
    assert 5.5 * 2**30 < (second.gpu_memory_bytes or 0) < 6 * 2**30


def test_an_unknown_slice_is_a_stub_of_its_size_to_be_checked() -> None:
    site = first_site(cluster(node(gpus={"gpu:x999_1g.7gb": 4})), KNOWN, Slurm())
    (only,) = site.candidates
    assert any("stub, to be benchmarked" in remark for remark in only.remarks)
    assert site.stubs[only.platform].memory_bytes < 7 * 2**30


@pytest.mark.parametrize(
    ("features", "sets"),
    [
        (("ib", "genoa"), "x86-64-v4"),
        (("Sandy_Bridge",), "avx"),
        (("x86-64-v3",), "x86-64-v3"),
        (("avx2", "haswell"), "x86-64-v3"),
        (("avx512",), "avx512f"),
        (("rack1", "fast"), None),
    ],
)
def test_features_named_after_cpus_levels_or_sets_tell_the_instruction_sets(
    features: tuple[str, ...], sets: str | None
) -> None:
    told = instruction_sets(features)
    assert unknown(told) == ()
    assert sets in told if sets else told == ()
    if "Sandy_Bridge" in features:
        assert has(told, "avx2") is Has.NO


@pytest.mark.parametrize(
    ("gres", "features", "platform"),
    [
        ("gpu:mi300x", (), "mi300x-192gb"),
        ("gpu:mi300x_spx", (), "mi300x-192gb"),
        ("gpu:mi300x_cpx", (), "mi300x-192gb-cpx"),
        ("gpu:amd_instinct_mi300x", ("qpx", "nps1"), "mi300x-192gb-qpx"),
        ("gpu:mi300a-tpx", (), "mi300a-128gb-tpx"),
    ],
)
def test_a_partition_mode_of_an_amd_gpu_is_read_from_names(
    gres: str, features: tuple[str, ...], platform: str
) -> None:
    guess = guess_gpu(gres, node(features=features), platforms.shipped())
    assert guess is not None
    assert guess.platform.name == platform
    assert not guess.doubt


def test_a_mode_that_the_gpu_does_not_have_is_a_doubt() -> None:
    guess = guess_gpu("gpu:mi300a_qpx", node(), platforms.shipped())
    assert guess is not None
    assert guess.platform.name == "mi300a-128gb"
    assert "QPX" in guess.doubt


@pytest.mark.parametrize(
    ("whole", "mode", "parts"),
    [("mi300a-128gb", "cpx", 6), ("mi300a-128gb", "tpx", 3), ("mi300x-192gb", "cpx", 8)],
)
def test_the_partitions_of_a_card_are_the_card(whole: str, mode: str, parts: int) -> None:
    shipped = platforms.shipped()
    card, part = shipped[whole], shipped[f"{whole}-{mode}"]
    assert part.parent == whole
    assert part.cores * parts == card.cores
    assert part.memory_bytes * parts == pytest.approx(card.memory_bytes, rel=1e-6)
    for level in part.signature.memory:
        same = card.signature.level(level.level)
        assert same is not None
        assert level.total_bytes_per_s * parts == pytest.approx(same.total_bytes_per_s)
    assert part.signature.launch_overhead_s == card.signature.launch_overhead_s
