"""The text of gres.conf and slurm.conf for a node's slices: written, read back, edited."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from berth.pilot.errors import BerthError
from berth.plugin.mig.errors import PlanRefused
from berth.plugin.slurm.mig.slots import Slot
from berth.policies.mig import Instance

HEADER = "# Written by `berth mig apply`; changed by hand, it no longer describes the slices."
_LINE = re.compile(
    r"NodeName=(?P<node>\S+) .*Type=(?P<type>\S+) (?:Multiple)?Files?=\S+"
    r"(?: # (?P<gpu>GPU-\S+)(?: (?P<profile>\S+)@(?P<start>\d+))?)?"
)
_NODE = re.compile(r"(?i)^(?P<head>\s*NodeName=(?P<name>\S+)\s)(?P<rest>.*)$")
_GRES = re.compile(r"(?i)(?<=\s)Gres=\S*")
_TYPE = re.compile(r"[A-Za-z0-9_.+-]+")


def type_name(profile: str, pattern: str = "{profile}") -> str:
    """The gres type of a slice, for example ``3g.20gb`` or ``a100_3g.20gb``.

    Media variants keep their suffix: they are different slices. Raises PlanRefused where the
    pattern makes no valid type.
    """
    name = pattern.replace("{profile}", profile)
    if profile not in name or not _TYPE.fullmatch(name):
        raise PlanRefused(
            f"{name!r} cannot be a gres type",
            hint="type_pattern needs {profile}, and only letters, digits and . _ + - besides",
        )
    return name


def is_found_by_nvml(name: str, nvml_name: str) -> bool:
    """Whether ``AutoDetect=nvml`` takes this type: it must be part of the device's own name."""
    return name.lower() in nvml_name.lower().replace(" ", "_")


def gres_conf(
    node: str,
    slots: Sequence[Slot],
    files: Callable[[Slot], Sequence[str]],
    padding_file: Callable[[int], str],
) -> str:
    """The node's lines, one for each number; comments tell what stands behind it."""
    lines = [HEADER]
    for number, slot in enumerate(slots):
        begin = f"NodeName={node} AutoDetect=off Name=gpu Type={slot.type}"
        if slot.is_padding:
            lines.append(f"{begin} File={padding_file(number)}")
            continue
        paths = files(slot)
        key = "MultipleFiles" if len(paths) > 1 else "File"
        what = f" {slot.instance}" if slot.instance else ""
        lines.append(f"{begin} {key}={','.join(paths)} # {slot.gpu}{what}")
    return "\n".join(lines) + "\n"


def read_slots(text: str, node: str) -> tuple[Slot, ...] | None:
    """The slots that ``gres_conf`` wrote; None where the file is somebody else's work."""
    if not text.startswith(HEADER):
        return None
    found = []
    for line in text.splitlines()[1:]:
        match = _LINE.fullmatch(line.strip())
        if match is None or match["node"] != node:
            return None
        instance = Instance(int(match["start"]), match["profile"]) if match["profile"] else None
        found.append(Slot(match["type"], match["gpu"], instance))
    return tuple(found)


def with_node_gres(text: str, node: str, gres: str, *, source: str) -> str:
    """The configuration text with this node's ``Gres=`` replaced or added, all else as it was.

    Raises BerthError where the node has no line of its own.
    """
    found = 0
    lines = []
    for line in text.splitlines(keepends=True):
        match = _NODE.match(line.rstrip("\n"))
        if match is None or match["name"] != node:
            lines.append(line)
            continue
        found += 1
        if match["rest"].rstrip().endswith("\\"):
            raise BerthError(f"{source}: the line NodeName={node} is continued; write it in one")
        ending = "\n" if line.endswith("\n") else ""
        body, mark, comment = match["rest"].partition("#")
        body = " " + body
        new = _GRES.sub(lambda _: f"Gres={gres}", body)
        if new == body and not _GRES.search(body):
            new = f"{body.rstrip()} Gres={gres}{' ' if mark else ''}"
        lines.append(f"{match['head']}{new[1:]}{mark}{comment}{ending}")
    if found != 1:
        what = "no line" if found == 0 else f"{found} lines"
        raise BerthError(
            f"{source} has {what} NodeName={node}",
            hint="the node needs exactly one line of its own (not a range such as node[1-4])",
        )
    return "".join(lines)


def node_gres(text: str, node: str) -> str:
    """The node's ``Gres=`` in slurm.conf; ``(null)`` where it has none."""
    for line in text.splitlines():
        match = _NODE.match(line)
        found = match and match["name"] == node and _GRES.search(" " + match["rest"])
        if found:
            return str(found.group()).partition("=")[2]
    return "(null)"


def numbers(gres_used: str) -> tuple[int, ...]:
    """The numbers in use, from ``GresUsed=gpu:1g.5gb:2(IDX:0-1),gpu:3g.20gb:1(IDX:4)``."""
    found: set[int] = set()
    for inside in re.findall(r"gpu:[^()]*\(IDX:([0-9,-]+)\)", gres_used):
        for part in inside.split(","):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))
