"""``berth doctor``: what is sound here, what is not, and what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from berth.pilot.collectors.registry import COLLECTORS
from berth.pilot.errors import BerthError
from berth.plugin.cli import REGISTERED
from berth.plugin.cli.options.common import SITE_FILE, json_option
from berth.plugin.cli.options.where import find_site, site_option
from berth.plugin.doctor.examine import examine, examine_machine, examine_packages
from berth.plugin.doctor.findings import Finding, Status
from berth.plugin.scheduler import SCHEDULERS
from berth.policies.objectives import OBJECTIVES
from berth.predictor.core.family import FAMILIES
from berth.predictor.core.workload import KINDS


@click.command()
@site_option
@json_option
def doctor(site_file: Path | None, *, json_: bool) -> None:
    """Check this installation: site file, bundle, store, daemon, scheduler, filter, packages,
    collectors.

    Exit status 1 where something fails; warnings alone are 0.

    \b
    Example:
      berth doctor --site /etc/berth/berth.toml
    """
    packages = examine_packages((COLLECTORS, OBJECTIVES, SCHEDULERS, FAMILIES, KINDS, REGISTERED))
    findings = [*_of_site(site_file), *packages, *examine_machine()]
    if json_:
        data = [
            {"check": f.check, "status": f.status, "text": f.text, "advice": f.advice}
            for f in findings
        ]
        click.echo(json.dumps(data, indent=2))
    else:
        for finding in findings:
            click.echo(_line(finding))
    sys.exit(1 if any(f.status is Status.FAIL for f in findings) else 0)


def _of_site(site_file: Path | None) -> list[Finding]:
    try:
        site = find_site(site_file)
    except BerthError as error:
        return [Finding("site file", Status.FAIL, error.message, error.hint)]
    if site is None:
        return [
            Finding(
                "site file",
                Status.WARN,
                f"there is no {SITE_FILE}: nothing of a site can be checked",
                "make one with berth init, or give --site FILE",
            )
        ]
    return list(examine(site))


def _line(finding: Finding) -> str:
    text = f"{finding.status.value:<5}{finding.check:<12} {finding.text}"
    return f"{text}\n     {'':<12} -> {finding.advice}" if finding.advice else text
