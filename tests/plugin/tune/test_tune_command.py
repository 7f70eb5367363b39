"""berth replay tune on a stand-in of the replay: folder, workers, report, bad input."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from stand_in_replayer import StandIn

from berth.pilot.errors import BerthError, SchedulerError, UsageError
from berth.plugin.cli.command_line import berth
from berth.plugin.scheduler import SCHEDULERS, JobNow, WorkersJob, scheduler_named
from berth.plugin.site import load_site
from berth.plugin.tune import run, workers
from berth.plugin.tune.folder import TuneOrder, read_order, write_order
from berth.policies.tuning.storage import Progress, StorageUnusable
from berth.policies.tuning.study import Tuning

SITE = """schema = "berth.site/1"
# how we choose
[policy]
objective = "fastest"
[policy.weights]
wait = 0.2  # by hand
[[candidates]]
name = "cpu"
platform = "rome-7742"
partition = "batch"
"""
FEW = ("--parameters", "weights.wait,alike_within", "--metrics", "finish,wait")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> object:
    made = StandIn(days=30)
    monkeypatch.setattr(run, "open_replayer", lambda *_: made)
    monkeypatch.setattr("berth.plugin.tune.replaying.open_replayer", lambda *_: made)
    return made


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pictures, which take most of the time."""
    for name in ("front", "waits"):
        monkeypatch.setattr(f"berth.plugin.pictures.tuning.{name}", lambda *_: "<svg></svg>")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text("a month of jobs\n")
    path = tmp_path / "berth.toml"
    path.write_text(SITE)
    return path


def tune(site: Path, *words: str, folder: str = "tune") -> Result:
    jobs = str(site.parent / "jobs.csv")
    where = ["--site", str(site), "--folder", str(site.parent / folder)]
    return CliRunner().invoke(berth, ["replay", "tune", jobs, *where, *FEW, *words])


def problem(result: Result) -> str:
    assert isinstance(result.exception, BerthError), result.exception
    return f"{result.exception.message}; {result.exception.hint}"


def test_it_recommends_judges_and_reports(stand_in: object, site: Path) -> None:
    done = tune(site, "--trials", "16", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads(done.stdout)
    assert found["recommended"]
    assert found["values"]["weights.wait"] > 1.0
    assert {one["metric"] for one in found["differences"]} == {"finish", "wait"}
    assert all(one["low"] <= one["change"] <= one["high"] < 0 for one in found["differences"])
    folder = site.parent / "tune"
    tuned = (folder / "berth.tuned.toml").read_text()
    assert "# how we choose" in tuned
    assert re.search(r"^wait = [\d.]+  # tuned: was 0.2; a larger weight", tuned, re.MULTILINE)
    assert site.read_text() == SITE
    (site.parent / "new.toml").write_text(tuned)
    assert load_site(site.parent / "new.toml").policy.weights.wait > 1.0
    difference = (folder / "berth.diff").read_text()
    assert "-wait = 0.2  # by hand" in difference
    page = (folder / "report.html").read_text()
    assert not re.search(r"(src|href)=[\"']?http", page)
    pictures = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)
    assert len(pictures) == 2
    for picture in pictures:
        ET.fromstring(base64.b64decode(picture))  # noqa: S314 - our own
    assert "(chosen)" in page
    before, _, winners = page.partition("Winners and losers")
    assert "user3" not in before
    assert "user3" in winners
    assert "users lose and" in winners
    assert "Metrics that the tune did not look at" in page
    assert "7 lines could not be read" in page
    assert found["notes"] == ["7 lines could not be read and are left out:"]


@pytest.mark.usefixtures("unpainted")
def test_weights_on_one_line_are_changed_and_an_unusual_file_costs_no_report(
    stand_in: object, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write_text(SITE.replace("[policy.weights]\nwait = 0.2", "weights = {wait = 0.2}"))
    done = tune(site, "--trials", "16")
    assert re.search(r"\+weights = \{wait = [\d.]+\}  # tuned: was 0.2; ", done.stdout)

    def unusual(*_: object) -> str:
        raise UsageError("cannot be changed safely", hint="write there yourself: wait = 2")

    monkeypatch.setattr(run, "tuned_text", unusual)
    done = tune(site, "--trials", "16")
    assert done.exit_code == 0
    assert "cannot be changed safely: write there yourself: wait = 2" in done.stdout
    assert "Recommended site file" not in done.stdout
    assert "write there yourself" in (site.parent / "tune" / "report.html").read_text()


@pytest.mark.usefixtures("unpainted")
def test_the_same_command_goes_on_and_more_trials_are_more(stand_in: object, site: Path) -> None:
    assert tune(site, "--trials", "4").exit_code == 0
    asked = len(stand_in.asked)  # type: ignore[attr-defined]
    again = tune(site, "--trials", "4")
    assert again.exit_code == 0
    ends_s = [part.end_s for _, part in stand_in.asked[asked:]]  # type: ignore[attr-defined]
    whole_s = 0.5 * stand_in.span_s  # type: ignore[attr-defined]
    assert min(ends_s) >= whole_s, "the judgement replays whole parts, and no trial is replayed"
    more = tune(site, "--trials", "6")
    assert more.exit_code == 0
    assert "6 trials" in more.stdout


@pytest.mark.usefixtures("unpainted")
def test_a_folder_holds_one_tune(stand_in: object, site: Path) -> None:
    assert tune(site, "--trials", "2").exit_code == 0
    assert "holds a tune of other jobs" in problem(tune(site, "--trials", "2", "--train", "0.6"))
    site.write_text(SITE.replace("0.2", "0.3"))
    assert "holds a tune of other jobs" in problem(tune(site, "--trials", "2"))
    assert tune(site, "--trials", "2", folder="other").exit_code == 0


@pytest.mark.usefixtures("unpainted")
def test_nothing_better_leaves_the_site_file(stand_in: object, site: Path) -> None:
    site.write_text(SITE.replace("wait = 0.2  # by hand", "wait = 2.0").replace(
        'objective = "fastest"', 'objective = "fastest"\nalike_within = 1.5'))  # fmt: skip
    done = tune(site, "--trials", "12")
    assert done.exit_code == 0, (done.output, done.exception)
    assert "better than today's policy" in done.stdout or "keep today's" in done.stdout
    assert not (site.parent / "tune" / "berth.diff").exists()
    page = (site.parent / "tune" / "report.html").read_text()
    assert "As it is." in page
    if "(judged)" not in page:
        assert "under the tuned one" not in page
        assert "Winners and losers" not in page


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("--metrics", "speed"), "there is no metric 'speed'"),
        (("--metrics", ","), "--metrics is empty"),
        (("--parameters", "weights.luck"), "there is no parameter 'weights.luck'"),
        (("--on", "batch"), "is not SCHEDULER:QUEUE"),
        (("--on", "pbs:batch"), "there is no scheduler 'pbs'"),
        (("--option", "easy"), "is not KEY=VALUE"),
        (("--storage", "nonsense://x"), "cannot be used"),
        (("--time-limit", "soon"), "is not a duration"),
    ],
)
def test_bad_input_is_one_sentence(
    stand_in: object, site: Path, words: tuple[str, ...], wrong: str
) -> None:
    assert wrong in problem(tune(site, *words))


@pytest.mark.parametrize("option", ["utc=maybe", "backfill=sjf"])
def test_a_value_of_an_option_that_is_not_known_is_refused(site: Path, option: str) -> None:
    assert f"--option {option} is not known" in problem(tune(site, "--option", option))


MORE = """nodes = 2
cores_per_node = 64
[[candidates]]
name = "gpu"
platform = "h100-80gb"
partition = "gpu"
gres = "gpu"
nodes = 2
gpus_per_node = 4
cores_per_node = 64
[candidates.translation]
gpus = 1
"""
JOBS = "submit_s,user,partition,cores,seconds@rome-7742,seconds@h100-80gb\n"


def test_jobs_that_are_left_out_or_cannot_move_are_counted(site: Path) -> None:
    site.write_text(SITE + MORE)
    rows = [f"{n * 3600},u{n % 3},batch,8,{600 + n},{60 + n if n % 4 else ''}" for n in range(200)]
    rows += [f"{n},ada,old,8,600,60" for n in range(7)]
    rows.append("90000,ada,batch,999,600,60")
    (site.parent / "jobs.csv").write_text(JOBS + "\n".join(rows))
    done = tune(site, "--trials", "2")
    assert done.exit_code == 0, (done.output, done.exception)
    said = "7 jobs of unknown partitions are left out: old (7 jobs); the site file has batch, gpu"
    assert said in done.stdout
    page = (site.parent / "tune" / "report.html").read_text()
    assert said in page
    assert re.search(r"Of 50 nobody knows what they take elsewhere", page)
    assert not re.search(r"mean time from submission to end</text>", page)
    (site.parent / "jobs.csv").write_text(JOBS + "\n".join(rows[200:207]))
    wrong = problem(tune(site, "--trials", "2", folder="other"))
    assert "all jobs are of unknown partitions: old (7 jobs)" in wrong


@pytest.mark.usefixtures("unpainted")
def test_joining_needs_a_tune_and_the_same_jobs(stand_in: object, site: Path) -> None:
    folder = site.parent / "tune"
    joined = CliRunner().invoke(berth, ["replay", "tune", "--join", str(folder)])
    assert "holds no tune" in problem(joined)
    assert tune(site, "--trials", "2").exit_code == 0
    (site.parent / "jobs.csv").write_text("other jobs\n")
    joined = CliRunner().invoke(berth, ["replay", "tune", "--join", str(folder)])
    assert "have changed" in problem(joined)


@pytest.mark.usefixtures("unpainted")
def test_a_worker_waits_for_a_storage_that_is_away_when_it_begins(
    stand_in: object, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tune(site, "--trials", "2").exit_code == 0
    opened, study, pauses = [], Tuning.study, []

    def away_at_first(made: Tuning, storage: str) -> object:
        opened.append(storage)
        if len(opened) == 1:
            raise StorageUnusable("away")
        return study(made, storage)

    monkeypatch.setattr(Tuning, "study", away_at_first)
    monkeypatch.setattr("berth.policies.tuning.storage.time.sleep", pauses.append)
    joined = CliRunner().invoke(berth, ["replay", "tune", "--join", str(site.parent / "tune")])
    assert joined.exit_code == 0, joined.exception
    assert len(opened) == 2
    assert len(pauses) == 1


WORKER = """
import os, signal, sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from stand_in_replayer import StandIn
from berth.plugin.tune import run
run.open_replayer = lambda *_: StandIn(days=30)
try:
    (Path({folder!r}) / "first").touch(exist_ok=False)
    is_first = True
except FileExistsError:
    is_first = False
replay, asked = StandIn.replay, []
def disturbed(self, policy, part):
    asked.append(part)
    while is_first and len(asked) > 2:
        {then}
    return replay(self, policy, part)
StandIn.replay = disturbed
run.join(Path({folder!r}))
"""
KILLED, SLOW = "os.kill(os.getpid(), signal.SIGKILL)", "time.sleep(0.1)"
"""What becomes of the first worker at its third replay."""


@pytest.mark.usefixtures("unpainted")
def test_several_workers_share_a_tune_and_one_that_is_killed_costs_its_trial(
    stand_in: object, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = str(Path(__file__).parents[2] / "support")

    def command(folder: Path) -> tuple[str, ...]:
        return (sys.executable, "-c", WORKER.format(tests=tests, folder=str(folder), then=KILLED))

    monkeypatch.setattr(workers, "command_of", command)
    done = tune(site, "--trials", "8", "--workers", "2")
    assert done.exit_code == 0, (done.output, done.exception)
    found = re.search(r"(\d+) trials, \d+ stopped early \(\d+%\), (\d+) lost", done.stdout)
    assert found is not None
    assert int(found[1]) >= 8
    assert int(found[2]) == 1


def test_workers_that_all_end_too_soon_are_reported_with_their_last_words(
    stand_in: object, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (sys.executable, "-c", "raise SystemExit('no numpy here')")
    monkeypatch.setattr(workers, "command_of", lambda _: words)
    wrong = problem(tune(site, "--trials", "8", "--workers", "2"))
    assert "no worker is left, with 0 of 8 trials done; worker-" in wrong
    assert "no numpy here" in wrong


@pytest.mark.usefixtures("unpainted")
def test_trials_begun_while_the_last_one_ends_are_not_lost(
    stand_in: object, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = str(Path(__file__).parents[2] / "support")

    def command(folder: Path) -> tuple[str, ...]:
        return (sys.executable, "-c", WORKER.format(tests=tests, folder=str(folder), then=SLOW))

    monkeypatch.setattr(workers, "command_of", command)
    done = tune(site, "--trials", "3", "--workers", "2", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    trials = json.loads(done.stdout)["trials"]
    assert trials["failed"] == 0
    assert trials["surplus"] == 1
    assert trials["running"] == 0


def test_a_scheduler_that_is_away_for_a_moment_does_not_end_a_tune(tmp_path: Path) -> None:
    answers = iter([SchedulerError("squeue failed"), True, SchedulerError("squeue failed"), True])

    class Restarted(Recorded):
        def any_left(self, job_ids: tuple[str, ...]) -> bool:
            answer = next(answers)
            if isinstance(answer, SchedulerError):
                raise answer
            return bool(answer)

    made = workers.submit(tmp_path, Restarted(), "batch", 2, time_limit_s=60.0)  # type: ignore[arg-type]
    seen = iter([Progress(2, 1, 0, 0), Progress(8, 1, 0, 0)])
    workers.follow(made, lambda: next(seen), 9, folder=tmp_path, show=lambda _: None, pause_s=0.001)


def test_a_submitted_worker_has_the_name_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = scheduler_named("slurm")
    monkeypatch.setattr(type(slurm), "submit", lambda *_: "17")
    workers.submit(tmp_path, slurm, "batch", 2, time_limit_s=60.0)
    script = (tmp_path / "worker.sh").read_text().replace("exec ", "env #")
    environment = {"SLURM_JOB_ID": "18", "PATH": os.environ["PATH"]}
    shown = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert "BERTH_TUNE_WORKER=slurm:18\n" in shown.stdout
    monkeypatch.setenv("BERTH_TUNE_WORKER", "slurm:18")
    assert workers.own_name() == "slurm:18"
    states = {"18": "running", "19": "cancelled"}

    def job_now(_self: object, job_id: str) -> JobNow | None:
        return JobNow(states[job_id], "batch") if job_id in states else None

    monkeypatch.setattr(type(slurm), "job_now", job_now)
    assert [workers.is_gone(f"slurm:{n}") for n in (18, 19, 20)] == [False, True, True]


def test_a_worker_of_this_machine_is_gone_when_its_process_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert workers.is_gone(workers.process_name(ended.pid))
    assert not workers.is_gone(workers.own_name())
    assert not workers.is_gone(f"process:{ended.pid}@elsewhere")


@pytest.mark.parametrize("name", SCHEDULERS.own())
def test_each_scheduler_takes_workers_in_its_own_words(name: str, tmp_path: Path) -> None:
    job = WorkersJob(
        "berth-tune", tmp_path / "worker.sh", tmp_path, "batch", 3, 7200.0, account="a"
    )
    commands = scheduler_named(name).workers_commands(job)
    assert len(commands) in (1, 3)
    for words in commands:
        assert words[-1] == str(tmp_path / "worker.sh")
        assert any("batch" in word for word in words)
        assert any("worker-" in word for word in words)
    assert len(commands) == 3 or any(word.endswith("1-3") for word in commands[0])


class Recorded:
    """A scheduler that takes what is submitted, and whose jobs never start."""

    job_variable = None

    def __init__(self) -> None:
        self.submitted: list[tuple[str, ...]] = []

    def workers_commands(self, job: WorkersJob) -> tuple[tuple[str, ...], ...]:
        return (("run", str(job.script), str(job.count)),)

    def submit(self, command: tuple[str, ...]) -> str:
        self.submitted.append(command)
        return "17"

    def any_left(self, job_ids: tuple[str, ...]) -> bool:
        assert job_ids == ("17",)
        return False


def test_submitted_workers_run_what_joins_the_folder(tmp_path: Path) -> None:
    scheduler = Recorded()
    made = workers.submit(tmp_path, scheduler, "batch", 50, time_limit_s=60.0)  # type: ignore[arg-type]
    assert scheduler.submitted == [("run", str(tmp_path / "worker.sh"), "50")]
    assert f"--join={tmp_path}" in (tmp_path / "worker.sh").read_text()
    with pytest.raises(BerthError, match="no worker is left, with 3 of 9"):
        workers.follow(made, lambda: Progress(2, 1, 0, 0), 9, folder=tmp_path, show=lambda _: None)
    workers.follow(made, lambda: Progress(8, 1, 0, 0), 9, folder=tmp_path, show=lambda _: None)


numbers = st.floats(0.0, 4.0)


@given(
    st.sampled_from([
        "", "[policy]\n", "[policy]\nobjective='fastest'\n[policy.weights]\n",
        "[policy.weights]\nwait=1\n", "[site]\nname='x'\n[ policy ]\ntime_margin = 1 # x\n",
        "[policy]\nweights = { wait = 1 }\n", "policy.alike_within = 2\n",
    ]),
    st.dictionaries(st.sampled_from(["weights.wait", "weights.cost"]), numbers, min_size=1),
)  # fmt: skip
def test_a_site_file_is_changed_in_these_keys_only_or_not_at_all(
    head: str, values: dict[str, float]
) -> None:
    text = 'schema = "berth.site/1"\n' + head + '[[candidates]]\nname="c"\n'
    text += 'platform="rome-7742"\npartition="b"\n'
    from berth.policies.settings import PolicySettings

    path = Path("berth.toml")
    try:
        changed = run.tuned_text(text, values, PolicySettings(), path)
    except UsageError as error:
        assert "write there yourself" in (error.hint or "")
        return
    after = tomllib.loads(changed)
    before = tomllib.loads(text).get("policy", {}).get("weights", {})
    kept = {key: value for key, value in before.items() if f"weights.{key}" not in values}
    for name, value in values.items():
        assert after["policy"]["weights"].pop(name.split(".")[1]) == value
    assert after["policy"]["weights"] == kept
    assert set(text.splitlines()) - set(changed.splitlines()) <= {
        line for line in text.splitlines() if line.startswith(("wait", "cost", "weights = {"))
    }


@pytest.mark.parametrize("secret", ["", ":sesame"])
def test_an_order_with_a_password_is_its_owners_alone(tmp_path: Path, secret: str) -> None:
    order = TuneOrder(
        site="s", trace="t", content="c", metrics=("finish",), trials=1, train_s=1.0,
        storage=f"postgresql://ada{secret}@h/d",
    )  # fmt: skip
    write_order(tmp_path, order)
    mode = (tmp_path / "tune.json").stat().st_mode & 0o077
    assert bool(mode) is not bool(secret)
    assert read_order(tmp_path) == order


@pytest.mark.usefixtures("unpainted")
def test_the_order_is_kept_as_it_was(stand_in: object, site: Path) -> None:
    assert tune(site, "--trials", "2", "--option", "backfill=easy").exit_code == 0
    order = read_order(site.parent / "tune")
    assert order.options == {"backfill": "easy"}
    assert order.identity == order.model_copy(update={"trials": 50}).identity
    assert order.identity != order.model_copy(update={"train_s": 1.0}).identity
