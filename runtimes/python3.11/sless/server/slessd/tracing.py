"""Spans of the handler's calls, sent to a collector by OTLP over HTTP (JSON) when the environment names one."""

import json
import os
import re
import secrets
import sys
import threading
import time
from collections import deque
from typing import Any, Mapping, NamedTuple
from urllib.parse import unquote

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_TRACESTATE = re.compile(r"[ -~\t]{1,512}")
_QUEUE, _BATCH = 2048, 512  # spans
_GATHER_SECONDS = 1
_SEND_SECONDS = 10
_LAST_SECONDS = 10
_AGAIN_SECONDS, _PATIENCE_SECONDS = 0.25, 5
_SERVER, _ERROR = 2, 2  # of OTLP's SpanKind and StatusCode


class Parent(NamedTuple):
    """The trace context that a call came with; empty when it came with none that is valid."""

    traceparent: str = ""
    tracestate: str = ""

    @classmethod
    def of(cls, traceparent: str, tracestate: str) -> "Parent":
        """The context of two headers, or environment variables."""
        if not _TRACEPARENT.fullmatch(traceparent):
            return cls()
        return cls(traceparent, tracestate if _TRACESTATE.fullmatch(tracestate) else "")

    @classmethod
    def of_environment(cls, env: Mapping[str, str] = os.environ) -> "Parent":
        """The context of a job's run."""
        return cls.of(env.get("TRACEPARENT", ""), env.get("TRACESTATE", ""))


class Span:
    """One call. Within it `context` is what the handler and its requests get."""

    def __init__(self, tracer: "Tracer", parent: Parent, attributes: dict) -> None:
        self.context = parent
        self.status = 0  # of the answer
        self.code = ""  # of the problem that was answered instead
        self._tracer = tracer
        trace, above, flags = _TRACEPARENT.fullmatch(parent.traceparent).groups() if parent.traceparent else ("", "", "01")
        self._recorded = tracer.on and bool(int(flags, 16) & 1)
        if not self._recorded:
            return
        trace = trace or secrets.token_hex(16)
        own = secrets.token_hex(8)
        self.context = Parent(f"00-{trace}-{own}-{flags}", parent.tracestate)
        self._span = {"traceId": trace, "spanId": own, "parentSpanId": above, "traceState": parent.tracestate, "kind": _SERVER}
        self._attributes = attributes
        self._began, self._clock = time.time_ns(), time.monotonic_ns()

    def told(self) -> dict:
        """What the head of the call tells the worker; nothing when there is no context."""
        return {"trace": {name: value for name, value in self.context._asdict().items() if value}} if self.context.traceparent else {}

    def __enter__(self) -> "Span":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        if not self._recorded:
            return
        if error is not None and not self.code:
            self.code = kind.__name__
        if self.status:
            self._attributes["http.response.status_code"] = self.status
        if self.code:
            self._attributes["error.type"] = self.code
        ended = self._began + time.monotonic_ns() - self._clock
        self._span |= {"startTimeUnixNano": str(self._began), "endTimeUnixNano": str(ended), "attributes": _attributes(self._attributes)}
        if error is not None or self.code or self.status >= 500:
            self._span["status"] = {"code": _ERROR}
        self._tracer.add(self._span)


class Tracer:
    """Makes spans. What the collector does not take is dropped; no call waits for it."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._url = _endpoint(env)
        self.on = bool(self._url)
        if not self.on:
            return
        self._name = env.get("SLESS_FUNCTION") or "handler"
        named = {"service.name": self._name, "service.namespace": env.get("SLESS_NAMESPACE", ""), "service.version": env.get("SLESS_REVISION", "")}
        named |= {"service.instance.id": env.get("HOSTNAME", "")} | _pairs(env.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        if env.get("OTEL_SERVICE_NAME"):
            named["service.name"] = env["OTEL_SERVICE_NAME"]
        self._resource = {"attributes": _attributes({name: value for name, value in named.items() if value})}
        self._headers = _pairs(env.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or env.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
        self._spans: deque = deque(maxlen=_QUEUE)  # the oldest goes when there is no room
        self._some, self._closing = threading.Event(), threading.Event()
        self._failing = False
        self._patient_until = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def span(self, parent: Parent, request_id: str) -> Span:
        """Begins the span of a call, which ends with the block that it is the context of."""
        return Span(self, parent, {"sless.request_id": request_id})

    def add(self, span: dict) -> None:
        """Takes a span that has ended."""
        self._spans.append(span | {"name": self._name})
        self._some.set()

    def close(self, patient: bool = False) -> None:
        """Sends what is left, for a moment. A process that has just started is patient: the network may not let it out yet."""
        if self.on:
            self._patient_until = time.monotonic() + _PATIENCE_SECONDS * patient
            self._closing.set()
            self._some.set()
            self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        while self._spans or not self._closing.is_set():
            self._some.wait()
            self._closing.wait(_GATHER_SECONDS)
            self._some.clear()
            batch = [self._spans.popleft() for _ in range(min(_BATCH, len(self._spans)))]
            while batch and not self._send(batch) and time.monotonic() < self._patient_until:
                time.sleep(_AGAIN_SECONDS)
            if self._spans or self._closing.is_set():
                self._some.set()

    def _send(self, batch: list) -> bool:
        """Says whether the collector was reached."""
        from urllib.request import Request, urlopen

        scope = {"scope": {"name": "sless/python3.11"}, "spans": batch}
        body = json.dumps({"resourceSpans": [{"resource": self._resource, "scopeSpans": [scope]}]}).encode()
        try:
            request = Request(self._url, body, {**self._headers, "Content-Type": "application/json"})
            with urlopen(request, timeout=_SEND_SECONDS) as response:
                response.read()
        except Exception as err:
            # Only the kind: an address or a header of the request may be a secret.
            self._say(f"spans are lost until the collector takes them: {getattr(err, 'code', '') or getattr(err, 'reason', '') or type(err).__name__}")
            self._failing = True
            return hasattr(err, "code")
        self._failing = False
        return True

    def _say(self, text: str) -> None:
        if not self._failing:
            sys.stderr.write(f"sless: {text}\n")


def _endpoint(env: Mapping[str, str]) -> str:
    """Where to send spans; "" when there is nowhere."""
    if env.get("OTEL_SDK_DISABLED") == "true" or env.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return ""
    if (env.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL")) == "grpc":
        return ""
    url = env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
    if not url and (base := env.get("OTEL_EXPORTER_OTLP_ENDPOINT")):
        url = base.rstrip("/") + "/v1/traces"
    if url and not url.startswith(("http://", "https://")):
        sys.stderr.write("sless: no spans are sent: the endpoint in OTEL_EXPORTER_OTLP_… must be an address such as https://collector:4318\n")
        return ""
    return url


def _pairs(text: str) -> dict[str, str]:
    """The value of a variable such as a=1,b=2."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


def _attributes(values: dict) -> list:
    return [{"key": name, "value": {"intValue" if isinstance(value, int) else "stringValue": str(value)}} for name, value in values.items()]
