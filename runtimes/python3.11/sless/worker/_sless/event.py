"""From a request to the HTTP event that the handler sees."""

import base64
import time
from functools import lru_cache
from urllib.parse import parse_qsl

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_event(request: dict, request_id: str, body: bytes, now: float | None = None) -> dict:
    """The event of a request, given as the server describes it: method, path, query, protocol, peer and headers."""
    headers, multi_headers = _folded((canonical(name), value) for name, value in request["headers"])
    query, multi_query = _folded(parse_qsl(request["query"], keep_blank_values=True, errors="replace"))
    text, is_base64 = body_text(body)
    now = time.time() if now is None else now
    return {
        "httpMethod": request["method"],
        "path": request["path"],
        "headers": headers,
        "multiValueHeaders": multi_headers,
        "queryStringParameters": query,
        "multiValueQueryStringParameters": multi_query,
        "rawQueryString": request["query"],
        "requestContext": {
            "requestId": request_id,
            "httpMethod": request["method"],
            "path": headers.get("X-Forwarded-Prefix", "") + request["path"],
            "protocol": request["protocol"],
            "requestTime": _request_time(now),
            "requestTimeEpoch": int(now),
            "identity": {"sourceIp": _source_ip(headers, request["peer"]), "userAgent": headers.get("User-Agent", "")},
        },
        "body": text,
        "isBase64Encoded": is_base64,
    }


@lru_cache(maxsize=1024)
def canonical(name: str) -> str:
    """The name of a header as most programs write it: content-TYPE is Content-Type."""
    return "-".join(part.capitalize() for part in name.split("-"))


def body_text(body: bytes) -> tuple[str, bool]:
    """A body as text, and whether that text is base64 because the body is not UTF-8."""
    try:
        return body.decode("utf-8"), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode("ascii"), True


def _folded(pairs) -> tuple[dict, dict]:
    last, every = {}, {}
    for name, value in pairs:
        last[name] = value
        every.setdefault(name, []).append(value)
    return last, every


def _source_ip(headers: dict, peer: str) -> str:
    return headers.get("X-Forwarded-For", "").split(",")[0].strip() or peer


def _request_time(now: float) -> str:
    # Not strftime's %b: a handler may have set a locale.
    t = time.gmtime(now)
    return f"{t.tm_mday:02}/{_MONTHS[t.tm_mon - 1]}/{t.tm_year}:{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02} +0000"
