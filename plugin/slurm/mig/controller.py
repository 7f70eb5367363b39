"""``berth-mig-node NODE``: the only action that a GPU node may trigger on Slurm's controller.

It is started by sshd as the forced command of that node's key, or by a socket of its own. It reads
one request from standard input, changes ``Gres=`` in this NODE's line of slurm.conf and this NODE's
own gres.conf file, and makes slurmctld read them. The node's name, the files and the restart
command are set on the controller; from the request only values of a restricted format are accepted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from berth.pilot.documents import Document, read_toml
from berth.pilot.errors import BerthError, UsageError
from berth.plugin.mig.node import holding
from berth.plugin.mig.settings import refuse_if_shared
from berth.plugin.slurm.mig import publishing, slots

PATH = Path("/etc/berth/mig-nodes.toml")
MAX_BYTES = 256 * 1024
_LOCK_S = 240.0
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GRES = re.compile(r"[a-z_]{1,32}(:[A-Za-z0-9_.+-]{1,64})?:[0-9]{1,4}(\(S:[0-9,-]{1,64}\))?")
_DEVICE = r"/dev/[A-Za-z0-9_./-]{1,200}"
_LINE = (
    r"NodeName={node} (AutoDetect=nvml|AutoDetect=off Name=gpu Type=[A-Za-z0-9_.+-]{{1,64}} "
    r"(Multiple)?Files?={device}(,{device})*( # [A-Za-z0-9 @_.+-]{{1,200}})?)"
)


class ControllerSettings(Document):
    """Settings in ``/etc/berth/mig-nodes.toml`` on the Slurm controller."""

    schema_: Literal["berth.mig-nodes/1"] = Field(default="berth.mig-nodes/1", alias="schema")
    slurm_conf: str = "/etc/slurm/slurm.conf"
    gres_conf: Annotated[str, holding("node")] = "/etc/slurm/gres-{node}.conf"
    """Each node has a file of its own."""
    restart: tuple[str, ...] = ("/usr/bin/systemctl", "restart", "slurmctld")


def publish(settings: ControllerSettings, node: str, request: Any) -> None:
    """Carry out one request of ``node``: write its gres and restart slurmctld. Raises
    BerthError."""
    if not _NODE.fullmatch(node) or ".." in node:
        raise UsageError(f"{node!r} is not a node's name")
    conf, own = Path(settings.slurm_conf), Path(settings.gres_conf.format(node=node))
    with publishing.one_writer(conf, timeout_s=_LOCK_S):
        gres, lines = _checked(request, node, _before(own))
        whole = slots.with_node_gres(
            publishing.read_config_file(conf), node, gres, source=str(conf)
        )
        present_lines = publishing.read_config_file(own)
        if not present_lines.startswith(slots.HEADER):
            _keep_before(own, present_lines)
        publishing.replace_config_file(own, lines)
        publishing.replace_config_file(conf, whole)
        publishing.run_site_command(settings.restart, timeout_s=publishing.RESTART_TIMEOUT_S)


def _checked(request: Any, node: str, before: str | None) -> tuple[str, str]:
    """Return ``gres`` and ``lines`` from the request after checking that they describe only this
    node's GPUs. Raises UsageError."""
    if not isinstance(request, dict) or set(request) != {"v", "gres", "lines"}:
        raise UsageError("the request is not v, gres and lines")
    gres, lines = request["gres"], request["lines"]
    if request["v"] != 1 or not isinstance(gres, str) or not isinstance(lines, str):
        raise UsageError("the request is not version 1, or holds something else than text")
    if gres != "(null)" and not all(_GRES.fullmatch(part) for part in gres.split(",")):
        raise UsageError("gres is not a list of name:type:count")
    if lines == before:
        return gres, lines
    form = re.compile(_LINE.format(node=re.escape(node), device=_DEVICE))
    first, *rest = lines.removesuffix("\n").split("\n")
    odd = next((line for line in rest if not form.fullmatch(line) or ".." in line), None)
    if first != slots.HEADER or odd is not None:
        raise UsageError(f"not a line of this node's slices: {(odd or first)[:80]!r}")
    return gres, lines


def _aside(own: Path) -> Path:
    return own.with_name(own.name + ".before-berth")


def _before(own: Path) -> str | None:
    """Return the node's gres.conf text from before Berth's first change: a request may restore
    it."""
    aside = _aside(own)
    if aside.exists():
        return publishing.read_config_file(aside)
    return publishing.read_config_file(own)


def _keep_before(own: Path, text: str) -> None:
    aside = _aside(own)
    aside.touch(mode=0o600)
    publishing.replace_config_file(aside, text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry out one request; exit status 0 (done) or 1 (refused, with the reason on stderr)."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if len(words) != 1:
            raise UsageError("usage: berth-mig-node NODE (in the key's forced command)")
        refuse_if_shared(PATH)
        raw = sys.stdin.buffer.readline(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise UsageError(f"the request is larger than {MAX_BYTES} bytes")
        try:
            request = json.loads(raw)
        except (ValueError, RecursionError):
            raise UsageError("the request is not JSON") from None
        publish(read_toml(PATH, ControllerSettings), words[0], request)
    except BerthError as error:
        print(f"berth-mig-node: {error.message}", file=sys.stderr)
        sys.exit(1)
