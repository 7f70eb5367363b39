"""Who may use which queue by flux-accounting: what its plugin ``mf_priority`` holds.

flux-accounting refuses a job at submission, and a change of queue, where the user's association
with the bank does not list the queue. The plugin does not say which bank is a user's default: a
job that names none goes only where all banks of its user allow it.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.usernames import UserNumbers
from berth.policies.limits import Denied, Limit, Scope

PLUGIN = "mf_priority.so"
_NUMBERS = UserNumbers()
"""Asked of the system in a thread of their own: the answering thread must not wait for them."""
_UNLIMITED = 2**31 - 1
_OF_BANK = (("max_nodes", "node"), ("max_cores", "cpu"))
_OF_QUEUE = (
    ("max_nodes_per_assoc", "node"),
    ("max_sched_nodes_per_assoc", "node"),
    ("max_sched_cores_per_assoc", "cpu"),
)


class Banks:
    """The associations and queues of flux-accounting at one moment."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """``answer``: of ``flux jobtap query mf_priority.so``. ValueError and the like: it is
        none."""
        self._queues = {
            str(name): _limits(queue, _OF_QUEUE, f"queue {name}")
            for name, queue in answer["queues"].items()
        }
        self._banks = {
            int(user["userid"]): {
                str(bank["bank_name"]): (
                    frozenset(map(str, bank["queues"])),
                    _limits(bank, _OF_BANK, f"bank {bank['bank_name']}"),
                )
                for bank in user["banks"]
                if bank["active"]
            }
            for user in answer["mf_priority_map"]
        }
        held = sorted(
            (uid, name, sorted(queues), limits)
            for uid, banks in self._banks.items()
            for name, (queues, limits) in banks.items()
        )
        text = repr((sorted(self._queues.items()), held))
        self.digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        """See Rights. ``account`` is the bank; flux-accounting has no QOS."""
        uid = _uid(user)
        if uid is None:
            return Denied(f"the number of user {user} is not known yet")
        banks = self._banks.get(uid, {})
        if account is not None:
            banks = {name: bank for name, bank in banks.items() if name == account}
        if not banks:
            what = "bank" if account is None else f"bank {account}"
            return Denied(f"flux-accounting has no {what} of {user}")
        if not self._queues:  # it keeps no queues at all
            return tuple(limit for _, limits in banks.values() for limit in limits)
        if queue not in self._queues:
            return Denied(f"flux-accounting does not know the queue {queue}")
        for name, (queues, _) in banks.items():
            if queue not in queues:
                return Denied(f"bank {name} of {user} may not use {queue}")
        own = (limit for _, limits in banks.values() for limit in limits)
        return (*own, *self._queues[queue])


def banks_of(answer: Mapping[str, Any]) -> Banks | None:
    """None: flux-accounting's plugin is not loaded, or only the instance's owner may ask.

    Raises SchedulerError where it answered otherwise than it should.
    """
    if answer.get("errno") == errno.EPERM or "plugin not found" in str(answer.get("error")):
        return None
    try:
        return Banks(answer)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise SchedulerError(
            f"{PLUGIN} answered something unreadable: {json.dumps(answer)[:80]}"
        ) from None


def _limits(
    held: Mapping[str, Any], of: tuple[tuple[str, str], ...], source: str
) -> tuple[Limit, ...]:
    return tuple(
        Limit(Scope.JOB, float(held[key]), source, resource)
        for key, resource in of
        if int(held.get(key, _UNLIMITED)) < _UNLIMITED
    )


def _uid(user: str) -> int | None:
    """None: not known yet."""
    if user.startswith("uid:") and user[4:].isdecimal():
        return int(user[4:])
    return _NUMBERS.of(user)
