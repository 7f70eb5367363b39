"""The site file: what it says becomes a Site; what is wrong with it is one sentence and its key.

Its page, docs/site-file.md, has the code's keys, and an example that is accepted.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.pilot.documents import write_json
from berth.pilot.errors import DocumentError
from berth.pilot.units import parse_duration_s
from berth.plugin.doctor.bundles import check_candidates
from berth.plugin.first_site.stub import cpu_stub, gpu_stub
from berth.plugin.site import demo_site, load, load_site
from berth.plugin.site.reference import with_keys
from berth.policies.codes import Code
from berth.policies.values import Mode

SCHEMA = 'schema = "berth.site/1"\n'
CPU = """
[[candidates]]
name = "cpu"
platform = "rome-7742"
partition = "batch"
"""
GPU = """
[[candidates]]
name = "gpu"
platform = "h100-80gb"
partition = "gpu"
gres = "gpu:h100"
gpus_per_node = 4
cores_per_node = 64
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "berth.toml"
    path.write_text(text)
    return path


def refused(folder: Path, text: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        load_site(write(folder, text))
    assert caught.value.exit_status == 2
    assert "\n" not in caught.value.message
    return caught.value


def test_an_almost_empty_file_has_the_documented_defaults(tmp_path: Path) -> None:
    site = load_site(write(tmp_path, SCHEMA))
    assert site.mode is Mode.SHADOW
    assert site.policy.objective == "fastest"
    assert site.policy.strict
    assert not site.policy.allow_prior
    assert site.daemon.deadline_ms == 50
    assert site.candidates == ()


def test_a_candidate_takes_from_its_platform_what_it_does_not_say(tmp_path: Path) -> None:
    site = load_site(write(tmp_path, SCHEMA + CPU + GPU))
    cpu, gpu = site.candidates
    rome, h100 = site.platforms["rome-7742"], site.platforms["h100-80gb"]
    assert (cpu.cores_per_node, cpu.memory_bytes_per_node) == (rome.cores, rome.memory_bytes)
    assert cpu.instruction_sets == rome.instruction_sets
    assert cpu.targets == ("cpu",)
    assert (gpu.gpu_memory_bytes, gpu.memory_bytes_per_node) == (int(h100.memory_bytes), None)
    assert gpu.targets == ("cuda",)
    assert not cpu.is_gpu
    assert gpu.is_gpu


def test_prices_come_from_the_candidate_else_from_the_platform(tmp_path: Path) -> None:
    text = """
[[platforms]]
name = "rome-7742"
price_per_hour = 2.56
[[platforms]]
name = "h100-80gb"
price_per_hour = 4
"""
    cpu, gpu = load_site(write(tmp_path, SCHEMA + text + CPU + GPU)).candidates
    assert cpu.price_per_core_hour == pytest.approx(2.56 / cpu.cores_per_node)
    assert (gpu.price_per_gpu_hour, gpu.price_per_core_hour) == (4.0, None)
    own = CPU + "price_per_gpu_hour = 9.5\n"
    cpu = load_site(write(tmp_path, SCHEMA + text + own)).candidates[0]
    assert (cpu.price_per_gpu_hour, cpu.price_per_core_hour) == (9.5, None)


def test_units_are_read(tmp_path: Path) -> None:
    text = CPU + 'max_time = "2-12:00:00"\ndefault_time = "90m"\nmemory_per_node = "1.5T"\n'
    cpu = load_site(write(tmp_path, SCHEMA + text)).candidates[0]
    assert (cpu.max_time_s, cpu.default_time_s) == (60 * 3600.0, 5400.0)
    assert cpu.memory_bytes_per_node == 1536 * 2**30


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    stub = cpu_stub("ours", cores=8, memory_bytes=2**34, architecture="x86_64", instruction_sets=())
    write_json(tmp_path / "hw" / "ours.json", stub)
    text = """
[daemon]
socket = "run/berth.sock"
[[platforms]]
name = "ours"
file = "hw/ours.json"
"""
    site = load_site(write(tmp_path, SCHEMA + text + CPU.replace("rome-7742", "ours")))
    assert site.daemon.socket == tmp_path / "run" / "berth.sock"
    assert site.candidates[0].cores_per_node == 8


def test_the_demo_site_has_both_kinds_and_all_prices() -> None:
    site = demo_site()
    assert {c.is_gpu for c in site.candidates} == {True, False}
    assert all(c.price_per_core_hour or c.price_per_gpu_hour for c in site.candidates)
    assert len({c.platform for c in site.candidates}) >= 5


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("", "schema", "is missing"),
        ('schema = "berth.site/2"', "schema", "made by a newer Berth"),
        ('schema = "berth.profile/1"', "schema", 'not "berth.site/1"'),
        ("schema = 1", "schema", 'not "berth.site/1"'),
        (SCHEMA + "mode = 7", "mode", ""),
        (SCHEMA + 'mode = "on"', "mode", "'off', 'shadow', 'advise' or 'enforce'"),
        (SCHEMA + "[daemon]\ndeadline_ms = '50'", "daemon.deadline_ms", "valid integer"),
        (SCHEMA + "[daemon]\ndeadline_ms = 0", "daemon.deadline_ms", "greater than"),
        (SCHEMA + "[daemon]\nstate_refresh_s = nan", "daemon.state_refresh_s", "finite"),
        (SCHEMA + "[daemon]\nstate_refresh_s = inf", "daemon.state_refresh_s", "finite"),
        (SCHEMA + "[daemon]\nscheduler_users = []", "daemon.scheduler_users", "at least 1"),
        (SCHEMA + "[policy]\nstale_after_s = -1", "policy.stale_after_s", "greater than 0"),
        (SCHEMA + "policy = 3", "policy", "object"),
        (SCHEMA + "candidates = 3", "candidates", "array"),
        (SCHEMA + CPU + "price_per_core_hour = -0.1", "price_per_core_hour", "greater than"),
        (SCHEMA + CPU + "max_time = 3600", "max_time", "needs a duration with its unit"),
        (SCHEMA + CPU + 'max_time = "3 fortnights"', "max_time", "is not a duration"),
        (SCHEMA + CPU + 'max_time = "0s"', "max_time", "greater than 0"),
        (SCHEMA + CPU + "memory_per_node = 128", "memory_per_node", "needs a memory size"),
        (SCHEMA + CPU + 'memory_per_node = "3 crates"', "memory_per_node", "not a memory size"),
        (SCHEMA + CPU + 'gres = "gpu:h100"', "gres", "rome-7742 is a CPU"),
        (SCHEMA + CPU + "gpus_per_node = 2", "gpus_per_node", "rome-7742 is a CPU"),
        (SCHEMA + GPU + 'constraint = ""', "constraint", "at least 1 character"),
        (SCHEMA + GPU.replace("gpu:h100", "gpu:h100:4"), "gres", "pattern"),
        (SCHEMA + GPU.replace("cores_per_node = 64", ""), "cores_per_node", "is missing"),
        (SCHEMA + CPU + CPU.replace("batch", "b"), "candidates.1.name", "defined twice"),
        (
            SCHEMA + CPU + CPU.replace('"cpu"', '"other"'),
            "candidates.1.partition",
            "same place as candidate 'cpu'",
        ),
        (
            SCHEMA + '[site]\nauto_partition = "batch"' + CPU,
            "candidates.0.partition",
            "means Berth chooses",
        ),
        (
            SCHEMA + '[[platforms]]\nname = "quartz"\n' * 2,
            "platforms.1.name",
            "defined twice",
        ),
        (
            SCHEMA + CPU + 'max_time = "1h"\ndefault_time = "2h"',
            "candidates.0",
            "default_time is longer than max_time",
        ),
        (SCHEMA + CPU.replace('name = "cpu"', 'name = "a b"'), "candidates.0.name", "pattern"),
        (SCHEMA + CPU.replace('partition = "batch"', ""), "candidates.0.partition", "is missing"),
    ],
)
def test_each_mistake_is_a_sentence_that_names_the_key(
    tmp_path: Path, text: str, key: str, says: str
) -> None:
    error = refused(tmp_path, text)
    assert key in error.message
    assert says in error.message
    assert "berth.toml" in error.message


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        (SCHEMA + "[polcy]", "polcy", "policy"),
        (SCHEMA + "[policy]\nallow_priors = true", "policy.allow_priors", "allow_prior"),
        (SCHEMA + CPU + "max_tim = '1h'", "candidates.0.max_tim", "max_time"),
        (SCHEMA + CPU.replace("rome-7742", "rome-7724"), "candidates.0.platform", "rome-7742"),
        (SCHEMA + '[[platforms]]\nname = "quarz"', "platforms.0.name", "quartz"),
        (SCHEMA + '[site]\nreference_platform = "quarz"', "site.reference_platform", "quartz"),
        (
            SCHEMA + CPU + "[candidates.translation]\ncpus_for_gpu = 3",
            "candidates.0.translation.cpus_for_gpu",
            "cpus_per_gpu",
        ),
    ],
)
def test_an_unknown_name_comes_with_the_nearest_known_one(
    tmp_path: Path, text: str, key: str, near: str
) -> None:
    error = refused(tmp_path, text)
    assert key in error.message
    assert error.hint == f"did you mean {near!r}?"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"schema = ", "is not TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"schema": "berth.site/1"}', "is not TOML"),
        (SCHEMA.encode() + b'[site]\nauto_partition = "a"\nauto_partition = "b"', "is not TOML"),
        (SCHEMA.encode() + b"x = " + b"[" * 5000 + b"]" * 5000, "nested deeper than"),
        (SCHEMA.encode() + b"x = " + b"[" * 40 + b"]" * 40, "nested deeper than"),
        (SCHEMA.encode() + b"x = [" + b"0," * 200_000 + b"]", "more than 100000"),
        (b"#" * (8 * 2**20 + 1), "larger than"),
    ],
)
def test_hostile_text_is_one_sentence(tmp_path: Path, raw: bytes, says: str) -> None:
    path = tmp_path / "berth.toml"
    path.write_bytes(raw)
    with pytest.raises(DocumentError, match=says) as caught:
        load_site(path)
    assert len(caught.value.message) < 500


def test_too_many_keys_are_refused(tmp_path: Path) -> None:
    text = SCHEMA + "\n".join(f"k{i} = 1" for i in range(150_000))
    assert "keys" in refused(tmp_path, text).message


def test_a_missing_file_and_a_folder_are_sentences(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "no.toml", "does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(DocumentError, match=says):
            load_site(path)


def test_a_broken_platform_file_is_named_with_its_key(tmp_path: Path) -> None:
    text = SCHEMA + '[[platforms]]\nname = "ours"\nfile = "ours.json"\n'
    error = refused(tmp_path, text)
    assert "platforms.0.file" in error.message
    assert "ours.json: does not exist" in error.message
    write_json(tmp_path / "ours.json", gpu_stub("theirs", architecture="x86_64"))
    error = refused(tmp_path, text)
    assert "holds platform 'theirs'" in error.message


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**30) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if value is None:
        return "nan"
    if isinstance(value, int):
        return str(value)
    return '"' + "".join(f"\\U{ord(c):08x}" for c in value if not 0xD800 <= ord(c) < 0xE000) + '"'


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["site", "policy", "daemon", "coverage", "policy.weights"]),
            st.sampled_from(
                ["name", "mode", "deadline_ms", "objective", "wait", "users", "socket"]
            ),
            values,
        ),
        max_size=3,
        unique_by=lambda item: item[0],
    )
)
def test_any_values_are_taken_or_refused_with_a_sentence(
    tmp_path: Path, entries: list[tuple[str, str, Any]]
) -> None:
    text = SCHEMA + "".join(f"[{t}]\n{k} = {_toml(v)}\n" for t, k, v in entries)
    with suppress(DocumentError):
        load_site(write(tmp_path, text))


def test_durations() -> None:
    assert [parse_duration_s(t) for t in ("90s", "1.5h", "2d", "1:30:00", "00:00:05")] == [
        90.0, 5400.0, 172800.0, 5400.0, 5.0,
    ]  # fmt: skip
    for text in ("", "12", "h", "-1h", "1e3s", "1:2:3:4", "1-2"):
        with pytest.raises(ValueError, match="is not a duration"):
            parse_duration_s(text)


def test_coverage_takes_in_and_leaves_out(tmp_path: Path) -> None:
    text = """
[coverage]
interactive = false
users = { exclude = ["root"] }
accounts = { include = ["physics"] }
partitions = { include = ["auto"], exclude = ["debug"] }
unnamed_partition = false
"""
    covers = load_site(write(tmp_path, SCHEMA + text)).coverage.why_not

    def code(**job: Any) -> Code | None:
        found = covers(**{"user": "ada", "account": "physics", "queue": "auto", **job})
        return None if found is None else found[0]

    assert code() is None
    assert code(user="root") is Code.NOT_COVERED_USER
    assert code(account=None) is Code.NOT_COVERED_ACCOUNT
    assert code(account="chemistry") is Code.NOT_COVERED_ACCOUNT
    assert code(queue="debug") is Code.NOT_COVERED_QUEUE
    assert code(queue=None) is Code.NOT_COVERED_QUEUE
    assert code(queue=None, asked=True) is None
    assert code(interactive=True) is Code.NOT_COVERED_KIND
    assert code(het=True) is Code.NOT_COVERED_KIND
    assert code(array=True) is None


def test_the_digest_changes_with_what_the_file_says(tmp_path: Path) -> None:
    first = load_site(write(tmp_path, SCHEMA + CPU)).digest
    assert load_site(write(tmp_path, SCHEMA + "# a remark\n" + CPU)).digest == first
    assert load_site(write(tmp_path, SCHEMA + CPU + "nodes = 3\n")).digest != first


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ('[site]\nscheduler = "slum"', "site.scheduler", "there is no scheduler 'slum'; did you"),
        ('[policy]\nobjective = "fastes"', "policy.objective", "no objective 'fastes'; did you"),
    ],
)
def test_a_name_that_nothing_is_registered_for_is_refused(
    tmp_path: Path, text: str, key: str, says: str
) -> None:
    error = refused(tmp_path, SCHEMA + text)
    assert f"{key}: " in error.message
    assert says in error.message


def test_an_unknown_instruction_set_is_kept_and_named_by_the_doctor(tmp_path: Path) -> None:
    text = (Path(load.__file__).parent / "demo.toml").read_text()
    text = text.replace('["x86-64-v4"]', '["avx1024"]')
    (tmp_path / "berth.toml").write_text(text)
    site = load_site(tmp_path / "berth.toml")
    assert any(c.instruction_sets == ("avx1024",) for c in site.candidates)
    assert any("avx1024; kept" in finding.text for finding in check_candidates(site))


PAGE = Path(__file__).parents[2] / "docs" / "site-file.md"


def test_the_tables_of_keys_are_in_step() -> None:
    page = PAGE.read_text()
    assert with_keys(page) == page, "run: python -m berth.plugin.site.reference docs/site-file.md"


def test_the_example_is_accepted(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example is not None
    path = tmp_path / "berth.toml"
    path.write_text(example.group(1))
    site = load_site(path)
    assert [c.name for c in site.candidates] == ["rome", "a100"]
