"""The termination log: the last words of the container, which the platform reads from the pod's status."""

import json
import os
import sys
from typing import Any

LIMIT = 4096  # the kubelet keeps no more
RESULT_LIMIT = 3072


def write_error(path: str, text: str) -> None:
    """Says on stderr and in the log why the container ends with 1."""
    sys.stderr.write(f"sless: {text}\n")
    _write(path, error_message(text))


def write_result(path: str, result: bytes) -> None:
    """Writes a job's result, given as JSON."""
    _write(path, result_message(result))


def error_message(text: str) -> str:
    """The JSON of an error; a text that is too long loses its end."""
    return _fitting(lambda part: {"error": part}, text, LIMIT)


def result_message(result: bytes) -> str:
    """The JSON of a result; one that is too long becomes a string with the first bytes of its JSON."""
    if len(result) <= RESULT_LIMIT:
        return '{"result":' + result.decode() + ',"truncated":false}'
    text = result[:RESULT_LIMIT].decode(errors="ignore")
    return _fitting(lambda part: {"result": part, "truncated": True}, text, LIMIT)


def _fitting(build: Any, text: str, limit: int) -> str:
    """The JSON of build(text), with as much of the text as fits: quotes and the like take more room than they show."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(build(text[:middle])) <= limit:
            low = middle
        else:
            high = middle - 1
    return _dump(build(text[:low]))


def _size(value: Any) -> int:
    return len(_dump(value).encode("utf-8", "replace"))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write(path: str, text: str) -> None:
    try:
        # Not O_CREAT alone: the kubelet has made the file, and it must be emptied of an earlier run's words.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError as err:
        sys.stderr.write(f"sless: write {path}: {err}\n")
