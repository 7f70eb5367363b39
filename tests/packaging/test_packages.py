"""The packages' sources: scripts, units, recipes and images fit together and hold what they say.

`make packages-check` (packages_on_debian.py) installs them for real; Spack, images, Slinky's
operator and other distributions are looked at here only.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import build_packages
import pytest
import recipes
import sbom
import stage
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from berth.pilot.version import VERSION
from berth.plugin.slurm.filter import FILTER_PATH

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "deploy" / "packages"
SHIPPED = {p.name for kind in ("service", "timer") for p in (ROOT / "deploy").glob(f"*.{kind}")}
SCRIPTS = [
    *(PACKAGES / "debian" / name for name in ("postinst", "prerm", "postrm")),
    PACKAGES / "containers" / "playground",
]
UNIT = re.compile(r"\bberth[\w@-]*\.(?:service|timer)\b")


def described() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chosen = [project["optional-dependencies"][name] for name in recipes.SPACK_VARIANTS]
    return {"needed": project["dependencies"], "chosen": [text for one in chosen for text in one]}


def locked() -> dict[str, str]:
    text = (PACKAGES / "requirements.lock").read_text()
    return dict(re.findall(r"^([\w.-]+)==([\w.+]+)", text, re.MULTILINE))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_shell_reads_each_script_and_it_ends_at_the_first_error(script: Path) -> None:
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^set -eu?$", script.read_text(), re.MULTILINE)


@pytest.mark.parametrize("script", [*SCRIPTS, PACKAGES / "rpm" / "berth.spec"], ids=str)
def test_every_unit_that_a_package_starts_or_stops_is_shipped(script: Path) -> None:
    named = set(UNIT.findall(script.read_text())) and {
        found[0] for found in UNIT.finditer(script.read_text())
    }
    assert named <= SHIPPED
    if script.name in ("postinst", "prerm", "berth.spec"):
        assert {"berth.service", "berth-users.service", "berth-prune.timer"} <= named


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_unit_that_needs_the_site_file_waits_for_it_and_logs_to_the_journal(name: str) -> None:
    text = (ROOT / "deploy" / name).read_text()
    if "--site /etc/berth/berth.toml" in text:
        assert "ConditionPathExists=/etc/berth/berth.toml" in text
    for program in re.findall(r"^ExecStart=(/opt\S+)", text, re.MULTILINE):
        assert program in ("/opt/berth/bin/berth", "/opt/berth/bin/berth-mig-helper")
    assert not re.search(r"^Standard(Output|Error)=(file|append|truncate)", text, re.MULTILINE)


def test_the_lock_holds_what_pyproject_asks_for_with_digests() -> None:
    there = {canonicalize_name(name): version for name, version in locked().items()}
    for text in (word for words in described().values() for word in words):
        wanted = Requirement(text)
        version = there[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version), f"{text}: the lock has {version}"
    text = (PACKAGES / "requirements.lock").read_text()
    assert text.count("--hash=sha256:") >= len(there)


def test_slinkys_config_map_holds_the_filter_itself() -> None:
    document = yaml.safe_load(recipes.config_map(FILTER_PATH.read_text(), VERSION))
    assert (document["apiVersion"], document["kind"]) == ("v1", "ConfigMap")
    assert document["data"] == {"job_submit.lua": FILTER_PATH.read_text()}
    assert len(json.dumps(document)) < 1_000_000  # what Kubernetes takes


SPACK_WORDS = {"version", "variant", "depends_on", "license"}


def test_the_spack_recipe_asks_for_what_the_wheel_does(tmp_path: Path) -> None:
    wheel = tmp_path / "berth-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    tree = ast.parse(recipes.spack_recipe("1.2.3", wheel))
    [recipe] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert recipe.name == "PyBerth"
    assert [ast.unparse(base) for base in recipe.bases] == ["PythonPackage"]
    calls = [
        n.value for n in recipe.body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)
    ]
    assert {ast.unparse(call.func) for call in calls} == SPACK_WORDS
    named = [(ast.unparse(c.func), ast.literal_eval(c.args[0]), c) for c in calls]
    [of_version] = [call for word, _, call in named if word == "version"]
    digest = {k.arg: ast.literal_eval(k.value) for k in of_version.keywords}
    assert digest == {"sha256": hashlib.sha256(b"a wheel").hexdigest(), "expand": False}
    asked = {word.split("@")[0] for kind, word, _ in named if kind == "depends_on"}
    for text in (word for words in described().values() for word in words):
        assert f"py-{Requirement(text).name.lower()}" in asked


@pytest.mark.parametrize(
    ("text", "spack"),
    [("numpy~=2.4", "py-numpy@2.4:2"), ("numpy~=2.4,>=2.4.1", "py-numpy@2.4.1:2"),
     ("onnxruntime==1.31.1", "py-onnxruntime@=1.31.1"),
     ("psycopg[binary]~=3.3", "py-psycopg@3.3:3")],
)  # fmt: skip
def test_version_ranges_in_spacks_words(text: str, spack: str) -> None:
    assert recipes.spack_range(Requirement(text)) == spack


def test_a_range_that_spack_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="numpy>2"):
        recipes.spack_range(Requirement("numpy>2"))


@pytest.mark.parametrize("name", ["daemon", "playground"])
def test_images_have_a_fixed_base_and_copy_only_what_one_build_makes(name: str) -> None:
    lines = (PACKAGES / "containers" / f"{name}.Containerfile").read_text().splitlines()
    [base] = [line for line in lines if line.startswith("FROM ")]
    assert re.fullmatch(r"FROM debian:\d+\.\d+-slim", base)
    copied = [line.split()[1] for line in lines if line.startswith("COPY ")]
    made = {f"berth_{VERSION}-1_amd64.deb", *(p.name for p in (PACKAGES / "containers").iterdir())}
    for pattern in copied:
        assert [one for one in made if Path(one).match(pattern)], pattern
    assert not any(word in line for line in lines for word in ("curl", "wget", "pip install"))
    if name == "daemon":
        assert "USER berth" in lines


ROLE = PACKAGES / "ansible" / "roles" / "berth"


def test_every_task_of_the_ansible_role_has_a_name_and_one_module_of_ansibles_own() -> None:
    tasks = [task for kind in ("tasks", "handlers")
             for task in yaml.safe_load((ROLE / kind / "main.yml").read_text())]  # fmt: skip
    for task in tasks:
        modules = [key for key in task if key.startswith("ansible.builtin.")]
        assert len(modules) == 1, task["name"]
        other = set(task) - set(modules)
        known = {"name", "when", "notify", "loop", "register", "changed_when", "failed_when"}
        assert other <= known, task["name"]
    handlers = {task["name"] for task in yaml.safe_load((ROLE / "handlers/main.yml").read_text())}
    assert {task["notify"] for task in tasks if "notify" in task} == handlers
    used = set(re.findall(r"\bberth_[a-z_]+\b", (ROLE / "tasks/main.yml").read_text()))
    registered = {task["register"] for task in tasks if "register" in task}
    defaults = set(yaml.safe_load((ROLE / "defaults/main.yml").read_text()))
    assert defaults <= used
    assert {name for name in used if name.endswith(("_folder", "_file", "_package"))} <= defaults
    assert registered <= used


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "JobSubmitPlugins=throttle,require_timelimit",
            "JobSubmitPlugins=throttle,require_timelimit,lua",
        ),
        ("jobsubmitplugins=pbs # not lua", "jobsubmitplugins=pbs,lua # not lua"),
        ("JobSubmitPlugins=lua,pbs", "JobSubmitPlugins=lua,pbs"),
        ("JobSubmitPlugins=job_submit/lua", "JobSubmitPlugins=job_submit/lua"),
        ("#JobSubmitPlugins=pbs", "#JobSubmitPlugins=pbs"),
    ],
)
def test_the_ansible_role_keeps_the_sites_own_submit_plugins(before: str, after: str) -> None:
    tasks = yaml.safe_load((ROLE / "tasks" / "main.yml").read_text())
    module = next(m for m in (t.get("ansible.builtin.replace") for t in tasks) if m)
    changed = re.sub(module["regexp"], module["replace"], f"A=1\n{before}\nB=2", flags=re.MULTILINE)
    assert changed == f"A=1\n{after}\nB=2"
    lines = [t["ansible.builtin.lineinfile"] for t in tasks if "ansible.builtin.lineinfile" in t]
    assert not any("regexp" in line for line in lines)  # would replace the site's line


def test_slurmctld_is_restarted_where_its_user_comes_into_the_group() -> None:
    tasks = yaml.safe_load((ROLE / "tasks" / "main.yml").read_text())
    (task,) = [task for task in tasks if "ansible.builtin.user" in task]
    assert task["notify"] == "Restart slurmctld"


def distribution(folder: Path, name: str, version: str, *lines: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    text = [f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}", *lines]
    (info / "METADATA").write_text("\n".join(text) + "\n\n")


def test_the_bill_of_materials_is_the_same_for_the_same_packages(tmp_path: Path) -> None:
    site = tmp_path / "site"
    distribution(
        site, "berth", "1.0", "License-Expression: Apache-2.0", "Requires-Dist: Num-Py~=2.4"
    )
    distribution(site, "num-py", "2.4", "Classifier: License :: OSI Approved :: BSD License")
    wheels = [tmp_path / "berth-1.0-py3-none-any.whl", tmp_path / "num_py-2.4-cp311-cp311-any.whl"]
    for wheel in wheels:
        wheel.write_bytes(wheel.name.encode())
    first = sbom.text_of(sbom.bill(site, wheels))
    assert first == sbom.text_of(sbom.bill(site, reversed(wheels)))
    document = json.loads(first)
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/berth@1.0"
    [component] = document["components"]
    assert component["hashes"][0]["content"] == hashlib.sha256(wheels[1].name.encode()).hexdigest()
    assert component["licenses"] == [{"license": {"name": "BSD License"}}]
    assert document["dependencies"][0] == {
        "ref": "pkg:pypi/berth@1.0", "dependsOn": ["pkg:pypi/num-py@2.4"],
    }  # fmt: skip


def test_packages_bring_completion_for_each_shell(tmp_path: Path) -> None:
    stage._system_files(tmp_path, ROOT)
    spec = (ROOT / "deploy/packages/rpm/berth.spec").read_text().splitlines()
    for place, name in stage.COMPLETIONS.items():
        assert (tmp_path / place).read_text() == (ROOT / "deploy/completions" / name).read_text()
        assert f"/{place}" in spec


def test_a_package_without_its_wheel_is_no_bill(tmp_path: Path) -> None:
    distribution(tmp_path / "site", "berth", "1.0")
    with pytest.raises(KeyError, match="berth"):
        sbom.bill(tmp_path / "site", [])


def test_times_and_modes_do_not_depend_on_who_builds(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    for name, mode in (("a/run", 0o700), ("a/text", 0o600)):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(mode)
    stage.same_modes(tmp_path / "a", 1_000_000_000)
    found = {p.name: (p.stat().st_mode & 0o777, p.stat().st_mtime) for p in tmp_path.rglob("*")}
    assert found == {
        "a": (0o755, 1e9), "run": (0o755, 1e9), "text": (0o644, 1e9),
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="NOT CHECKED: no dpkg-deb here")
def test_a_debian_package_is_the_same_from_two_builds(tmp_path: Path) -> None:
    made = []
    for name in ("first", "second"):
        root, out = tmp_path / name / "root", tmp_path / name / "out"
        (root / "opt/berth").mkdir(parents=True)
        (root / "opt/berth/file").write_text("x")
        out.mkdir()
        built = build_packages.Build(root, out, "1.2.3", "4", "3.11", 1_000_000_000)
        build_packages.debian(built)
        [package] = out.iterdir()
        made.append(package.read_bytes())
    assert made[0] == made[1]
    shown = subprocess.run(["dpkg-deb", "--field", str(package)], capture_output=True, text=True)
    assert "Version: 1.2.3-4\n" in shown.stdout
    assert "python3 (>= 3.11), python3 (<< 3.12)" in shown.stdout
    assert "@" not in re.sub(r"<.*>", "", shown.stdout)
