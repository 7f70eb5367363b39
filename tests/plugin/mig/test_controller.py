"""What root of a GPU node can have done on the controller: its own gres, nothing else (S4)."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import BerthError
from berth.plugin.slurm.mig import controller
from berth.plugin.slurm.mig.controller import ControllerSettings, publish
from berth.plugin.slurm.mig.publishing import ControllerPublisher
from berth.plugin.slurm.mig.slots import HEADER

CONF = """\
ClusterName=lab
NodeName=gpu01 CPUs=64 Gres=gpu:a100:1 State=UNKNOWN
NodeName=gpu02 CPUs=64 Gres=gpu:a100:1 State=UNKNOWN
"""
GRES = "gpu:1g.5gb:1,gpu:off1:1"
LINES = f"""\
{HEADER}
NodeName=gpu01 AutoDetect=off Name=gpu Type=1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap30 # GPU-1f2e 1g.5gb@0
NodeName=gpu01 AutoDetect=off Name=gpu Type=off1 File=/dev/berth-off1
"""  # noqa: E501
BEFORE = "# ours\nNodeName=gpu01 Name=gpu Type=a100 File=/dev/nvidia0\n"


def request(**changes: object) -> dict[str, object]:
    return {"v": 1, "gres": GRES, "lines": LINES, **changes}


@pytest.fixture
def settings(tmp_path: Path) -> ControllerSettings:
    (tmp_path / "slurm.conf").write_text(CONF)
    for node in ("gpu01", "gpu02"):
        (tmp_path / f"gres-{node}.conf").write_text(BEFORE.replace("gpu01", node))
    return ControllerSettings(
        slurm_conf=str(tmp_path / "slurm.conf"),
        gres_conf=str(tmp_path / "gres-{node}.conf"),
        restart=("/usr/bin/touch", str(tmp_path / "restarted")),
    )


def standing(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix == ".conf"}


def test_a_node_changes_its_own_line_and_file(settings: ControllerSettings, tmp_path: Path) -> None:
    before = standing(tmp_path)
    publish(settings, "gpu01", request())
    after = standing(tmp_path)
    assert after["slurm.conf"] == CONF.replace(
        "gpu01 CPUs=64 Gres=gpu:a100:1", f"gpu01 CPUs=64 Gres={GRES}"
    )
    assert after["gres-gpu01.conf"] == LINES
    assert after["gres-gpu02.conf"] == before["gres-gpu02.conf"]
    assert (tmp_path / "restarted").exists()
    publish(settings, "gpu01", request(gres="gpu:a100:1", lines=BEFORE))
    assert standing(tmp_path) == before, "what an admin had written comes back as it was"


@pytest.mark.parametrize(
    "attack",
    [
        {"gres": f"{GRES}\nNodeName=gpu02 Gres=gpu:9"},
        {"gres": f"{GRES} State=DOWN"},
        {"gres": f"{GRES}\r\nProlog=/tmp/x"},
        {"gres": ""},
        {"gres": "gpu:1#"},
        {"lines": LINES.replace("gpu01", "gpu02")},
        {"lines": LINES + "NodeName=gpu02 AutoDetect=nvml\n"},
        {"lines": LINES + "Include /etc/shadow\n"},
        {"lines": LINES.replace("/dev/berth-off1", "/etc/passwd")},
        {"lines": LINES.replace("/dev/berth-off1", "/dev/../etc/passwd")},
        {"lines": LINES.replace("Type=off1", "Type=off1 Flags=x")},
        {"lines": BEFORE + "NodeName=gpu02 Name=gpu\n"},
        {"lines": 7},
        {"v": 2},
        {"node": "gpu02"},
        {"slurm_conf": "/etc/passwd"},
        {"restart": ["/bin/sh"]},
    ],
)
def test_nothing_else_is_taken_of_what_it_sends(
    settings: ControllerSettings, tmp_path: Path, attack: dict[str, object]
) -> None:
    before = standing(tmp_path)
    with pytest.raises(BerthError):
        publish(settings, "gpu01", request(**attack))
    assert standing(tmp_path) == before
    assert not (tmp_path / "restarted").exists()


@pytest.mark.parametrize("node", ["gpu03", "../gpu02", "gpu0[12]", "", "a/b", "gpu01\n"])
def test_a_node_that_is_none_is_refused(
    settings: ControllerSettings, tmp_path: Path, node: str
) -> None:
    before = standing(tmp_path)
    with pytest.raises(BerthError):
        publish(settings, node, request())
    assert standing(tmp_path) == before


@given(value=st.recursive(
    st.none() | st.integers() | st.text(), lambda some: st.dictionaries(st.text(), some)
))  # fmt: skip
def test_any_request_is_refused_in_a_sentence(value: Any) -> None:
    for odd in (value, request(gres=value), request(lines=value)):
        with pytest.raises(BerthError):
            controller._checked(odd, "gpu01", None)


def test_the_program_takes_its_node_from_the_key_only(
    settings: ControllerSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``SSH_ORIGINAL_COMMAND`` is what a node asks sshd to run: it counts for nothing."""
    config = tmp_path / "mig-nodes.toml"
    config.write_text(
        f'schema = "berth.mig-nodes/1"\nslurm_conf = "{settings.slurm_conf}"\n'
        f'gres_conf = "{settings.gres_conf}"\n'
        f'restart = ["/usr/bin/touch", "{tmp_path}/restarted"]\n'
    )
    monkeypatch.setattr(controller, "PATH", config)
    monkeypatch.setenv("SSH_ORIGINAL_COMMAND", "berth-mig-node gpu02; rm -rf /")

    def run(text: bytes, *words: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        try:
            controller.main(words)
        except SystemExit as end:
            return int(str(end.code))
        return 0

    assert run(json.dumps(request()).encode(), "gpu01") == 0
    assert "gpu02 CPUs=64 Gres=gpu:a100:1" in (tmp_path / "slurm.conf").read_text()
    assert run(b"x" * 400_000, "gpu01") == 1
    assert run(b"[" * 10_000, "gpu01") == 1
    assert run(b"", "gpu01", "gpu02") == 1
    config.chmod(0o666)
    assert run(json.dumps(request()).encode(), "gpu01") == 1
    assert "can be changed by others" in capsys.readouterr().err


def test_the_node_is_told_why_it_was_refused(tmp_path: Path) -> None:
    script = tmp_path / "ssh"
    script.write_text("#!/bin/sh\ncat > /dev/null\necho no such node >&2\nexit 1\n")
    script.chmod(0o755)
    with (
        pytest.raises(BerthError, match="no such node"),
        ControllerPublisher([str(script)]).published(GRES, LINES),
    ):
        pass
