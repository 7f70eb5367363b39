"""Programs are recognised as sites name them: the same at submission and in accounting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from berth.pilot.errors import DocumentError
from berth.plugin.daemon.protocol import SubmittedJob
from berth.plugin.daemon.recognised import PastJobKeys
from berth.plugin.history.matching import match_keys
from berth.plugin.site.load import load_site
from berth.plugin.site.programs import (
    SHIPPED_ONLY,
    JobTexts,
    ProgramRules,
    image_in,
    modules_in,
    telling_name,
    texts_of_script,
)
from berth.plugin.slurm.sacct import read_sacct

UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
RULES = {"comment": "rule_align_wildcards_S1"}


@pytest.mark.parametrize(
    ("texts", "program"),
    [
        (JobTexts(UUID, "rule_align_reads_wildcards_S1-L2"), "align_reads"),
        (JobTexts(UUID, "rule_all"), "all"),
        (JobTexts("nf-NFCORE_RNASEQ_FASTQC_(S1)"), "nf-NFCORE_RNASEQ_FASTQC"),
        (JobTexts("nf-ALIGN_(a very long tag that Nextflow cut of"), "nf-ALIGN"),
        (JobTexts("nf-ALIGN"), "nf-ALIGN"),
        (JobTexts("sys/dashboard/sys/bc_jupyter"), "ondemand-bc_jupyter"),
        (JobTexts("ondemand/sys/dashboard/sys/rstudio"), "ondemand-rstudio"),
        (JobTexts("spawner-jupyterhub"), "jupyter"),
        (JobTexts("wrap", command="jupyter-lab --no-browser --port 1"), "jupyter"),
        (JobTexts("run.sh", command="module load vasp\nmpirun -n 8 vasp_std > log\n"), "vasp_std"),
        (JobTexts("job.sh", command="srun /opt/lammps/bin/lmp_mpi -in in.lj\n"), "lammps"),
        (JobTexts("", command="gmx_mpi mdrun -deffnm npt\n"), "gromacs-mdrun"),
        (JobTexts("water-npt", command="gmx mdrun -deffnm npt\n"), ""),
        (JobTexts("align.sh", "project 12"), ""),
        (JobTexts("", command="echo vasp_standard lmpx\n"), ""),
    ],
)
def test_what_managers_and_programs_write_is_known(texts: JobTexts, program: str) -> None:
    assert SHIPPED_ONLY.program_of(texts) == program


@pytest.mark.parametrize("name", [UUID, UUID.upper(), "1234", "9f86d081884c7d65", "wrap", "-_1"])
def test_names_that_are_drawn_or_counted_tell_nothing(name: str) -> None:
    assert telling_name(name) == ""


@pytest.mark.parametrize(
    "name", ["align", "run_007", "deadbeef", "2024-lj", "cafe", "\u6d4b\u8bd5"]
)
def test_names_that_people_chose_tell_something(name: str) -> None:
    assert telling_name(name) == name


def site_file(folder: Path, programs: str) -> Path:
    path = folder / "berth.toml"
    path.write_text(f'schema = "berth.site/1"\n{programs}')
    return path


def rules(folder: Path, programs: str) -> ProgramRules:
    pytest.importorskip("re2")
    return load_site(site_file(folder, programs)).programs


def test_the_sites_rules_come_first_and_all_expressions_must_match(tmp_path: Path) -> None:
    site = rules(
        tmp_path,
        r"""
[[programs]]
name = "{2}-of-{1}"
comment = 'flow=(\w+)'
command = '\bstep_(\w+)\.py\b'

[[programs]]
name = "amber"
image = 'amber[^/]*\.sif$'
over_job_name = true

[[programs]]
name = "openfoam {1}"
modules = '(?i)\bopenfoam/(\d+)'
""",
    )
    assert site.program_of(JobTexts("x", "flow=qc", "python step_a.py")) == "a-of-qc"
    assert site.program_of(JobTexts("x", "flow=qc", "python other.py")) == ""
    assert site.program_of(JobTexts("my-run", image="/apps/amber22.sif")) == "amber"
    assert site.program_of(JobTexts("", modules="gcc/12 OpenFOAM/11")) == "openfoam-11"
    assert site.program_of(JobTexts("my-run", modules="OpenFOAM/11")) == "", "it has a name"
    assert site.program_of(JobTexts(UUID, "rule_align")) == "align"


@pytest.mark.parametrize(
    ("programs", "problem"),
    [
        ('[[programs]]\nname = "a"\n', "has no expression"),
        ("[[programs]]\nname = 'a'\njob_name = '(a'\n", "missing ): (a"),
        ("[[programs]]\nname = 'a'\ncomment = '(?=a)b'\n", "is not a regular expression of RE2"),
        ("[[programs]]\nname = 'a'\ncomment = '(a)\\1'\n", "is not a regular expression of RE2"),
        ("[[programs]]\nname = 'a'\ncomments = 'a'\n", "comment"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_name(
    tmp_path: Path, programs: str, problem: str
) -> None:
    pytest.importorskip("re2")
    with pytest.raises(DocumentError) as caught:
        load_site(site_file(tmp_path, programs))
    assert problem in str(caught.value)
    assert "programs" in str(caught.value)


def test_an_expression_that_backtracks_for_ever_in_other_engines_is_linear(tmp_path: Path) -> None:
    site = rules(tmp_path, "[[programs]]\nname = 'a'\njob_name = '(a+)+$'\ncomment = '(x+x+)+y'\n")
    for number in range(20):
        site.program_of(JobTexts("a" * 4_000 + "b", f"{'x' * 4_000}{number}"))
        site.program_of(JobTexts("a" * 4_000, f"{'x' * 4_000}{number}"))


def test_the_shipped_rules_take_no_time_on_texts_that_defeat_them() -> None:
    texts = ("nf-" + "_(" * 2_000, "rule_" + "_wildcards" * 400, "gmx " * 1_000, "vasp_" * 800)
    for text in (*texts, " " * 4_096, "\t\n" * 2_000, "module load " * 300, "x.si" * 1_000):
        SHIPPED_ONLY.program_of(JobTexts(text, text, text, text, image_in(text)))
        modules_in(text)
        telling_name(text)


def test_image_and_modules_are_read_from_a_script() -> None:
    script = """#!/bin/bash
#SBATCH --container-image=nvcr.io/nvidia/pytorch:24.01
module load gcc/12 openmpi
ml gromacs/2024  # the newest
srun gmx mdrun
"""
    texts = texts_of_script("", script, modules="slurm/23:cuda/12")
    assert texts.image == "nvcr.io/nvidia/pytorch:24.01"
    assert texts.modules == "slurm/23 cuda/12 gcc/12 openmpi gromacs/2024"
    assert image_in("apptainer exec --nv /apps/bwa.sif bwa mem") == "/apps/bwa.sif"
    assert image_in("singularity run docker://ubuntu:22.04 ls") == "docker://ubuntu:22.04"
    assert image_in("cat list.safe") == ""


def test_a_rules_jobs_have_one_key_at_submission_and_in_accounting() -> None:
    """Snakemake: the name is a UUID, the command another one each time, the rule in the comment."""
    accounted = {
        "JobID": "7", "User": "ada", "State": "COMPLETED", "Start": "2026-11-01T10:00:00",
        "End": "2026-11-01T10:10:00", "AllocCPUS": "4", "JobName": UUID, "TimelimitRaw": "60",
        "JobIDRaw": "7", "Comment": RULES["comment"],
        "SubmitLine": f"sbatch --comment rule_align -J {UUID} --wrap=python -m snakemake S1",
    }  # fmt: skip
    keys = keys_in_accounting(accounted)
    submitted = PastJobKeys(
        SubmittedJob(
            user="ada", name=UUID.replace("3", "4"), comment="rule_align_wildcards_S2",
            script="#!/bin/sh\n# This script was created by sbatch --wrap.\n\npython -m x S2\n",
            tasks=4, time_limit_min=60,
        ),
        SHIPPED_ONLY,
    )  # fmt: skip
    assert submitted.described.program == "align"
    shared = set(submitted) & set(keys)
    assert len(shared) == 2, "by name, and by name and time limit"


def keys_in_accounting(fields: Mapping[str, str]) -> list[str]:
    lines = ["\x1f".join(fields), "\x1f".join(fields.values())]
    read = read_sacct(lines, "lab", source="sacct", bar="\x1f")
    read.name_programs(SHIPPED_ONLY)
    job = read.jobs["7"]
    described = replace(PastJobKeys(SubmittedJob(), SHIPPED_ONLY).described, name=job.name)
    described = replace(described, program=job.program, arguments=job.arguments)
    return [key for _, key in match_keys(job.user, job.cores, job.time_limit_s, described)]
