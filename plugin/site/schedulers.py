"""Names the constants of a scheduler that a site file needs: its name, words, and kinds of GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol

from berth.pilot.documents import D, Document, validate
from berth.pilot.errors import DocumentError
from berth.pilot.plugins import Registry, public_names


class NoSettings(Document):
    """Empty settings, for a scheduler without a table of its own in the site file."""


class SchedulerTraits(Protocol):
    """The constants of a scheduler's class; ``plugin.scheduler.Scheduler`` adds the methods."""

    name: ClassVar[str]
    """The scheduler's name in the site file and the submit protocol: lower case, one word."""
    title: ClassVar[str]
    """The scheduler's name in sentences, for example ``Slurm``."""
    queue_word: ClassVar[str] = "queue"
    """The scheduler's word for a queue, such as ``partition``; ``--WORD=auto`` lets Berth choose.
    """
    config_file: ClassVar[str] = "the scheduler's configuration"
    """What sentences call the file that defines the queues, for example ``slurm.conf``."""
    daemon_users: ClassVar[tuple[str, ...]] = ()
    """Users that may query the daemon if the site file names none; empty: the user named ``name``.
    """
    opt_out: ClassVar[str] = "BERTH_WORKLOAD=off"
    """What a submitter writes so that Berth leaves that one job unchanged."""
    typed_gpus: ClassVar[bool] = False
    """True: GPUs and slices have types (``gpu:h100``); False: all GPUs of a node count as
    ``gpu``.
    """
    lists_queues: ClassVar[bool] = False
    """True: a job may name several queues, separated by commas, and starts in the first that has
    room.
    """
    stamps_are_private: ClassVar[bool] = False
    """True: users can neither write the comment that holds Berth's decision id nor copy it to a
    job.
    """
    replayed_as: ClassVar[str] = "easy"
    """The backfill algorithm of ``policies.replay`` that is closest to this scheduler's."""
    pair_launcher: ClassVar[str | None] = None
    """Command that starts ranks on both nodes of a two-node job: ``{ranks}`` in all, ``{each}`` per
    node.
    """
    job_variable: ClassVar[str | None] = None
    """Environment variable that holds a running job's id."""
    settings_type: ClassVar[type[Document]] = NoSettings
    """The type of the scheduler's own table in the site file; the table bears the scheduler's name.
    """


SCHEDULERS: Registry[type[SchedulerTraits]] = Registry(
    "berth.schedulers",
    kind="scheduler",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=(*public_names(SchedulerTraits), "read", "render", "submit", "outcomes", "ended"),
)
"""The classes by name; ``plugin.scheduler.scheduler_named`` makes a ``Scheduler`` of one."""
DEFAULT = SCHEDULERS.own()[0]
"""The scheduler of a site file that names none."""


def own_table(name: str, table: object, model: type[D], *, source: Path) -> D:
    """Return the site file's table of the scheduler ``name``, validated against ``model``.

    Raises DocumentError, whose key is the invalid key prefixed by ``name``.
    """
    try:
        return validate(table, model, source=source)
    except DocumentError as error:
        key = f"{name}.{error.key}" if error.key else name
        raise DocumentError(source, error.problem, key=key, hint=error.hint) from None
