"""Write ``families.json``: the entries of families whose derivation left nothing unexplained."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from berth.predictor.families.language_model.families import TABLE
from berth.predictor.families.language_model.refusals import OTHER_ENCODERS
from lab.llm.architectures.samples import LEFT_OUT

Entries = dict[str, dict[str, Any]]


def write(names: Sequence[str], folder: Path | None) -> int:
    """Derive families, and write the table with what it already has of others. Returns the exit
    status.

    An entry of which something stays unexplained replaces none that was there. With a folder,
    derived entries are also kept there, and an unfinished run goes on from them.
    """
    from lab.llm.architectures.derive import derive  # noqa: PLC0415 - imports torch
    from lab.llm.architectures.seeing import derive_seeing, holds_a_text_model  # noqa: PLC0415

    texts, seeing = known_entries()
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "entries.jsonl" if folder else None
    done = set()
    for line in kept.read_text(encoding="utf-8").splitlines() if kept and kept.exists() else ():
        read = json.loads(line)
        done.add(read["name"])
        entries = seeing if read["sees"] else texts
        if listed(read) or read["name"] not in entries:
            entries[read["name"]] = read
    passed_over = {*done, *OTHER_ENCODERS, *encoders()}
    for name in names:
        if name in passed_over:
            continue
        sees = holds_a_text_model(name)
        derived = derive_seeing(name) if sees else derive(name)
        result = {"entry": derived.entry, "problems": derived.problems}
        entries = seeing if sees else texts
        if listed(result) or name not in entries:
            entries[name] = result
        if kept is not None:
            with kept.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"name": name, "sees": sees, **result}) + "\n")
        shown = "; ".join(derived.problems[:2]) or "explained"
        print(
            f"{name:28} {len(derived.traces):3} models  {shown[:160]}", file=sys.stderr, flush=True
        )
    TABLE.write_text(text_of(texts, seeing), encoding="utf-8")
    return 0


def known_entries() -> tuple[Entries, Entries]:
    """Return the entries of the present table: of families, and of models that see."""
    if not TABLE.exists():
        return {}, {}
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    texts, seeing = (
        {name: {"entry": entry, "problems": []} for name, entry in table[part].items()}
        for part in ("families", "composites")
    )
    return texts, seeing


def listed(result: Mapping[str, Any]) -> bool:
    """Return whether an entry is complete: a key that is fixed at its default is no problem."""
    return bool(result["entry"]) and all(p.startswith("{") for p in result["problems"])


_COULD_BE_A_SIZE = re.compile(
    r"size|ratio|window|config|chunk|layer(?!_?norm|drop)|block|rate|index|idx|alibi|dim|head|expert"
    r"|rank|period|freq|iters|expand|num_(?!logits|ln|beams)"
)
"""Keys that are harmless in one family and could be a size in another."""


def compact(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with its vectors (norms, biases) of equal condition added up."""
    vectors: dict[tuple[str, str, str, str], list[str]] = {}
    matrices = []
    for part, name, repetitions, condition, product in entry["weights"]:
        if "*" in product or part in {"head", "embedding", "lookup"} or name.endswith("vectors"):
            matrices.append([part, name, repetitions, condition, product])
        else:
            prefix = f"{name.partition('{}')[0]}{{}}." if "{}" in name else ""
            key = (part, f"{prefix}vectors", repetitions, condition)
            vectors.setdefault(key, []).append(product)
    summed = [[*key, " + ".join(products)] for key, products in vectors.items()]
    return {**entry, "weights": matrices + summed}


TOWER_SIZES = ("hidden_size", "embed_dim", "width", "d_model", "num_hidden_layers", "depth",
               "encoder_layers", "intermediate_size", "mlp_dim", "encoder_ffn_dim")  # fmt: skip
"""Sizes of a tower of the usual form (``towers``)."""


def usual_towers() -> dict[str, dict[str, int]]:
    """Return the sizes that the classes of encoders of pictures and sound have by default."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: PLC0415

    sizes: dict[str, dict[str, int]] = {}
    known = set(encoders())
    for name in CONFIG_MAPPING:
        if name in known or re.search(r"vision|visual|audio|pixtral|whisper|vit", name):
            with contextlib.suppress(Exception):  # the class has no defaults
                values = vars(CONFIG_MAPPING[name]())
                sizes[name] = {k: values[k] for k in TOWER_SIZES if type(values.get(k)) is int}
    return {name: known for name, known in sorted(sizes.items()) if known}


_OF_DECODERS = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "PRETRAINING",
                "SEQUENCE_CLASSIFICATION", "QUESTION_ANSWERING", "TOKEN_CLASSIFICATION",
                "MULTIPLE_CHOICE")  # fmt: skip
"""Tasks that decoders have, too."""


def encoders() -> list[str]:
    """Return the model types that transformers has for tasks without generated text, or for
    translation."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    tasks = {
        name.removeprefix("MODEL_FOR_").removesuffix("_MAPPING_NAMES"): set(types)
        for name, types in vars(modeling_auto).items()
        if name.startswith("MODEL_FOR_") and name.endswith("_MAPPING_NAMES")
    }
    never = tasks["MASKED_LM"] | tasks["SEQ_TO_SEQ_CAUSAL_LM"]
    other = {t for task, types in tasks.items() if task not in _OF_DECODERS for t in types}
    return sorted((never | other - tasks["CAUSAL_LM"]) - tasks["IMAGE_TEXT_TO_TEXT"])


def text_of(texts: Mapping[str, Any], seeing: Mapping[str, Any]) -> str:
    """Return the table as JSON text, a line for each family and each model that sees."""
    entries = {
        name: compact(result["entry"])
        for name, result in sorted(texts.items())
        if listed(result) and name not in LEFT_OUT
    }
    outer = {
        name: {**result["entry"], "entry": compact(result["entry"]["entry"])}
        for name, result in sorted(seeing.items())
        if listed(result)
    }
    structural = {
        key
        for entry in entries.values()
        for key in (*entry["defaults"], *entry["fixed"], *entry["aliases"])
    }
    harmless = sorted(
        key
        for key in {k for entry in entries.values() for k in entry["harmless"]} - structural
        if not _COULD_BE_A_SIZE.search(key)
    )
    parts = [
        f'"harmless": {json.dumps(harmless)}', f'"encoders": {json.dumps(encoders())}',
        f'"towers": {json.dumps(usual_towers())}',
    ]  # fmt: skip
    for title, listing in (("composites", outer), ("families", entries)):
        lines = [
            f"{json.dumps(n)}: {json.dumps(e, separators=(',', ':'))}" for n, e in listing.items()
        ]
        parts.append(f'"{title}": {{\n' + ",\n".join(lines) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"
