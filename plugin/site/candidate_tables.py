"""Schemas of the site file's tables ``[[platforms]]`` and ``[[candidates]]``: hardware, job places.

Quantities are strings with a unit, such as ``"2d"`` or ``"64G"``; no unit is assumed.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, field_validator, model_validator

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.pilot.profile import Name, NonNegative, Positive, Target
from berth.pilot.units import parse_bytes, parse_duration_s
from berth.policies.values import Translation

Text = Annotated[str, Field(min_length=1, max_length=256)]
Names = tuple[Text, ...]


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration_s(value)
    raise ValueError('needs a duration with its unit, in quotes, for example "12h"')


def _memory(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError('needs a memory size with its unit, in quotes, for example "128G"')
    try:
        return parse_bytes(value)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None


Duration = Annotated[float, BeforeValidator(_duration), Field(gt=0)]
"""Seconds, read from a string with a unit."""


Memory = Annotated[int, BeforeValidator(_memory), Field(gt=0)]
"""Bytes, read from a string with a unit (binary: 1G = 2**30)."""


class PlatformTable(Document):
    """`[[platforms]]`: hardware of this site; platforms that Berth ships need no entry."""

    name: Name = Field(
        description="name that candidates use; of a shipped platform, or of the file"
    )
    file: Text | None = Field(
        None, description="platform file (JSON) relative to the site file; none: a shipped one"
    )
    price_per_hour: NonNegative | None = Field(
        None, description="of one node (CPU platforms), GPU or slice"
    )
    power_w: Positive | None = Field(None, description="typical power under load, in watts")


class SlicesTable(Document):
    """`[candidates.slices]`: the candidate gives MIG slices of its platform, which is a
    whole GPU.
    """

    profiles: Names | None = Field(
        None,
        min_length=1,
        description='for example `["1g.5gb", "3g.20gb"]`; default: every plain profile of the GPU',
    )
    type_pattern: Text = Field(
        "{profile}",
        pattern=r"^[A-Za-z0-9_.{}-]+$",
        description="name of a slice's type in Slurm, as `type_pattern` in `/etc/berth/mig.toml`",
    )

    @field_validator("type_pattern")
    @classmethod
    def _profiled(cls, value: str) -> str:
        if value.count("{") != 1 or "{profile}" not in value or value.count("}") != 1:
            raise ValueError("must hold {profile} once")
        return value


class CandidateTable(Document):
    """`[[candidates]]`: a place where jobs can go."""

    name: Name = Field(description="name shown to users")
    platform: Name = Field(description="its hardware: a `[[platforms]]` entry or a shipped name")
    partition: Text = Field(
        validation_alias=AliasChoices("partition", "queue"),
        description="partition that the job is sent to",
    )
    constraint: Text | None = Field(
        None,
        description="node feature (Flux: property) to ask for, where the partition holds several "
        "kinds; `a&b`: nodes with both",
    )
    gres: Text | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.+-]+)?$",
        description="GPU resource to ask for, without a count, for example `gpu:h200`",
    )
    nodes: int | None = Field(None, ge=1, description="number of such nodes")
    cores_per_node: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="that jobs can have; default: the platform's (CPU platforms)",
    )
    memory_per_node: Memory | None = Field(
        None, description='for example `"256G"`; default: the platform\'s (CPU platforms)'
    )
    gpus_per_node: int | None = Field(
        None, ge=1, le=1000, description="GPUs or slices in a node; default 1 on GPU platforms"
    )
    features: Names = Field((), description="features that all its nodes have")
    instruction_sets: Names | None = Field(
        None,
        description="of its CPUs: a [level](platforms.md#instruction-sets) and what they "
        'have beyond it, for example `["x86-64-v4", "avx512_bf16"]`; default: '
        "the platform's",
    )
    architecture: Name | None = Field(
        None, description="of its CPUs (`uname -m`); default: the platform's"
    )
    targets: tuple[Target, ...] | None = Field(
        None, min_length=1, description="`cpu`, `cuda`, `hip`; default: the platform's"
    )
    max_time: Duration | None = Field(None, description='longest job, for example `"2-00:00:00"`')
    default_time: Duration | None = Field(
        None, description="time limit of jobs that name none; default: the longest"
    )
    price_per_gpu_hour: NonNegative | None = Field(
        None, description="price of a GPU or slice held; default: the platform's price"
    )
    price_per_core_hour: NonNegative | None = Field(
        None, description="price of a core held; default: the platform's price / its cores"
    )
    power_per_gpu_w: Positive | None = Field(
        None, description="mean power of a GPU or slice under a job; default: the platform's"
    )
    power_per_core_w: Positive | None = Field(
        None,
        description="mean power of a core under a job; default: the platform's power / its "
        "cores (CPU platforms)",
    )
    by_fit: bool = Field(
        True,
        description="false: jobs [without a usable prediction]"
        "(site-file.md#jobs-without-a-usable-prediction) are not sent here",
    )
    users: Names | None = Field(None, description="only these users; default: all")
    accounts: Names | None = Field(None, description="only these accounts; default: all")
    qos: Names | None = Field(None, description="only these QOS; default: all")
    translation: Translation = Field(
        default_factory=Translation, description="see `[candidates.translation]`"
    )
    slices: SlicesTable | None = Field(
        None,
        description="one candidate for each MIG slice of the platform: see `[candidates.slices]`; "
        "`{profile}` in `partition` and `constraint` becomes the slice's name",
    )

    @model_validator(mode="after")
    def _limits_agree(self) -> CandidateTable:
        if (
            self.max_time is not None
            and self.default_time is not None
            and self.default_time > self.max_time
        ):
            raise ValueError("default_time is longer than max_time")
        return self
