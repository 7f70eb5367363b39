"""The candidates and platforms of a first site file, from what a scheduler tells."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluster_facts import KNOWN, cluster, node
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.documents import validate, write_json
from berth.pilot.errors import DocumentError
from berth.pilot.platform import Platform
from berth.plugin.calibrate.kinds import chosen_nodes, kinds_of
from berth.plugin.cli.site.init import _nothing_to_place_on
from berth.plugin.first_site.first import FirstSite, first_site
from berth.plugin.first_site.write import toml_text
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.site import load_site
from berth.plugin.site.document import SiteDocument
from berth.plugin.slurm.scheduler import Slurm


def test_each_gpu_type_is_a_candidate() -> None:
    site = first_site(
        cluster(node("a", gpus={"gpu:a100": 4}), node("b", gpus={"gpu:v100": 2, "gpu:1g.10gb": 7})),
        KNOWN,
        Slurm(),
    )
    found = {(c.gres, c.gpus_per_node) for c in site.candidates}
    assert found == {("gpu:a100", 4), ("gpu:v100", 2), ("gpu:1g.10gb", 7)}
    assert all(c.constraint is None for c in site.candidates)


def test_the_auto_partition_is_no_candidate() -> None:
    both = node(queues=("batch", "auto"))
    site = first_site(cluster(both, queues=("batch", "auto")), KNOWN, Slurm())
    assert [c.queue.name for c in site.candidates] == ["batch"]
    assert 'auto_partition = "auto"' in toml_text(site, name="x")


def test_partitions_for_debugging_and_large_memory_wait_for_a_check(tmp_path: Path) -> None:
    names = ("batch", "debug", "gpudebug", "himem", "old", "preempt", "short", "testbed-old")
    shared = {"short": ("short", "batch")}
    facts = cluster(*(node(name, queues=shared.get(name, (name,))) for name in names), queues=names)
    queues = dict(facts.queues)
    for name in ("short", "old"):  # none but `old` has its nodes
        queues[name] = replace(queues[name], max_time_s=1800.0)
    queues["batch"] = replace(queues["batch"], max_time_s=86_400.0)
    site = first_site(replace(facts, queues=queues), KNOWN, Slurm())
    text = toml_text(site, name="x")
    offered = {place["partition"] for place in tomllib.loads(text)["candidates"]}
    assert offered == {"batch", "old", "testbed-old"}
    assert "# CHECK: gpudebug seems to be for debugging (by its name)" in text
    assert "# CHECK: short seems to be for debugging (its jobs run for at most 30 minutes)" in text
    assert site.reference_queue == "batch"
    asked = text.replace("# [[candidates]]", "[[candidates]]")
    for key in ("name", "platform", "partition", "nodes", "cores_per_node", "memory_per_node"):
        asked = asked.replace(f"\n# {key} = ", f"\n{key} = ")
    assert len(tomllib.loads(asked)["candidates"]) == len(names)


def test_a_cluster_of_one_partition_is_offered_whatever_its_name() -> None:
    site = first_site(cluster(node("n", queues=("debug",)), queues=("debug",)), KNOWN, Slurm())
    assert [(c.queue.name, c.role) for c in site.candidates] == [("debug", None)]


words = st.text(min_size=1, max_size=12)
any_node = st.builds(
    node,
    st.just("n"),
    queues=st.just(("q",)),
    cores=st.integers(1, 512),
    memory_bytes=st.integers(0, 2**44),
    architecture=words,
    features=st.lists(words, max_size=4).map(tuple),
    gpus=st.dictionaries(words.map(lambda w: f"gpu:{w}"), st.integers(0, 16), max_size=2),
)


@given(
    st.builds(
        QueueFacts,
        name=st.just("q"),
        up=st.booleans(),
        is_default=st.booleans(),
        max_time_s=st.none() | st.floats(1, 1e7),
        allowed_accounts=st.none() | st.lists(words, max_size=3).map(tuple),
    ),
    st.lists(any_node, min_size=1, max_size=4),
)
def test_whatever_the_names_are_the_file_is_toml_with_known_keys(
    queue: QueueFacts, nodes: list[NodeFacts]
) -> None:
    site = first_site(ClusterFacts("c", "v", 0.0, {"q": queue}, tuple(nodes)), KNOWN, Slurm())
    data = tomllib.loads(toml_text(site, name="any"))
    # Names that no scheduler has (control characters, colons in a gres type) may be refused.
    with suppress(DocumentError):
        validate(data, SiteDocument, source="berth.toml")
    assert all(isinstance(stub, Platform) for stub in site.stubs.values())


def test_kinds_without_common_nodes_are_platforms_of_their_own() -> None:
    one, two = node(name="a", queues=("x",)), node(name="b", queues=("y",))
    both = node(name="a", queues=("x", "z"))
    site = first_site(cluster(one, two, queues=("x", "y")), KNOWN, Slurm())
    assert len({c.platform for c in site.candidates}) == 2
    site = first_site(cluster(both, queues=("x", "z")), KNOWN, Slurm())
    assert len({c.platform for c in site.candidates}) == 1


def by_name(site: FirstSite) -> dict[str, tuple[str | None, int]]:
    return {c.name: (c.constraint, c.nodes) for c in site.candidates}


H100 = {"gpu:h100": 4}
A100 = {"gpu": 4}
KINDS = {
    "by a feature": (
        [("a", ("rome", "rack1"), 32, {}), ("b", ("rome", "rack2"), 32, {}),
         ("c", ("milan", "rack2"), 64, {})],
        {"batch-rome": ("rome", 2), "batch-milan": ("milan", 1)},
    ),
    "by a combination": (
        [("a1", ("rome", "ib"), 32, {}), ("a2", ("rome", "ib"), 32, {}),
         ("b", ("rome", "bigmem"), 64, {}), ("c", ("milan", "ib"), 48, {})],
        {"batch-rome-ib": ("rome&ib", 2), "batch-bigmem": ("bigmem", 1),
         "batch-milan": ("milan", 1)},
    ),
    "the same GPUs": (
        [("a", ("genoa",), 96, H100), ("b", ("sapphirerapids",), 64, H100),
         ("c", ("genoa",), 96, {})],
        {"batch-genoa": ("genoa", 2), "batch-h100-genoa": ("genoa", 1),
         "batch-h100-sapphirerapids": ("sapphirerapids", 1)},
    ),
    "GPUs without a type": (
        [("a", ("a100",), 32, A100), ("b", ("v100",), 32, A100)],
        {"batch-gpu-a100": ("a100", 1), "batch-gpu-v100": ("v100", 1)},
    ),
    "by nothing": ([("a", (), 64, {}), ("b", (), 32, {})], {"batch": (None, 2)}),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "places"), KINDS.values(), ids=KINDS)
def test_kinds_of_nodes_are_told_apart(
    nodes: list[Any], places: dict[str, tuple[str | None, int]]
) -> None:
    """Those that nothing tells apart are one place, of the smallest, that says so."""
    facts = cluster(*(node(n, features=f, cores=c, gpus=gpus) for n, f, c, gpus in nodes))
    site = first_site(facts, KNOWN, Slurm())
    assert by_name(site) == places
    alone = [place.remarks for place in site.candidates if place.name == "batch"]
    assert all("several kinds" in remarks[0] for remarks in alone)
    assert min(place.cores_per_node for place in site.candidates) == min(n[2] for n in nodes)


def test_nodes_that_no_features_tell_apart_are_counted_and_named() -> None:
    """A constraint that reaches nodes with GPUs as well: only they have a feature of their own."""
    gpus = {"gpu:m2070q": 4}
    site = first_site(
        cluster(
            *(node(f"n{i}", features=("gpu", "interlagos"), gpus=gpus, cores=64) for i in (1, 2)),
            *(node(f"n{i}", features=("interlagos",), cores=64) for i in range(3, 9)),
            *(node(f"n{i}", features=("broadwell",), cores=40) for i in range(9, 26)),
        ),
        KNOWN,
        Slurm(),
    )
    assert by_name(site) == {
        "batch-interlagos": ("interlagos", 8),
        "batch-broadwell": ("broadwell", 17),
        "batch-m2070q": (None, 2),
    }
    interlagos = site.candidates[1]
    assert interlagos.cores_per_node == 64
    assert (
        "meant for 6 nodes, but the constraint interlagos also selects 2 GPU nodes with 64 cores "
        "(n[1-2])"
    ) in interlagos.remarks[0]
    assert "# CHECK: meant for 6 nodes" in toml_text(site, name="x")


def test_calibrate_counts_the_nodes_that_a_place_reaches_and_measures_its_own(
    tmp_path: Path,
) -> None:
    gpus = {"gpu:h100": 4}
    facts = cluster(
        *(node(f"n{i}", features=("rome", "gpu"), gpus=gpus, cores=128) for i in (1, 2)),
        *(node(f"n{i}", features=("rome",), cores=128) for i in range(3, 9)),
        *(node(f"n{i}", features=("milan",), cores=64) for i in range(9, 26)),
    )
    written = first_site(facts, KNOWN, Slurm())
    path = tmp_path / "berth.toml"
    for name, stub in written.stubs.items():
        write_json(tmp_path / "platforms" / f"{name}.json", stub)
    path.write_text(toml_text(written, name="x"))
    rome, *_ = kinds_of(load_site(path), facts)
    assert (rome.name, len(rome.nodes)) == ("rome-7742", 8)
    assert [n.name for n in chosen_nodes(rome, facts, 3, 60.0)] == ["n3", "n4", "n5"]


def test_a_kind_without_features_is_no_constraint_and_a_check() -> None:
    site = first_site(
        cluster(node("a"), node("b", cores=64, features=("milan", "avx512"))), KNOWN, Slurm()
    )
    assert by_name(site) == {"batch": (None, 2), "batch-milan": ("milan", 1)}
    milan, plain = site.candidates
    assert "its jobs may also get 1 node with 64 cores (b)" in plain.remarks[0]
    assert plain.instruction_sets == ()  # nothing that all the nodes have is known
    assert "avx512f" in milan.instruction_sets


def test_a_cluster_without_partitions_for_users_is_told_so(tmp_path: Path) -> None:
    facts = cluster(node())
    queue = QueueFacts("batch", up=True, not_for_users="RootOnly=YES")
    site = first_site(replace(facts, queues={"batch": queue}), KNOWN, Slurm())
    assert not site.candidates
    error = _nothing_to_place_on(site, "Slurm", "partition")
    assert "batch is RootOnly=YES" in error.message


def test_thousands_of_node_names_are_a_range(tmp_path: Path) -> None:
    site = first_site(cluster(*(node(f"cn{i:04d}") for i in range(1, 4501))), KNOWN, Slurm())
    text = toml_text(site, name="x")
    assert "Nodes=cn[0001-4500] State=UP" in text
    assert len(text) < 3000
