"""The ids of requests."""

import re
import uuid

# What may stand in a header, in JSON and before a line of the log, and be told from what follows there.
_GOOD = re.compile(r"[!#-\[\]-~]{1,128}")


def is_id(text: str) -> bool:
    """Whether a text can be a request's id: up to 128 visible ASCII characters but for the double quote and the backslash."""
    return _GOOD.fullmatch(text) is not None


def request_id(given: str) -> str:
    """The id that was given, when it can be one, or a new one."""
    return given if is_id(given) else uuid.uuid4().hex
