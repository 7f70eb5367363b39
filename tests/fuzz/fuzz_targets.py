"""What is fuzzed: a function of bytes each, which refuses in one sentence or takes them.

Anything that a target raises is a failure: its reader may raise only what it promises to.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flux_bench import asking, flux_config
from fuzz_mutations import mutated, mutated_model
from model_mutations import decoded, seeds
from views import knowing_service

from berth.pilot.documents import Document, parse_json, to_json
from berth.pilot.errors import BerthError
from berth.pilot.profile import Profile
from berth.pilot.protobuf import Problem
from berth.plugin.bundle_readers import reader_of
from berth.plugin.daemon.protocol import MAX_REPLY_BYTES, Refusal, parse
from berth.plugin.daemon.record import Answered, record_of
from berth.plugin.daemon.service import Service
from berth.plugin.flux import accounting as flux_accounting
from berth.plugin.flux import frobnicator, present_jobs
from berth.plugin.history.files import read_past_jobs
from berth.plugin.history.openb import read_openb
from berth.plugin.history.pbs import read_pbs
from berth.plugin.history.swf import read_swf
from berth.plugin.replay.past import trace_of_jobs
from berth.plugin.scheduler.host_lists import hostlist, idset
from berth.plugin.scheduler.past_jobs import ReadJobs, text_of
from berth.plugin.site.load import load_site
from berth.plugin.slurm import accounting, cluster
from berth.plugin.slurm import present_jobs as slurm_present_jobs
from berth.plugin.slurm import sacct as slurm_sacct
from berth.predictor.core.workload import Workload, read_workload
from berth.predictor.families.graph.workload import ModelWorkload
from berth.predictor.families.language_model.config import from_mapping, is_encoder
from berth.predictor.families.language_model.model_files import object_in
from berth.predictor.families.language_model.workload import LanguageModelWorkload
from berth.predictor.graphs.stored import from_lines

CORPUS = Path(__file__).with_name("corpus")
_SMALL_NETWORK = Path(__file__).parents[1] / "support" / "small-network"
_LONGEST_SENTENCE = 1500
_LARGEST_INTEGER = 2**31
"""Of a database's columns for cores, nodes and GPUs."""


@dataclass(frozen=True)
class Target:
    """One reader of what others write."""

    take: Callable[[bytes], None]
    mutate: Callable[[bytes, random.Random], bytes] = mutated


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds are refusals, and each says one short sentence."""
    try:
        yield
    except kinds as error:
        said = str(error)
        assert said, "a refusal that says nothing"
        assert "\n" not in said, f"a refusal of several lines: {said[:200]!r}"
        assert len(said) <= _LONGEST_SENTENCE, f"a refusal of {len(said)} characters"


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where there is one; it goes with the process, or by ``clean_up``."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None)


def clean_up() -> None:
    """For processes that end without Python's own end."""
    _scratch().cleanup()


def _written(data: bytes, name: str) -> Path:
    path = Path(_scratch().name, name)
    path.write_bytes(data)
    return path


# The submit path


@cache
def _service() -> tuple[Service, list[Answered]]:
    return knowing_service()


def wire(data: bytes) -> None:
    """A line from a filter, and the daemon's answer on a small site."""
    with refusing(Refusal):
        parse(data)
    service, answered = _service()
    line = service.handle(data)
    assert len(line) <= MAX_REPLY_BYTES
    reply = json.loads(line)
    assert reply.get("action") in ("keep", "edit") or "mode" in reply, reply
    assert service.stats.counts["internal-errors"] == 0, "an answer failed; see the log"
    for one in answered:
        for value in dataclasses.astuple(record_of(one, "host")):
            if isinstance(value, str):
                value.encode()
    answered.clear()


@cache
def _filter() -> frobnicator.Filter:
    return frobnicator.Filter(flux_config(kill_switch="/nonexistent/off"))


def reply(data: bytes) -> None:
    """The daemon's answer as Flux's filter takes it: a whole change, or none."""
    with refusing(frobnicator.Failure):
        frobnicator.parse_reply(data)
    filter_ = _filter()
    filter_.breaker.succeeded()
    filter_.client.exchange = lambda _line, _stop_s: data  # type: ignore[method-assign]
    for form in ("n1", "N2n4c2"):
        before = asking(form)
        after = deepcopy(before)
        if filter_.consider(after, 1000):
            for task, written in zip(after["tasks"], before["tasks"], strict=True):
                assert {**task, "count": 0} == {**written, "count": 0}
                # Tasks that share one slot, and with it a GPU, are counted in all.
                assert task["count"] == written["count"] or task["count"]["total"] > 1
            assert json.loads(json.dumps(after, allow_nan=False)) == after
            assert frobnicator.Shape(after).slots >= 1


# Documents


def site(data: bytes) -> None:
    with refusing(BerthError):
        load_site(_written(data, "berth.toml"))


def _again(document: Document) -> None:
    """What was accepted is written and read as the same."""
    assert parse_json(to_json(document), type(document), source="again") == document


def profile(data: bytes) -> None:
    with refusing(BerthError):
        _again(parse_json(data, Profile, source="profile.json"))


def workload(data: bytes) -> None:
    """A workload's document of any kind: JSON, or TOML of slices."""
    found: Workload | None = None
    with refusing(BerthError):
        kind = "json" if data.lstrip()[:1] in (b"{", b"[") else "toml"
        found = read_workload(_written(data, f"workload.{kind}"))
    if found is None:
        return
    _again(found.document)
    with refusing(BerthError):
        if isinstance(found.document, ModelWorkload):
            from_lines(found.document.graph, "workload")
        if isinstance(found.document, LanguageModelWorkload):
            from_mapping(found.document.config, source="workload", name="x")


@cache
def _bundle() -> Path:
    return Path(shutil.copytree(_SMALL_NETWORK, Path(_scratch().name, "bundle")))


def bundle(data: bytes) -> None:
    """A bundle's manifest, its files beside it."""
    (_bundle() / "manifest.json").write_bytes(data)
    with refusing(BerthError):
        reader_of(_bundle()).verify(_bundle())


def config(data: bytes) -> None:
    """The ``config.json`` of a language model."""
    with refusing(BerthError):
        raw = object_in(data, "config.json")
        is_encoder(raw)
        model = from_mapping(raw, source="config.json", name="x")
        sizes = (model.parameters, model.active_parameters, model.attending_width,
                 model.cached_values(1000.0))  # fmt: skip
        assert all(0 <= size < math.inf for size in sizes), sizes


def onnx(data: bytes) -> None:
    """A model's file, in this process."""
    with refusing(Problem):
        decoded(data, 1 + len(data) % 8)


# What schedulers write


def _lines(data: bytes) -> list[str]:
    """As ``history.files.lines_of`` gives them."""
    return [text_of(line) for line in data.split(b"\n")]


def _usable(read: ReadJobs) -> None:
    """Every job can be stored and replayed."""
    for job in read.jobs.values():
        for value in dataclasses.astuple(job):
            if isinstance(value, str):
                assert len(value) < _LONGEST_SENTENCE
                assert "\0" not in value
                value.encode()
            assert not isinstance(value, float) or math.isfinite(value)
        for count in (job.cores or 0, job.nodes or 0, job.gpus or 0):
            assert 0 <= count < _LARGEST_INTEGER, count
        assert len(job.job_id) <= 64, job.job_id
    assert all(len(example) < _LONGEST_SENTENCE for example in read.examples)
    if read.jobs:
        trace_of_jobs(read.jobs.values(), read.after, read.array_limits)


def sacct(data: bytes) -> None:
    """Rows of sacct, with a header: jobs as they are now, and past jobs."""
    for every in (True, False):
        with refusing(BerthError):
            _usable(
                slurm_sacct.read_sacct(
                    _lines(data), "lab", source="jobs.txt", utc=True, every=every
                )
            )


def squeue(data: bytes) -> None:
    """Jobs as squeue and slurmctld have them."""
    text = data.decode("utf-8", "replace")
    with refusing(BerthError):
        fields = slurm_present_jobs.FIELDS
        slurm_present_jobs.parse(slurm_present_jobs.rows(text, "|", fields))
    accounting.remembered_in(slurm_present_jobs.rows(text, "|", accounting.REMEMBERED_FIELDS))


def scontrol(data: bytes) -> None:
    lines = data.decode("utf-8", "replace").splitlines()
    of = {
        kind: "\n".join(line for line in lines if line.startswith(kind))
        for kind in ("Partition", "Node", "Reservation")
    }
    with refusing(BerthError):
        cluster.parse_cluster(of["Partition"], of["Node"], "cpu|None", "slurm 25.05", as_of_s=0.0)
    with refusing(BerthError):
        cluster.parse_reservations(of["Reservation"])


def flux(data: bytes) -> None:
    """Jobs as Flux lists them, as its services tell of them, and lists of hosts and ranks."""
    text = data.decode("utf-8", "replace")
    with refusing(BerthError):
        _usable(flux_accounting.read_flux(text, "lab", source="jobs.json"))
    with refusing(BerthError):
        present_jobs.parse(text)
    with refusing(BerthError):
        flux_accounting.parse_ended(text.splitlines())
    answers: Any = None
    try:
        answers = json.loads(text)
    except (ValueError, RecursionError):
        for read in (hostlist, idset):
            with refusing(BerthError):
                read(text)
    if isinstance(answers, dict):
        with refusing(BerthError):
            flux_accounting.parse_outcomes(answers)


def trace(data: bytes) -> None:
    """Lines of a trace in the Standard Workload Format, of pods, or of PBS's accounting."""
    lines = _lines(data)
    with refusing(BerthError):
        _usable(read_swf(lines, "lab"))
        _usable(read_pbs(lines, "lab"))
        _usable(read_openb(lines, "lab", source="pods.csv"))
    with refusing(BerthError):
        _usable(read_past_jobs(lines, "jobs", "lab", utc=True))


TARGETS: dict[str, Target] = {
    "wire": Target(wire),
    "reply": Target(reply),
    "site": Target(site),
    "profile": Target(profile),
    "workload": Target(workload),
    "bundle": Target(bundle),
    "config": Target(config),
    "onnx": Target(onnx, mutated_model),
    "sacct": Target(sacct),
    "squeue": Target(squeue),
    "scontrol": Target(scontrol),
    "flux": Target(flux),
    "trace": Target(trace),
}


def seeds_of(name: str) -> list[bytes]:
    """The inputs of the tree, in order; ONNX models are made."""
    found = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
    return [*found, *seeds()] if name == "onnx" else found
