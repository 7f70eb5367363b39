"""Slurm's numbering of a node's GPUs and MIG slices, and the gres.conf and slurm.conf text for it.

Slurm numbers a node's ``gpu`` resources through the type groups of ``Gres=`` in slurm.conf, in the
order of that line, and a running job owns *numbers*. Repartitioning beside a running job is
therefore safe only if the total stays the same (a changed total kills running jobs) and each
instance that a job holds keeps its number (otherwise Slurm gives the slice to a second job; tried
on 22.05). So a new layout is arranged around the numbers in use, and the remaining numbers are
padded with types that no job requests. All functions are pure: text in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from berth.pilot.errors import BerthError
from berth.plugin.mig.errors import PlanRefused
from berth.policies.mig import GpuInstance

PADDING = "off"


@dataclass(frozen=True, slots=True)
class GresSlot:
    """One of the node's gres numbers, with the device behind it.

    No ``gpu``: padding without a device. No ``instance``: a whole GPU.
    """

    type: str
    gpu: str | None = None
    instance: GpuInstance | None = None

    @property
    def is_padding(self) -> bool:
        """Return whether no device stands behind this gres number."""
        return self.gpu is None

    @property
    def device(self) -> tuple[str | None, GpuInstance | None]:
        """Return the GPU's UUID and the MIG instance behind this gres number, without the type's
        name."""
        return self.gpu, self.instance


@dataclass(frozen=True, slots=True)
class _GresBlock:
    """The consecutive numbers of one gres type: as many as ``slots``, including all of
    ``fixed``."""

    type: str
    slots: tuple[GresSlot, ...]
    fixed: Mapping[int, GresSlot]


def arrange(
    devices: Iterable[GresSlot], total: int, held: Mapping[int, GresSlot]
) -> tuple[GresSlot, ...]:
    """Return the node's slots by number: ``held`` slots keep their numbers, the slots of a type are
    consecutive, and the remaining numbers are padding.

    Raises PlanRefused where there are more devices than numbers or no such order exists.
    """
    wanted = tuple(devices)
    if len(wanted) > total:
        raise PlanRefused(
            f"{len(wanted)} slices do not fit the {total} numbers that Slurm has for this node",
            hint="the total may change only while no job holds a slice of the node",
        )
    lost = [slot for slot in held.values() if not slot.is_padding and slot not in wanted]
    if lost:
        held_device = lost[0].instance or "the whole GPU"
        raise PlanRefused(f"a running job holds {held_device} on {lost[0].gpu}")
    blocks = [_block(name, wanted, held) for name in dict.fromkeys(s.type for s in wanted)]
    # Blocks with fixed numbers first, then the longest: so a hopeless search ends early.
    blocks.sort(key=lambda b: (not b.fixed, -len(b.slots), b.type))
    numbered: list[GresSlot | None] = [held.get(n) for n in range(total)]
    occupied = [s is not None and s.is_padding for s in numbered]
    # Room behind each type lets it grow later, beside jobs that hold numbers of the next type.
    most_room = (total - len(wanted)) // max(len(blocks), 1)
    rooms = (_search(blocks, occupied, room) for room in range(most_room, -1, -1))
    starts = next((starts for starts in rooms if starts is not None), None)
    if starts is None:
        raise PlanRefused(
            "running jobs hold slices whose numbers in Slurm do not allow this layout",
            hint="wait for one of them to end, or plan a layout nearer to the present one",
        )
    for block, start in zip(blocks, starts, strict=True):
        loose = iter([s for s in block.slots if s not in block.fixed.values()])
        for number in range(start, start + len(block.slots)):
            numbered[number] = block.fixed.get(number) or next(loose)
    return _padded(numbered)


def _block(name: str, wanted: Sequence[GresSlot], held: Mapping[int, GresSlot]) -> _GresBlock:
    return _GresBlock(
        name,
        tuple(s for s in wanted if s.type == name),
        {n: s for n, s in held.items() if s.type == name and not s.is_padding},
    )


def _search(blocks: Sequence[_GresBlock], occupied: Sequence[bool], room: int) -> list[int] | None:
    """Return the first number of each block, with ``room`` free numbers behind it, by exhaustive
    search; None: no arrangement exists."""
    if not blocks:
        return []
    block, others = blocks[0], blocks[1:]
    reserved = {n for other in others for n in other.fixed}
    size = len(block.slots)
    low = max(block.fixed, default=size - 1) - size + 1
    high = min(block.fixed, default=len(occupied) - size)
    for start in range(max(low, 0), min(high, len(occupied) - size) + 1):
        numbers = range(start, start + size + room)
        if numbers.stop > len(occupied) or any(occupied[n] or n in reserved for n in numbers):
            continue
        rest = _search(others, [o or n in numbers for n, o in enumerate(occupied)], room)
        if rest is not None:
            return [start, *rest]
    return None


def _padded(numbered: Sequence[GresSlot | None]) -> tuple[GresSlot, ...]:
    """Return the slots with each gap filled by a padding type of its own.

    Slurm would merge two gaps of the same type.
    """
    padded: list[GresSlot] = []
    gap = 0
    for number, slot in enumerate(numbered):
        if slot is not None and not slot.is_padding:
            padded.append(slot)
            continue
        if number == 0 or not padded[-1].is_padding:
            gap += 1
        padded.append(GresSlot(f"{PADDING}{gap}"))
    return tuple(padded)


def gres_of(slots: Iterable[GresSlot]) -> str:
    """Return the ``Gres=`` value: the slots' types with counts, in the order of their numbers."""
    counts: dict[str, int] = {}
    for slot in slots:
        counts[slot.type] = counts.get(slot.type, 0) + 1
    return ",".join(f"gpu:{name}:{count}" for name, count in counts.items()) or "(null)"


SLOTS: TypeAdapter[tuple[GresSlot, ...]] = TypeAdapter(tuple[GresSlot, ...])
"""Converts slots to plain JSON data and back."""

HEADER = "# Written by `berth mig apply`; changed by hand, it no longer describes the slices."
_LINE = re.compile(
    r"NodeName=(?P<node>\S+) .*Type=(?P<type>\S+) (?:Multiple)?Files?=\S+"
    r"(?: # (?P<gpu>GPU-\S+)(?: (?P<profile>\S+)@(?P<start>\d+))?)?"
)
_NODE = re.compile(r"(?i)^(?P<head>\s*NodeName=(?P<name>\S+)\s)(?P<rest>.*)$")
_GRES = re.compile(r"(?i)(?<=\s)Gres=\S*")
_TYPE = re.compile(r"[A-Za-z0-9_.+-]+")


def type_name(profile: str, pattern: str = "{profile}") -> str:
    """Return the gres type of a slice, for example ``3g.20gb`` or ``a100_3g.20gb``.

    Profiles with media extensions keep their suffix, since they are different slices. Raises
    PlanRefused where the pattern yields no valid type.
    """
    name = pattern.replace("{profile}", profile)
    if profile not in name or not _TYPE.fullmatch(name):
        raise PlanRefused(
            f"{name!r} cannot be a gres type",
            hint="type_pattern needs {profile}, and only letters, digits and . _ + - besides",
        )
    return name


def gres_conf(
    node: str,
    slots: Sequence[GresSlot],
    files: Callable[[GresSlot], Sequence[str]],
    padding_file: Callable[[int], str],
) -> str:
    """Return the node's lines of gres.conf, one per gres number; a comment names the device behind
    each."""
    lines = [HEADER]
    for number, slot in enumerate(slots):
        begin = f"NodeName={node} AutoDetect=off Name=gpu Type={slot.type}"
        if slot.is_padding:
            lines.append(f"{begin} File={padding_file(number)}")
            continue
        paths = files(slot)
        key = "MultipleFiles" if len(paths) > 1 else "File"
        instance = f" {slot.instance}" if slot.instance else ""
        lines.append(f"{begin} {key}={','.join(paths)} # {slot.gpu}{instance}")
    return "\n".join(lines) + "\n"


def read_slots(text: str, node: str) -> tuple[GresSlot, ...] | None:
    """Return the slots in text that ``gres_conf`` wrote; None where the text was not written by
    Berth."""
    if not text.startswith(HEADER):
        return None
    slots = []
    for line in text.splitlines()[1:]:
        match = _LINE.fullmatch(line.strip())
        if match is None or match["node"] != node:
            return None
        instance = GpuInstance(int(match["start"]), match["profile"]) if match["profile"] else None
        slots.append(GresSlot(match["type"], match["gpu"], instance))
    return tuple(slots)


def with_node_gres(text: str, node: str, gres: str, *, source: str) -> str:
    """Return slurm.conf's text with this node's ``Gres=`` replaced or added, and nothing else
    changed.

    Raises BerthError where the node does not have exactly one line of its own.
    """
    node_lines = 0
    lines = []
    for line in text.splitlines(keepends=True):
        match = _NODE.match(line.rstrip("\n"))
        if match is None or match["name"] != node:
            lines.append(line)
            continue
        node_lines += 1
        if match["rest"].rstrip().endswith("\\"):
            raise BerthError(f"{source}: the line NodeName={node} is continued; write it in one")
        ending = "\n" if line.endswith("\n") else ""
        body, mark, comment = match["rest"].partition("#")
        body = " " + body
        present = _GRES.search(body)
        if present is None:
            new = f"{body.rstrip()} Gres={gres}{' ' if mark else ''}"
        else:
            new = body.replace(present.group(), f"Gres={_beside_others(present.group(), gres)}")
        lines.append(f"{match['head']}{new[1:]}{mark}{comment}{ending}")
    if node_lines != 1:
        node_lines_text = "no line" if node_lines == 0 else f"{node_lines} lines"
        raise BerthError(
            f"{source} has {node_lines_text} NodeName={node}",
            hint="the node needs exactly one line of its own (not a range such as node[1-4])",
        )
    return "".join(lines)


def _beside_others(present: str, gres: str) -> str:
    """Return ``gres`` with the parts of the present ``Gres=`` setting that are no GPUs."""
    parts = [*gres.split(","), *present.partition("=")[2].split(",")]
    new = gres.split(",")
    kept = (p for p in dict.fromkeys(parts) if p in new or not re.match("gpu(:|$)", p))
    return ",".join(p for p in kept if p != "(null)") or "(null)"


def foreign_line(text: str, node: str) -> str | None:
    """Return the first line of gres.conf text that is not about this node's GPUs; None: none."""
    for line in text.splitlines():
        keys = dict(
            part.lower().split("=", 1) for part in line.split("#")[0].split() if "=" in part
        )
        of_node = keys.get("nodename", node.lower()) == node.lower()
        if keys and not (of_node and ("autodetect" in keys or keys.get("name") == "gpu")):
            return line.strip()
    return None


def node_gres(text: str, node: str) -> str:
    """Return the node's ``Gres=`` value in slurm.conf; ``(null)`` where it has none."""
    for line in text.splitlines():
        match = _NODE.match(line)
        gres = match and match["name"] == node and _GRES.search(" " + match["rest"])
        if gres:
            return str(gres.group()).partition("=")[2]
    return "(null)"


def numbers(gres_used: str) -> tuple[int, ...]:
    """Return the gres numbers in use, from
    ``GresUsed=gpu:1g.5gb:2(IDX:0-1),gpu:3g.20gb:1(IDX:4)``."""
    in_use: set[int] = set()
    for inside in re.findall(r"gpu:[^()]*\(IDX:([0-9,-]+)\)", gres_used):
        for part in inside.split(","):
            first, _, last = part.partition("-")
            in_use.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(in_use))
