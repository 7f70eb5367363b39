"""``berth site slurm``: the filter's place and its configuration from the site file."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_daemon import FakeDaemon, move_to
from filter_bench import FilterBench, partition

from berth.pilot.errors import UsageError
from berth.plugin.findings import Status
from berth.plugin.site import load_site
from berth.plugin.slurm.cli import slurm
from berth.plugin.slurm.filter import FILTER_PATH, check, filter_config


def site_with(tmp_path: Path, daemon: str) -> Path:
    path = tmp_path / "berth.toml"
    path.write_text(
        'schema = "berth.site/1"\n[site]\nauto_partition = "best"\n'
        f"[daemon]\n{daemon}\n"
        '[[candidates]]\nname = "cpu"\nplatform = "quartz"\npartition = "cpu"\n'
    )
    return path


def test_the_filter_is_where_the_command_says() -> None:
    said = CliRunner().invoke(slurm, ["filter-path"]).output.strip()
    assert Path(said) == FILTER_PATH
    assert "slurm_job_submit" in Path(said).read_text()


def test_the_configuration_repeats_the_site_file(tmp_path: Path) -> None:
    path = site_with(tmp_path, 'socket = "/x/s.sock"\ndeadline_ms = 20')
    text = CliRunner().invoke(slurm, ["filter-config", "--site", str(path)]).output
    values = dict(line.split(" = ") for line in text.splitlines() if not line.startswith("#"))
    assert values == {
        "socket": "/x/s.sock",
        "kill_switch": "/etc/berth/off",
        "auto_partition": "best",
        "deadline_ms": "20",
        "messages": "changed",
    }


def test_the_filter_accepts_all_that_is_written_for_it(bench: FilterBench, tmp_path: Path) -> None:
    """What the command prints is what the filter reads: no line is refused."""
    path = site_with(tmp_path, f'socket = "{bench.socket}"')
    text = filter_config(load_site(path))
    bench.settings = dict(line.split(" = ") for line in text.splitlines()[1:])
    parts = {name: partition() for name in ("best", "gpu")}
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")):
        outcome = bench.submit({"partition": "best"}, parts=parts)
    assert outcome.job["partition"] == "gpu"
    assert outcome.log == []


def test_a_path_that_the_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = site_with(tmp_path, 'socket = "/x/#1.sock"')
    with pytest.raises(UsageError, match="cannot stand in"):
        filter_config(load_site(path))


def test_doctor_names_the_settings_that_were_changed_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = 'socket = "/x/s.sock"\ndeadline_ms = 50\nscheduler_users = ["root"]'
    site = load_site(site_with(tmp_path, daemon))
    conf = tmp_path / "filter.conf"
    monkeypatch.setenv("BERTH_FILTER_CONFIG", str(conf))
    conf.write_text("# by hand\n" + filter_config(site))
    *_, found = check(site)  # before it: who may not read the file
    assert found.status is Status.OK
    text = filter_config(site).replace("deadline_ms = 50", "deadline_ms = 900")
    conf.write_text(text.replace("socket = /x/s.sock\n", "") + "dead line\n")
    *_, found = check(site)
    assert found.status is Status.WARN
    assert found.text.endswith(
        "socket is missing, deadline_ms is 900, not 50, 'dead line' is not of the site file"
    )
