"""Names of processors of every architecture, as their /proc/cpuinfo spells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from archspec.cpu import TARGETS, schema

from berth.pilot.processor_name import processor_name
from berth.predictor.hardware.processor_names import (
    core_named,
    may_be_same_processor,
)

SAME_CORE = {
    "skylake_avx512": "skylake-server", "cascadelake": "skylake-server",
    "icelake": "ice-lake-server", "sapphirerapids": "golden-cove",
    "x60": "spacemit-x60", "u74mc": "sifive-u74", "ampere1a": "ampere-1",
    "neoverse_v3ae": "neoverse-v3", "arrowlake_s": "lion-cove",
    "alderlake": "lion-cove",  # archspec's file of this target is an Arrow Lake
}  # fmt: skip
"""Berth's names of archspec's microarchitectures where they differ in more than hyphens."""


def arm(*cores: tuple[str, str]) -> str:
    blocks = [
        f"processor: {n}\nCPU implementer : {i}\nCPU part\t: {p}\n"
        for n, (i, p) in enumerate(cores)
    ]
    return "\n".join([*blocks, "Model\t\t: A board of some kind"])


@pytest.mark.parametrize(
    ("cpu_info", "name", "core"),
    [
        (arm(("0x41", "0xd4f")), "Neoverse-V2", "neoverse-v2"),
        (arm(("0x41", "0xd0c")), "Neoverse-N1", "neoverse-n1"),
        (arm(("0x46", "0x001")), "A64FX", "a64fx"),
        (arm(("0x43", "0x0af")), "Thunderx2", "thunderx2"),
        (arm(("0x41", "0xd05"), ("0x41", "0xd08"), ("0x41", "0xd08")),
         "ARM part 0xd05 + Cortex-A72", "cortex-a72"),
        (arm(("0x99", "0x001")), "0x99 part 0x001", None),
        ("cpu\t\t: POWER9, altivec supported\nmodel\t\t: 8335-GTH", "POWER9", "power9"),
        ("cpu : POWER8E (raw), altivec supported", "POWER8E", "power8"),
        ("processor : 0\nuarch\t\t: sifive,u74-mc", "sifive,u74-mc", "sifive-u74"),
        ("processor : 0\nisa\t: rv64imafdcv\nmvendorid\t: 0x5b7", "", None),
        ("CPU Family : Loongson-64bit\nModel Name\t: Loongson-3A5000", "Loongson-3A5000", "la464"),
        ("vendor_id       : IBM/S390\n# processors    : 2\nprocessor 1: version = FF,  "
         "identification = 0A0B0C,  machine = 8561", "IBM/S390 machine 8561", "z15"),
        ("cpu family : 25\nmodel : 1\nmodel name : AMD EPYC", "AMD EPYC (family 25 model 1)",
         "zen-3"),
        ("cpu family : 25\nmodel : 17\nmodel name : AMD EPYC", "AMD EPYC (family 25 model 17)",
         "zen-4"),
        ("cpu family : 6\nmodel : 207\nmodel name : Intel(R) Xeon(R) Processor\nflags : amx_tile",
         "Intel(R) Xeon(R) Processor (family 6 model 207)", "raptor-cove"),
        ("cpu family : 6\nmodel : 167\nmodel name : Intel(R) Xeon(R) Processor\nflags : amx_tile",
         "Intel(R) Xeon(R) Processor (amx_tile)", "golden-cove"),  # Rocket Lake has no AMX
        ("cpu family : 6\nmodel : 85\nmodel name : Intel Xeon Processor (Skylake, IBRS)",
         "Intel Xeon Processor (Skylake, IBRS) (family 6 model 85)", "skylake-server"),
        ("cpu family : 6\nmodel : 42\nmodel name : Intel Xeon E312xx (Sandy Bridge)",
         "Intel Xeon E312xx (Sandy Bridge) (family 6 model 42)", "sandy-bridge"),
        ("cpu family : 6\nmodel : 47\nmodel name : Intel(R) Xeon(R) CPU E7- 4870  @ 2.40GHz",
         "Intel(R) Xeon(R) CPU E7- 4870 @ 2.40GHz", "westmere"),  # no AVX
        ("cpu family : 6\nmodel : 45\nmodel name : Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz",
         "Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "sandy-bridge"),
        ("", "", None),
    ],
)  # fmt: skip
def test_a_processor_is_named_and_its_core_known_or_unknown(
    cpu_info: str, name: str, core: str | None
) -> None:
    assert processor_name(cpu_info.splitlines()) == name
    found = core_named(name)
    assert (found and found.name) == core


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Neoverse-N1", "Graviton2", True),
        ("Neoverse-V2", "Graviton2", False),  # a Grace is none
        ("AMD EPYC (family 25 model 1)", "AMD EPYC 7763 64-Core Processor", True),
        ("AMD EPYC (family 25 model 17)", "AMD EPYC 7763 64-Core Processor", False),
        ("AMD EPYC (family 25 model 17)", "AMD EPYC", True),
        ("AMD EPYC (family 25 model 17)", "AMD EPYC (family 25 model 1)", False),
        ("AMD EPYC (family 25 model 48)", "AMD EPYC (family 25 model 1)", False),
        ("AMD EPYC 7742 64-Core Processor", "AMD EPYC 7702 64-Core Processor", False),
        ("ARM part 0xd85", "aarch64", False),
    ],
)
def test_a_name_that_tells_only_the_core_can_be_any_processor_with_it(
    first: str, second: str, same: bool
) -> None:
    assert may_be_same_processor(first, second) is same
    assert may_be_same_processor(second, first) is same


def archspec_rows() -> Iterator[tuple[str, str, str]]:
    """Yield (target, verdict, details) of archspec's targets that are a Linux /proc/cpuinfo."""
    folder = Path(schema.__file__).parents[1] / "json/tests/targets"
    for path in sorted(folder.iterdir()):
        system, _, target = path.name.rpartition("-")
        if system.startswith(("darwin", "windows")) or TARGETS[target].vendor == "generic":
            continue
        name = processor_name(path.read_text(errors="replace").splitlines())
        core = core_named(name)
        wanted = SAME_CORE.get(target, target.removesuffix("le"))
        wanted, ours = (
            re.sub("[-_ ]", "", each.lower()) for each in (wanted, core.name if core else name)
        )
        if wanted == ours or (core is None and wanted in ours):
            yield path.name, "right", ""
        else:
            yield path.name, "wrong" if core else "unknown", f"{name!r}: {ours}"


def test_no_target_of_archspec_has_another_core() -> None:
    verdicts = {target: (verdict, details) for target, verdict, details in archspec_rows()}
    assert not {target for target, (verdict, _) in verdicts.items() if verdict == "wrong"}
    assert ("right", "") in verdicts.values()
