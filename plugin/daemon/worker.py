"""A daemon thread that ends on a request to stop, or with the process."""

from __future__ import annotations

from abc import ABC, abstractmethod

from berth.plugin.host import Host


class Worker(ABC):
    """Base class of a thread: ``run`` of the subclass is called in the background."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self._thread = host.threads.thread(name, self.run)

    @abstractmethod
    def run(self) -> None:
        """Do the thread's work until somebody requests the thread to stop."""

    def start(self) -> None:
        """Start the thread that does the worker's tasks."""
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread's end, at most ``timeout_s`` seconds."""
        self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Return whether the thread has started and not ended."""
        return self._thread.is_alive()
