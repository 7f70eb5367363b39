"""``berth site doctor`` and ``support-bundle``: what is sound here and what is not, for this site's
administrator or for whoever is to find out.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from berth.pilot.collectors.registry import COLLECTORS
from berth.pilot.errors import BerthError, UsageError
from berth.plugin.cli.lazy import REGISTERED
from berth.plugin.cli.options import PATH, answer, json_option, site_option
from berth.plugin.doctor.examine import examine, examine_machine, examine_packages
from berth.plugin.doctor.support import gather, write_archive
from berth.plugin.findings import Finding, Status, fail, warn
from berth.plugin.readers import READERS
from berth.plugin.report.of_installation import findings_part, findings_table
from berth.plugin.report.parts import Part
from berth.plugin.scheduler import SCHEDULERS
from berth.plugin.site_file import SITE_FILE, find_site
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
      berth site doctor --site /etc/berth/berth.toml
    """
    packages = examine_packages(
        (COLLECTORS, OBJECTIVES, SCHEDULERS, FAMILIES, KINDS, REGISTERED, READERS)
    )
    findings = [*_of_site(site_file), *packages, *examine_machine()]
    answer(findings_part(findings), findings_table(findings).data, json_=json_)
    sys.exit(1 if any(f.status is Status.FAIL for f in findings) else 0)


def _of_site(site_file: Path | None) -> list[Finding]:
    try:
        site = find_site(site_file)
    except BerthError as error:
        return [fail("site file", error.message, error.hint)]
    if site is None:
        return [
            warn(
                "site file",
                f"there is no {SITE_FILE}: nothing of a site can be checked",
                "make one with berth site init, or give --site FILE",
            )
        ]
    return list(examine(site))


@click.command("support")
@site_option
@click.option(
    "-o", "--output", type=PATH, help="The file to write. Default: berth-support-DATE.tar.gz here."
)
@click.option("--with-names", is_flag=True, help="Keep the names of users and accounts.")
@json_option
def support_bundle(
    site_file: Path | None, output: Path | None, *, with_names: bool, json_: bool
) -> None:
    """Collect what a maintainer needs: versions, what doctor finds, the site file, the scheduler's
    queues and kinds of nodes, the daemon's counters, the newest decisions and outcomes, its log.

    Users and accounts become user-1, account-2 ...; passwords of URLs, scripts and arguments of
    programs are left out. Nothing is sent anywhere: read it, then send it.

    \b
    Example:
      berth site support --site /etc/berth/berth.toml -o berth-support.tar.gz
    """
    site = find_site(site_file)
    if site is None:
        raise UsageError(f"there is no {SITE_FILE}", hint="give --site FILE")
    target = output or Path(time.strftime("berth-support-%Y%m%d-%H%M%S.tar.gz"))
    texts = gather(site, with_names=with_names)
    write_archive(texts, target)
    missing = {n: text for n, text in texts.items() if text.startswith("could not be read")}
    facts = [(n, missing.get(n) or f"{len(text.encode()):,} bytes") for n, text in texts.items()]
    notes = [f"{target}: read it before you send it (tar xzf {target})."]
    sizes = {name: len(text.encode()) for name, text in texts.items() if name not in missing}
    summary = {"file": str(target), "bytes": sizes, "missing": missing}
    answer(Part("", facts=facts, notes=notes), summary, json_=json_)
