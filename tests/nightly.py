"""Run the long checks one after the other and print a table of them: ``make nightly``.

Each is a target of the Makefile, described by ``make help``. One that fails does not stop the rest.

    python tests/nightly.py [TARGET...]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = (
    "demo", "audit", "simulate", "soak", "soak-hour", "fuzz-models", "fuzz", "mutation", "gate",
