"""Each advice of doctor, carried out, makes its finding go and no other come.

A row breaks a sound site by one shell command, names the finding and words of its advice, and does
what the advice says. The tests' summary counts the rows.
"""

# ruff: noqa: E501, S608 - a case is a line

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import CONFIGURATION, NODES, Harbour, fake_slurm, harbour
from click.testing import CliRunner
from empty_stores import open_store
from site_profiles import profile
from stored import STORED_DECISION

from berth.pilot.errors import BerthError
from berth.pilot.version import VERSION
from berth.plugin.cli.command_line import berth
from berth.plugin.doctor import settings
from berth.plugin.doctor.examine import examine
from berth.plugin.findings import Finding, Status, fail
from berth.plugin.site.load import load_site
from berth.plugin.slurm.filter import FILTER_PATH, filter_config
from berth.plugin.slurm.scheduler import Slurm

ANSWER: dict[str, Any] = {
    "mode": "enforce", "forecasts": 2, "breakers": {}, "version": VERSION, "state_age_s": 1.0,
    "problems": {}, "recorder": {"problem": None},
}  # fmt: skip
"""What the daemon answers: the part that doctor reads."""
EVERYWHERE = NODES.replace("Partitions=gpu", "Partitions=gpu,auto")


class Setup:
    """A sound site in the working directory: site file, store, Slurm, filter, and a daemon that
    answers what ``stats.json`` says."""

    def __init__(self, made: Harbour) -> None:
        self.folder, self.site_file = made.folder, made.site_file
        text = made.site_file.read_text().replace("rome-7742", "quartz")
        made.site_file.write_text(text.replace('[fit]\nmode = "off"', '[fit]\nmode = "enforce"'))
        self.commands = fake_slurm(made.folder / "bin", nodes=EVERYWHERE)
        (made.folder / "slurm").mkdir()
        self.configuration()
        (made.folder / "slurm/job_submit_lua.so").write_bytes(b"\x7fELF")
        (made.folder / "slurm/job_submit.lua").write_text(FILTER_PATH.read_text())
        (made.folder / "filter.conf").write_text(filter_config(load_site(made.site_file)))
        (made.folder / "stats.json").write_text(json.dumps(ANSWER))
        (made.folder / "program.json").write_text(
            json.dumps(profile("app-1", 1e9, 1e8, "here") | {"platform": "quartz"})
        )
        made.store().close()
        self.listeners = [self._listen("berth.sock"), self._listen("users.sock")]
        threading.Thread(target=self._answer, daemon=True).start()

    def configuration(self, more: str = "") -> None:
        here = f"SlurmctldHost[0] = {socket.gethostname()}"
        folder = self.folder / "slurm"
        more += f"PluginDir = {folder}\nSLURM_CONF = {folder}/slurm.conf\nEnforcePartLimits = NO\n"
        own = CONFIGURATION.replace("SlurmctldHost[0] = elsewhere", here)
        self.commands.says("config", own + more)

    def _listen(self, name: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.folder / name))
        listener.listen(8)
        return listener

    def _answer(self) -> None:
        with suppress(OSError):  # closed: the test has ended
            while True:
                with closing(self.listeners[0].accept()[0]) as peer, suppress(BrokenPipeError):
                    peer.recv(1 << 16)
                    peer.sendall((self.folder / "stats.json").read_bytes() + b"\n")

    def do(self, step: str) -> None:
        """Carry out a step: Berth's own commands in this process, others in a shell."""
        for line in step.split(" && "):
            if not line.startswith("berth "):
                words = {"P": "bin/answers/partition.out", "N": "bin/answers/node.out",
                         "C": "bin/answers/config.out", "T": "berth.toml"}  # fmt: skip
                subprocess.run(line, shell=True, check=True, env={**os.environ, **words})  # noqa: S602
                continue
            command, _, target = line.partition(" > ")
            done = CliRunner().invoke(berth, shlex.split(command)[1:], catch_exceptions=False)
            assert done.exit_code == 0, done.output
            if target:
                Path(target).write_text(done.stdout)

    def wrong(self) -> list[Finding]:
        """What doctor finds that something is to be done about."""
        try:
            site = load_site(self.site_file)
        except BerthError as error:
            return [fail("site file", error.message, error.hint)]
        return [found for found in examine(site) if found.status is not Status.OK]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    with harbour() as made:
        monkeypatch.setattr(settings, "_TEMPORARY", (made.folder / "temporary",))
        monkeypatch.setenv("PATH", f"{made.folder}/bin:{os.environ['PATH']}")
        monkeypatch.setenv("BERTH_FILTER_CONFIG", str(made.folder / "filter.conf"))
        monkeypatch.chdir(made.folder)
        setup = Setup(made)
        yield setup
        for listener in setup.listeners:
            listener.close()


LONG = "/run/" + "a" * 110
CONF = "berth site slurm filter-config --site berth.toml > filter.conf"
AUTO = "/^PartitionName=auto/"
BROKEN: dict[str, tuple[str, str, str, str]] = {
    # name: how it is broken, what doctor finds, words of the advice, the advice carried out
    "no price": ("echo '[policy]\nobjective = \"cheapest\"' >> berth.toml", "no candidate has a price", 'objective = "fastest"', "sed -i s/cheapest/fastest/ $T"),
    "some prices": ("echo '[policy]\nobjective = \"cheapest\"' >> berth.toml && sed -i '0,/name = \"cpu\"/s//&\\nprice_per_core_hour = 0.05/' $T", "no job goes to gpu, without a price", "price_per_gpu_hour", "sed -i 's/name = \"gpu\"/&\\nprice_per_gpu_hour = 2.0/' $T"),
    "long socket": (f"sed -i 's#^socket = .*#socket = \"{LONG}\"#' $T", "at most 107", "name a shorter path", "sed -i 's#^socket = .*#socket = \"berth.sock\"#' $T"),
    "long users' socket": (f"sed -i 's#^user_socket = .*#user_socket = \"{LONG}\"#' $T", "at most 107", "name a shorter path", "sed -i 's#^user_socket = .*#user_socket = \"users.sock\"#' $T"),
    "one socket": ("sed -i 's#^user_socket = .*#user_socket = \"berth.sock\"#' $T", "are both", "a path of its own", "sed -i 's#^user_socket = .*#user_socket = \"users.sock\"#' $T"),
    "list of users": ("sed -i 's/^interactive = true/&\\nusers = [\"root\"]/' $T", "it is a list", "include", "sed -i 's/^users = .*/users = { include = [\"root\"] }/' $T"),
    "400 GPUs": ("sed -i 's/^gpus_per_node = 4/gpus_per_node = 400/' $T", "400 GPUs beside 32 cores", "the number of one node", "sed -i 's/^gpus_per_node = 400/gpus_per_node = 4/' $T"),
    "narrow intervals": ("echo '[policy]\nmax_interval_ratio = 1.1' >> berth.toml", "max_interval_ratio", "set 4 or more", "sed -i 's/^max_interval_ratio.*/max_interval_ratio = 4/' $T"),
    "stale at once": ("echo '[policy]\nstale_after_s = 1' >> berth.toml", "(stale-state)", "three times", "sed -i 's/^stale_after_s.*/stale_after_s = 3/' $T"),
    "never learns": ("sed -i 's/^state_refresh_s.*/&\\noutcomes_refresh_s = 0/' $T", "ends of jobs are never read", "leave daemon.outcomes_refresh_s out", "sed -i /outcomes_refresh_s/d $T"),
    "in and out": ("sed -i 's/^interactive = true/&\\nusers = { include = [\"root\"], exclude = [\"root\"] }/' $T", "included and excluded", "take them out", "sed -i 's/, exclude = \\[\"root\"\\]//' $T"),
    "strange partition": ("sed -i 's/^interactive = true/&\\npartitions = { include = [\"cpuu\"] }/' $T", "cpuu are no part", "there are: auto, cpu, gpu", "sed -i s/cpuu/cpu/ $T"),
    "nobody asks": ("sed -i 's/^interactive = true/&\\nunnamed_partition = false/; /^auto_partition/d' $T && " + CONF, "no job is ever placed", "unnamed_partition = true", "sed -i 's/^unnamed_partition.*/unnamed_partition = true/' $T"),
    "unknown user": ("sed -i 's/^interactive = true/&\\nusers = { include = [\"nobodyy\"] }/' $T", "knows no user nobodyy", "correct the name", "sed -i s/nobodyy/nobody/ $T"),
    "unknown admin": ("sed -i 's/^state_refresh_s.*/&\\nadmins = [\"nobodyy\"]/' $T", "daemon.admins: this host knows no user", "correct the name", "sed -i s/nobodyy/nobody/ $T"),
    "no reference": ("sed -i 's/^reference_platform = .*/reference_platform = \"rome-7742\"/' $T", "pilots have no place to run", "site.reference_platform", "sed -i 's/^reference_platform = .*/reference_platform = \"quartz\"/' $T"),
    "pilots in auto": ("sed -i 's/^auto_partition.*/&\\nreference_partition = \"auto\"/' $T", "pilots would run in auto", "site.reference_partition", "sed -i 's/^reference_partition.*/reference_partition = \"cpu\"/' $T"),
    "switch without a folder": (f"sed -i 's#^kill_switch = .*#kill_switch = \"stop/off\"#' $T && {CONF}", "there is no folder", "mkdir -p", "mkdir -p stop"),
    "switch in everybody's folder": ("mkdir -m 777 open && sed -i 's#^kill_switch = .*#kill_switch = \"open/off\"#' $T && " + CONF, "everybody may make", "a folder of root", f"sed -i 's#open/off#off#' $T && {CONF}"),
    "store without a folder": ("sed -i 's#^store = .*#store = \"state/berth.db\"#' $T", "there is no folder", "install -d", "install -d state && berth site store upgrade --site berth.toml"),
    "store in memory": ("sed -i 's#^store = .*#store = \"temporary/store.db\"#' $T && mkdir temporary && berth site store upgrade --site berth.toml", "does not outlive a restart", "daemon.store", "sed -i 's#temporary/##' $T"),
    "memory without a unit": ("sed -i '0,/\"256G\"/s//\"256M\"/' $T", "256 MiB of memory", "with its unit", "sed -i 's/\"256M\"/\"256G\"/' $T"),
    "too many nodes": ("sed -i 's/^nodes = 2/nodes = 20/' $T", "nodes = 20, and partition cpu has 2 such", "correct the site file", "sed -i 's/^nodes = 20/nodes = 2/' $T"),
    "too many GPUs": ("sed -i 's/^gpus_per_node = 4/gpus_per_node = 8/' $T", "no node has more than 4 gpu:a100", "correct the site file", "sed -i 's/^gpus_per_node = 8/gpus_per_node = 4/' $T"),
    "too much memory": ("sed -i '0,/\"256G\"/s//\"2T\"/' $T", "no node has more than 256", "correct the site file", "sed -i 's/\"2T\"/\"256G\"/' $T"),
    "too many cores": ("sed -i 's/^cores_per_node = 64/cores_per_node = 640/' $T", "has 640 cores (at most 64)", "correct the site file", "sed -i 's/^cores_per_node = 640/cores_per_node = 64/' $T"),
    "store at home": ("sed -i 's#^store = .*#store = \"~/berth-no-such.db\"#' $T", "another file for each user", "its whole path", "sed -i \"s#^store = .*#store = \\\"$PWD/store.db\\\"#\" $T"),
    "hasty filter": (f"sed -i 's/^state_refresh_s.*/&\\ndeadline_ms = 1/' $T && {CONF}", "gives up before most answers", "leave it out", f"sed -i /^deadline_ms/d $T && {CONF}"),
    "GPU place without GPUs": ("sed -i '/^gres = /d' $T", "a100-80gb is a GPU, and jobs sent there get none", 'gres = "gpu:TYPE"', "sed -i 's/^partition = \"gpu\"/&\\ngres = \"gpu:a100\"/' $T"),
    "other type of GPU": ("sed -i s/gpu:a100/gpu:v100/ $T", "no node of partition gpu has gpu:v100 (there: gpu:a100)", "correct the site file", "sed -i s/gpu:v100/gpu:a100/ $T"),
    "feature that no node has": ("sed -i 's/^gres = .*/&\\nfeatures = [\"nvlink\"]/' $T", "has the feature nvlink", "correct the site file", "sed -i /nvlink/d $T"),
    "other name": ("sed -i 's/^partition = \"gpu\"/partition = \"GPU\"/' $T", "there is no partition GPU", "there are auto, cpu, gpu", "sed -i 's/^partition = \"GPU\"/partition = \"gpu\"/' $T"),
    "control beside shadow": ("sed -i 's/^mode = \"enforce\"/mode = \"shadow\"/' $T && sed -i s/enforce/shadow/ stats.json && echo '[policy]\ncontrol = \"written\"' >> berth.toml", "moves none", 'control = "none"', "sed -i 's/^control = .*/control = \"none\"/' $T"),
    "list without fit": ("echo '[policy]\ncontrol = \"list\"' >> berth.toml && sed -i '/^\\[fit\\]/,+1s/enforce/off/' $T", "control jobs are left as written", 'control = "written"', "sed -i 's/^control = .*/control = \"written\"/' $T"),
    "Berth is off": ("sed -i '0,/^mode = .*/s//mode = \"off\"/' $T && sed -i s/enforce/off/ stats.json", "Berth is off", 'mode = "shadow"', "sed -i '0,/^mode = .*/s//mode = \"shadow\"/' $T && sed -i s/off/shadow/ stats.json"),
    "nothing to change": ("sed -i '/^\\[fit\\]/,+1s/enforce/off/' $T && sed -i 's/\"forecasts\": 2/\"forecasts\": 0/' stats.json", "nothing is predicted of any program", 'mode = "enforce" in [fit]', "sed -i '/^\\[fit\\]/,+1s/off/enforce/' $T"),
    "stopped": ("touch off", "Berth is stopped since", "remove the file", "rm off"),
    "auto with a time limit": (f"sed -i '{AUTO}s/MaxTime=UNLIMITED/MaxTime=1:00:00/' $P", "auto allows less time than others", "MaxTime", f"sed -i '{AUTO}s/MaxTime=1:00:00/MaxTime=UNLIMITED/' $P"),
    "auto of one node": (f"sed -i '{AUTO}s/DefaultTime/MaxNodes=1 &/' $P", "auto allows less nodes than others", "MaxNodes", f"sed -i '{AUTO}s/MaxNodes=1 //' $P"),
    "auto for some": (f"sed -i '{AUTO}s/AllowAccounts=ALL/AllowAccounts=phys/' $P", "auto is for some accounts only (phys)", "allow all accounts", f"sed -i '{AUTO}s/AllowAccounts=phys/AllowAccounts=ALL/' $P"),
    "auto for root": (f"sed -i '{AUTO}s/AllowAccounts/RootOnly=YES &/' $P", "users may not submit to partition auto", "open it to users", f"sed -i '{AUTO}s/RootOnly=YES //' $P"),
    "no auto": (f"sed -i '{AUTO}d' $P", "there is no partition auto", "add it to the scheduler's configuration", "echo 'PartitionName=auto AllowAccounts=ALL AllowQos=ALL MaxTime=UNLIMITED State=UP TotalCPUs=160 TotalNodes=3 Nodes=cpu[1-2],gpu1' >> $P"),
    "auto without GPUs": ("sed -i 's/Partitions=gpu,auto/Partitions=gpu/' $N", "auto has no node of gpu", "the nodes of all partitions", "sed -i 's/Partitions=gpu/&,auto/' $N"),
    "auto with more memory": ("sed -i 's/TotalNodes=/DefMemPerCPU=1000 &/; /^PartitionName=auto/s/=1000/=2000/' $P && echo 'SelectTypeParameters = CR_CORE_MEMORY' >> bin/answers/config.out", "(less-memory:", "DefMemPerCPU", f"sed -i '{AUTO}s/=2000/=1000/' $P"),
    "closed partition": ("sed -i '/=gpu /s/State=UP/State=INACTIVE/' $P", "partition gpu is INACTIVE", "until it is up", "sed -i s/State=INACTIVE/State=UP/ $P"),
    "partition without nodes": ("sed -i s/Partitions=gpu/Partitions=other/ $N", "partition gpu has no node", "give it nodes", "sed -i s/Partitions=other/Partitions=gpu/ $N"),
    "nodes of another architecture": ("sed -i '/=cpu/s/Arch=x86_64/Arch=aarch64/' $N", "cpu has the architecture x86_64 (there: aarch64)", "architecture of the candidate", "sed -i '0,/name = \"cpu\"/s//&\\narchitecture = \"aarch64\"/' $T"),
    "all nodes down": ("sed -i '/=gpu1/s/State=IDLE/State=DOWN/' $N", "all 1 nodes are down or drained", "sinfo -R", "sed -i s/State=DOWN/State=IDLE/ $N"),
    "no filter.conf": ("rm filter.conf", "the filter uses its defaults", "filter-config", CONF),
    "filter.conf of another site": ("sed -i 's/^socket = .*/socket = other/' filter.conf", "does not agree with the site file: socket is other", "filter-config", CONF),
    "no filter": ("rm slurm/job_submit.lua", "slurmctld needs it", f"cp {FILTER_PATH}", f"cp {FILTER_PATH} slurm/job_submit.lua"),
    "older filter": ("echo >> slurm/job_submit.lua", "another version's filter", f"cp {FILTER_PATH}", f"cp {FILTER_PATH} slurm/job_submit.lua"),
    "filter never asked": ("sed -i '/^JobSubmitPlugins/s/lua/partition/' bin/answers/config.out", "the filter is never asked", "JobSubmitPlugins=lua", "sed -i '/^JobSubmitPlugins/s/partition/lua/' $C"),
    "all_partitions": ("sed -i '/^JobSubmitPlugins/s/lua/lua,all_partitions/' bin/answers/config.out", "every job names all partitions", "take all_partitions out", "sed -i s/,all_partitions// $C"),
    "no GRES": ("sed -i '/^GresTypes/s/gpu/(null)/' bin/answers/config.out", "GresTypes has no gpu", "GresTypes=gpu", "sed -i '/^GresTypes/s/(null)/gpu/' $C"),
    "whole nodes": ("sed -i s/cons_tres/linear/ bin/answers/config.out", "whole nodes", "SelectType=select/cons_tres", "sed -i s/linear/cons_tres/ $C"),
    "no accounting of memory": ("sed -i 's/^JobAcctGatherType.*/JobAcctGatherType = (null)/' $C", "nobody measures how much memory", "jobacct_gather/cgroup", "sed -i 's/^JobAcctGatherType.*/JobAcctGatherType = jobacct_gather\\/cgroup/' $C"),
    "forgetful Slurm": ("sed -i 's/^MinJobAge.*/MinJobAge = 20 sec/' $C", "forgotten 20 s after", "MinJobAge=", "sed -i 's/^MinJobAge.*/MinJobAge = 240 sec/' $C"),
    "older daemon": ("sed -i 's/\"version\": \"[^\"]*/\"version\": \"0.0.9/' stats.json", "it is version 0.0.9", "systemctl restart berth", f"sed -i s/0.0.9/{VERSION}/ stats.json"),
    "daemon in another mode": ("sed -i 's/enforce/shadow/' stats.json", "it runs in mode shadow", "does it read another site file", "sed -i 's/shadow/enforce/' stats.json"),
    "blind daemon": ("sed -i 's/\"state_age_s\": 1.0/\"state_age_s\": 60/' stats.json", "state 60 s ago", "on its PATH", "sed -i 's/\"state_age_s\": 60/\"state_age_s\": 1/' stats.json"),
    "daemon without disk": ("sed -i 's/\"problem\": null/\"problem\": \"the disk is full\"/' stats.json", "recorder: the disk is full", "see its log", "sed -i 's/\"the disk is full\"/null/' stats.json"),
    "daemon with a problem": ("sed -i 's/\"problems\": {}/\"problems\": {\"learning\": \"it failed\"}/' stats.json", "learning: it failed", "see its log", "sed -i 's/\"problems\": {.*}, \"rec/\"problems\": {}, \"rec/' stats.json"),
    "no daemon": ("mv berth.sock gone", "no daemon answers", "systemctl start berth", "mv gone berth.sock"),
    "users not served": ("mv users.sock gone", "nobody serves users", "berth-users", "mv gone users.sock"),
    "site file for all": ("chmod o+w berth.toml", "everybody on this host may write to", "chmod o-w", "chmod o-w berth.toml"),
    "store for all": ("chmod o+r store.db", "everybody on this host can read", "chmod o-rwx", "chmod o-rwx store.db"),
    "no store": ("mv store.db old.db", "the store is not there", "berth site store upgrade", "berth site store upgrade --site berth.toml"),
    "damaged store": ("cp store.db backup.db && truncate -s 50000 store.db && rm -f store.db-*", "damaged", "restore a backup", "mv store.db bad.db && cp backup.db store.db"),
    "decisions that wait": ("echo x > store.db.spool.jsonl && touch -d '2 hours ago' store.db.spool.jsonl", "the last one for 120 min", "start the daemon", "truncate -s 0 store.db.spool.jsonl"),
    "decisions that cannot be read": ("echo x > store.db.spool.jsonl.bad", "could not be read back", "look, then remove it", "rm store.db.spool.jsonl.bad"),
    "program without a forecast": (f"berth workload add program.json --site berth.toml && {sys.executable} -c 'import sqlite3; c = sqlite3.connect(\"store.db\"); c.execute(\"DELETE FROM forecasts\"); c.commit()'", "1 workloads are not predicted", "berth workload refresh", "berth workload refresh --site berth.toml"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_the_advice_carried_out_cures(name: str, site: Setup) -> None:
    broken, says, advice, cure = BROKEN[name]
    assert site.wrong() == []
    site.do(broken)
    named = [found for found in site.wrong() if says in found.text]
    assert named, site.wrong()
    assert any(advice in (found.advice or "") for found in named), named
    site.do(cure)
    assert site.wrong() == []


SOUND: dict[str, str] = {
    "as it is": "true",
    "shadow": "sed -i '0,/^mode = .*/s//mode = \"shadow\"/' $T && sed -i s/enforce/shadow/ stats.json",
    "advise": "sed -i '0,/^mode = .*/s//mode = \"advise\"/' $T && sed -i s/enforce/advise/ stats.json",
    "no auto partition": f"sed -i /^auto_partition/d $T && sed -i '{AUTO}d' $P && {CONF}",
    "by cost": "echo '[policy]\nobjective = \"cheapest\"' >> $T && sed -i 's/^name = \"[cg]pu\"/&\\nprice_per_core_hour = 0.05/' $T",
    "control jobs": "echo '[policy]\ncontrol = \"list\"\ncontrol_share = 0.1' >> $T",
    "no GPUs": "sed -i '/^name = \"gpu\"/,$d' $T && sed -i '$d' $T && sed -i /gpu/d $P && sed -i /gpu1/d $N && sed -i '/^GresTypes/d' $C",
    "a partition for some accounts": "sed -i '/=gpu /s/AllowAccounts=ALL/AllowAccounts=phys/' $P",
    "one node down": "sed -i '/=cpu2/s/State=IDLE/State=DOWN/' $N",
    "slurmdbd, and jobs soon forgotten": "sed -i 's/^MinJobAge.*/MinJobAge = 2 sec\\nAccountingStorageType = accounting_storage\\/slurmdbd/' $C",
    "some users, learning off": "sed -i 's/^interactive = true/&\\nusers = { include = [\"root\"] }/' $T && echo '[learning]\nenabled = false' >> $T",
    "Slurm without our controller": "sed -i 's/^SlurmctldHost.*/SlurmctldHost[0] = elsewhere/' $C && rm -r slurm",
    "nothing known of programs": "sed -i 's/\"forecasts\": 2/\"forecasts\": 0/' stats.json",
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_site_has_no_findings(name: str, site: Setup) -> None:
    site.do(SOUND[name])
    assert site.wrong() == []


def test_on_day_one_only_the_calibration_is_missing(site: Setup) -> None:
    site.do("rm berth.toml && berth site init --output berth.toml")
    with (site.folder / "berth.toml").open("a") as file:
        paths = 'store = "store.db"\nsocket = "berth.sock"\nuser_socket = "users.sock"\n'
        file.write(f'[daemon]\n{paths}kill_switch = "off"\n')
    site.do(f"sed -i s/enforce/shadow/ stats.json && chmod a+w berth.sock && {CONF}")
    assert {found.advice for found in site.wrong()} == {
        f"berth site calibrate --site {site.site_file}"
    }


def test_in_mode_shadow_a_week_and_nothing_that_fails_are_ready(site: Setup) -> None:
    site.do(SOUND["shadow"])
    found = load_site(site.site_file)
    assert "not yet" in next(f.text for f in examine(found) if f.check == "ready")
    store, now_s = open_store("sqlite:///store.db"), time.time()
    for number, changes in enumerate(('{"queue": "gpu"}', '{"queue": "gpu,cpu"}', "{}")):
        kept = replace(
            STORED_DECISION, id=f"d{number}", mode="shadow", action="keep", edits=changes
        )
        store.decisions.add([replace(kept, time_s=now_s - 60.0)])
    store.close()
    (ready,) = (f.text for f in examine(found) if f.check == "ready")
    assert ready.startswith(
        "ready. Last 7 days: 2 of 3 jobs in mode shadow would have been changed"
    )
    assert "(2 to gpu); 1 would have stayed as written" in ready
    site.do(BROKEN["no daemon"][0])
    assert "ready" not in {f.check for f in examine(found)}


def test_a_byte_order_mark_is_no_fault(site: Setup) -> None:
    site.site_file.write_text("\ufeff" + site.site_file.read_text())
    assert load_site(site.site_file).name == "tests"


def test_a_controller_that_is_down_costs_one_line_and_is_not_waited_for(site: Setup) -> None:
    scontrol = site.folder / "bin" / "scontrol"
    scontrol.write_text(
        '#!/bin/sh\ncase "$*" in *ping*) echo "Slurmctld(primary) at head is DOWN"; echo "**"; exit 1;; '
        "esac\nexec sleep 1000\n"
    )
    (found,) = (f for f in site.wrong() if f.check == "scheduler")
    assert found.status is Status.FAIL
    assert "Slurmctld(primary) at head is DOWN" in found.text
    assert found.advice
    scontrol.write_text("#!/bin/sh\nexec sleep 1000\n")
    assert "did not answer within 2 s" in (Slurm().why_silent() or "")
