"""Ending a worker together with everything it started."""

import os
import signal

MARK = "SLESS_WORKER_ID"  # an environment variable that all descendants inherit


def kill(mark: str, leader: int) -> None:
    """Kills the worker `leader` and its descendants, also those in sessions of their own or with another parent."""
    for _ in range(10):
        found = _find(mark, leader)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # What was born between the look and the kill shows on the next look.
        if not found:
            return


def _find(mark: str, leader: int) -> list[int]:
    processes = _processes()
    needle = f"{MARK}={mark}".encode()
    found = {pid for pid, (_, session) in processes.items() if session == leader}
    found.update(pid for pid in processes if needle in _environ(pid))
    grown = True
    while grown:
        children = {pid for pid, (parent, _) in processes.items() if parent in found or parent == leader}
        grown = not children <= found
        found |= children
    found.discard(os.getpid())
    return sorted(found)


def _processes() -> dict[int, tuple[int, int]]:
    """Parent and session of each process that is not a zombie."""
    processes = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name in parentheses may hold anything, so count from its end.
                state, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            processes[int(name)] = (int(parent), int(session))
    return processes


def _environ(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
