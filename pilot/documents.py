"""Read and write Berth's own files, with limits on size and depth and one sentence on failure.

A *document* is a frozen pydantic model that forbids unknown keys, refuses NaN and infinity, and
has a ``schema`` name with a version. Files that programs write (profiles, platforms, bundle
manifests) are JSON; the file that people write (the site file) is TOML.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from berth.pilot.document_errors import explain, kind_of
from berth.pilot.errors import DocumentError
from berth.pilot.units import whole_number

# The number of parts of dotted keys in a TOML text is checked before the text is parsed, because
# the time of tomllib grows with the square of the number of parts (0.1 s for 3 KB of dots). An
# unterminated string is taken to reach to the end of its line, or of the text for multi-line
# strings: tomllib stops there with an error.
_BASIC = r'"(?:[^"\\\n]++|\\.)*+"?'
_LITERAL = r"'[^'\n]*+'?"
_PART = rf"(?:[A-Za-z0-9_-]++|{_BASIC}|{_LITERAL})"
_DOT = r"[ \t]*+\.[ \t]*+"
_BASIC_LINES = r'"""(?:[^"\\]++|\\.|"(?!""))*+"{0,5}+'
_LITERAL_LINES = r"'''(?:[^']++|'(?!''))*+'{0,5}+"
_PASSED_OVER = rf"{_BASIC_LINES}|{_LITERAL_LINES}|#[^\n]*+"


def has_deeper_key(text: str, parts: int) -> bool:
    """Return whether any key of a TOML text has more than ``parts`` parts (``a.b.c`` has three).

    Keys of tables and of values count; strings and comments do not. The time is linear in the
    length of the text, also for invalid TOML.
    """
    deeper = rf"(?P<deeper>{_PART}(?:{_DOT}{_PART}){{{parts}}})"
    tokens = re.compile(f"{_PASSED_OVER}|{deeper}|{_PART}(?:{_DOT}{_PART})*+", re.DOTALL)
    return any(token["deeper"] is not None for token in tokens.finditer(text))


MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
_MARK = "\ufeff"
"""The byte-order mark that some editors write at the begin of a text."""
MAX_DEPTH = 32
MAX_KEYS = 100_000
_TOML = 'text stands between two straight quotes ("), on one line'
_NOT_FINITE = "holds {}; only finite numbers are accepted"


class Document(BaseModel):
    """Base class of Berth's file formats and of the objects nested in them.

    Instances are frozen; unknown keys, NaN and infinity are refused.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=False,
        str_max_length=65_536,
        ser_json_inf_nan="constants",
    )


D = TypeVar("D", bound=Document)


def read_json(path: Path, model: type[D]) -> D:
    """Return a JSON file as a ``model``. Raises DocumentError that names the invalid key."""
    return parse_json(_read_bounded(path), model, source=path)


def read_json_or_toml(path: Path, model: type[D]) -> D:
    """Return a file as a ``model``: TOML where its name ends in ``.toml``, else JSON.

    Raises DocumentError that names the invalid key.
    """
    return read_toml(path, model) if path.suffix == ".toml" else read_json(path, model)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file of at most 8 MiB. Raises DocumentError."""
    try:
        return _read_bounded(path).decode().removeprefix(_MARK)
    except UnicodeDecodeError as error:
        raise DocumentError(path, f"is not UTF-8 text (byte {error.start})") from None


def read_toml(path: Path, model: type[D]) -> D:
    """Return a TOML file as a ``model``. Raises DocumentError that names the invalid key."""
    import tomllib  # noqa: PLC0415 - not for JSON

    raw = _read_bounded(path)
    try:
        text = raw.decode().removeprefix(_MARK)
        if has_deeper_key(text, MAX_DEPTH - 1):  # the document and the last value are levels, too
            raise DocumentError(path, f"is nested deeper than {MAX_DEPTH} levels")
        data = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise DocumentError(path, f"is not UTF-8 text (byte {error.start})") from None
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise DocumentError(path, f"is not TOML: {error}", hint=_TOML) from None
    except RecursionError:
        raise DocumentError(path, f"is nested deeper than {MAX_DEPTH} levels") from None
    return validate(data, model, source=path)


def parse_json(raw: bytes | str, model: type[D], *, source: str | Path) -> D:
    """Return JSON text as a ``model``; ``source`` names it in messages. Raises DocumentError."""
    return validate(json_data(raw, source=source), model, source=source)


def parse_json_lines(raw: bytes, model: type[D], *, source: str | Path) -> dict[str, D]:
    """Return JSON lines as documents by their place, ``SOURCE, line N``; empty lines are left out.

    Raises DocumentError that names the place.
    """
    places = {
        f"{source}, line {number}": line
        for number, line in enumerate(raw.splitlines(), 1)
        if line.strip()
    }
    return {place: parse_json(line, model, source=place) for place, line in places.items()}


def json_data(raw: bytes | str, *, source: str | Path) -> object:
    """Return the value of a JSON text. Raises DocumentError, also for repeated keys and NaN."""
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise DocumentError(source, f"is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        return json.loads(
            raw, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates
        )
    except _InvalidJson as refused:
        raise DocumentError(source, refused.problem, key=refused.key) from None
    except RecursionError:
        raise DocumentError(source, f"is nested deeper than {MAX_DEPTH} levels") from None
    except UnicodeDecodeError as error:
        raise DocumentError(source, f"is not UTF-8 text (byte {error.start})") from None
    except ValueError as error:
        raise DocumentError(source, f"is not JSON: {error}") from None


def validate(data: object, model: type[D], *, source: str | Path) -> D:
    """Return parsed data as a ``model``. Raises DocumentError that names the first invalid key."""
    if not isinstance(data, dict):
        raise DocumentError(source, f"holds {kind_of(data)} where an object is needed")
    infinite = _check_shape(data, source)
    _check_schema(data, model, source)
    try:
        # Validate JSON text instead of the data: for JSON, pydantic's strict mode accepts lists as
        # tuples and strings as enums, and still refuses "5" as a number.
        document = model.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        raise explain(error, data, model, source) from None
    if infinite is not None:  # in a field that takes anything
        raise DocumentError(source, _NOT_FINITE.format(infinite))
    return document


def to_json(document: Document) -> str:
    """Return the document as indented JSON text with a final newline."""
    return document.model_dump_json(indent=2, by_alias=True, exclude_none=False) + "\n"


def write_json(path: Path, document: Document) -> None:
    """Write a document as JSON atomically: a reader sees the old file or the new one."""
    write_text(path, to_json(document))


def write_text(
    path: Path,
    text: str,
    *,
    mode: int | None = None,
    durable: bool = False,
) -> None:
    """Write a UTF-8 text file atomically; the options are those of :func:`write_bytes`."""
    write_bytes(path, text.encode("utf-8"), mode=mode, durable=durable)


def write_bytes(
    path: Path,
    raw: bytes,
    *,
    mode: int | None = None,
    owner: tuple[int, int] | None = None,
    durable: bool = False,
) -> None:
    """Write a file atomically: a reader sees the old content or the new, never a part of it.

    The bytes go into a temporary file in the same folder, which then replaces ``path``; a symbolic
    link at ``path`` is replaced itself (pass ``path.resolve()`` to write the file that it names).

    Args:
        path: the file; its folder is made where there is none.
        raw: the whole content.
        mode: permission bits; None: those of the file that is replaced, else what the umask allows.
        owner: user and group id; None: if root writes, those of the file that is replaced, else
            those of the writing process.
        durable: wait until content and name are on the disk, so that both survive a power failure.

    Raises:
        OSError: the file cannot be written. The old file is unchanged and no temporary file is
            left. Exception: with ``durable`` the new file may be in place without being synced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
            stream.flush()
            _set_rights(stream.fileno(), path, mode, owner)
            if durable:
                os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a full disk names no file
        raise
    if durable:
        _sync_folder(path.parent)


def _set_rights(
    handle: int, replaced: Path, mode: int | None, owner: tuple[int, int] | None
) -> None:
    """Set owner and mode of the new file, by default those of the file that it replaces.

    Thus nobody gains or loses access when, for example, root rewrites a user's file.
    """
    try:
        before = replaced.stat()
    except FileNotFoundError:
        before = None
    if owner is None and before is not None and os.geteuid() == 0:
        owner = (before.st_uid, before.st_gid)
    if owner is not None:
        os.fchown(handle, *owner)
    if mode is None:
        mode = stat.S_IMODE(before.st_mode) if before is not None else 0o666 & ~_umask()
    os.fchmod(handle, mode)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    """Sync the folder's directory entries to the disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _InvalidJson(ValueError):
    def __init__(self, problem: str, key: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.key = key


def _refuse_constant(name: str) -> float:
    raise _InvalidJson(_NOT_FINITE.format(name))


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _InvalidJson("is given twice", key)
            seen.add(key)
    return result


def read_start(path: Path) -> bytes:
    """Return the first ``MAX_DOCUMENT_BYTES`` bytes of a file, and one more if it is longer.

    Raises DocumentError for a file that cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_DOCUMENT_BYTES + 1)
    except FileNotFoundError:
        raise DocumentError(path, "does not exist") from None
    except IsADirectoryError:
        raise DocumentError(path, "is a folder, not a file") from None
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:  # a NUL in its name
        raise DocumentError(path, f"cannot be read: {error}") from None


def _read_bounded(path: Path) -> bytes:
    raw = read_start(path)
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise DocumentError(path, f"is larger than {MAX_DOCUMENT_BYTES} bytes")
    return raw


def _check_shape(data: object, source: str | Path) -> float | None:
    """Return the first number in the data that is not finite, such as 2e308, or None.

    Raises DocumentError for data that are nested too deeply.
    """
    keys, infinite = 0, None
    stack: list[tuple[object, int]] = [(data, 1)]
    while stack:
        value, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise DocumentError(source, f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            keys += len(value)
            stack.extend((child, depth + 1) for child in value.values())
        elif isinstance(value, list):
            keys += len(value)
            stack.extend((child, depth + 1) for child in value)
        if keys > MAX_KEYS:
            raise DocumentError(source, f"holds more than {MAX_KEYS} keys and items")
        if infinite is None and isinstance(value, float) and not math.isfinite(value):
            infinite = value
    return infinite


def _check_schema(data: dict[str, Any], model: type[Document], source: str | Path) -> None:
    """Raise DocumentError for an unknown or newer schema; called before keys are checked."""
    field = model.model_fields.get("schema_")
    if field is None or not isinstance(field.default, str):
        return
    family, _, known = field.default.rpartition("/")
    schema = data.get("schema")
    if schema is None:
        raise DocumentError(source, f'is missing; write schema = "{field.default}"', key="schema")
    if not isinstance(schema, str) or schema.rpartition("/")[0] != family:
        raise DocumentError(source, f'is {schema!r}, not "{field.default}"', key="schema")
    version = schema.rpartition("/")[2]
    number = whole_number(version)
    if number is not None and number > int(known):
        raise DocumentError(
            source,
            f"is version {version}, made by a newer Berth; this one reads up to {known}",
            key="schema",
            hint="upgrade Berth, or write the file again with this version",
        )
    if version != known:
        raise DocumentError(source, f'is {schema!r}, not "{field.default}"', key="schema")
