"""Finds the module that reads a bundle, by the schema in the bundle's manifest."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from berth.pilot.errors import DocumentError
from berth.predictor.core.bundle import MANIFEST, BundleManifest, read_manifest, schema_of_bundle
from berth.predictor.core.family import FAMILIES


def reader_of(folder: Path) -> ModuleType:
    """Return the module whose ``verify`` and ``load`` read the folder's bundle.

    Raises DocumentError for a folder that is not a bundle, or whose schema no installed model
    family reads.
    """
    if not folder.is_dir():
        read_manifest(folder, BundleManifest)  # raises the error that says why
    schema = schema_of_bundle(folder)
    readers = readers_by_schema()
    if schema not in readers:
        # For another version of a known schema, its reader raises the error that says what to do.
        kind = schema.partition("/")[0]
        schema = next((known for known in readers if known.partition("/")[0] == kind), schema)
    if schema not in readers:
        raise DocumentError(
            folder / MANIFEST,
            f"has the schema {schema!r}, which no installed family reads",
            key="schema",
            hint=f"known: {', '.join(sorted(readers))}",
        )
    return import_module(readers[schema])


def readers_by_schema() -> dict[str, str]:
    """Return the name of the Python module that reads each bundle schema, by schema."""
    entries = FAMILIES.load_all().values()
    return {schema: module for entry in entries for schema, module in entry.bundle_readers.items()}
