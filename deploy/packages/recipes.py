"""What other tools than dpkg and rpm install, written beside the packages of one build.

The Spack recipe is given the wheel's version, digest and dependencies; the ConfigMap the filter.
"""

from __future__ import annotations

import hashlib
import shutil
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from stage import HERE, PROJECT

SPACK_VARIANTS = ("metrics", "postgresql")
CONFIG_MAP = """\
# Berth's submit filter for a Slurm that Slinky's operator runs (docs/install.md).
apiVersion: v1
kind: ConfigMap
metadata:
  name: berth-job-submit
  labels:
    app.kubernetes.io/name: berth
    app.kubernetes.io/version: "{version}"
data:
  job_submit.lua: |
{filter}"""


def config_map(text: str, version: str) -> str:
    """The ConfigMap with the filter's ``text``, as a literal block."""
    lines = "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())
    return CONFIG_MAP.format(version=version, filter=lines)


def spack_range(requirement: Requirement) -> str:
    """``numpy~=2.4`` as Spack says it: ``py-numpy@2.4:2``, with ``>=2.4.1`` ``py-numpy@2.4.1:2``.
    ValueError for what it cannot say."""
    name = f"py-{requirement.name.lower().replace('_', '-')}"
    said = {one.operator: one.version for one in requirement.specifier}
    if said.keys() == {"=="}:
        return f"{name}@={said['==']}"
    if "~=" in said and said.keys() <= {"~=", ">="}:
        return f"{name}@{said.get('>=', said['~='])}:{said['~='].rpartition('.')[0]}"
    raise ValueError(f"Spack has no range like {requirement}")


def spack_recipe(version: str, wheel: Path, *, project: Path = PROJECT) -> str:
    """The Spack recipe for this wheel."""
    described = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    lines = [
        f'depends_on("{spack_range(Requirement(text))}", type="run")'
        for text in described["dependencies"]
    ]
    lines += [
        f'depends_on("{spack_range(Requirement(text))}", when="+{variant}", type="run")'
        for variant in SPACK_VARIANTS
        for text in described["optional-dependencies"][variant]
    ]
    values = {
        "# @DEPENDENCIES@": "\n    ".join(lines),
        "@SHA256@": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "@VERSION@": version,
    }
    text = (HERE / "spack/package.py").read_text(encoding="utf-8")
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text


def write(out: Path, version: str, wheel: Path, *, project: Path = PROJECT) -> None:
    """Write them all in ``out``."""
    submit = (project / "plugin/slurm/job_submit.lua").read_text(encoding="utf-8")
    (out / "berth-slinky.yaml").write_text(config_map(submit, version))
    (out / "berth-spack-package.py").write_text(spack_recipe(version, wheel, project=project))
    for path in (HERE / "containers").iterdir():
        shutil.copy(path, out / path.name)
