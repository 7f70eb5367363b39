"""Recognises which program a job runs from the texts of its submission, by the site's rules.

Workflow managers give each job a name of its own (snakemake a UUID, Nextflow the sample), and the
program stands in the comment or the command. A rule is a table of regular expressions and the name
of the program. Placement and history both call ``ProgramRules.program_of``, so that a job is known
by the same name at its submission and afterwards.

Berth's own rules are matched by Python's ``re``; those of the site, which anybody may have written,
by RE2, whose time is linear in the text whatever the expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from berth.pilot.errors import ToolMissing
from berth.plugin.fingerprint import normalised
from berth.plugin.site.command_words import program_in
from berth.plugin.site.schedulers import SCHEDULERS

LONGEST_TEXT = 4_096
"""Maximum number of characters of each text that are searched."""
LONGEST_NAME = 64
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.+-]+")
_GROUP = re.compile(r"\{(\d)\}")
_IMAGE = re.compile(
    r"--container(?:-image)?[= ]['\"]?([^\s'\"]+)"
    r"|((?:docker|oras|library|shub)://[^\s'\"]+|[^\s'\"=]+\.(?:sif|simg|sqsh|sqfs)\b)"
)
_IMAGE_MARKS = ("--container", "://", ".sif", ".simg", ".sqsh", ".sqfs")
"""One of these is in every text that ``_IMAGE`` matches."""
_MODULES = re.compile(r"^\s*(?:module\s+(?:load|add|swap)|ml)\s+([^#;&|\n]+)", re.MULTILINE)
_PLAIN_NAMES = frozenset(
    ("run", "run.sh", "submit", "submit.sh", "job.sh", "script", "script.sh", "slurm.sh", "test",
     "batch.sh", "start.sh", "main", "main.sh", "test.sh", "jobscript.sh", "run.slurm")
)  # fmt: skip
"""Job names that tell less than a program that was recognised otherwise."""


class JobTexts(NamedTuple):
    """What a job's submission says of its program; empty: not known."""

    job_name: str = ""
    comment: str = ""
    command: str = ""
    """The command of ``--wrap``, or the script without comments."""
    script: str = ""
    """The script's path as written."""
    image: str = ""
    """The container image, of an option or in the command."""
    modules: str = ""
    """The environment modules that are loaded, separated by blanks."""


FIELDS = JobTexts._fields


class Pattern(Protocol):
    """A compiled regular expression of ``re`` or ``re2``."""

    def search(self, text: str, /) -> Any:
        """Return the first match, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A program's name and the expressions that all have to match."""

    name: str
    """May hold ``{1}`` to ``{9}``: the groups of the expressions, counted through."""
    patterns: Sequence[tuple[str, Pattern]]
    """Fields of JobTexts with their expressions."""
    over_job_name: bool
    """Whether the program counts in place of a job name that tells something itself."""

    def name_in(self, texts: JobTexts) -> str:
        """Return the program's name; empty where the rule does not apply."""
        groups: list[str] = []
        for field, pattern in self.patterns:
            match = pattern.search(getattr(texts, field)[:LONGEST_TEXT])
            if match is None:
                return ""
            groups += [group or "" for group in match.groups()]
        filled = _GROUP.sub(lambda found: _group(groups, int(found[1])), self.name)
        return _NOT_A_NAME.sub("-", filled).strip("-.")[:LONGEST_NAME]


def _group(groups: Sequence[str], number: int) -> str:
    return groups[number - 1] if 0 < number <= len(groups) else ""


def rule(
    name: str,
    patterns: Mapping[str, str],
    *,
    over_job_name: bool | None = None,
    compiled: Callable[[str], Pattern] = re.compile,
) -> Rule:
    """Return the rule of these expressions by field. Raises what ``compiled`` raises.

    ``over_job_name``: None: where it reads the job's name or comment.
    """
    reads_name = not {"job_name", "comment"}.isdisjoint(patterns)
    return Rule(
        name,
        [(field, compiled(patterns[field])) for field in FIELDS if field in patterns],
        reads_name if over_job_name is None else over_job_name,
    )


SHIPPED = (
    rule("{1}", {"comment": r"^rule_(\w+?)(?:_wildcards_.*)?$"}),
    rule("{1}", {"comment": r"\bsnakemake[:_ ]+rule[:_ ]+(\w+)"}),
    rule("nf-{1}", {"job_name": r"^nf-(.+?)(?:_\(.*\)?)?$"}),
    rule("ondemand-{1}", {"job_name": r"^(?:\w+/)?sys/dashboard/(?:sys|dev|usr)/([\w.-]+)"}),
    rule("jupyter", {"job_name": r"(?i)^(?:spawner-)?jupyter(?:hub|lab)?(?:-singleuser)?$"}),
)  # fmt: skip
"""What workflow managers and portals write, tried after the site's."""


@dataclass(frozen=True, slots=True)
class KnownCommands:
    """The rule of widespread programs: the word of a command names them (``command_words``)."""

    patterns = (("command", None),)
    over_job_name = False

    def name_in(self, texts: JobTexts) -> str:
        """Return the program's name; empty where none of the commands is known."""
        return program_in(texts.command[:LONGEST_TEXT])


def manager_that_asks_by_queue(job_name: str, script: str) -> str | None:
    """Return the workflow manager that submitted the job, where it later asks the scheduler for the
    jobs of the queue that it named; None: another submitted it.

    Nextflow (``queueGlobalStatus`` off) takes a job that is not there for dead; FireWorks counts
    none, and submits without end.
    """
    if job_name.startswith("nf-") and "nxf_" in script:
        return "Nextflow"
    if "CommonAdapter (SLURM) completed writing Template" in script:
        return "FireWorks"
    return None


class ProgramRules:
    """The site's rules, then Berth's own; the first that applies names the program."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules: tuple[Rule | KnownCommands, ...] = (*rules, *SHIPPED, KnownCommands())
        self._over_names = tuple(rule for rule in self._rules if rule.over_job_name)
        self.program_of = lru_cache(maxsize=256)(self._program_of)  # texts are of up to 4 KB
        """Return the program of these JobTexts; empty: none is recognised."""

    def _program_of(self, texts: JobTexts) -> str:
        applying = self._applying(texts.job_name)
        return next(filter(None, (rule.name_in(texts) for rule in applying)), "")

    def _applying(self, job_name: str) -> Sequence[Rule | KnownCommands]:
        named = telling_name(job_name) and job_name.lower() not in _PLAIN_NAMES
        return self._over_names if named else self._rules

    def fields_read(self, job_name: str) -> frozenset[str]:
        """Return the fields of JobTexts that matter for a job of this name: the others need not be
        read from its script."""
        applying = self._applying(job_name)
        return frozenset(field for rule in applying for field, _ in rule.patterns)


SHIPPED_ONLY = ProgramRules()


_UNNAMED = frozenset(
    ("", "sbatch", "wrap", "bash", "sh", "interactive", "job", "jobscript", *SCHEDULERS.own())
)
"""Job names that the scheduler assigns, or that say nothing about the program."""
_DRAWN = re.compile(
    r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|[\W\d_]*|(?=[a-f]*\d)[0-9a-f]{12,}"
)


def telling_name(name: str) -> str:
    """Return a job's name in small letters; empty where it says nothing of the program: a name
    that schedulers give, a UUID, a hash, digits alone."""
    lowered = name.strip().lower()
    return "" if lowered in _UNNAMED or _DRAWN.fullmatch(lowered) else lowered


def compiled_by_re2(text: str) -> Pattern:
    """Return the expression compiled by RE2. Raises ValueError with what RE2 says, and ToolMissing.

    RE2 has no look-around and no back references: what it cannot match in linear time.
    """
    try:
        import re2  # noqa: PLC0415 (only where the site has rules of its own)
    except ImportError:
        raise ToolMissing(
            "the Python package google-re2",
            needed_for="[[programs]]",
            hint="pip install google-re2",
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"is not a regular expression of RE2: {said}") from None
    return pattern


def texts_of_script(
    name: str,
    script: str | None,
    *,
    fields: Collection[str] = FIELDS,
    comment: str = "",
    arguments: Sequence[str] = (),
    path: str = "",
    modules: str = "",
) -> JobTexts:
    """Return the texts of a job, those of its script only where they are among ``fields``.

    ``modules``: those loaded when it was submitted, separated by colons.
    """
    text = (script or "")[: 4 * LONGEST_TEXT]
    command = image = loaded = ""
    if "command" in fields:
        body = normalised(text).partition("\n")[2] if text else ""
        command = f"{body}{' '.join(arguments)}"[:LONGEST_TEXT]
    if "image" in fields:
        image = image_in(text)
    if "modules" in fields:
        loaded = " ".join([*modules.split(":"), *modules_in(text)]).strip()
    return JobTexts(name, comment, command, path, image, loaded)


def image_in(text: str) -> str:
    """Return the first container image in a script or command line; empty: none."""
    if not any(mark in text for mark in _IMAGE_MARKS):
        return ""
    match = _IMAGE.search(text)
    return "" if match is None else match[1] or match[2]


def modules_in(script: str) -> list[str]:
    """Return the environment modules that a script loads."""
    return [word for match in _MODULES.finditer(script) for word in match[1].split()]
