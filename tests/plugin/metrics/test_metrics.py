"""Metrics: of a running daemon and its store, over HTTP, and what there is when one is missing."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from wsgiref.simple_server import WSGIServer

import pytest
import yaml

pytest.importorskip("prometheus_client", reason="needs the extra `metrics`")

from berth_daemon import Harbour, forecast
from made_forecasts import put
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from ui_store import decision

from berth.pilot.errors import BerthError, StoreError, UsageError
from berth.plugin.metrics.exporter import STORE_PERIOD_S, Exporter, store_metrics
from berth.plugin.metrics.of_daemon import daemon_metrics
from berth.plugin.metrics.serving import listening
from berth.plugin.store import PlacedRun, Store

ASK = {"queue": "auto", "comment": "berth:stream"}
OFF = {"user": "alice", "comment": "berth:off"}
DEPLOY = Path(__file__).parents[3] / "deploy"
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def ready(site: Harbour) -> Harbour:
    """A site whose store knows the workload ``stream``."""
    put(site.store(), forecast("stream"))
    return site


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from berth.plugin.cli import main; main()", *arguments]


def families(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def once(site_file: Path) -> str:
    done = subprocess.run(
        command("site", "metrics", "--once", "--site", str(site_file)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_the_daemon_did_is_counted(ready: Harbour) -> None:
    daemon = ready.start()
    for _ in range(3):
        daemon.decide(**ASK)
    daemon.decide(**{**ASK, "comment": "berth:off"})
    streak = {"undecided": 12, "since_ms": int(1000 * (time.time() - 90)), "opened": 1}
    daemon.ask(op="decide", scheduler="flux", job=OFF, breaker=streak)
    text = once(ready.site_file)
    found = families(text)
    assert found["berth_daemon_up"] == {(): 1.0}
    assert found["berth_store_up"] == {(): 1.0}
    assert found["berth_decisions_total"][("edit", "enforce", "placed")] == 3
    assert found["berth_decisions_total"][("keep", "enforce", "opted-out")] == 2
    assert found["berth_filter_breaker_openings_total"] == {("flux",): 1.0, ("slurm",): 0.0}
    undecided = found["berth_filter_breaker_undecided_submissions_total"]
    assert undecided == {("flux",): 12.0, ("slurm",): 0.0}
    assert 90 <= found["berth_filter_breaker_last_outage_seconds"][("flux",)] < 600
    assert found["berth_decision_duration_seconds_count"] == {(): 5.0}
    assert found["berth_decision_duration_seconds_bucket"][("+Inf",)] == 5
    assert 0 < found["berth_decision_duration_seconds_sum"][()] < 4
    assert found["berth_candidates"][()] > 0
    assert found["berth_recorded_decisions_total"][("dropped",)] == 0
    assert found["berth_place_up"]
    documented = set(re.findall(r"`(berth_\w+)`", (DOCS / "metrics.md").read_text()))
    names = {f.name + ("_total" if f.type == "counter" else "")
             for f in text_string_to_metric_families(text)}  # fmt: skip
    assert names <= documented
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "metrics"], input=text, text=True, check=True)


def test_without_a_daemon_the_store_is_still_told(ready: Harbour) -> None:
    found = families(once(ready.site_file))
    assert found["berth_daemon_up"] == {(): 0.0}
    assert found["berth_store_up"] == {(): 1.0}
    assert "berth_changes_noticed" in found
    assert "berth_decisions_total" not in found


def test_over_a_socket_until_it_is_ended(ready: Harbour, tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    with subprocess.Popen(
        command("site", "metrics", "--listen", f"unix:{path}", "--site", str(ready.site_file))
    ) as process:
        try:
            text = fetched(path)
            assert "berth_daemon_up 0.0" in text
            assert path.stat().st_mode & 0o777 == 0o660
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            process.kill()
    assert not path.exists()


def fetched(path: Path) -> str:
    """What is served at the socket, once it is there."""
    for _ in range(1_800):  # a busy machine takes its time to start it
        connection = HTTPConnection("localhost", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(str(path))
        except OSError:
            time.sleep(0.1)
            continue
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    raise AssertionError("nobody serves metrics")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def failing() -> Iterator[object]:
    raise StoreError("the store is locked")
    yield


def scraped(exporter: Exporter) -> dict[str, dict[tuple[str, ...], float]]:
    registry = CollectorRegistry()
    registry.register(exporter)
    return families(generate_latest(registry).decode())


def test_the_store_is_read_once_a_minute_and_may_come_back(tmp_path: Path) -> None:
    store, clock, reads = Store.open(str(tmp_path / "berth.db")), Clock(), []
    sources = [failing, lambda: store_metrics(store)]

    def read() -> object:
        reads.append(clock.now_s)
        return sources[min(len(reads), 2) - 1]()

    exporter = Exporter(failing, read, clock=clock)  # type: ignore[arg-type]
    assert scraped(exporter)["berth_store_up"] == {(): 0.0}
    assert scraped(exporter)["berth_daemon_up"] == {(): 0.0}
    assert reads == [0.0]
    clock.now_s = STORE_PERIOD_S
    assert scraped(exporter)["berth_store_up"] == {(): 1.0}


def test_how_predictions_held_by_platform(tmp_path: Path) -> None:
    store, now_s = Store.open(str(tmp_path / "berth.db")), time.time()
    store.outcomes.put(
        [PlacedRun(
            cluster="site", job_id=str(n), user="alice", state="completed", end_s=now_s - n,
            elapsed_s=10.0 * (1 + n), predicted_s=10.0, predicted_low_s=5.0, predicted_high_s=25.0,
            platform="epyc",
        )
        for n in range(3)]
    )  # fmt: skip
    looked_at = [
        PlacedRun("site", str(n), "alice", "completed", end_s=now_s - n, workload="app", use=use)
        for n, use in enumerate(("used", "used", "suspended"))
    ]
    store.learning.put(looked_at, [])
    found = scraped(Exporter(failing, lambda: store_metrics(store)))  # type: ignore[arg-type]
    assert found["berth_learnt_jobs"] == {("used",): 2.0, ("suspended",): 1.0}
    assert found["berth_compared_jobs"] == {("epyc",): 3.0}
    assert found["berth_time_error_median_ratio"][("epyc",)] == 1.0
    assert found["berth_time_bias_ratio"] == {("epyc",): 2.0}
    assert found["berth_interval_coverage_ratio"][("epyc",)] == pytest.approx(2 / 3)
    assert "alice" not in generate_latest(_registry(store)).decode()


def test_failures_of_placed_jobs_stand_beside_those_of_others(tmp_path: Path) -> None:
    store, now_s = Store.open(str(tmp_path / "berth.db")), time.time()
    placed, left = decision(1, action="edit"), decision(2, action="keep")
    store.decisions.add([placed, left])
    store.outcomes.put(
        [PlacedRun(
            cluster="site", job_id=str(n), user="alice", state=state, end_s=now_s - n,
            elapsed_s=10.0, decision=made.id,
        )
        for n, (made, state) in enumerate(
            ((placed, "failed"), (placed, "completed"), (placed, "failed"), (left, "timeout"))
        )]
    )  # fmt: skip
    found = scraped(Exporter(failing, lambda: store_metrics(store)))  # type: ignore[arg-type]
    assert found["berth_decided_jobs"] == {
        ("yes", "failed"): 2.0, ("yes", "completed"): 1.0, ("no", "timeout"): 1.0,
    }  # fmt: skip


def _registry(store: Store) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Exporter(failing, lambda: store_metrics(store)))  # type: ignore[arg-type]
    return registry


def test_a_daemon_that_never_read_the_cluster_has_the_age_of_its_start(ready: Harbour) -> None:
    stats = ready.start(state=False, path=ready.folder).stats()
    assert stats["state_age_s"] is None
    source = lambda: daemon_metrics({**stats, "uptime_s": 500.0})  # noqa: E731
    assert scraped(Exporter(source, lambda: ()))["berth_state_age_seconds"] == {(): 500.0}


def test_an_answer_of_another_version_is_no_traceback() -> None:
    exporter = Exporter(lambda: daemon_metrics({"version": "9", "mode": "new"}), lambda: ())
    assert scraped(exporter)["berth_daemon_up"] == {(): 0.0}


def application(_environment: object, start: object) -> list[bytes]:
    start("200 OK", [])  # type: ignore[operator]
    return [b"ok"]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nowhere", "is no address"),
        ("localhost:9", "is no address"),
        ("127.0.0.1:99999", "is no address"),
        ("0.0.0.0:9808", "other machines"),
        ("[::]:9808", "other machines"),
    ],
)
def test_wrong_addresses_are_refused(address: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        listening(address, application)


def test_an_address_in_use_and_a_file_in_the_way_are_errors(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(BerthError, match="cannot be listened on"):
            listening(f"127.0.0.1:{other.getsockname()[1]}", application)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is no socket"):
        listening(f"unix:{tmp_path / 'file'}", application)
    path = tmp_path / "socket"
    first = listening(f"unix:{path}", application)
    with pytest.raises(UsageError, match="another process"):
        listening(f"unix:{path}", application)
    first.server_close()
    listening(f"unix:{path}", application).server_close()  # what a crash left behind


def listening_on_a_free_port() -> WSGIServer:
    """One that somebody else takes meanwhile is not insisted on."""
    for _ in range(20):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with suppress(BerthError):
            return listening(f"127.0.0.1:{port}", application)
    raise AssertionError("no free port")


def test_a_peer_that_says_nothing_keeps_nobody_waiting() -> None:
    server = listening_on_a_free_port()
    port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as reply:
        assert reply.read() == b"ok"
    for peer in silent:
        peer.close()
    server.shutdown()
    server.server_close()


def test_alerts_and_the_dashboard_ask_for_metrics_that_exist(tmp_path: Path) -> None:
    documented = set(re.findall(r"`(berth_\w+)`", (DOCS / "metrics.md").read_text()))
    documented |= {f"{name}{end}" for name in documented for end in ("_bucket", "_sum", "_count")}
    alerts = DEPLOY / "prometheus" / "berth-alerts.yml"
    rules = yaml.safe_load(alerts.read_text())["groups"][0]["rules"]
    panels = json.loads((DEPLOY / "prometheus" / "berth-dashboard.json").read_text())["panels"]
    asked = [rule["expr"] for rule in rules]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    asked += shown
    assert len(asked) > 15
    for expression in asked:
        assert set(re.findall(r"berth_\w+", expression)) <= documented, expression
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "rules", str(alerts)], check=True)
        # The dashboard's questions as rules, with Grafana's variables filled in.
        rules = [
            {"record": f"panel:{n}", "expr": one.replace("$instance", ".*")}
            for n, one in enumerate(shown)
        ]
        panelled = tmp_path / "panels.yml"
        panelled.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
        subprocess.run([promtool, "check", "rules", str(panelled)], check=True)
