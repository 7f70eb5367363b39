"""Where the submit filter is, and its configuration as the site file has it."""

from __future__ import annotations

from pathlib import Path

FILTER_PATH = Path(__file__).with_name("job_submit.lua")
"""The Lua file to install beside ``slurm.conf``, or to load from the site's own."""
