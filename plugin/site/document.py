"""The schema ``berth.site/1`` of the site file ``berth.toml``, as it is written.

``docs/site-file.md`` is generated from the fields' descriptions; a test compares the two.
``load.py`` makes the ``Site``, which the rest of Berth uses, from this document.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, field_validator

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.pilot.plugins import Registry
from berth.pilot.profile import Name, NonNegative, Positive
from berth.plugin.site.candidate_tables import CandidateTable, Names, PlatformTable, Text
from berth.plugin.site.programs import FIELDS, compiled_by_re2
from berth.plugin.site.schedulers import DEFAULT, SCHEDULERS
from berth.policies.codes import Code
from berth.policies.settings import FitSettings, GateSettings, PolicyTable
from berth.policies.values import Mode

SITE_SCHEMA = "berth.site/1"


def _path(value: Any) -> Any:
    if value == "":
        raise ValueError("needs the path of a file")
    return value


FilePath = Annotated[Path, BeforeValidator(_path)]
"""A path; a relative one is taken relative to the site file."""


def _registered(registry: Registry[Any], name: str) -> str:
    """Return ``name`` if it is registered and can be imported. Raises ValueError naming the
    nearest registered name."""
    try:
        registry.load(name)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    return name


class SiteTable(Document):
    """`[site]`: the site's name, scheduler and reference."""

    name: Name = Field("site", description="name of the site or cluster, shown in messages")
    scheduler: Name = Field(
        DEFAULT,
        description="the scheduler jobs are given to: `slurm`, `flux`, or one that "
        "[another package](extending.md) brings; its own table bears its name",
    )
    reference_platform: Name | None = Field(
        None, description="platform that pilot jobs run on; speedups are relative to it"
    )
    reference_partition: Text | None = Field(
        None,
        validation_alias=AliasChoices("reference_partition", "reference_queue"),
        description="partition that `berth pilot submit` sends pilot jobs to",
    )
    auto_partition: Text | None = Field(
        None,
        validation_alias=AliasChoices("auto_partition", "auto_queue"),
        description="[partition that means *Berth, choose*]"
        "(slurm.md#2-a-partition-called-auto); it must exist",
    )
    currency: Text = Field("EUR", description="currency of all prices")

    @field_validator("scheduler")
    @classmethod
    def _known(cls, value: str) -> str:
        return _registered(SCHEDULERS, value)


class EnergyTable(Document):
    """`[energy]`: the emissions of the site's electricity."""

    carbon_g_per_kwh: NonNegative | None = Field(
        None,
        description="carbon intensity of the site's electricity, grams of CO2 equivalent: "
        "for what `berth predict` of language models and `berth replay` print",
    )


class DaemonSettings(Document):
    """`[daemon]`: paths, users and limits of the daemon that answers the scheduler."""

    socket: FilePath = Field(
        Path("/run/berth/berth.sock"), description="Unix socket of `berth serve`"
    )
    user_socket: FilePath = Field(
        Path("/run/berth-users/berth.sock"),
        description="Unix socket of `berth serve --users`, where users add and list workloads",
    )
    admins: Names = Field(
        (),
        description="users that may change every workload there, besides root and the daemon's own",
    )
    sharing: Literal["approved", "open"] = Field(
        "approved",
        description="a user's workload serves all users (`--share`) once an admin approves it, or "
        "at once (`open`)",
    )
    store: Text = Field(
        "sqlite:////var/lib/berth/berth.db",
        description="URL of the store: SQLite, or PostgreSQL where several hosts share it",
    )
    deadline_ms: int = Field(
        50, ge=1, le=1000, description="most milliseconds one submission waits for Berth"
    )
    kill_switch: FilePath = Field(
        Path("/etc/berth/off"), description="while this file exists, every job is left alone"
    )
    ruled_out: FilePath = Field(
        Path("/var/lib/berth-putback/ruled-out.json"),
        description="places that jobs were put back from (`berth site slurm putback` writes it, "
        "the daemon keeps such jobs away)",
    )
    scheduler_users: Annotated[Names, Field(min_length=1)] = Field(
        (),
        description="users that may ask the daemon (checked by SO_PEERCRED); default: the one that "
        "bears the scheduler's name",
    )
    state_refresh_s: Positive = Field(
        15.0, description="seconds between two readings of the partitions' state"
    )
    outcomes_refresh_s: NonNegative = Field(
        60.0, description="seconds between two readings of what became of jobs; 0: never"
    )

    @property
    def open_sharing(self) -> bool:
        """Return whether a user's workload may serve all users without an admin's approval."""
        return self.sharing == "open"


class PredictorTable(Document):
    """`[predictor]`: the bundles that make the predictions."""

    bundles: tuple[Text, ...] = Field(
        (),
        max_length=100,
        description="folders of bundles, relative to the site file, each in place of the shipped "
        "one of its kind; `berth workload add`, `berth place` and the daemon use them",
    )


class LearningTable(Document):
    """`[learning]`: what Berth learns from finished jobs."""

    enabled: bool = Field(
        True,
        description="the daemon learns from finished jobs; false: only `berth jobs learn` does",
    )
    everybody: bool = Field(
        False,
        description="jobs of all users move [everybody's forecasts](learning.md#whose-jobs-count)",
    )


class RightSizing(Document):
    """`[right_sizing]`: handling of memory requests far above what past jobs needed."""

    advise: bool = Field(True, description="say so at submission, in the job's one line")
    users: Names = Field(
        (),
        description="whose batch jobs get a smaller request (any job with "
        "`--comment=berth-memory:fit` does)",
    )


class SlicesFromUse(Document):
    """`[slices_from_use]`: MIG slices for jobs known from past jobs on whole GPUs."""

    everybody: bool = Field(False, description="all covered jobs may get such slices")
    users: Names = Field(
        (),
        description="whose jobs get the smallest slice that will do by what their past jobs used "
        "(any job with `--comment=berth-slice:fit` does)",
    )


_Expression = Annotated[str, Field(min_length=1, max_length=500)]


class ProgramTable(Document):
    """`[[programs]]`: how the program of a job is recognised, from what its submission says."""

    name: Text = Field(
        description="name of the program; `{1}` to `{9}` stand for the groups of the expressions"
    )
    job_name: _Expression | None = Field(
        None,
        description="regular expression (RE2: no look-around, no back references) that the job's "
        "name must match somewhere; likewise the next five. All that are given must match",
    )
    comment: _Expression | None = Field(None, description="the job's `--comment`")
    command: _Expression | None = Field(
        None, description="the command of `--wrap`, or the first 4,096 characters of the script"
    )
    script: _Expression | None = Field(None, description="the script's path as its user wrote it")
    image: _Expression | None = Field(
        None, description="the container image, of an option or named in the script"
    )
    modules: _Expression | None = Field(
        None, description="environment modules that were loaded, or that the script loads"
    )
    over_job_name: bool | None = Field(
        None,
        description="the program counts in place of a job name that says something itself; "
        "default: where `job_name` or `comment` is given",
    )

    @field_validator(*FIELDS)
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            compiled_by_re2(value)
        return value

    @property
    def expressions(self) -> dict[str, str]:
        """Return the expressions that are given, by field."""
        return {field: text for field in FIELDS if (text := getattr(self, field)) is not None}


class IncludeExclude(Document):
    """Names that are included and excluded; an empty `include` includes all names."""

    include: Names = Field((), description="only these; empty: all")
    exclude: Names = Field((), description="never these, even if included")

    def admits(self, name: str | None) -> bool:
        """Return whether ``name`` passes the filter; None passes unless ``include`` lists names."""
        if name is None:
            return not self.include
        return name not in self.exclude and (not self.include or name in self.include)


class Coverage(Document):
    """`[coverage]`: the jobs that Berth handles."""

    users: IncludeExclude = Field(default_factory=IncludeExclude, description="by user name")
    accounts: IncludeExclude = Field(default_factory=IncludeExclude, description="by account")
    partitions: IncludeExclude = Field(
        default_factory=IncludeExclude,
        validation_alias=AliasChoices("partitions", "queues"),
        description="by the partition that the user wrote",
    )
    unnamed_partition: bool = Field(
        True,
        validation_alias=AliasChoices("unnamed_partition", "unnamed_queue"),
        description="jobs that name no partition at all are covered; those that name the auto "
        "partition always are",
    )
    interactive: bool = Field(False, description="`salloc` and `srun` outside a job are covered")
    arrays: bool = Field(True, description="array jobs are covered (as a whole)")
    het: bool = Field(False, description="components of heterogeneous jobs are covered")

    def why_not(
        self,
        *,
        user: str,
        account: str | None,
        queue: str | None,
        asked: bool = False,
        interactive: bool = False,
        array: bool = False,
        het: bool = False,
    ) -> tuple[Code, str] | None:
        """Return the code and message why Berth does not handle such a job; None: Berth handles it.

        ``asked``: the user chose the auto partition, so the filter for partitions does not apply.
        """
        if not self.users.admits(user):
            return Code.NOT_COVERED_USER, f"This site's Berth does not look at jobs of {user}."
        if not self.accounts.admits(account):
            return (
                Code.NOT_COVERED_ACCOUNT,
                f"This site's Berth does not look at jobs of account {account or '(none)'}.",
            )
        named = self.unnamed_partition if queue is None else self.partitions.admits(queue)
        if not asked and not named:
            return (
                Code.NOT_COVERED_QUEUE,
                f"This site's Berth does not look at jobs for {queue or 'the default partition'}.",
            )
        kinds = ((interactive, self.interactive, "interactive"), (array, self.arrays, "array"))
        for is_one, covered, word in (*kinds, (het, self.het, "heterogeneous")):
            if is_one and not covered:
                return Code.NOT_COVERED_KIND, f"This site's Berth does not look at {word} jobs."
        return None


class Show(StrEnum):
    """Which decisions are reported to users at submission."""

    CHANGED = "changed"
    ALL = "all"
    NONE = "none"


class MessagesTable(Document):
    """`[messages]`: the messages that users get when they submit a job."""

    show: Show = Field(
        Show.CHANGED,
        description="`changed`: one line where the job is changed (in mode `advise`: would be); "
        "`all`: also why it is not; `none`: never a line",
    )


class SiteDocument(Document, extra="allow"):
    """The whole site file. The table named after a scheduler is validated by that scheduler."""

    schema_: str = Field(SITE_SCHEMA, alias="schema", description="always `berth.site/1`")
    mode: Mode = Field(
        Mode.SHADOW,
        description="`off`; `shadow`: decide and record only; `advise`: also tell the user; "
        "`enforce`: change the job",
    )
    site: SiteTable = Field(default_factory=SiteTable, description="see `[site]`")
    policy: PolicyTable = Field(default_factory=PolicyTable, description="see `[policy]`")
    fit: FitSettings = Field(default_factory=FitSettings, description="see `[fit]`")
    gate: GateSettings = Field(default_factory=GateSettings, description="see `[gate]`")
    energy: EnergyTable = Field(default_factory=EnergyTable, description="see `[energy]`")
    daemon: DaemonSettings = Field(default_factory=DaemonSettings, description="see `[daemon]`")
    predictor: PredictorTable = Field(
        default_factory=PredictorTable, description="see `[predictor]`"
    )
    learning: LearningTable = Field(default_factory=LearningTable, description="see `[learning]`")
    right_sizing: RightSizing = Field(
        default_factory=RightSizing, description="see `[right_sizing]`"
    )
    slices_from_use: SlicesFromUse = Field(
        default_factory=SlicesFromUse, description="see `[slices_from_use]`"
    )
    programs: tuple[ProgramTable, ...] = Field((), max_length=200, description="see `[[programs]]`")
    coverage: Coverage = Field(default_factory=Coverage, description="see `[coverage]`")
    messages: MessagesTable = Field(default_factory=MessagesTable, description="see `[messages]`")
    platforms: tuple[PlatformTable, ...] = Field(
        (), max_length=1_000, description="see `[[platforms]]`"
    )
    candidates: tuple[CandidateTable, ...] = Field(
        (), max_length=1_000, description="see `[[candidates]]`"
    )
