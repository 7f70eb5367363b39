"""A ``config.json`` of Hugging Face as a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from berth.pilot.documents import read_json
from berth.predictor.families.graph.from_file import plain_name
from berth.predictor.families.language_model.config import RawConfig, from_mapping
from berth.predictor.families.language_model.kind import LanguageModelWorkload


def language_model_workload(path: Path, **load: Any) -> LanguageModelWorkload:
    """The workload of a decoder's configuration; ``load``: fields of the document.

    Raises DocumentError for a file that is no decoder's configuration.
    """
    raw = dict(read_json(path, RawConfig).model_extra or {})
    from_mapping(raw, source=path, name=path.name)
    given = {key: value for key, value in load.items() if value is not None}
    return LanguageModelWorkload(**{"name": plain_name(path), "config": raw, **given})
