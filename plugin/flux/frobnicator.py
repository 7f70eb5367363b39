"""Berth's submit filter for Flux: asks `berth serve` about each new job and applies its answer.

Flux loads this one file by its path into `flux job-frobnicator`, with Flux's own Python (3.6 and
later) and without Berth beside it. So it needs the standard library only. It guarantees:

* it never rejects, loses or delays a job because of itself: it never raises, works on a copy of
  the jobspec, and replaces the original by the copy only if every step succeeded;
* one deadline covers everything (the socket's timeout for the exchange, SIGALRM for the rest), and
  a daemon that fails repeatedly is not asked for a while (the breaker);
* it writes nothing to stdout, which carries the frobnicator's replies: one extra line there would
  give every later submission the jobspec of the submission before it;
* it checks every answer itself: only configured queues, never against an explicit choice of the
  user, and either all edits or none;
* a file (the kill switch) turns it off at once; `--setattr=user.berth.mode=off` does so for one
  job.

Protocol: docs/protocol.md. Set-up: docs/flux.md. The same guarantees for Slurm: job_submit.lua.
"""

import json
import os
import re
import select
import signal
import socket
import sys
import time
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

try:
    from flux.job.frobnicator import FrobnicatorPlugin
except Exception:  # outside of Flux (tests): the base class does nothing

    class FrobnicatorPlugin:  # type: ignore[no-redef]
        """A stand-in for Flux's base class where Flux's Python package is absent (tests)."""

        def __init__(self, parser: Any) -> None:
            """Take the argument parser, as Flux's class does."""


Spec = Dict[str, Any]
Edits = Dict[str, Any]

PROTOCOL = 1
JOBSPEC_VERSION = 1
ANONYMOUS = "anonymous"
"""Berth's name for the only queue of an instance without named queues."""
NAME = "berth"
MAX_SCRIPT_BYTES = 65536
MAX_TEXT_BYTES = 1024
MAX_ARGUMENT_BYTES = 4096
MAX_ARGUMENTS = 256
MAX_REQUEST_BYTES = 131072
MAX_REPLY_BYTES = 16384
MAX_STAMP_BYTES = 512
MAX_MESSAGE_BYTES = 400
LARGEST_NUMBER = 1e300
ALARM_REPEATS_S = 0.01
SAME_LOG_EVERY_S = 60.0

DEFAULTS: Dict[str, Any] = {
    "socket": "/run/berth/berth.sock",
    "kill_switch": "/etc/berth/off",
    "auto_queue": "auto",
    "leave_alone": "alloc-bypass",
    "deadline_ms": 50,
    "breaker_failures": 3,
    "breaker_first_pause_s": 1,
    "breaker_longest_pause_s": 30,
}
RANGES: Dict[str, Tuple[float, float]] = {
    "deadline_ms": (1, 1000),
    "breaker_failures": (1, 1000),
    "breaker_first_pause_s": (0.05, 86400),
    "breaker_longest_pause_s": (0.05, 86400),
}

# --------------------------------------------------------------------------------------------------
# Logging to stderr, which Flux logs: lines of one kind at most once a minute.

_last_logged: Dict[str, float] = {}


def log(kind: str, text: object) -> None:
    """Write one line to stderr, at most once a minute for each ``kind``. Never raises."""
    try:
        now = time.monotonic()
        if now - _last_logged.get(kind, -SAME_LOG_EVERY_S) < SAME_LOG_EVERY_S:
            return
        _last_logged[kind] = now
        sys.stderr.write("berth: %s\n" % one_line(str(text), 300))
        sys.stderr.flush()
    except Exception:  # a closed stderr is no reason to fail a job  # noqa: S110  # nosec B110
        pass


def one_line(text: str, limit: int) -> str:
    """Return ``text`` without control characters, cut to ``limit`` characters."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)[:limit]


# --------------------------------------------------------------------------------------------------
# Settings: the table [ingest.frobnicator.berth] of Flux's configuration, and its queues.


def settings_of(config: Any) -> Dict[str, Any]:
    """Return the filter's settings: the defaults, replaced by acceptable values of the
    configuration.
    """
    settings = dict(DEFAULTS)
    table = value_at(config, "ingest", "frobnicator", NAME)
    for key, value in (table if isinstance(table, dict) else {}).items():
        if key not in settings:
            log("config:" + str(key), "[ingest.frobnicator.berth] has no key %s" % key)
        elif key in RANGES:
            least, most = RANGES[key]
            if is_number(value) and least <= value <= most:
                settings[key] = value
            else:
                log("config:" + key, "%s must be a number from %g to %g" % (key, least, most))
        elif isinstance(value, str) and value and "\0" not in value:
            settings[key] = value
        else:
            log("config:" + key, "%s must be a text" % key)
    return settings


def value_at(value: Any, *path: str) -> Any:
    """Return the value at this path of keys in nested dicts; None where there is none."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def is_number(value: Any) -> bool:
    """Return whether a value is a finite int or float (a bool is not)."""
    return type(value) in (int, float) and -LARGEST_NUMBER < value < LARGEST_NUMBER


def is_count(value: Any) -> bool:
    """Return whether a value is an int of at least 1."""
    return type(value) is int and value >= 1


def seconds_of(value: Any) -> Optional[float]:
    """Return a Flux Standard Duration (RFC 23), such as ``90`` or ``"1.5h"``, in seconds; None:
    unlimited or invalid.
    """
    if isinstance(value, str):
        match = re.match(r"^([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)(ms|s|m|h|d)?$", value.strip())
        if match is None:
            return None
        factor = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[match.group(2) or "s"]
        value = float(match.group(1)) * factor
    return float(value) if is_number(value) and value > 0 else None


class ConfiguredQueue:
    """The time and size limits of one queue, from Flux's configuration."""

    def __init__(self, config: Any, name: str) -> None:
        own, general = value_at(config, "queues", name, "policy"), value_at(config, "policy")

        def policy(*path: str) -> Any:
            queue_value = value_at(own, *path)
            return value_at(general, *path) if queue_value is None else queue_value

        self.longest_s = seconds_of(policy("limits", "duration"))
        self.default_s = seconds_of(policy("jobspec", "defaults", "system", "duration"))
        self.most, self.least = (
            {
                resource: policy("limits", "job-size", side, resource)
                for resource in ("nnodes", "ncores", "ngpus")
            }
            for side in ("max", "min")
        )

    def refuses(self, sizes: Dict[str, int], duration_s: Optional[float]) -> Optional[str]:
        """Return why Flux would refuse a job of these sizes in this queue; None: it would accept
        the job.

        ``sizes``: counts by ``nnodes``, ``ncores``, ``ngpus``; ``duration_s`` None: the queue's
        default.
        """
        limit_s = duration_s or self.default_s
        if self.longest_s is not None and (limit_s is None or limit_s > self.longest_s):
            return "over the queue's time limit"
        for resource, size in sizes.items():
            most, least = self.most[resource], self.least[resource]
            if is_number(most) and 0 <= most < size:
                return "over the queue's limit of %s" % resource
            if is_number(least) and least > size:
                return "under the queue's limit of %s" % resource
        return None


def queues_of(config: Any, auto: str) -> Dict[str, ConfiguredQueue]:
    """Return the queues that jobs can be sent to, by name; ``auto`` is left out."""
    named = value_at(config, "queues")
    if not isinstance(named, dict) or not named:
        return {ANONYMOUS: ConfiguredQueue(config, ANONYMOUS)}
    return {name: ConfiguredQueue(config, name) for name in sorted(named) if name != auto}


# --------------------------------------------------------------------------------------------------
# The breaker: after several failures in a row the daemon is not asked for a while.


class Breaker:
    """Stops asking the daemon after repeated failures, for a growing pause; one per worker
    process.
    """

    def __init__(self, settings: Dict[str, Any]) -> None:
        self._settings = settings
        self._failures = 0
        self._pause_s = 0.0
        self._open_until_s: Optional[float] = None
        self._report: Dict[str, int] = {}

    def passed_by(self) -> None:
        """Count a submission without an answer; the next request to the daemon reports
        the count.
        """
        if not self._report:
            self._report["since_ms"] = int(1000 * time.time())
        self._report["undecided"] = self._report.get("undecided", 0) + 1

    def report(self) -> Dict[str, int]:
        """Return the counts to add to the next request; empty: every submission was answered."""
        return self._report

    def allows(self) -> bool:
        """Return whether the daemon may be asked now."""
        return self._open_until_s is None or time.monotonic() >= self._open_until_s

    def failed(self, problem: object) -> None:
        """Count a failure; ``breaker_failures`` of them in a row open the breaker."""
        self.passed_by()
        self._failures += 1
        if self._failures < self._settings["breaker_failures"]:
            return
        self._report["opened"] = 1
        first, longest = (self._settings["breaker_%s_pause_s" % w] for w in ("first", "longest"))
        self._pause_s = min(self._pause_s * 2 if self._pause_s else first, longest)
        self._open_until_s = time.monotonic() + self._pause_s
        log(
            "breaker",
            "no answer from %s (%s): jobs go on unchanged, next try in %g s"
            % (self._settings["socket"], problem, self._pause_s),
        )

    def succeeded(self) -> None:
        """Close the breaker and reset its counts."""
        if self._open_until_s is not None:
            log("recovered", "%s answers again" % self._settings["socket"])
            _last_logged.pop("breaker", None)
        self._failures, self._pause_s, self._open_until_s = 0, 0.0, None
        self._report = {}


# --------------------------------------------------------------------------------------------------
# The deadline for all code that the socket's own timeouts do not cover.


class Overdue(BaseException):
    """The deadline has passed. A BaseException, so that no ``except Exception`` swallows it."""


class Alarm:
    """Interrupts Python code by SIGALRM at the deadline; works in the main thread only."""

    def __init__(self) -> None:
        self._armed = False

    def _ring(self, _number: int, _frame: Any) -> None:
        if self._armed:
            raise Overdue("deadline passed")

    def run(self, seconds: float, call: Callable[[], Any]) -> Any:
        """Return ``call()``; after ``seconds`` Overdue is raised inside it, repeatedly until it
        ends.
        """
        try:
            before = signal.signal(signal.SIGALRM, self._ring)
        except ValueError:
            return call()
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, seconds, ALARM_REPEATS_S)
            return call()
        finally:
            while True:
                try:
                    self._armed = False
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
                    break
                except Overdue:  # the alarm went off before it was disarmed
                    continue


# --------------------------------------------------------------------------------------------------
# The exchange: one request line, one reply line, one deadline for both.


class Failure(Exception):
    """The daemon's answer is missing or invalid."""


class Client:
    """Exchanges lines with the daemon; the connection is reused after a complete exchange only."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: Optional[socket.socket] = None

    def exchange(self, line: bytes, stop_s: float) -> bytes:
        """Send one line and return the reply line. Raises Failure, at the latest at ``stop_s``
        (monotonic).
        """
        peer = self._take_kept()
        if peer is not None:
            # A daemon that restarts may close the connection just when it is used again.
            try:
                return self._converse(peer, line, stop_s)
            except ConnectionError:
                pass
            except OSError as error:
                raise Failure(error) from None
        try:
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                peer.setblocking(False)
                peer.connect(self._path)
            except BaseException:
                peer.close()
                raise
            return self._converse(peer, line, stop_s)
        except (OSError, ValueError) as error:
            raise Failure(error) from None

    def _take_kept(self) -> Optional[socket.socket]:
        """Return the cached connection; None: none, or the daemon has closed it or sent unexpected
        data.
        """
        peer, self._kept = self._kept, None
        if peer is None:
            return None
        try:
            peer.recv(1)
        except BlockingIOError:
            return peer
        except OSError:
            pass
        peer.close()
        return None

    def _converse(self, peer: socket.socket, line: bytes, stop_s: float) -> bytes:
        """Send one line and receive one, without blocking: an empty Unix socket takes a whole
        request at once.
        """
        try:
            if peer.send(line) != len(line):
                raise Failure("the daemon does not read")
            waiting = select.poll()
            waiting.register(peer, select.POLLIN)
            received = b""
            while b"\n" not in received:
                if not waiting.poll(1000 * left_s(stop_s)):
                    raise Failure("timeout")
                part = peer.recv(MAX_REPLY_BYTES + 1)
                if not part:
                    raise ConnectionResetError("closed")
                received += part
                if len(received) > MAX_REPLY_BYTES:
                    raise Failure("the answer is too long")
            if received.index(b"\n") != len(received) - 1:
                raise Failure("more than one line")
        except BaseException:
            peer.close()
            raise
        self._kept = peer
        return received


def left_s(stop_s: float) -> float:
    """Return the seconds until ``stop_s``. Raises Failure when no time is left."""
    left = stop_s - time.monotonic()
    if left <= 0:
        raise Failure("timeout")
    return left


def parse_reply(line: bytes) -> Dict[str, Any]:
    """Return the daemon's answer. Raises Failure where it does not follow the protocol."""
    try:
        reply = _decode(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Failure("the answer is not JSON") from None
    if not isinstance(reply, dict):
        raise Failure("the answer is not an object")
    if type(reply.get("v")) is not int or reply["v"] != PROTOCOL:
        raise Failure("another protocol version")
    if reply.get("action") not in ("keep", "edit"):
        raise Failure("an unknown action")
    return reply


def _not_a_number(name: str) -> NoReturn:
    raise ValueError(name)


_decode = json.JSONDecoder(parse_constant=_not_a_number).decode


# --------------------------------------------------------------------------------------------------
# The job's request: the forms of jobspec version 1 (RFC 25) that `flux submit`, `run`, `batch`
# and `alloc` write.


class Shape:
    """The resources that a jobspec requests: nodes, tasks, cores per task, GPUs."""

    def __init__(self, spec: Spec) -> None:
        """Parse a jobspec. Raises LookupError, TypeError or ValueError where its form is not
        supported.
        """
        (top,) = spec["resources"]
        (task,) = spec["tasks"]
        self.node: Optional[Spec] = top if top["type"] == "node" else None
        (self.slot,) = (top,) if self.node is None else top["with"]
        if self.slot["type"] != "slot" or task["slot"] != self.slot["label"]:
            raise ValueError("no slot")
        leaves = {leaf["type"]: leaf for leaf in self.slot["with"]}
        if len(leaves) != len(self.slot["with"]) or any("with" in v for v in leaves.values()):
            raise ValueError("not flat")
        vertices = [self.slot, leaves["core"], *([] if self.node is None else [self.node])]
        if not all(is_count(v["count"]) for v in vertices):
            raise ValueError("a count is a range")
        gpus = leaves.get("gpu", {"count": 0})["count"]
        if type(gpus) is not int or gpus < 0:
            raise ValueError("a count is a range")
        self.leaves = leaves
        self.nodes = 0 if self.node is None else int(self.node["count"])
        self.slots = int(self.slot["count"]) * max(1, self.nodes)
        self.cores_per_slot = int(leaves["core"]["count"])
        self.gpus = gpus * self.slots
        self.exclusive = any(bool(v.get("exclusive")) for v in vertices)
        known = all(set(v) <= _VERTEX_KEYS for v in vertices) and set(leaves) <= _LEAVES
        per_slot = task["count"] == {"per_slot": 1}
        per_resource = value_at(spec, "attributes", "system", "shell", "options", "per-resource")
        # A nested instance has one broker per node; programs in it see the slots as their tasks.
        nested = is_broker(task["command"])
        self.tasks = self.slots if per_slot else _total_tasks(task["count"])
        if per_resource is not None and not nested:
            self.tasks = self._tasks_by(per_resource)
        self.cpus_per_task = max(1, self.slots * self.cores_per_slot // self.tasks)
        self.fixed = (
            self.exclusive
            or not known
            or not per_slot
            or (per_resource is not None and not nested)
            or lays_out_tasks(spec, task["command"])
        )
        """Whole nodes, unusual forms and laid out tasks keep their nodes, tasks and cores."""

    def _tasks_by(self, per_resource: Any) -> int:
        count = per_resource.get("count", 1)
        units = {"node": max(1, self.nodes), "core": self.slots * self.cores_per_slot}
        if not is_count(count):
            raise ValueError("per-resource")
        return int(units[per_resource["type"]] * count)

    def sizes(self, nodes: int, slots: int, cores: int, gpus: int) -> Dict[str, int]:
        """Return the sizes that Flux's job-size limits apply to; only nodes where whole nodes are
        requested.
        """
        if self.exclusive:
            return {"nnodes": nodes}
        return {"nnodes": nodes, "ncores": slots * cores, "ngpus": gpus}


_VERTEX_KEYS = frozenset(("type", "count", "with", "label", "exclusive"))
_LEAVES = frozenset(("core", "gpu"))


_ANY_SHAPE = frozenset(
    (
        "exit-on-error",
        "exit-timeout",
        "hwloc",
        "initrc",
        "input",
        "mpi",
        "nosetpgrp",
        "output",
        "per-resource",  # Shape reads it
        "pmi",
        "pty",
        "rlimit",
        "signal",
        "stop-tasks-in-exec",
        "userrc",
        "verbose",
    )
)
"""Options of the job shell whose meaning does not depend on the number of nodes, tasks
and cores.
"""


def lays_out_tasks(spec: Spec, command: Any) -> bool:
    """Return whether the user assigned tasks to nodes or devices, or used an unknown shell option.

    With another number of tasks such a job may not start (``--taskmap=manual:...``, ``cyclic:2``).
    """
    options = value_at(spec, "attributes", "system", "shell", "options")
    for key, value in (options if isinstance(options, dict) else {}).items():
        if key == "taskmap":
            unusual = value_at(value, "scheme") != "block"
        elif key in ("cpu-affinity", "gpu-affinity"):
            unusual = isinstance(value, str) and "map:" in value
        else:
            unusual = key not in _ANY_SHAPE
        if unusual:
            return True
    return isinstance(command, list) and command[:2] == ["flux", "multi-prog"]


def untranslated(spec: Spec, names: str) -> Optional[str]:
    """Return the first of the attributes ``names`` that the job has; None: it has none.

    ``names``: words for attributes that Berth cannot adapt to another queue.
    """
    present = [name for name in names.split() if name in spec["attributes"]["system"]]
    return "attribute system.%s" % present[0] if present else None


def _total_tasks(count: Any) -> int:
    if set(count) != {"total"} or not is_count(count["total"]):
        raise ValueError("tasks")
    return int(count["total"])


def is_broker(command: Any) -> bool:
    """Return whether the job starts a Flux instance of its own (`flux batch`, `flux alloc`)."""
    return isinstance(command, list) and command[:2] == ["flux", "broker"]


def text_of(value: Any, limit: int = MAX_TEXT_BYTES) -> Optional[str]:
    """Return a text that can be sent (not empty, not too long, UTF-8); None for anything else."""
    if not isinstance(value, str) or not value or len(value) > limit:
        return None
    try:
        return value if len(value.encode("utf-8")) <= limit else None
    except UnicodeError:  # a user's text in another encoding
        return None


def describe(
    spec: Spec, userid: Any, shape: Shape, queues: Dict[str, ConfiguredQueue]
) -> Dict[str, Any]:
    """Return the job's description for the daemon's request, as docs/protocol.md defines it."""
    system = spec["attributes"]["system"]
    own_attributes = value_at(spec, "attributes", "user", NAME)
    environment = value_at(system, "environment")
    duration_s = seconds_of(system.get("duration"))
    command = spec["tasks"][0]["command"]
    script, arguments = script_of(spec, command)
    pinned = ["shape"] if shape.fixed else []
    features, places = features_of(system.get("constraints"))
    details: Dict[str, Any] = {
        "uid": userid if type(userid) is int and userid >= 0 else None,
        "account": text_of(system.get("bank")),
        "name": text_of(value_at(system, "job", "name")),
        "queue": text_of(system.get("queue")),
        "queues": sorted(queues),
        "workload": text_of(value_at(own_attributes, "workload"))
        or text_of(value_at(environment, "BERTH_WORKLOAD")),
        "mode": text_of(value_at(own_attributes, "mode"))
        or text_of(value_at(environment, "BERTH_MODE")),
        "script": script,
        "arguments": arguments,
        "modules": text_of(value_at(environment, "LOADEDMODULES"), MAX_ARGUMENT_BYTES),
        "kind": "interactive" if is_interactive(spec, command, script) else "batch",
        "nodes": shape.nodes or None,
        "tasks": shape.tasks,
        "cpus_per_task": shape.cpus_per_task,
        "gpus": shape.gpus or None,
        "exclusive": int(shape.exclusive) or None,
        "features": features,
        "time_limit_s": None if duration_s is None else max(1, int(duration_s)),
        "pinned": pinned + (["nodelist"] if places else []) or None,
    }
    return {key: value for key, value in details.items() if value is not None}


def has_unreadable_choice(spec: Spec) -> bool:
    """Return whether the user set a Berth or queue attribute to a value that is not readable text.

    ``berth.mode=false`` may mean off, and a queue name that Flux would refuse must not be replaced.
    """
    system, own_attributes = (
        spec["attributes"]["system"],
        value_at(spec, "attributes", "user", NAME),
    )
    environment = value_at(system, "environment")
    written = [value_at(system, "queue"), value_at(system, "bank"), value_at(system, "duration")]
    if own_attributes is not None and not isinstance(own_attributes, dict):
        return True
    for key in ("workload", "mode"):
        written += [value_at(own_attributes, key), value_at(environment, "BERTH_" + key.upper())]
    return any(isinstance(value, (bool, list, dict)) for value in written) or any(
        value not in (None, "") and text_of(value) is None for value in (*written[:2], *written[3:])
    )


def is_interactive(spec: Spec, command: Any, script: Optional[str]) -> bool:
    """Return whether a user waits for the job at a terminal: `flux alloc`, or a terminal for its
    tasks.
    """
    if is_broker(command):
        return value_at(spec, "attributes", "system", "files", "script") is None and script is None
    return value_at(spec, "attributes", "system", "shell", "options", "pty") is not None


def script_of(spec: Spec, command: Any) -> Tuple[Optional[str], Optional[List[str]]]:
    """Return the batch script and its arguments; both None where either cannot be sent.

    A script without its arguments would identify another program.
    """
    data = value_at(spec, "attributes", "system", "files", "script", "data")
    script = text_of(data, MAX_SCRIPT_BYTES)
    if script is None or not isinstance(command, list):
        return None, None
    where = [i for i, word in enumerate(command) if word == "{{tmpdir}}/script"]
    if len(where) != 1:
        return None, None
    words = command[where[0] + 1 :]
    if len(words) > MAX_ARGUMENTS or not all(w == "" or text_of(w, 4096) for w in words):
        return None, None
    if sum(len(word.encode("utf-8")) for word in words) > MAX_ARGUMENT_BYTES:
        return None, None
    return script, words or None


def features_of(constraints: Any) -> Tuple[Optional[str], bool]:
    """Return the properties that the user requires as ``a&b``, and whether hosts or ranks are
    named.

    Constraints other than a list of properties are returned as JSON, which matches no candidate.
    """
    if not constraints:
        return None, False
    text = json.dumps(constraints, sort_keys=True)
    places = re.search(r'"(hostlist|ranks)": ', text) is not None
    properties = value_at(constraints, "properties")
    alone = len(constraints) == 1 and isinstance(properties, list) and bool(properties)
    if alone and all(re.match(r"^[A-Za-z0-9_.:+-]+\Z", str(name)) for name in properties):
        text = "&".join(properties)
    return text_of(text, MAX_TEXT_BYTES) or "constraints", places


# --------------------------------------------------------------------------------------------------
# The answer: checked completely, then applied completely (to the copy).


def _plain(pattern: str) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, str) and len(v) <= 256 and re.match(pattern, v) is not None


def _whole(most: int) -> Callable[[Any], bool]:
    return lambda v: type(v) is int and 1 <= v <= most


CHECKS: Dict[str, Callable[[Any], bool]] = {
    "queue": _plain(r"^[A-Za-z0-9_.-]+\Z"),
    "features": _plain(r"^[A-Za-z0-9_.:+-]+(&[A-Za-z0-9_.:+-]+)*\Z"),
    "gres": _plain(r"^gpu(:[A-Za-z0-9_.-]+)?:[1-9][0-9]{0,4}\Z"),
    "nodes": _whole(100000),
    "tasks": _whole(10000000),
    "cpus_per_task": _whole(65000),
    "memory_mib_per_node": _whole(2**40),
    "time_limit_min": _whole(5256000),
}
SHAPE_EDITS = ("nodes", "tasks", "cpus_per_task", "memory_mib_per_node")


class EditRefused(Exception):
    """The daemon's edits must not be applied."""


class Impossible(EditRefused):
    """Flux has no form for the edits, or would refuse the job in that queue."""


def check(edits: Edits, details: Dict[str, Any], shape: Shape, auto: str) -> None:
    """Raise EditRefused where an edit is invalid or would override a choice of the user."""
    if details.get("queue") not in (None, auto):
        raise EditRefused("the user chose the queue")
    if "nodelist" in details.get("pinned", ()) and "queue" in edits:
        raise EditRefused("the user chose the nodes")
    for key, value in edits.items():
        if key not in CHECKS:
            raise EditRefused("unknown edit %s" % key)
        if not CHECKS[key](value):
            raise EditRefused("edit %s has an impossible value" % key)
    if "features" in edits and "features" in details:
        raise EditRefused("the user chose properties")
    if details["kind"] == "interactive" and any(key in edits for key in SHAPE_EDITS):
        raise EditRefused("an interactive job keeps its shape")
    if shape.fixed and any(key in edits for key in SHAPE_EDITS):
        raise EditRefused("whole nodes and unusual forms keep their shape")
    asked_s, limit_min = details.get("time_limit_s"), edits.get("time_limit_min")
    if limit_min is not None and asked_s is not None and 60 * limit_min < asked_s:
        raise EditRefused("the time limit would be lowered")
    if edits and "queue" not in edits:
        raise EditRefused("no queue is named")


def carry_out(spec: Spec, edits: Edits, shape: Shape, queues: Dict[str, ConfiguredQueue]) -> None:
    """Apply the edits to ``spec`` (a copy). Raises EditRefused where that is impossible."""
    queue = queues.get(edits["queue"])
    if queue is None:
        raise EditRefused("queue %s is not open to this submitter" % edits["queue"])
    system = spec["attributes"]["system"]
    duration_s = seconds_of(system.get("duration"))
    if "time_limit_min" in edits:
        duration_s = 60.0 * edits["time_limit_min"]
    problem = queue.refuses(reshape(spec, edits, shape), duration_s)
    if problem is not None:
        raise Impossible("%s: %s" % (edits["queue"], problem))
    if edits["queue"] == ANONYMOUS:
        system.pop("queue", None)
    else:
        system["queue"] = edits["queue"]
    if "features" in edits:
        system["constraints"] = {"properties": edits["features"].split("&")}
    if "time_limit_min" in edits:
        system["duration"] = duration_s


def reshape(spec: Spec, edits: Edits, shape: Shape) -> Dict[str, int]:
    """Write the edited nodes, tasks, cores and GPUs into the resources; return sizes for Flux's
    limits.

    The protocol counts GPUs per node, a jobspec per slot. Flux cannot request memory (RFC 25), so
    an edit of the memory changes nothing. Raises EditRefused.
    """
    nodes = edits.get("nodes", shape.nodes)
    slots = edits.get("tasks", shape.slots)
    cores = edits.get("cpus_per_task", shape.cores_per_slot)
    gpus = shape.gpus
    if "gres" in edits:
        gpus = int(edits["gres"].rpartition(":")[2]) * max(1, nodes)
        if shape.gpus and gpus != shape.gpus:
            raise EditRefused("the user chose the GPUs")
    sizes = shape.sizes(max(1, nodes), slots, cores, gpus)
    if gpus % slots:
        share_one_slot(spec["tasks"][0], shape, nodes, slots, gpus)
        slots, cores = 1, slots * cores
    before = (shape.nodes, shape.slots, shape.cores_per_slot, shape.gpus)
    if (nodes, slots, cores, gpus) == before:
        return sizes
    if nodes and slots % nodes:
        if shape.node is not None:
            raise Impossible("%d tasks cannot be spread over %d nodes alike" % (slots, nodes))
        nodes = 0  # the scheduler distributes the tasks over nodes
    if slots == 1 and shape.node is None:
        nodes = 0  # one task needs one node without a request for it
    shape.leaves["core"]["count"] = cores
    if gpus:
        leaf = {"type": "gpu", "count": gpus // slots}
        if "gpu" in shape.leaves:
            shape.leaves["gpu"].update(leaf)
        else:
            shape.slot["with"].append(leaf)
    shape.slot["count"] = slots // max(1, nodes)
    if shape.node is not None:
        shape.node["count"] = nodes
    elif nodes:
        spec["resources"] = [{"type": "node", "count": nodes, "with": [shape.slot]}]
    return sizes


def share_one_slot(task: Dict[str, Any], shape: Shape, nodes: int, slots: int, gpus: int) -> None:
    """Let the tasks of all slots run in one, with fewer GPUs than tasks; a nested instance keeps
    its one broker.

    Raises Impossible.
    """
    if nodes > 1 or gpus > slots or shape.gpus or shape.fixed:
        raise Impossible("%d GPUs cannot be given to %d tasks alike" % (gpus, slots))
    if not is_broker(task["command"]):
        task["count"] = {"total": slots}


def kept_reply(reply: Dict[str, Any], reason: object) -> Dict[str, Any]:
    """Return the notes for a job that stays unchanged although the daemon would move it."""
    stamp = text_of(reply.get("stamp"), MAX_STAMP_BYTES) or ""
    stamp = re.sub(r" action=\S+", " action=keep", stamp, count=1)
    stamp = re.sub(r" code=\S+", " code=untranslated", stamp, count=1)
    return {"stamp": stamp, "message": "the job stays as it is: %s" % reason}


def write_down(spec: Spec, reply: Dict[str, Any]) -> Dict[str, str]:
    """Write the decision and the message for the user into ``attributes.user.berth``; return the
    written values.
    """
    notes: Dict[str, str] = {}
    if text_of(reply.get("stamp"), MAX_STAMP_BYTES):
        notes["decision"] = one_line(reply["stamp"], MAX_STAMP_BYTES)
    if text_of(reply.get("message"), MAX_REPLY_BYTES):
        notes["message"] = one_line(reply["message"], MAX_MESSAGE_BYTES)
    if not notes:
        return {}
    user = spec["attributes"].setdefault("user", {})
    if not isinstance(user, dict) or not isinstance(user.setdefault(NAME, {}), dict):
        return {}  # the user's own values occupy the place
    user[NAME].update(notes)
    return notes


# --------------------------------------------------------------------------------------------------


class Filter:
    """Decides about one jobspec after another, with one breaker and one connection to the
    daemon.
    """

    def __init__(self, config: Any) -> None:
        self.settings = settings_of(config)
        self.queues = queues_of(config, self.settings["auto_queue"])
        self.breaker = Breaker(self.settings)
        self.client = Client(self.settings["socket"])

    @property
    def deadline_s(self) -> float:
        """The time in seconds within which one job must be handled."""
        return float(self.settings["deadline_ms"]) / 1000

    def consider(self, spec: Spec, userid: Any) -> bool:
        """Change ``spec``, a copy, in place; return False where the job must stay unchanged."""
        stop_s = time.monotonic() + self.deadline_s
        if type(spec.get("version")) is not int or spec["version"] != JOBSPEC_VERSION:
            return False
        if not self.breaker.allows():
            self.breaker.passed_by()
            return False
        if not self.queues or switched_off(self.settings["kill_switch"]):
            return False
        try:
            shape = Shape(spec)
            details = describe(spec, userid, shape, self.queues)
        except (LookupError, TypeError, ValueError, AttributeError):
            return False  # an unknown jobspec form
        if (
            details.get("mode") == "off"
            or details.get("workload") == "off"
            or has_unreadable_choice(spec)
        ):
            return False
        reply = self.ask(details, stop_s)
        if reply is None:
            return False
        edits = reply.get("edits")
        if reply["action"] == "edit" and isinstance(edits, dict) and edits:
            option = untranslated(spec, self.settings["leave_alone"])
            if option is not None:
                reason = "Berth cannot carry %s to another place" % option
                return bool(write_down(spec, kept_reply(reply, reason)))
            before = copied(spec)
            try:
                check(edits, details, shape, self.settings["auto_queue"])
                carry_out(spec, edits, shape, self.queues)
                if "decision" not in write_down(spec, reply):
                    raise EditRefused("no decision would explain it")
            except Impossible as problem:
                spec.clear()
                spec.update(before)
                return bool(write_down(spec, kept_reply(reply, problem)))
            except EditRefused as problem:
                log("refused", "an answer was not carried out: %s" % problem)
                return False
            return True
        return bool(write_down(spec, reply))

    def ask(self, details: Dict[str, Any], stop_s: float) -> Optional[Dict[str, Any]]:
        """Return the daemon's answer; None: no usable answer."""
        message = {"v": PROTOCOL, "op": "decide", "scheduler": "flux", "job": details}
        if self.breaker.report():
            message["breaker"] = self.breaker.report()
        line = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        if len(line) > MAX_REQUEST_BYTES:
            return None  # the job is too large for a request; the daemon did not fail
        try:
            reply = parse_reply(self.client.exchange(line, stop_s))
        except Failure as problem:
            self.breaker.failed(problem)
            return None
        self.breaker.succeeded()
        return reply


def switched_off(path: str) -> bool:
    """Return whether the kill switch file exists; True also where that cannot be determined."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def copied(value: Any) -> Any:
    """Return a deep copy of plain data (dicts and lists)."""
    if type(value) is dict:
        return {k: copied(v) if type(v) in _HOLDERS else v for k, v in value.items()}
    if type(value) is list:
        return [copied(v) if type(v) in _HOLDERS else v for v in value]
    return value


_HOLDERS = (dict, list)


class Frobnicator(FrobnicatorPlugin):  # type: ignore[misc]
    """The plugin class that Flux calls: it never raises and never writes to stdout."""

    def __init__(self, parser: Any) -> None:
        self._filter: Optional[Filter] = None
        self._alarm = Alarm()
        super().__init__(parser)

    def configure(self, args: Any, config: Any) -> None:
        """Create the filter from Flux's configuration; on an error the filter is off and Flux
        continues.
        """
        try:
            self._filter = self.make_filter(config)
        except Exception as error:
            log("configure", "off: %s: %s" % (type(error).__name__, error))

    def make_filter(self, config: Any) -> Filter:
        """Return the filter; tests override this method."""
        return Filter(config)

    def frob(self, jobspec: Any, userid: Any, urgency: Any, flags: Any) -> None:
        """Let the filter change a copy of the jobspec, which replaces the original if every step
        succeeded.
        """
        stdout = sys.stdout
        try:
            sys.stdout = sys.stderr
            changed = self._changed(jobspec, userid)
            if changed is not None:
                jobspec.jobspec = changed
        except BaseException as error:  # Overdue, SystemExit and MemoryError as well
            self._failed(error)
        finally:
            sys.stdout = stdout

    def _changed(self, jobspec: Any, userid: Any) -> Optional[Spec]:
        filter_ = self._filter
        if filter_ is None:
            return None

        def decide() -> Optional[Spec]:
            spec = copied(jobspec.jobspec)
            return spec if filter_.consider(spec, userid) is True else None

        changed: Optional[Spec] = self._alarm.run(filter_.deadline_s, decide)
        return changed

    def _failed(self, error: BaseException) -> None:
        try:
            if isinstance(error, Overdue) and self._filter is not None:
                self._filter.breaker.failed("deadline")
            log("error", "%s: %s" % (type(error).__name__, error))
        except Exception:  # there is nothing left to try  # noqa: S110  # nosec B110
            pass
