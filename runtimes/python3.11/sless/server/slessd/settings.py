"""What the environment says, checked."""

import os
from typing import Mapping, NamedTuple

from .ids import is_id, request_id


class BadSetting(Exception):
    """A variable has a value that cannot be; the text names both."""


class Settings(NamedTuple):
    """The server's settings; see CONTRACT.md section 2."""

    port: int
    timeout_seconds: int
    concurrency: int
    revision: str
    event_file: str
    request_id: str
    root: str
    termination_log: str
    max_body_bytes: int
    body_idle_seconds: int
    drain_seconds: int

    @classmethod
    def read(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """Reads and checks all of them."""
        return cls(
            port=_whole(env, "PORT", 8080, 1, 65535),
            timeout_seconds=_whole(env, "SLESS_TIMEOUT_SECONDS", 60, 1, 86400),
            concurrency=_whole(env, "SLESS_CONCURRENCY", 0, 0, 1_000_000),
            revision=env.get("SLESS_REVISION", ""),
            event_file=env.get("SLESS_EVENT_FILE", ""),
            request_id=_id(env, "SLESS_REQUEST_ID"),
            root=env.get("SLESS_ROOT") or "/function",
            termination_log=env.get("SLESS_TERMINATION_LOG") or "/dev/termination-log",
            max_body_bytes=_whole(env, "SLESS_MAX_BODY_BYTES", 100 << 20, 1, 4 << 30),
            body_idle_seconds=_whole(env, "SLESS_BODY_IDLE_SECONDS", 60, 1, 3600),
            drain_seconds=_whole(env, "SLESS_DRAIN_SECONDS", 1, 0, 3600),
        )


def _whole(env: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = env.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise BadSetting(f"{name} is {text!r}; it must be a whole number from {low} to {high}")
    return int(text)


def _id(env: Mapping[str, str], name: str) -> str:
    text = env.get(name, "")
    if text and not is_id(text):
        raise BadSetting(f"{name} is {text!r}; it must be at most 128 visible ASCII characters without quotes and backslashes")
    return request_id(text)
