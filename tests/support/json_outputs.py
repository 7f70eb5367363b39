"""What commands print with ``--json``, as JSON Schema: ``make schemas`` writes ``docs/schemas/``.

Each command is run on a small site made here; the schema says which keys there are, of which type,
and which may be null. The test runs them again and checks the output against the written schema.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from small_models import convolutional
from toy_profiles import profile
from ui_store import decision

from berth.pilot.documents import to_json
from berth.plugin import cli
from berth.plugin.described_models import Shape, described
from berth.plugin.site.demo import DEMO_FILE
from berth.plugin.store import OutcomeRecord, Store
from berth.plugin.workload_files import WorkloadOptions

DRAFT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"
MAPS = frozenset((
    "counters", "unknown_operators", "mig", "values", "effects", "intervals", "refused", "peaks",
    "vector", "matrix", "edits", "translation", "known_elsewhere", "left_out", "corrections",
    "kernels", "weights", "folded", "figures", "files", "hyperparameters", "libraries", "sources",
))  # fmt: skip
"""Objects whose keys are names of something: any key, values of one type."""
ANY = frozenset(("document", "request", "signature", "graph"))
"""Documents of their own schema, and what a scheduler's request held."""
_PLAIN: tuple[tuple[str, Any], ...] = (
    ("null", type(None)), ("boolean", bool), ("number", (int, float)), ("string", str),
)  # fmt: skip
_MAP = ("object", "additionalProperties")
FLEET = {
    "schema": "berth.mig-fleet/1",
    "gpus": [{"name": "n1/0", "model": "A100-40GB", "layout": ["3g.20gb@0", "1g.5gb@4"],
              "running": [{"instance": "1g.5gb@4"}]}],
}  # fmt: skip
JOBS = {
    "schema": "berth.mig-jobs/1",
    "jobs": [{"name": "bert", "count": 9, "slices": [{"profile": "2g.10gb", "throughput": 1.0}]}],
}
SWF = "{} {} 0 60 1 -1 -1 1 90 -1 1 {} 1 1 1 1 -1 -1\n"


def cases(folder: Path) -> dict[str, tuple[str, ...]]:
    """By command: its words, on files that are made in ``folder``."""
    site, store = folder / "berth.toml", folder / "store.db"
    site.write_text(DEMO_FILE.read_text() + f'\n[daemon]\nstore = "{store}"\n')
    now_s = time.time()
    made = Store.open(str(store))
    made.decisions.add([replace(decision(n), time_s=now_s - 500.0) for n in (1, 2)])
    made.outcomes.put([
        OutcomeRecord(
            "demo", "77", "alice", "completed", decision=decision(1).id, elapsed_s=11.0,
            predicted_low_s=8.0, predicted_s=10.0, predicted_high_s=14.0, platform="a100-40gb",
            candidate="gpu", profile="stream", end_s=now_s - 100.0,
        ),
        OutcomeRecord("demo", "78", "bob", "failed", end_s=now_s - 90.0),
    ])  # fmt: skip
    made.close()
    files = {
        "triad.json": to_json(profile(runtime_s=2.0)),
        "fleet.json": json.dumps(FLEET),
        "jobs.json": json.dumps(JOBS),
        "jobs.swf": "".join(SWF.format(n + 1, 20 * n, n % 2) for n in range(8)),
        "served.json": to_json(
            described(Shape(4, 512), "serve", sequence=None, options=WorkloadOptions()).document
        ),
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "net.onnx").write_bytes(convolutional().SerializeToString())
    at = {name.partition(".")[0]: str(folder / name) for name in (*files, "net.onnx")}
    here, two = ("--site", str(site)), ("--platform", "quartz", "--platform", "a100-40gb")
    return {
        "decisions": ("decisions", *here),
        "decisions-show": ("decisions", *here, "show", decision(1).id),
        "outcomes": ("outcomes", *here),
        "outcomes-jobs": ("outcomes", *here, "--jobs"),
        "why": ("why", "77", *here),
        "workload-add": ("workload", "add", at["triad"], "--replace", *here),
        "workload-list": ("workload", "list", *here),
        "workload-show": ("workload", "show", "triad", *here),
        "predict-program": ("predict", at["triad"], *two, "--explain", "--probe"),
        "predict-model": ("predict", at["net"], *two),
        "predict-training": ("predict", at["net"], "--mode", "training", *two),
        "predict-language-model": ("predict", at["served"]),
        "place": ("place", at["triad"], "--site", str(DEMO_FILE)),
        "replay": ("replay", at["jobs"].replace("jobs.json", "jobs.swf"), "--cores", "2",
                   "--backfill", "easy", "--backfill", "fcfs"),
        "mig-show": ("mig", "show", "--gpu", "A100-40GB"),
        "mig-plan": ("mig", "plan", "--fleet", at["fleet"], "--jobs", str(folder / "jobs.json")),
        "platform-list": ("platform", "list"),
        "report": ("report", "site", *here),
        "learn": ("learn", *here),
        "bundle-show": ("bundle", "show"),
    }  # fmt: skip


def output(words: Sequence[str]) -> Any:
    """What a command prints. Raises AssertionError where it fails."""
    words = [*words[:3], "--json", *words[3:]] if words[0] == "decisions" else [*words, "--json"]
    if "show" in words and words[0] == "decisions":
        words.remove("--json")
        words.append("--json")
    done = CliRunner().invoke(cli.berth, list(words))
    assert done.exit_code == 0, (words, done.output, done.exception)
    return json.loads(done.stdout)


def schema_of(value: Any, name: str = "") -> dict[str, Any]:
    """The JSON Schema of one value."""
    if name in ANY and isinstance(value, dict):
        return {"type": ["object"]}
    for kind, of in _PLAIN:
        if isinstance(value, of):
            return {"type": [kind]}
    if isinstance(value, list) or name in MAPS:
        inner: dict[str, Any] = {}
        for one in value if isinstance(value, list) else value.values():
            inner = merged(inner, schema_of(one))
        kind, key = ("array", "items") if isinstance(value, list) else _MAP
        return {"type": [kind]} | ({key: inner} if inner else {})
    properties = {key: schema_of(one, key) for key, one in value.items()}
    return {"type": ["object"], "properties": properties, "required": sorted(properties)}


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that both values have."""
    if not one or not other:
        return dict(one or other)
    found: dict[str, Any] = {"type": sorted({*one["type"], *other["type"]})}
    for key in ("items", "additionalProperties"):
        if key in one or key in other:
            found[key] = merged(one.get(key, {}), other.get(key, {}))
    if "properties" in one or "properties" in other:
        a, b = one.get("properties", {}), other.get("properties", {})
        found["properties"] = {
            key: merged(a.get(key, {}), b.get(key, {})) for key in sorted({*a, *b})
        }
        required = [set(x["required"]) for x in (one, other) if "required" in x]
        found["required"] = sorted(set.intersection(*required))
    return found


def problems(value: Any, schema: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """How a value is not as its schema says (of what ``schema_of`` writes)."""
    kinds = {**dict(_PLAIN), "array": list, "object": dict}
    named = schema.get("type", list(kinds))
    if not any(isinstance(value, kinds[kind]) for kind in named):
        yield f"{at}: {type(value).__name__}, not {' or '.join(named)}"
        return
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from problems(one, schema.get("items", {}), f"{at}[{number}]")
    if isinstance(value, dict):
        known = schema.get("properties")
        yield from (f"{at}.{k}: missing" for k in schema.get("required", ()) if k not in value)
        for key, one in value.items():
            if known is not None and key not in known:
                yield f"{at}.{key}: not documented"
            inner = (known or {}).get(key, schema.get("additionalProperties", {}))
            yield from problems(one, inner, f"{at}.{key}")


def main() -> None:
    """Write all schemas; what one run leaves null stays as it was known before."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, words in cases(Path(folder)).items():
            path = FOLDER / f"{name}.schema.json"
            found = schema_of(output(words))
            head = {"$schema": DRAFT, "title": f"berth {name.replace('-', ' ')} --json"}
            path.write_text(json.dumps(head | found, indent=1) + "\n")
            print(path.name, file=sys.stderr)


if __name__ == "__main__":
    main()
