"""Brokers whose user is not the daemon's reach its socket (0660) by its group, and only so.

Flux's Python may lie where only root gets: the brokers run as root without root's right to pass
over modes of files, and the socket is given to another user.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat

import pytest
from berth_daemon import wait_until
from flux_daemon import flux_harbour
from flux_instance import frobnicators, live_flux, why_no_flux

from berth.plugin.flux.filter import FILTER_PATH

pytestmark = [
    pytest.mark.flux,
    pytest.mark.timeout(300),
    pytest.mark.skipif(why_no_flux() is not None, reason=f"NOT TESTED LIVE: {why_no_flux()}"),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("setpriv") is None,
        reason="NOT TESTED: only root can start brokers with fewer rights, by setpriv",
    ),
]
OWNER, GROUP = "games", "daemon"
"""Stand for user and group ``berth``."""
WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--regid", "0")
ASKS = ("--urgency=0", "--queue=auto", "--setattr=user.berth.workload=stream")


@pytest.mark.parametrize("member", [True, False])
def test_only_a_member_of_the_daemons_group_is_answered(member: bool) -> None:
    groups = ("--groups", str(grp.getgrnam(GROUP).gr_gid)) if member else ("--clear-groups",)
    with flux_harbour() as harbour:
        daemon = harbour.start(wait=False)
        wait_until(harbour.socket.exists, 60, what=f"the daemon's socket\n{daemon.log}")
        os.chown(harbour.socket, pwd.getpwnam(OWNER).pw_uid, grp.getgrnam(GROUP).gr_gid)
        assert stat.S_IMODE(harbour.socket.stat().st_mode) == 0o660
        ingest = frobnicators(str(FILTER_PATH), **harbour.settings(deadline_ms=1000))
        with live_flux(ingest, size=1, prefix=(*WITHOUT_RIGHTS, *groups)) as flux:
            notes = flux.jobspec(flux.submit(*ASKS, "true"))["attributes"]["user"]["berth"]
    assert ("decision" in notes) is member
