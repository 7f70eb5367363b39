"""Every package of Berth from one build of its wheel (docs/install.md).

    python deploy/packages/build_packages.py dist                 all that can be built here
    python deploy/packages/build_packages.py dist --python 3.13 --only deb      for Debian 13

Needs ``build`` and ``packaging``; dpkg-deb for the Debian package, rpmbuild for the RPM.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import recipes
import sbom
from stage import HERE, HOME, PROJECT, build_wheel, download, same_modes, source_date, stage

DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
DEBIAN_SCRIPTS = ("postinst", "prerm", "postrm")
RPM_SETTINGS = {
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "build_mtime_policy": "clamp_to_source_date_epoch",
    "_buildhost": "localhost",
}


@dataclass(frozen=True)
class Build:
    """What every package is made from."""

    root: Path
    """The staged tree; a packager may work in it."""
    out: Path
    version: str
    revision: str
    python: str
    """Version of the distribution's Python, as 3.11."""
    moment: int
    """SOURCE_DATE_EPOCH."""
    compressed: bool = True

    @property
    def values(self) -> dict[str, str]:
        """What stands as @NAME@ in templates."""
        major, _, minor = self.python.partition(".")
        return {
            "VERSION": self.version,
            "REVISION": self.revision,
            "PYTHON": self.python,
            "NEXT_PYTHON": f"{major}.{int(minor) + 1}",
            "HOME": f"/{HOME}",
        }

    def filled(self, template: Path, **more: str) -> str:
        """The template's text with its values."""
        text = template.read_text(encoding="utf-8")
        for name, value in {**self.values, **more}.items():
            text = text.replace(f"@{name}@", value)
        return text


def debian(build: Build) -> None:
    """The Debian package, by dpkg-deb."""
    control = build.root / "DEBIAN"
    control.mkdir()
    size = sum(p.stat().st_size for p in build.root.rglob("*") if p.is_file()) // 1024
    architecture = DEBIAN_NAMES[platform.machine()]
    values = {"SIZE": str(size), "ARCHITECTURE": architecture}
    for name in ("control", "triggers", *DEBIAN_SCRIPTS):
        path = control / name
        path.write_text(build.filled(HERE / "debian" / name, **values))
        path.chmod(0o755 if name in DEBIAN_SCRIPTS else 0o644)
    (build.root / "usr/share/doc/berth").mkdir(parents=True)
    shutil.copyfile(HERE / "debian/copyright", build.root / "usr/share/doc/berth/copyright")
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  "
        f"{path.relative_to(build.root)}\n"
        for path in sorted(build.root.rglob("*"))
        if path.is_file() and not path.is_symlink() and control not in path.parents
    ]
    (control / "md5sums").write_text("".join(sums))
    same_modes(build.root, build.moment)
    compressed = ("-Zxz", "-z2", "--threads-max=1") if build.compressed else ("-Znone",)
    target = build.out / f"berth_{build.version}-{build.revision}_{architecture}.deb"
    _run(build.moment, "dpkg-deb", "--root-owner-group", *compressed, "--build", build.root, target)


def rpm(build: Build) -> None:
    """The RPM, by rpmbuild."""
    folder = build.root.parent / "rpmbuild"
    spec = folder / "berth.spec"
    folder.mkdir(exist_ok=True)
    spec.write_text(build.filled(HERE / "rpm/berth.spec", STAGE=str(build.root)))
    same_modes(build.root, build.moment)
    defines = {"_topdir": str(folder), "_rpmdir": str(build.out), **RPM_SETTINGS}
    if not build.compressed:
        defines["_binary_payload"] = "w1.gzdio"
    words = [word for name in defines for word in ("--define", f"{name} {defines[name]}")]
    _run(build.moment, "rpmbuild", "-bb", "--quiet", *words, "--define",
         "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", spec)  # fmt: skip


def _run(moment: int, *words: str | Path) -> None:
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(moment)},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"{words[0]} failed:\n{done.stdout}{done.stderr}")


PACKAGERS: dict[str, tuple[str, Callable[[Build], None]]] = {
    "deb": ("dpkg-deb", debian),
    "rpm": ("rpmbuild", rpm),
}
"""Kind -> the program that it needs, and how it is made."""


def main(arguments: list[str] | None = None) -> int:
    """0: built. 1: a packager's program is missing, the others are built."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder for the packages")
    parser.add_argument("--python", default="3.11", help="the Python of the distribution")
    parser.add_argument("--revision", default="1", help="of the package")
    parser.add_argument("--only", choices=PACKAGERS, action="append", help="these packages only")
    parser.add_argument("--uncompressed", action="store_true", help="a larger file, sooner")
    parser.add_argument("--work", type=Path, default=PROJECT / "build/packages")
    parser.add_argument("--project", type=Path, default=PROJECT, help="another checkout's source")
    given = parser.parse_args(arguments)
    os.umask(0o022)
    moment = source_date(given.project)
    out, work = given.out.resolve(), given.work.resolve()
    wheels, root = work / f"wheels-{given.python}", work / "stage"
    for old in out.glob("berth-*.whl"):
        old.unlink()
    wheel = build_wheel(out, work, project=given.project)
    wheels.mkdir(parents=True, exist_ok=True)
    download(wheels, given.python, platform.machine())
    tree = work / "tree"
    stage(tree, wheel, wheels, given.python, project=given.project)
    version = wheel.name.split("-")[1]
    packages = tree / HOME / f"lib/python{given.python}/site-packages"
    document = sbom.text_of(sbom.bill(packages, [wheel, *wheels.glob("*.whl")]))
    (out / f"berth-{version}.cdx.json").write_text(document)
    shutil.copyfile(
        out / f"berth-{version}.cdx.json", tree / HOME / "share/doc/berth/sbom.cdx.json"
    )
    recipes.write(out, version, wheel, project=given.project)
    missing = []
    for kind, (program, make) in PACKAGERS.items():
        if given.only and kind not in given.only:
            continue
        if shutil.which(program) is None:
            missing.append(f"no {kind}: {program} is not installed")
            continue
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tree, root, symlinks=True)
        make(
            Build(
                root=root,
                out=out,
                version=version,
                revision=given.revision,
                python=given.python,
                moment=moment,
                compressed=not given.uncompressed,
            )
        )
    _checksums(out)
    print(*missing, *sorted(path.name for path in out.iterdir()), sep="\n")
    return 1 if missing else 0


def _checksums(out: Path) -> None:
    files = sorted(path for path in out.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    sys.exit(main())
