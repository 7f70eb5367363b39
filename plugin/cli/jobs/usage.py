"""``berth jobs usage``: what a site's monitoring recorded of jobs, imported and shown."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.pilot.usage.record import VALUES
from berth.plugin.cli.options import PATH, answer, json_option, store_options
from berth.plugin.history.disagreements import by_trust, sentences, usages_of, value_text
from berth.plugin.history.files import read_usages
from berth.plugin.history.usage_files.reading import summary
from berth.plugin.installed_site import Installation
from berth.plugin.right_sizing.needs import learn_needs


@click.group()
def usage() -> None:
    """What jobs used, as the site's monitoring recorded it: import it, or show it of a job.

    \b
    Example:
      berth jobs usage import job_statistics.csv
      berth jobs usage show 4242
    """


@usage.command(name="import")
@click.argument("path", type=PATH)
@click.option("--cluster", help="Name under which job ids are unique. Default: the site's.")
@click.option("--of-cluster", help="Read only jobs of this cluster, by jobstats' name.")
@json_option
@store_options
def import_(
    *,
    path: Path,
    cluster: str | None,
    of_cluster: str | None,
    json_: bool,
    installation: Installation,
) -> None:
    """Store what PATH says that jobs used: memory, GPU memory and utilisation, processor time.

    PATH is an export of jobstats' database (CSV or mysql --batch: jobid, admin_comment), or a CSV
    of job,metric,value. jobstats' summaries in AdminComment are read by berth jobs history import.

    \b
    Example:
      berth jobs usage import jobstats.tsv    # of this command:
      mysql --batch -e 'select cluster, jobid, admin_comment from job_statistics' > jobstats.tsv
    """
    site = installation.site()
    named = cluster or (site.name if site else "site")
    now_s = time.time()
    read = read_usages(path, named, received_s=now_s, of_cluster=of_cluster)
    store = installation.store()
    names = store.past_jobs.ids_of_raw(named, {one.job_id for one in read.usages})
    read.usages = [replace(one, job_id=names.get(one.job_id, one.job_id)) for one in read.usages]
    store.usages.put(read.usages)
    learn_needs(store, now_s)
    job_ids = {one.job_id for one in read.usages}
    known = store.past_jobs.of_ids(named, job_ids)
    of_jobs = {job_id: usages_of(store, named, job_id) for job_id in job_ids}
    disagreeing = sentences(of_jobs)
    unknown = len(job_ids - known.keys())
    lines = [f"{len(job_ids)} jobs of which something is recorded ({store.name})"]
    if unknown:
        lines.append(f"{unknown} of them are not among the past jobs: berth jobs history import")
    written = {
        "jobs": len(job_ids),
        "unknown_jobs": unknown,
        "nothing_recorded": read.nothing_recorded,
        "left_out": sum(read.left_out.values()),
        "broken": read.broken,
        "examples": read.examples,
        "disagreements": disagreeing,
    }
    answer("\n".join([*lines, *summary(read), *disagreeing]), written, json_=json_)


@usage.command()
@click.argument("job_id", metavar="JOB")
@json_option
@store_options
def show(*, job_id: str, json_: bool, installation: Installation) -> None:
    """Show what is recorded of JOB, from which source, and what that source cannot say.

    \b
    Example:
      berth jobs usage show 4242
    """
    site, store = installation.site(), installation.reading()
    usages = usages_of(store, site.name if site else "site", job_id)
    if not usages:
        raise UsageError(
            f"nothing is recorded of job {job_id}",
            hint="berth jobs history import, berth jobs usage import",
        )
    recorded = {name: by_trust(usages, name) for name in VALUES}
    lines = []
    for name, values in recorded.items():
        others = "".join(
            f"; {other.source}: {value_text(name, other.value)}" for other in values[1:]
        )
        if values:
            best = value_text(name, values[0].value)
            lines.append(f"{name}: {best} ({values[0].source}{others})")
    lines += [f"{one.source} lacks: {one.lacks}" for one in usages if one.lacks]
    written = {
        "job": job_id,
        "values": [
            {"name": name, "value": value, "source": source, "counts": not at}
            for name, values in recorded.items()
            for at, (source, value) in enumerate(values)
        ],
        "lacks": {one.source: one.lacks for one in usages},
    }
    answer("\n".join(lines), written, json_=json_)
