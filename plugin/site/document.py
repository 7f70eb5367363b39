"""The schema ``berth.site/1`` of the site file ``berth.toml``, as it is written.

``docs/site-file.md`` is generated from the fields' descriptions; a test compares the two.
``load.py`` makes the ``Site``, which the rest of Berth uses, from this document.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, field_validator

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.pilot.plugins import Registry
from berth.pilot.profile import Name, NonNegative, Positive
from berth.plugin.site.candidate_tables import CandidateTable, Names, PlatformTable, Text
from berth.plugin.site.programs import FIELDS, compiled_by_re2
from berth.plugin.site.schedulers import DEFAULT, SCHEDULER_TRAITS
from berth.policies.codes import Code
from berth.policies.objectives import OBJECTIVES
from berth.policies.settings import SliceAim, UntypedGpus
from berth.policies.values import Mode

SITE_SCHEMA = "berth.site/1"


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
        description="partition that means *Berth, choose*; it must exist, best with the "
        "nodes of all partitions, because its jobs run there whenever Berth does not answer",
    )
    currency: Text = Field("EUR", description="currency of all prices")

    @field_validator("scheduler")
    @classmethod
    def _known(cls, value: str) -> str:
        return _registered(SCHEDULER_TRAITS, value)


class WeightsTable(Document):
    """`[policy.weights]`: weights of the objective `balanced`, and `wait`."""

    time: NonNegative = Field(1.0, description="exponent of the time, objective balanced")
    cost: NonNegative = Field(1.0, description="exponent of the cost, objective balanced")
    energy: NonNegative = Field(0.0, description="exponent of the energy, objective balanced")
    wait: NonNegative = Field(
        1.0, description="seconds that one second of expected waiting counts as; 0: ignored"
    )


class PolicyTable(Document):
    """`[policy]`: how a place is chosen for a job."""

    objective: Name = Field(
        "fastest",
        description="[what the chosen place is best at](policies.md): `fastest`, `earliest`, "
        "`cheapest`, `least-energy`, `least-carbon`, `balanced`, `throughput-fair`, `deadline`, or "
        "one that [another package](extending.md) brings",
    )
    allow_prior: bool = Field(
        False, description="act on predictions for platforms without any calibration data"
    )
    may_raise_time_limit: bool = Field(
        False,
        description="raise a job's time limit (within the partition's) to the upper predicted time",
    )
    time_margin: float = Field(
        1.0, ge=1, le=100, description="upper predicted time x this must fit the time limit"
    )
    max_interval_ratio: float = Field(
        30.0,
        gt=1,
        description="act only where upper / lower end of the comparison with other places is at "
        "most this",
    )
    alike_within: float = Field(
        1.25,
        ge=1,
        le=10,
        description="Slurm: where several places are nearly equally good (predicted finish "
        "within this factor of the best, overlapping intervals, same changes of "
        "the job), the job gets all of them as a list of partitions and starts "
        "where it can first; 1: never",
    )
    stale_after_s: Positive = Field(
        120.0, description="age in seconds from which a candidate's state is not trusted"
    )
    slices: SliceAim = Field(
        SliceAim.SMALLEST,
        description="which MIG slice of a GPU model the objective may choose: the "
        "`smallest` that will do, `throughput` (most predicted work for its "
        "part of the GPU), or `objective`: any",
    )
    untyped_gpus: UntypedGpus = Field(
        UntypedGpus.TYPE,
        description="jobs with `--gres=gpu:1` on nodes with MIG slices: `type` (Berth names "
        "the slice that it chooses) or `leave` (Berth sends none there)",
    )
    deadline_limits: Positive | None = Field(
        None,
        description="objective `deadline`: a job without a deadline of its own gets one of "
        "so many times its time limit; default: none",
    )
    control: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the jobs that Berth would change, drawn at random, which are left as "
        "written instead: `berth jobs gain` compares them with the changed jobs; 0: none "
        "(mode `enforce`; in mode `shadow` every job is left as written)",
    )
    weights: WeightsTable = Field(
        default_factory=WeightsTable, description="see `[policy.weights]`"
    )

    @field_validator("objective")
    @classmethod
    def _known(cls, value: str) -> str:
        return _registered(OBJECTIVES, value)


class FitTable(Document):
    """`[fit]`: jobs of which no time is predicted well enough get every partition that they fit."""

    mode: Mode = Field(
        Mode.ENFORCE,
        description="such jobs get the list of partitions where they fit as written: `off`; "
        "`shadow` and `advise`: only to that extent; `enforce`: as far as the site's `mode` says",
    )
    unnamed_partition: bool = Field(
        False,
        validation_alias=AliasChoices("unnamed_partition", "unnamed_queue"),
        description="also jobs that name no partition at all, not only those of the auto partition",
    )


class GateTable(Document):
    """`[gate]`: what a moved job may lose against the partition where it was submitted."""

    bill_factor: float = Field(
        1.0,
        ge=1,
        le=1_000,
        description="most times that the job may be billed (`TRESBillingWeights`, else CPUs), for "
        "its predicted time where that is known",
    )
    shorter_limit: bool = Field(
        False, description="jobs without a time limit may get a partition's shorter one"
    )
    preemptible: bool = Field(
        False,
        description="other jobs may interrupt it (`PriorityTier` with `PreemptMode`, `Preempt` of "
        "a QOS), unless it says `--no-requeue`",
    )
    lower_priority: bool = Field(False, description="a lower `PriorityTier`")
    shared_cores: bool = Field(
        False, description="nodes or cores shared with other jobs (`OverSubscribe=FORCE`)"
    )
    whole_nodes: bool = Field(
        False,
        description="whole nodes for a job that asked for parts (`OverSubscribe=EXCLUSIVE`)",
    )
    hardware_threads: bool = Field(
        False, description="hardware threads instead of cores, so that it gets fewer cores"
    )
    less_memory: bool = Field(False, description="less memory by default")
    added_gpus: bool = Field(
        True, description="GPUs for a job that asks for none, where they are predicted to be best"
    )


class EnergyTable(Document):
    """`[energy]`: the power that jobs draw, and the emissions of the site's electricity."""

    utilisation: float = Field(
        1.0,
        ge=0,
        le=1,
        description="where power is known by a data sheet alone: the part of the difference "
        "between idle and full power that a job uses",
    )
    carbon_g_per_kwh: NonNegative | None = Field(
        None, description="carbon intensity of the site's electricity, grams of CO2 equivalent"
    )
    carbon_file: Text | None = Field(
        None,
        description="the same hour by hour: a CSV file with the columns `time` and `g_per_kwh`, "
        "relative to the site file; read again when it changes",
    )


class DaemonTable(Document):
    """`[daemon]`: paths, users and limits of the daemon that answers the scheduler."""

    socket: Text = Field("/run/berth/berth.sock", description="Unix socket of `berth serve`")
    user_socket: Text = Field(
        "/run/berth-users/berth.sock",
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
    workloads_per_user: int = Field(
        200, ge=1, le=100_000, description="most workloads that one user may have in the store"
    )
    store: Text = Field(
        "sqlite:////var/lib/berth/berth.db",
        description="URL of the store: SQLite, or PostgreSQL where several hosts share it",
    )
    deadline_ms: int = Field(
        50, ge=1, le=1000, description="most milliseconds one submission waits for Berth"
    )
    kill_switch: Text = Field(
        "/etc/berth/off", description="while this file exists, every job is left alone"
    )
    ruled_out: Text = Field(
        "/var/lib/berth-putback/ruled-out.json",
        description="places that jobs were put back from (`berth site slurm putback` writes it, "
        "the daemon keeps such jobs away)",
    )
    scheduler_users: Names | None = Field(
        None,
        min_length=1,
        description="users that may ask the daemon (checked by SO_PEERCRED); default: the one that "
        "bears the scheduler's name",
    )
    state_refresh_s: Positive = Field(
        15.0, description="seconds between two readings of the partitions' state"
    )
    outcomes_refresh_s: NonNegative = Field(
        60.0, description="seconds between two readings of what became of jobs; 0: never"
    )
    waits_refresh_s: NonNegative = Field(
        60.0,
        description="seconds between two look-aheads that give the expected waits; 0: never",
    )
    breaker_failures: int = Field(
        3, ge=1, le=1000, description="failures in a row after which the filter stops asking"
    )
    breaker_open_s: Positive = Field(30.0, description="seconds for which it then does not ask")


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
    period_s: Positive = Field(
        20.0, description="seconds between two looks for jobs that have ended"
    )
    everybody: bool = Field(
        False,
        description="true: jobs of all users move everybody's forecasts of shared "
        "workloads; false: only the owner's jobs do, and each user's own jobs "
        "move that user's",
    )


_BY_ACCOUNT = "likewise, by account"
_BY_PROGRAM = "likewise, by name of the workload or of the job (digits as `#`)"


class RightSizing(Document):
    """`[right_sizing]`: handling of memory requests far above what past jobs needed."""

    advise: bool = Field(True, description="say so at submission, in the job's one line")
    users: Names = Field(
        (),
        description="whose batch jobs get a smaller request (any job with "
        "`--comment=berth-memory:fit` does)",
    )
    accounts: Names = Field((), description=_BY_ACCOUNT)
    programs: Names = Field((), description=_BY_PROGRAM)


class SlicesFromUse(Document):
    """`[slices_from_use]`: MIG slices for jobs known from past jobs on whole GPUs."""

    everybody: bool = Field(False, description="all covered jobs may get such slices")
    users: Names = Field(
        (),
        description="whose jobs get the smallest slice that will do by what their past jobs used "
        "(any job with `--comment=berth-slice:fit` does)",
    )
    accounts: Names = Field((), description=_BY_ACCOUNT)
    programs: Names = Field((), description=_BY_PROGRAM)


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
    fit: FitTable = Field(default_factory=FitTable, description="see `[fit]`")
    gate: GateTable = Field(default_factory=GateTable, description="see `[gate]`")
    energy: EnergyTable = Field(default_factory=EnergyTable, description="see `[energy]`")
    daemon: DaemonTable = Field(default_factory=DaemonTable, description="see `[daemon]`")
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
