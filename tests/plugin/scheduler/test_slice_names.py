"""Types of MIG slices are resolved by the GPU model in their names, then by the nearest size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.platform import PlatformKind
from berth.plugin.first_site.guess import guess_gpu, meanings, slice_named
from berth.plugin.scheduler import NodeFacts
from berth.predictor.hardware import platforms
from berth.predictor.hardware.mig.slices import geometries

KNOWN = platforms.shipped()


def node(*features: str) -> NodeFacts:
    return NodeFacts("n", (), True, 4, 4, 2**30, features=features)


@pytest.mark.parametrize(
    ("kind", "platform"),
    [
        ("nvidia_a100_1g.10gb", "a100-80gb-mig-1g.10gb"),
        ("a100_1g.10gb", "a100-80gb-mig-1g.10gb"),
        ("a100_1g.5gb", "a100-mig-1g.5gb"),
        ("a100_3g.39gb", "a100-80gb-mig-3g.40gb"),
        ("nvidia_a100_80gb_pcie_1g.10gb", "a100-80gb-mig-1g.10gb"),
        ("nvidia_a100-sxm4-40gb_1g.5gb", "a100-mig-1g.5gb"),
        ("nvidia_a100-sxm4-40gb_1g.10gb", "a100-40gb-mig-1g.10gb"),
        ("a100_mig_2g.20gb", "a100-80gb-mig-2g.20gb"),
        ("a100_1g.5gb+me", "a100-40gb-mig-1g.5gb+me"),
        ("a100_1g.5gb.me", "a100-40gb-mig-1g.5gb+me"),
        ("nvidia_h100_80gb_hbm3_1g.10gb", "h100-mig-1g.10gb"),
        ("nvidia_h100_80gb_hbm3_1g.10gb+me", "h100-80gb-mig-1g.10gb+me"),
        ("nvidia_h200_1g.16gb", "h200-141gb-mig-1g.18gb"),
        ("a30_1g.6gb", "a30-24gb-mig-1g.6gb"),
        ("a30_2g.11gb", "a30-24gb-mig-2g.12gb"),
        ("a30_2g.11.75gb", "a30-24gb-mig-2g.12gb"),
        ("nvidia_gh200_480gb_1g.11gb", "gh200-96gb-mig-1g.12gb"),
        ("nvidia_b200_3g.90gb", "b200-sxm-180gb-mig-3g.90gb"),
    ],
)
def test_the_gpu_in_the_name_decides(kind: str, platform: str) -> None:
    guess = guess_gpu(f"gpu:{kind}", node(), KNOWN)
    assert guess is not None
    assert (guess.platform.name, guess.doubt) == (platform, "")
    assert guess.platform.kind is PlatformKind.MIG


@pytest.mark.parametrize("kind", ["1g.10gb", "3g.39gb", "1g.10gb+me", "mig-3g.40gb"])
def test_without_a_gpu_in_the_name_it_is_a_guess_that_names_the_others(kind: str) -> None:
    guess = guess_gpu(f"gpu:{kind}", node("ib", "rome"), KNOWN)
    assert guess is not None
    assert "does not say of which GPU" in guess.doubt
    assert "a100-80gb" in guess.platform.name + guess.doubt


def test_a_feature_of_the_node_names_the_gpu() -> None:
    guess = guess_gpu("gpu:1g.10gb", node("rome", "a100"), KNOWN)
    assert guess is not None
    assert (guess.platform.name, guess.doubt) == ("a100-80gb-mig-1g.10gb", "")


def test_where_several_models_have_such_a_slice_the_others_are_named() -> None:
    guess = guess_gpu("gpu:h100_1g.10gb", node(), KNOWN)
    assert guess is not None
    assert guess.platform.name == "h100-mig-1g.10gb"
    assert guess.doubt == "it may also be h100-pcie-80gb-mig-1g.10gb"


@pytest.mark.parametrize(
    "kind",
    ["x999_1g.10gb", "a100_1g.7gb", "v100_1g.5gb", "7g.999gb", "a100_5g.40gb", "a30_3g.18gb"],
)
def test_what_no_gpu_has_is_no_slice_of_another(kind: str) -> None:
    assert guess_gpu(f"gpu:{kind}", node(), KNOWN) is None


@pytest.mark.parametrize("gpu", geometries())
def test_every_profile_of_every_gpu_is_found_by_its_name(gpu: str) -> None:
    for profile in geometries()[gpu].profiles:
        asked = slice_named(f"nvidia_{gpu.lower()}_{profile.name}")
        assert asked is not None
        found = meanings(asked).slices
        assert (gpu, profile.name) in {(one.geometry.gpu, one.profile.name) for one in found}


@given(st.text(max_size=40) | st.from_regex(r"[a-z0-9_]{0,9}[0-9]g\.[0-9.]{1,6}gb[+.a-z-]{0,8}"))
def test_any_text_names_a_slice_or_none(text: str) -> None:
    guess = guess_gpu(f"gpu:{text}", node(text), KNOWN)
    assert guess is None or guess.platform.is_gpu
