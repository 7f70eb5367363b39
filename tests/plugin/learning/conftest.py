"""A store in a file, and finished jobs put into it."""

from __future__ import annotations

from pathlib import Path

import pytest
from site_jobs import SiteJobs

from berth.plugin.store import Store


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """Most of this is arithmetic; what databases differ in is in ``test_evidence_stored``."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def jobs(store: Store) -> SiteJobs:
    return SiteJobs(store)
