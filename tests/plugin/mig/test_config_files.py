"""Files of the scheduler that several nodes may write at once."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from berth.pilot.errors import BerthError
from berth.plugin.slurm.mig import publishing, slots

NODES = [f"gpu{n:02}" for n in range(12)]


def test_nodes_that_are_cut_at_once_do_not_undo_each_others_lines(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("".join(f"NodeName={n} Gres=gpu:7g.40gb:1\n" for n in NODES))
    conf.chmod(0o640)

    def cut(node: str) -> None:
        with publishing.one_writer(conf, timeout_s=60):
            text = publishing.read_config_file(conf)
            new = slots.with_node_gres(text, node, f"gpu:of-{node}:7", source="slurm.conf")
            publishing.replace_config_file(conf, new)

    with ThreadPoolExecutor(len(NODES)) as pool:
        list(pool.map(cut, NODES))
    assert {slots.node_gres(conf.read_text(), n) for n in NODES} == {f"gpu:of-{n}:7" for n in NODES}
    assert stat.S_IMODE(conf.stat().st_mode) == 0o640


def test_a_writer_that_does_not_end_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("")
    with (
        publishing.one_writer(conf, timeout_s=1),
        pytest.raises(BerthError, match="another node's cut"),
        publishing.one_writer(conf, timeout_s=0.1),
    ):
        pytest.fail("two at once")
    with publishing.one_writer(conf, timeout_s=0.1):
        pass


def test_a_file_system_without_locks_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refused)
    with publishing.one_writer(tmp_path / "slurm.conf", timeout_s=0.1):
        pass
