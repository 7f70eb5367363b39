"""The client filter (`cli_filter.lua`) in a real sbatch: digests of files, and nothing else."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from login_node import login_node
from real_daemon import FORECASTS, by_time_alone, real_daemon
from slurm_cluster import Cluster, wait_until

from berth.plugin.slurm.filter import CLIENT_FILTER_PATH
from berth.plugin.store import Store
from berth.plugin.store.records import FingerprintRecord

EXAMPLE = Path(__file__).parents[2] / "examples" / "slurm-site-rules" / "cli_filter.lua"
MODEL = b"a model, as its owner can read it"
DIGEST = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture
def client(slurm: Cluster) -> dict[str, str]:
    """The environment of a login node whose sbatch loads the filter, with digests turned on."""
    environment = login_node(slurm)
    config = slurm.root / "login" / "client.conf"
    config.write_text("# of this site\nfile_digests = on\n")
    return {**environment, "BERTH_CLIENT_CONFIG": str(config)}


def comment(slurm: Cluster, environment: dict[str, str], text: str) -> str:
    """Of a job that was submitted with this one."""
    job = slurm.sbatch("--hold", "-p", "auto", f"--comment={text}", env=environment)
    return slurm.job(job.id).get("Comment", "")


def test_a_job_that_names_a_file_is_placed_by_what_is_in_it(
    slurm: Cluster, client: dict[str, str]
) -> None:
    (slurm.work / "model.onnx").write_bytes(MODEL)
    with real_daemon(slurm, amend=by_time_alone) as daemon:
        store = Store.open(f"sqlite:///{daemon.store_file}")
        store.attach_script(FingerprintRecord(f"sha256:{DIGEST}", "stream", None, 1.0))
        revision = store.revision()
        store.close()

        def has_it() -> bool:
            stats = daemon.ask({"v": 1, "op": "stats"}) or {}
            return bool(stats.get("store_revision") == revision)

        wait_until(has_it, "the daemon knows the file")
        words = ("--hold", "-p", "auto", "--comment=first berth-file:model.onnx, last")
        known = slurm.job(slurm.sbatch(*words, env=client).id)
        assert known["Comment"] == f"first berth-file:sha256-{DIGEST}, last"
        assert known["Partition"] == "gpu"
        assert "workload=stream" in known["AdminComment"]
        (slurm.work / "model.onnx").write_bytes(MODEL + b"!")
        other = slurm.job(slurm.sbatch(*words, env=client).id)
        assert other["Comment"] != known["Comment"]
        assert "workload=" not in other.get("AdminComment", "")
    assert any(one.workload == "stream" for one in FORECASTS)


def test_what_cannot_be_read_in_time_keeps_its_name_and_the_job_goes_on(
    slurm: Cluster, client: dict[str, str]
) -> None:
    (slurm.work / "folder").mkdir(exist_ok=True)
    huge = slurm.work / "huge"
    with huge.open("wb") as file:
        file.truncate(2**40)  # takes no room, and hours to read
    fifo = slurm.work / "fifo"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)  # whoever opens it waits for ever
    fifo.chmod(0o666)
    secret = slurm.work / "secret"
    secret.write_bytes(MODEL)
    secret.chmod(0)
    (slurm.work / "o'clock").write_bytes(MODEL)
    names = ("none", "folder", "huge", "fifo", "secret", "$(touch${IFS}owned)", "`id`", "-", "'")
    for name in names:
        text = f"berth-file:{name}"
        assert comment(slurm, client, text) == text
    assert not (slurm.work / "owned").exists()
    assert comment(slurm, client, "berth-file:o'clock") == f"berth-file:sha256-{DIGEST}"
    huge.unlink()
    fifo.unlink()


def test_it_is_off_unless_the_site_turns_it_on(slurm: Cluster, client: dict[str, str]) -> None:
    (slurm.work / "model.onnx").write_bytes(MODEL)
    settings = Path(client["BERTH_CLIENT_CONFIG"])
    for text in ("", "# file_digests = on\n", "file_digests = off\n", "file_digests = only\n"):
        settings.write_text(text)
        assert comment(slurm, client, "berth-file:model.onnx") == "berth-file:model.onnx"
    settings.unlink()
    assert comment(slurm, client, "berth-file:model.onnx") == "berth-file:model.onnx"


@pytest.mark.parametrize("berths", ["there", "broken", "missing"])
def test_a_sites_own_client_filter_works_beside_berths(
    slurm: Cluster, client: dict[str, str], berths: str
) -> None:
    folder = Path(client["SLURM_CONF"]).parent
    (folder / "cli_filter.lua").write_text(
        EXAMPLE.read_text().replace("/etc/slurm/berth_cli_filter.lua", str(folder / "berth.lua"))
    )
    if berths != "missing":
        shutil.copy(CLIENT_FILTER_PATH, folder / "berth.lua")
    if berths == "broken":
        (folder / "berth.lua").write_text("this is not Lua")
    (slurm.work / "model.onnx").write_bytes(MODEL)
    digested = comment(slurm, client, "berth-file:model.onnx")
    assert digested == f"berth-file:{'sha256-' + DIGEST if berths == 'there' else 'model.onnx'}"
    refused = slurm.run("sbatch", "--nodelist=none", "--wrap=true", env=client, check=False)
    assert refused.returncode != 0
    assert "name a partition with --nodelist" in refused.stderr


def test_choices_that_slurmctld_keeps_from_lua_still_opt_out(
    slurm: Cluster, client: dict[str, str]
) -> None:
    job = slurm.sbatch("--hold", "-p", "auto", "--gres=none", "--comment=mine", env=client)
    assert slurm.job(job.id)["Comment"] == "mine berth:off"
