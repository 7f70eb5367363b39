"""mig-parted's YAML: its own files are read, unknown fields named, and written text read back."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from berth.pilot.errors import DocumentError, ToolMissing
from berth.plugin.mig.parted import MigConfigSpec, entries, named, parse, read, write
from berth.policies.mig import Layout, lookup
from berth.policies.mig.layout import arrange, enumerate_states

EXAMPLE = """\
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false

  all-enabled:
    - devices: all
      mig-enabled: true
      mig-devices: {}

  all-1g.10gb:
    # Two kinds of GPU under one name
    - device-filter: ["0x233010DE", "0x20B210DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7
    - device-filter: "0x20B010DE"
      devices: [0, 2]
      mig-enabled: true
      mig-devices:
        1g.10gb: 4
"""


def test_files_as_mig_parted_ships_them_are_read() -> None:
    config = parse(EXAMPLE, source="config.yaml")
    assert list(config.configs) == ["all-disabled", "all-enabled", "all-1g.10gb"]
    assert named(config, "all-disabled", "c") == (MigConfigSpec(devices="all", mig_enabled=False),)
    assert named(config, "all-enabled", "c") == (MigConfigSpec(devices="all", mig_enabled=True),)
    first, second = named(config, "all-1g.10gb", "c")
    assert first.device_filter == ("0x233010DE", "0x20B210DE")
    assert second == MigConfigSpec(
        devices=[0, 2], mig_enabled=True, mig_devices={"1g.10gb": 4}, device_filter=("0x20B010DE",)
    )


def test_the_filter_and_the_numbers_say_which_devices_are_meant() -> None:
    first, second = named(parse(EXAMPLE, source="c"), "all-1g.10gb", "c")
    assert first.covers(5, lookup("H100-80GB").device_filters)
    assert not first.covers(5, lookup("A100-40GB").device_filters)
    assert second.covers(2, lookup("A100-40GB").device_filters)
    assert not second.covers(1, lookup("A100-40GB").device_filters)


@pytest.mark.parametrize("gpu", ["A30", "A100-40GB", "RTX-PRO-6000", "RTX-PRO-4500"])
def test_every_configuration_goes_out_and_comes_back(gpu: str) -> None:
    geometry = lookup(gpu)
    layouts = enumerate_states(geometry.plain()).layouts
    devices = [(n, geometry, layout, True) for n, layout in enumerate(layouts)]
    text = write({"berth": entries(devices)})
    back = named(parse(text, source="written"), "berth", "written")
    for index, layout in enumerate(layouts):
        (entry,) = [e for e in back if e.covers(index, geometry.device_filters)]
        assert arrange(geometry, entry.mig_devices, current=layout) == layout


@settings(deadline=None, max_examples=examples(200))
@given(
    st.dictionaries(
        st.from_regex(r"[a-z1][a-z0-9.+-]{0,9}", fullmatch=True) | st.sampled_from(["no", "null"]),
        st.lists(
            st.builds(
                MigConfigSpec,
                devices=st.just("all") | st.lists(st.integers(0, 15), unique=True),
                mig_enabled=st.just(True),
                mig_devices=st.dictionaries(st.sampled_from(["1g.5gb", "1g.5gb+me"]),
                                            st.integers(0, 7)),
                device_filter=st.lists(st.just("0x20B010DE"), max_size=2).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
        max_size=3,
    )
)  # fmt: skip
def test_what_is_written_is_read_back(configs: dict[str, tuple[MigConfigSpec, ...]]) -> None:
    assert parse(write(configs), source="written").configs == configs


def test_the_text_is_spelt_as_mig_parted_spells_it() -> None:
    a100 = lookup("A100-40GB")
    layout = Layout.parse("3g.20gb@4 1g.5gb@0 1g.5gb@1 2g.10gb@2")
    devices = [(0, a100, layout, True), (2, a100, layout, True), (1, a100, Layout(), False)]
    assert write({"all-balanced": entries(devices)}) == (
        "version: v1\n"
        "mig-configs:\n"
        "  all-balanced:\n"
        "    - devices: [0, 2]\n"
        "      mig-enabled: true\n"
        "      mig-devices:\n"
        '        "1g.5gb": 2\n'
        '        "2g.10gb": 1\n'
        '        "3g.20gb": 1\n'
        "    - devices: [1]\n"
        "      mig-enabled: false\n"
    )


ENTRY = "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: v1\nmig-configs: {}\nextra: 1", "extra: is not a known key"),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-device: {}}]}",
            "mig-configs.a.0.mig-device: is not a known key",
        ),
        ("version: v2\nmig-configs: {}", "version: input should be 'v1' (it is 'v2')"),
        ("mig-configs: {}", "version: is missing"),
        ("version: v1", "mig-configs: is missing"),
        ("version: v1\nmig-configs: {a: {}}", "mig-configs.a: input should be a valid array"),
        ("version: v1\nmig-configs: {1: []}", "keys must be plain words"),
        ("version: v1\nmig-configs: {a: [1]}", "mig-configs.a.0: input should be an object"),
        ("version: v1\nmig-configs: {a: [{devices: all}]}", "mig-enabled: is missing"),
        ("version: v1\nmig-configs: {a: [{mig-enabled: true}]}", "devices: is missing"),
        (
            "version: v1\nmig-configs: {a: [{devices: [0, 0], mig-enabled: true}]}",
            "names a device twice",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: [-1], mig-enabled: true}]}",
            "devices.0: input should be greater than or equal to 0",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: false, "
            "mig-devices: {1g.5gb: 1}}]}",
            "must be empty where MIG is off",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, "
            "mig-devices: {1g.5gb: x}}]}",
            "mig-devices.1g.5gb: input should be a valid integer",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, "
            "device-filter: 0x20B010DE}]}",
            "device-filter.0: input should be a valid string",
        ),
        ("[]", "where an object is needed"),
        ("a: b: c", "is not YAML that can be used"),
        ("version: v1\nversion: v1", "'version' is given twice"),
        ("version: &x v1\nmig-configs: {a: *x}", "aliases are not accepted"),
        ("? [1]\n: 2", "keys must be plain words"),
        ("!!python/object/apply:os.system ['true']", "is not YAML that can be used"),
        ("[" * 5000, "is not YAML that can be used"),
        ("\x00", "is not YAML that can be used"),
    ],
)
def test_what_the_format_does_not_have_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        parse(text, source="config.yaml")
    assert message in error.value.message
    assert error.value.message.startswith("config.yaml:")


@settings(deadline=None)
@given(st.text() | st.binary())
def test_no_text_gives_a_traceback(text: str | bytes) -> None:
    with contextlib.suppress(DocumentError):
        parse(text, source="config.yaml")


def test_a_file_that_is_missing_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        read(tmp_path / "none.yaml")
    (tmp_path / "big.yaml").write_text("#" * 2**20 + "\n")
    with pytest.raises(DocumentError, match="larger than"):
        read(tmp_path / "big.yaml")


def test_an_unknown_configuration_lists_those_that_there_are() -> None:
    with pytest.raises(DocumentError, match="no configuration 'x'") as error:
        named(parse(EXAMPLE, source="c"), "x", "c")
    assert "all-1g.10gb" in (error.value.hint or "")


def test_without_a_yaml_library_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ToolMissing, match="PyYAML"):
        parse(EXAMPLE, source="c")


def test_any_yaml_reader_reads_what_is_written() -> None:
    text = write(
        {
            "a": (
                MigConfigSpec(
                    devices="all",
                    mig_enabled=True,
                    mig_devices={"1g.5gb+me": 1},
                    device_filter=("0x20B010DE",),
                ),
            )
        }
    )
    assert yaml.safe_load(text)["mig-configs"]["a"][0] == {
        "device-filter": ["0x20B010DE"],
        "devices": "all",
        "mig-enabled": True,
        "mig-devices": {"1g.5gb+me": 1},
    }
