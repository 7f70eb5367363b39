"""A thread of the daemon that ends when it is asked to, or with the process."""

from __future__ import annotations

from abc import ABC, abstractmethod

from berth.plugin.host import Host


class Worker(ABC):
    """Calls ``run`` of a child class in the background."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self._thread = host.threads.thread(name, self.run)

    @abstractmethod
    def run(self) -> None:
        """Do the work of the thread."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end."""
        self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Return whether it has started and not ended."""
        return self._thread.is_alive()
