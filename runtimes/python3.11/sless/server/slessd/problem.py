"""The answers that the server makes itself: application/problem+json with a stable code."""

import json
from http import HTTPStatus
from typing import NamedTuple


class Problem(NamedTuple):
    """A problem; `extra` are more headers."""

    status: int
    code: str
    detail: str
    extra: tuple[tuple[bytes, bytes], ...] = ()

    def body(self, request_id: str) -> bytes:
        """The document."""
        return json.dumps(
            {
                "type": "about:blank",
                "title": HTTPStatus(self.status).phrase,
                "status": self.status,
                "code": self.code,
                "detail": self.detail,
                "request_id": request_id,
            }
        ).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Its headers, but for the length."""
        return [
            (b"content-type", b"application/problem+json"),
            (b"sless-error", self.code.encode()),
            *self.extra,
        ]


OVERLOADED = Problem(
    503,
    "overloaded",
    "the function is at its limit of calls at the same time",
    ((b"sless-overload", b"true"), (b"retry-after", b"1")),
)
TIMED_OUT = Problem(504, "function_timeout", "the function did not answer within its time-out")
BODY_TIMEOUT = Problem(408, "body_timeout", "the request's body stopped coming", ((b"connection", b"close"),))
NOT_FOUND = Problem(404, "not_found", "no such path below /_sless/")
HEAD_TOO_LARGE = Problem(431, "headers_too_large", "the request's headers are too large", ((b"connection", b"close"),))


def body_too_large(limit: int) -> Problem:
    """The body is larger than this many bytes."""
    return Problem(413, "body_too_large", f"the request's body is larger than {limit} bytes")


def method_not_allowed(allowed: str) -> Problem:
    """Only this method is."""
    return Problem(405, "method_not_allowed", f"only {allowed} is answered here", ((b"allow", allowed.encode()),))


def not_loaded(detail: str) -> Problem:
    """The handler can't be reached now."""
    return Problem(503, "not_loaded", detail, ((b"retry-after", b"1"),))


def crashed(how: str) -> Problem:
    """The worker went away under the call."""
    return Problem(502, "function_crashed", how)
