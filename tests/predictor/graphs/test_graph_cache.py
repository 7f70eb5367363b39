"""What was read is not read again; what changed is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_models import attention, convolutional

from berth.pilot.errors import DocumentError
from berth.predictor.graphs import cache as module
from berth.predictor.graphs.cache import GraphCache
from berth.predictor.graphs.reader import Reader


class Counting(Reader):
    reads = 0

    def read_open(self, handle, **given):
        self.reads += 1
        return super().read_open(handle, **given)


@pytest.fixture
def reader():
    with Counting() as found:
        yield found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "model.onnx"
    found.write_bytes(convolutional().SerializeToString())
    return found


@pytest.fixture
def settled(monkeypatch) -> None:
    monkeypatch.setattr(module, "SETTLED_S", -1.0)


@pytest.mark.usefixtures("settled")
def test_a_file_is_read_once_a_batch(reader: Counting, path: Path) -> None:
    cache = GraphCache(reader)
    assert cache.read(path, batch=2) is cache.read(path, batch=2)
    assert reader.reads == 1
    assert cache.read(path, batch=3).batch == 3
    assert reader.reads == 2


@pytest.mark.usefixtures("settled")
def test_a_changed_file_is_read_again(reader: Counting, path: Path) -> None:
    cache = GraphCache(reader)
    before = cache.read(path)
    path.write_bytes(convolutional(blocks=1).SerializeToString())
    assert cache.read(path).digest != before.digest


@pytest.mark.usefixtures("settled")
def test_another_file_in_its_place_is_read(reader: Counting, path: Path, tmp_path: Path) -> None:
    cache = GraphCache(reader)
    before = cache.read(path)
    other = tmp_path / "other"
    other.write_bytes(convolutional(channels=4).SerializeToString())
    status = path.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)
    assert cache.read(path).digest != before.digest


def test_a_file_written_just_now_is_not_trusted_by_its_times(reader: Counting, path: Path) -> None:
    cache = GraphCache(reader)
    cache.read(path)
    cache.read(path)
    assert reader.reads == 2


@pytest.mark.usefixtures("settled")
def test_refusals_are_said_each_time(reader: Counting, tmp_path: Path) -> None:
    cache = GraphCache(reader)
    path = tmp_path / "model.onnx"
    path.write_bytes(attention().SerializeToString())
    for _ in range(2):
        with pytest.raises(DocumentError, match="'sequence'"):
            cache.read(path)
    with pytest.raises(DocumentError, match="does not exist"):
        cache.read(tmp_path / "absent")
    with pytest.raises(DocumentError, match="batch 0"):
        cache.read(path, batch=0)
