"""berth site init: a first site file from a live Slurm, which Berth itself then accepts."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_slurm import NODES, PARTITIONS, FakeSlurm
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.documents import validate, write_json
from berth.pilot.errors import BerthError, DocumentError
from berth.pilot.instruction_sets import Has, has, unknown
from berth.pilot.platform import Platform
from berth.plugin.calibrate.kinds import chosen_nodes, kinds_of
from berth.plugin.cli.site.init import _nothing_to_place_on, init
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.site import load_site
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.first import FirstSite, first_site
from berth.plugin.site.guess import guess_cpu, guess_gpu, instruction_sets
from berth.plugin.site.write import toml_text
from berth.plugin.slurm.scheduler import Slurm
from berth.policies import Mode
from berth.predictor.hardware import platforms

KNOWN = platforms.shipped()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(init, arguments, catch_exceptions=True)


def node(name: str = "n1", **changes: object) -> NodeFacts:
    values: dict[str, object] = {
        "name": name,
        "queues": ("batch",),
        "usable": True,
        "cores": 32,
        "idle_cores": 32,
        "memory_bytes": 128 * 2**30,
    }
    return NodeFacts(**{**values, **changes})  # type: ignore[arg-type]


def cluster(*nodes: NodeFacts, queues: tuple[str, ...] = ("batch",)) -> ClusterFacts:
    facts = {q: QueueFacts(q, up=True, is_default=i == 0) for i, q in enumerate(queues)}
    return ClusterFacts("c", "v", 0.0, facts, nodes)


def test_the_file_is_written_and_accepted(slurm: FakeSlurm, tmp_path: Path) -> None:
    output = tmp_path / "etc" / "berth.toml"
    done = run("--output", str(output))
    assert done.exit_code == 0, done.output
    site = load_site(output)
    assert site.mode is Mode.SHADOW
    assert site.name == "lab"
    assert [c.name for c in site.candidates] == ["cpu", "gpu", "old"]
    cpu, gpu, _ = site.candidates
    assert (cpu.platform, cpu.cores_per_node, cpu.nodes) == ("rome-7742", 32, 2)
    assert (cpu.max_time_s, cpu.default_time_s) == (172800.0, 3600.0)
    assert (gpu.platform, gpu.gres, gpu.gpus_per_node) == ("h100-80gb", "gpu:h100", 4)
    assert gpu.allowed_accounts == {"physics", "chemistry"}
    assert gpu.allowed_qos == {"high"}
    assert (site.reference_platform, site.reference_queue) == ("rome-7742", "cpu")
    assert "PartitionName=auto Nodes=cpu[1-2]" in done.output


def test_a_partition_that_starts_no_jobs_is_marked_and_not_the_reference(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    inactive = PARTITIONS.replace("State=UP", "State=INACTIVE", 1).replace(
        "State=DRAIN", "State=UP"
    )
    slurm.says("partition", inactive)
    both = NODES.replace("Partitions=gpu,old", "Partitions=gpu")
    slurm.says("node", both.replace("Partitions=cpu  CfgTRES", "Partitions=cpu,old  CfgTRES"))
    done = run("--output", str(tmp_path / "berth.toml"))
    assert done.exit_code == 0, done.output
    assert "CHECK cpu: the partition is INACTIVE: takes no jobs and starts none." in done.output
    assert load_site(tmp_path / "berth.toml").reference_queue == "old"


def test_nothing_is_overwritten_without_force(slurm: FakeSlurm, tmp_path: Path) -> None:
    output = tmp_path / "berth.toml"
    output.write_text("mine")
    done = run("--output", str(output))
    assert isinstance(done.exception, BerthError)
    assert done.exception.exit_status == 2
    assert output.read_text() == "mine"
    assert run("--output", str(output), "--force").exit_code == 0
    assert load_site(output).candidates


def test_a_dry_run_writes_nothing(slurm: FakeSlurm, tmp_path: Path) -> None:
    output = tmp_path / "berth.toml"
    done = run("--output", str(output), "--dry-run")
    assert done.exit_code == 0
    assert 'schema = "berth.site/1"' in done.output
    assert list(tmp_path.glob("berth*")) == []


def test_unknown_hardware_gets_a_stub_that_says_so(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.says("node", "NodeName=n CPUTot=12 RealMemory=64000 State=IDLE Partitions=cpu\n")
    output = tmp_path / "berth.toml"
    done = run("--output", str(output))
    assert "stub, to be benchmarked" in done.output
    site = load_site(output)
    (stub,) = site.platforms.values()
    assert (stub.name, stub.cores) == ("cpu-12c-62g", 12)
    assert "STUB" in stub.description
    assert (tmp_path / "platforms" / "cpu-12c-62g.json").exists()


def test_an_existing_stub_is_not_overwritten_either(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.says("node", "NodeName=n CPUTot=12 RealMemory=64000 State=IDLE Partitions=cpu\n")
    measured = tmp_path / "platforms" / "cpu-12c-62g.json"
    measured.parent.mkdir()
    measured.write_text("measured")
    assert run("--output", str(tmp_path / "berth.toml")).exit_code != 0
    assert measured.read_text() == "measured"
    assert not (tmp_path / "berth.toml").exists()


@pytest.mark.parametrize(
    ("what", "message"),
    [("partition", "Unable to contact slurm controller (connect failure)"), ("node", "")],
)
def test_failures_are_sentences(slurm: FakeSlurm, tmp_path: Path, what: str, message: str) -> None:
    slurm.fails(what, message)
    done = run("--output", str(tmp_path / "berth.toml"))
    assert isinstance(done.exception, BerthError)
    assert list(tmp_path.glob("berth*")) == []


def test_a_place_that_cannot_be_written_is_a_sentence(slurm: FakeSlurm, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("--output", str(tmp_path / "file" / "berth.toml"))
    assert isinstance(done.exception, BerthError)
    assert "cannot be written" in done.exception.message


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


def test_a_cluster_of_the_auto_partition_alone_is_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = cluster(node(queues=("auto",)), queues=("auto",))
    monkeypatch.setattr(Slurm, "read", lambda _: alone)
    done = run("--scheduler", "slurm", "--output", str(tmp_path / "berth.toml"))
    assert isinstance(done.exception, BerthError)
    assert "no partition with nodes in it besides auto" in done.exception.message
    assert "the places are other partitions" in (done.exception.hint or "")


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
    interlagos = site.candidates[0]
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
    plain, milan = site.candidates
    assert "its jobs may also get 1 node with 64 cores (b)" in plain.remarks[0]
    assert plain.instruction_sets == ()  # nothing that all the nodes have is known
    assert "avx512f" in milan.instruction_sets


def test_partitions_that_are_not_for_users_are_no_candidates(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    hidden = PARTITIONS.replace("PartitionName=old", "PartitionName=old Hidden=YES").replace(
        "PartitionName=gpu", "PartitionName=gpu RootOnly=YES"
    )
    slurm.says("partition", hidden)
    output = tmp_path / "berth.toml"
    done = run("--output", str(output))
    assert [c.name for c in load_site(output).candidates] == ["cpu"]
    sentence = "No candidates, as they are not for users: gpu (RootOnly=YES), old (Hidden=YES)."
    assert f"# {sentence}\n" in output.read_text()
    assert sentence in done.output


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
