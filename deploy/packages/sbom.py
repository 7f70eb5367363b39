"""The bill of materials: every Python package in a staged tree, as CycloneDX 1.6.

Without times and random numbers, so that two builds of one source give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from email.message import Message
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename


def bill(packages: Path, wheels: Iterable[Path], own: str = "berth") -> dict[str, Any]:
    """The document for the packages in ``packages``, which were installed from ``wheels``.

    Raises KeyError where a wheel is missing for one of them.
    """
    digests = {
        str(parse_wheel_filename(path.name)[0]): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in wheels
    }
    found = sorted(
        (PathDistribution(path) for path in packages.glob("*.dist-info")), key=lambda one: one.name
    )
    components = {canonicalize_name(one.name): _component(one, digests) for one in found}
    application = components.pop(canonicalize_name(own)) | {"type": "application"}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": application},
        "components": list(components.values()),
        "dependencies": [_dependencies(one, components) for one in found],
    }


def text_of(document: dict[str, Any]) -> str:
    """As it is written."""
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _reference(one: PathDistribution) -> str:
    return f"pkg:pypi/{canonicalize_name(one.name)}@{one.version}"


def _component(one: PathDistribution, digests: dict[str, str]) -> dict[str, Any]:
    licence = _licence(one.metadata)  # type: ignore[arg-type]
    return {
        "type": "library",
        "bom-ref": _reference(one),
        "purl": _reference(one),
        "name": one.name,
        "version": one.version,
        "hashes": [{"alg": "SHA-256", "content": digests[canonicalize_name(one.name)]}],
        **({"licenses": [licence]} if licence else {}),
    }


def _licence(metadata: Message) -> dict[str, Any] | None:
    """What the package says itself: an SPDX expression where it has one, else its name."""
    expression = metadata.get("License-Expression")
    if expression:
        return {"expression": expression}
    classifiers = [str(text) for text in metadata.get_all("Classifier", [])]
    named = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License ::")]
    said = str(metadata.get("License") or "").strip()
    name = named[0] if named else said.partition("\n")[0]
    return {"license": {"name": name}} if name else None


def _dependencies(one: PathDistribution, components: dict[str, Any]) -> dict[str, Any]:
    needed = {canonicalize_name(Requirement(text).name) for text in one.requires or ()}
    there = sorted(components[name]["bom-ref"] for name in needed if name in components)
    return {"ref": _reference(one), "dependsOn": there}
