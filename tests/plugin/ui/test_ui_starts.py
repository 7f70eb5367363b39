"""``berth ui`` as it is typed: the address that it prints opens the page."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path


def test_the_page_opens_at_the_printed_address_beside_300_connections_that_ask_nothing() -> None:
    berth = Path(sys.executable).with_name("berth")
    command = (berth, "ui", "--demo", "--listen", "127.0.0.1:0")
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    pipe = subprocess.PIPE
    with ExitStack() as idle, subprocess.Popen(command, stdout=pipe, text=True) as page:
        try:
            assert page.stdout is not None
            line = page.stdout.readline()
            address = re.search(r"http://([\d.]+):(\d+)\S+", line)
            assert address, line
            for _ in range(300):
                idle.enter_context(socket.create_connection((address[1], int(address[2]))))
            with browser.open(address[0], timeout=20) as answer:
                assert answer.status == 200
        finally:
            page.terminate()
