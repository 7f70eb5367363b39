"""MIG slices in the site file: one table becomes a candidate for each profile."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from berth.pilot.documents import validate
from berth.pilot.errors import DocumentError
from berth.plugin.first_site.first import first_site
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts, states_of
from berth.plugin.site import Site
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.load import build_site
from berth.plugin.slurm.scheduler import Slurm
from berth.policies.mig import lookup
from berth.predictor.hardware import platforms
from berth.predictor.hardware.mig.slices import every_slice, slice_of

SITE = """\
schema = "berth.site/1"
[site]
name = "tests"
{site}
[[candidates]]
name = "slice"
platform = "{platform}"
{where}
cores_per_node = 64
gpus_per_node = 2
price_per_gpu_hour = 8.0
{more}
[candidates.slices]
{slices}
"""


def site_of(
    platform: str = "h200-141gb",
    *,
    slices: str = "",
    more: str = "",
    site: str = "",
    where: str = 'partition = "mig"',
) -> Site:
    text = SITE.format(platform=platform, slices=slices, more=more, site=site, where=where)
    path = Path("berth.toml")
    return build_site(validate(tomllib.loads(text), SiteDocument, source=path), path)


def test_one_table_is_a_candidate_for_each_plain_profile() -> None:
    site = site_of()
    profiles = [p for p in lookup("H200").profiles if p.is_plain]
    assert [c.gres for c in site.candidates] == [f"gpu:{p.name}" for p in profiles]
    small = site.candidates[0]
    assert (small.name, small.platform) == ("slice-1g.18gb", "h200-141gb-mig-1g.18gb")
    assert small.slice_of == "h200-141gb"
    assert small.gpu_memory_bytes == profiles[0].memory_bytes
    assert small.gpus_per_node == 14
    assert small.price_per_gpu_hour == pytest.approx(8.0 / 7)
    parts = [c.slice_part for c in site.candidates]
    assert parts == sorted(parts)
    assert parts[-1] == 1.0
    assert set(site.platforms) == {c.platform for c in site.candidates}, "predicted for, too"


def test_some_profiles_under_other_type_names() -> None:
    made = site_of(slices='profiles = ["1g.18gb", "3g.71gb"]\ntype_pattern = "h200_{profile}"')
    assert [c.gres for c in made.candidates] == ["gpu:h200_1g.18gb", "gpu:h200_3g.71gb"]


def test_at_a_flux_site_each_profile_has_its_queue() -> None:
    made = site_of(
        site='scheduler = "flux"',
        where='queue = "mig-{profile}"\nconstraint = "mig-{profile}"',
        slices='profiles = ["1g.18gb", "2g.35gb"]',
    )
    found = [(c.queue, c.constraint, c.gres) for c in made.candidates]
    assert found == [
        ("mig-1g.18gb", "mig-1g.18gb", "gpu"),
        ("mig-2g.35gb", "mig-2g.35gb", "gpu"),
    ]
    nodes = (
        NodeFacts(
            "n1", ("mig-2g.35gb",), True, 64, 64, 2**38,
            features=("mig-2g.35gb",), gpus={"gpu": 6}, idle_gpus={"gpu": 5},
        ),
    )  # fmt: skip
    queues = {q: QueueFacts(q, True) for q in ("mig-1g.18gb", "mig-2g.35gb")}
    states = states_of(ClusterFacts("c", "1", 0.0, queues, nodes), made.candidates)
    assert [states[c.name].usable_nodes for c in made.candidates] == [0, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"platform": "rome-7742"}, "not a whole GPU"),
        ({"platform": "v100-pcie-32gb"}, "no MIG geometry"),
        ({"slices": 'profiles = ["1g.5gb"]'}, "no MIG profile"),
        ({"slices": 'type_pattern = "slice"'}, "must hold {profile} once"),
        ({"slices": "profiles = []"}, "profiles"),
        ({"more": 'gres = "gpu:1g.18gb"'}, "leave it out"),
        ({"slices": 'profile = "1g.18gb"'}, "profile"),
        (
            {"site": 'scheduler = "flux"', "where": 'queue = "mig"'},
            "same place",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(changes: dict[str, str], words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        site_of(**changes)
    assert words in str(caught.value)
    assert "candidates.0" in str(caught.value)


def test_a_slice_can_be_written_one_by_one_without_a_platform_file() -> None:
    text = SITE.format(
        platform="a100-80gb-mig-2g.20gb", site="", where='partition = "mig"', slices="",
        more='gres = "gpu:2g.20gb"',
    ).replace("[candidates.slices]", "")  # fmt: skip
    path = Path("berth.toml")
    (made,) = build_site(validate(tomllib.loads(text), SiteDocument, source=path), path).candidates
    assert (made.slice_of, made.slice_part) == ("a100-80gb", pytest.approx(2 / 7))
    with pytest.raises(DocumentError, match="no platform"):
        site_of("a100-80gb-mig-9g.90gb")


def test_a_slice_has_its_share_and_the_shipped_ones_agree() -> None:
    known = platforms.load()
    made = {slice_of(p): p for p in every_slice(known)}
    for shipped in known.values():
        found = slice_of(shipped)
        if found is None:
            continue
        ours = made[found]
        assert ours.memory_bytes == pytest.approx(shipped.memory_bytes, rel=0.02)
        assert ours.signature.flops_f32_per_s == pytest.approx(
            shipped.signature.flops_f32_per_s, rel=0.35
        ), shipped.name


def test_a_first_site_file_has_no_candidate_for_what_fills_a_node_up() -> None:
    nodes = (
        NodeFacts(
            "g1", ("mig",), True, 64, 64, 2**38, features=("a100",),
            gpus={"gpu:1g.5gb": 2, "gpu:2g.10gb": 1, "gpu:off1": 4},
        ),
    )  # fmt: skip
    facts = ClusterFacts("c", "1", 0.0, {"mig": QueueFacts("mig", True)}, nodes)
    made = first_site(facts, platforms.load(), Slurm())
    assert [c.gres for c in made.candidates] == ["gpu:1g.5gb", "gpu:2g.10gb"]
    assert all("[candidates.slices]" in " ".join(c.remarks) for c in made.candidates)


def test_states_name_the_types_that_a_queue_has_at_present() -> None:
    site = site_of("a100-40gb")
    nodes = (
        NodeFacts("n1", ("mig",), True, 64, 64, 2**38, gpus={"gpu:1g.5gb": 2, "gpu:off1": 5}),
        NodeFacts("n2", ("mig",), False, 64, 64, 2**38, gpus={"gpu:7g.40gb": 1}),
    )
    facts = ClusterFacts("c", "1", 0.0, {"mig": QueueFacts("mig", True)}, nodes)
    found = states_of(facts, site.candidates)
    assert found["slice-1g.5gb"].gpu_types == ("gpu:1g.5gb", "gpu:off1")
    assert found["slice-1g.5gb"].usable_nodes == 1
    assert found["slice-7g.40gb"].usable_nodes == 0, "its node is down"
