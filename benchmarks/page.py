"""How fast ``berth ui`` answers: each view, 10,000 decisions paged, ResNet-50 sent and predicted.

A site with its store, a page started as users start it, asked over HTTP on loopback. Bars: each
view in 2 s, ResNet-50 (102 MB) sent and predicted in 3 s. ``--size`` prints what ``berth[ui]``
downloads beyond ``berth`` (bar: 60 MB); it asks the package registry.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

# ruff: noqa: PLC0415 - found once the path says where
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT)]

VIEW_BAR_S, MODEL_BAR_S, SIZE_BAR_MB = 2.0, 3.0, 60.0
DECISIONS = 10_000
VIEWS = ("/place", "/place?workload=stream", "/predict", "/predict?workload=stream", "/jobs",
         "/site", "/mig", "/what-if")  # fmt: skip
FLEET = {
    "schema": "berth.mig-fleet/1",
    "gpus": [{"name": f"n{n}/0", "model": "A100-40GB", "layout": ["3g.20gb@0", "1g.5gb@4"]}
             for n in range(8)],
}  # fmt: skip
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/")


def site_in(folder: Path) -> Path:
    """The demo's site file with a store of many decisions."""
    from toy_profiles import profile
    from ui_store import decision

    from berth.pilot.documents import to_json
    from berth.plugin.site.load import DEMO_FILE
    from berth.plugin.store import Store, WorkloadRecord

    path = folder / "berth.toml"
    path.write_text(DEMO_FILE.read_text() + f'\n[daemon]\nstore = "{folder / "store.db"}"\n')
    store = Store.open(str(folder / "store.db"))
    store.decisions.add([decision(n) for n in range(DECISIONS)])
    document = to_json(profile("stream"))
    store.add(WorkloadRecord("stream", "program", "sha256:1", document, "", 1.0))
    store.close()
    return path


@contextmanager
def page(folder: Path) -> Iterator[tuple[int, int]]:
    """The port of a page that runs, and its process."""
    (folder / "fleet.json").write_text(json.dumps(FLEET))
    words = ["--site", str(site_in(folder)), "--no-token", "--fleet", str(folder / "fleet.json")]
    process = subprocess.Popen(
        [sys.executable, "-c", "from berth.plugin.cli import main; main()", "ui", *words],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = ADDRESS.search(process.stdout.readline())
        if found is None:
            raise SystemExit("the page did not start")
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait()


def ask(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    """Status, and the text or where it redirects to."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request(method, path, body, {"Sec-Fetch-Site": "same-origin", **headers})
    answer = connection.getresponse()
    text = answer.read().decode()
    return answer.status, answer.getheader("Location") or text


def processor_s(pid: int) -> float:
    """Processor time so far of a process and its children."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == pid or int(words[1]) == pid:
            total += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return total


def timed(port: int, path: str) -> tuple[float, str]:
    """Seconds to the whole page."""
    begin = time.perf_counter()
    status, text = ask(port, "GET", path)
    if status != 200:
        raise SystemExit(f"{path}: {status}")
    return time.perf_counter() - begin, text


def send_model(port: int, model: bytes) -> float:
    """Seconds from the first byte sent to the ranking."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", "/predict")
    answer = connection.getresponse()
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    secret = re.search(r'name="csrf_token" value="([^"]+)"', answer.read().decode())
    assert secret is not None
    edge = "berth-benchmark"
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="csrf_token"\r\n\r\n{secret[1]}\r\n',
        f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="resnet50.onnx"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n",
    ]  # fmt: skip
    body = "".join(parts).encode() + model + f"\r\n--{edge}--\r\n".encode()
    begin = time.perf_counter()
    kind = f"multipart/form-data; boundary={edge}"
    status, link = ask(port, "POST", "/predict", body, **{"Content-Type": kind, "Cookie": cookie})
    if status != 303:
        raise SystemExit(f"/predict: {status} {link[:500]}")
    status, text = ask(port, "GET", link, Cookie=cookie)
    took = time.perf_counter() - begin
    assert status == 200
    assert "resnet50: a model graph" in text
    return took


def closure(requirements: Iterable[str]) -> set[str]:
    """Names of all packages that these need, as they are installed here."""
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: set[str] = set()
    wanted = [Requirement(one) for one in requirements]
    while wanted:
        one = wanted.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        try:
            wanted += [Requirement(inner) for inner in requires(name) or ()]
        except PackageNotFoundError:
            continue
    return found


def size() -> tuple[float, list[str]]:
    """Megabytes that pip downloads for the extra beyond the base, and the files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = closure(project["dependencies"])
    more = sorted(closure(project["optional-dependencies"]["ui"]) - base)
    with tempfile.TemporaryDirectory() as folder:
        words = ["download", "--quiet", "--no-deps", "--dest", folder, *more]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True, cwd=folder)
        files = sorted(Path(folder).iterdir())
        return sum(one.stat().st_size for one in files) / 1e6, [one.name for one in files]


def main() -> int:
    reading = argparse.ArgumentParser(description=__doc__)
    reading.add_argument("--size", action="store_true", help="what the extra downloads, only")
    if reading.parse_args().size:
        megabytes, files = size()
        print("\n".join(files))
        print(f"berth[ui] downloads {megabytes:.1f} MB beyond berth (bar: {SIZE_BAR_MB:g} MB)")
        return 0
    from resnet50 import resnet50

    model = resnet50()
    print(f"load average {os.getloadavg()[0]:.1f}; bars: view {VIEW_BAR_S:g} s, model "
          f"{MODEL_BAR_S:g} s")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, page(Path(folder)) as (port, pid):

        def show(what: str, ask: Callable[[], tuple[float, str]]) -> str:
            before = processor_s(pid)
            seconds, text = ask()
            print(f"{what:45s}{seconds:7.2f} s {processor_s(pid) - before:7.2f} s processor")
            return text

        show("resnet50.onnx, while it is still warming up", lambda: (send_model(port, model), ""))
        show("resnet50.onnx (102 MB), sent and predicted", lambda: (send_model(port, model), ""))
        following = ""
        for view in VIEWS:
            text = show(view, lambda view=view: timed(port, view))
            found = re.search(r'href="(/jobs\?[^"]*before=[^"]+)"', text)
            following = found[1].replace("&amp;", "&") if found else following
        show("/jobs, the second page of 10,000 decisions", lambda: timed(port, following))
    return 0


if __name__ == "__main__":
    sys.exit(main())
