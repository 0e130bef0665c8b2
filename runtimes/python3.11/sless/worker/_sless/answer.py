"""From what a handler returns to the answer that the caller gets."""

import base64
import inspect
import json
import re
from typing import Any, NamedTuple

from .event import canonical

TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
JSON = "application/json"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FORBIDDEN_IN_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

# Those that belong to the connection are the server's to set, and Sless-* is the platform's.
_CONNECTION_HEADERS = {"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Trailer"}


class BadAnswer(Exception):
    """The handler returned something that can't be sent; the text says what."""


class Answer(NamedTuple):
    """An answer. `stream` is what is still to be iterated, None when `body` is all."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    stream: Any = None
    guess_type: bool = False


def is_stream(value: Any) -> bool:
    """Whether a value is sent piece by piece: a generator, or any other iterator, sync or async."""
    return hasattr(value, "__anext__") or (hasattr(value, "__next__") and hasattr(value, "__iter__"))


def http_answer(value: Any) -> Answer:
    """The HTTP answer that a returned value stands for."""
    if value is None:
        return Answer(204, [])
    if is_stream(value):
        return Answer(200, [], stream=value, guess_type=True)
    if isinstance(value, dict) and "statusCode" in value:
        return _described_answer(value)
    body, content_type = _content(value)
    return Answer(200, [("Content-Type", content_type)], body)


def value_json(value: Any) -> bytes:
    """The JSON of a returned value; bytes anywhere in it are base64."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_default)
    except (TypeError, ValueError, RecursionError) as err:
        raise BadAnswer(f"the handler returned what has no JSON: {err}") from None
    # A lone surrogate has no UTF-8, only an escape.
    return text.encode("utf-8", "surrogatepass") if _encodable(text) else json.dumps(json.loads(text)).encode()


def chunk_bytes(item: Any) -> bytes:
    """One item of a stream as bytes: text and bytes as they are, anything else as a line of JSON."""
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    if isinstance(item, (bytes, bytearray, memoryview)):
        return bytes(item)
    return value_json(item) + b"\n"


def chunk_type(item: Any) -> str:
    """The content type of a stream that begins with this item."""
    if isinstance(item, (bytes, bytearray, memoryview)):
        return BYTES
    return TEXT


def _described_answer(value: dict) -> Answer:
    status = _status(value["statusCode"])
    headers = _headers(value.get("headers"), value.get("multiValueHeaders"))
    body = value.get("body")
    if is_stream(body):
        return Answer(status, headers, stream=body)
    if body is None:
        return Answer(status, headers)
    if value.get("isBase64Encoded"):
        data, content_type = _from_base64(body), BYTES
    else:
        data, content_type = _content(body)
    if not any(name == "Content-Type" for name, _ in headers):
        headers.append(("Content-Type", content_type))
    return Answer(status, headers, data)


def _status(value: Any) -> int:
    try:
        status = int(value)
    except (TypeError, ValueError):
        status = 0
    if isinstance(value, bool) or not 200 <= status <= 599:
        raise BadAnswer(f"the handler returned statusCode {value!r}; it must be a whole number from 200 to 599")
    return status


def _headers(single: Any, multi: Any) -> list[tuple[str, str]]:
    found: dict[str, list] = {}
    for field, source in (("headers", single), ("multiValueHeaders", multi)):
        if source is None:
            continue
        if not isinstance(source, dict):
            raise BadAnswer(f"the handler returned {field} that are a {type(source).__name__}, not an object")
        for name, value in source.items():
            found[canonical(_header_name(name))] = value if isinstance(value, (list, tuple)) else [value]
    return [
        (name, _header_value(name, value))
        for name, values in found.items()
        for value in values
        if name not in _CONNECTION_HEADERS and not name.startswith("Sless-")
    ]


def _header_name(name: Any) -> str:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise BadAnswer(f"the handler returned a header named {name!r}, which HTTP does not allow")
    return name


def _header_value(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if _FORBIDDEN_IN_VALUE.search(text):
        raise BadAnswer(f"the handler returned a header {name} whose value has a line break or another control character")
    return text.strip(" \t")


def _content(value: Any) -> tuple[bytes, str]:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), TEXT
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), BYTES
    return value_json(value), JSON


def _from_base64(body: Any) -> bytes:
    if isinstance(body, (str, bytes)):
        try:
            return base64.b64decode(body, validate=True)
        except ValueError:
            pass
    raise BadAnswer("the handler returned isBase64Encoded with a body that is not base64 text")


def _json_default(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if is_stream(value) or inspect.iscoroutine(value):
        raise TypeError(f"a {type(value).__name__} inside another value")
    raise TypeError(f"a {type(value).__name__}")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
