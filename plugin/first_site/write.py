"""Writes the text of a first ``berth.toml``, with comments for the administrator."""

from __future__ import annotations

import json
from collections.abc import Iterator

from berth.plugin.first_site.first import AUTO_QUEUE, FirstCandidate, FirstSite
from berth.plugin.first_site.stub import STUB_MARK
from berth.plugin.site.schedulers import DEFAULT

PLATFORM_FOLDER = "platforms"


def toml_text(site: FirstSite, *, name: str) -> str:
    """Return the text of a first site file, from which ``load_site`` reads back every value."""
    return "\n".join(_lines(site, name)) + "\n"


def auto_lines(site: FirstSite) -> tuple[str, ...]:
    """Return the scheduler's configuration lines that define the auto queue; empty if that queue
    exists.
    """
    default = site.reference_queue
    if site.has_auto or default is None:
        return ()
    return site.scheduler.auto_queue(AUTO_QUEUE, default, site.facts)


def left_out_line(site: FirstSite) -> str:
    """Return a sentence that names the queues without candidates, which the site does not offer to
    users.
    """
    names = ", ".join(f"{queue.name} ({queue.not_for_users})" for queue in site.left_out)
    return f"No candidates, as they are not for users: {names}."


def _lines(site: FirstSite, name: str) -> Iterator[str]:
    yield f"# First site file for {name}, written by berth site init from {site.facts.version}."
    yield "# Every key is explained in docs/site-file.md. Prices are yours to fill in."
    yield 'schema = "berth.site/1"'
    yield "# shadow: decide and record, change nothing, until `berth site doctor` says ready."
    yield 'mode = "shadow"'
    yield ""
    yield "[site]"
    yield f"name = {_string(name)}"
    word = site.queue_word
    if site.scheduler.name != DEFAULT:
        yield f"scheduler = {_string(site.scheduler.name)}"
    if site.reference_platform is not None and site.reference_queue is not None:
        yield f"reference_platform = {_string(site.reference_platform)}"
        yield f"reference_{word} = {_string(site.reference_queue)}"
    lines = auto_lines(site)
    if site.has_auto:
        yield f"auto_{word} = {_string(AUTO_QUEUE)}"
    elif lines:
        where = site.scheduler.config_file
        yield f"# For `--{word}={AUTO_QUEUE}`, add to {where} a {word} of the nodes where jobs may"
        yield "# run (they do, whenever Berth does not answer), and uncomment the key:"
        yield from (f"#   {_comment(line)}" for line in lines)
        yield f'# auto_{word} = "{AUTO_QUEUE}"'
    yield 'currency = "EUR"'
    if site.facts.owner is not None:
        yield ""
        yield "[daemon]"
        yield f"# The user that {site.scheduler.title} runs as."
        yield f"scheduler_users = {_value((site.facts.owner,))}"
    yield ""
    yield "[policy]"
    yield 'objective = "fastest"'
    yield "allow_prior = false"
    yield "may_raise_time_limit = false"
    for stub in site.stubs.values():
        yield ""
        yield "[[platforms]]"
        if STUB_MARK in stub.description:
            yield "# Not measured yet: `berth site calibrate` writes this file anew."
        yield f"name = {_string(stub.name)}"
        yield f"file = {_string(f'{PLATFORM_FOLDER}/{stub.name}.json')}"
        yield "# price_per_hour = 0.0"
    if site.left_out:
        yield ""
        yield f"# {_comment(left_out_line(site))}"
    for candidate in site.candidates:
        yield ""
        yield from _candidate(candidate, word)


def _candidate(c: FirstCandidate, word: str) -> Iterator[str]:
    if c.role is not None:
        what, why = c.role
        yield f"# CHECK: {_comment(c.queue.name)} seems to be for {what} ({why}), so no job is sent"
        yield "# there. If it is for all jobs, remove the # before each key."
        yield from (f"# {line}" for line in _keys(c, word))
        return
    yield from _keys(c, word)


def _keys(c: FirstCandidate, word: str) -> Iterator[str]:
    yield "[[candidates]]"
    yield from (f"# CHECK: {_comment(remark)}." for remark in c.remarks)
    if not c.instruction_sets:
        yield "# instruction_sets is not known: programs that need AVX or the like go elsewhere"
        yield '# first. Write the level of the CPUs, for example: instruction_sets = ["x86-64-v3"]'
    memory = f"{c.memory_bytes // 2**20}M" if c.memory_bytes >= 2**20 else None
    keys: dict[str, str | int | tuple[str, ...] | None] = {
        "name": c.name,
        "platform": c.platform,
        word: c.queue.name,
        "constraint": c.constraint,
        "gres": c.gres,
        "gpus_per_node": c.gpus_per_node or None,
        "nodes": c.nodes,
        "cores_per_node": c.cores_per_node,
        "memory_per_node": memory,
        "features": c.features or None,
        "architecture": c.architecture if c.gres else None,
        "instruction_sets": c.instruction_sets or None,
        "max_time": _duration(c.queue.max_time_s),
        "default_time": _duration(c.queue.default_time_s),
        "accounts": c.queue.allowed_accounts,
        "qos": c.queue.allowed_qos,
    }
    yield from (f"{key} = {_value(value)}" for key, value in keys.items() if value is not None)
    if c.gres is not None:
        yield "[candidates.translation]"
        yield "# A request without GPUs becomes one GPU that its tasks share. Where its shape may"
        yield "# change (--follows-shape, keep_tasks = false), it is one task with so many cores."
        yield "gpus = 1"
        yield f"cpus_per_gpu = {max(1, c.cores_per_node // max(1, c.gpus_per_node))}"


def _duration(seconds: float | None) -> str | None:
    """Return a duration in the largest unit that gives a whole number: ``"2d"``, ``"90m"``."""
    if not seconds:
        return None
    whole = int(seconds)
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if whole % unit == 0:
            return f"{whole // unit}{name}"
    return f"{whole}s"


def _value(value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_string(text) for text in value) + "]"
    return _string(value) if isinstance(value, str) else str(value)


def _string(text: str) -> str:
    """Return a TOML basic string: with JSON's escapes, which TOML shares, and an escaped DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
