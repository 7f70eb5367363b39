"""``berth ui`` as it is typed: the address that it prints opens the page."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from pathlib import Path


def test_the_demo_page_opens_at_the_address_that_the_command_prints() -> None:
    berth = Path(sys.executable).with_name("berth")
    command = (berth, "ui", "--demo", "--listen", "127.0.0.1:0")
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as page:
        try:
            assert page.stdout is not None
            line = page.stdout.readline()
            address = re.search(r"http://\S+", line)
            assert address, line
            with browser.open(address[0], timeout=20) as answer:
                assert answer.status == 200
        finally:
            page.terminate()
