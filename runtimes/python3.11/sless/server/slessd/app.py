"""The ASGI application: from an HTTP request to a call of the handler and back."""

import asyncio
import sys
import time
import traceback
from typing import Any

from _sless import wire

from . import problem
from .function import Function
from .ids import request_id
from .problem import Problem
from .settings import Settings
from .tracing import Parent, Span, Tracer
from .worker import Call, CallerGone, Crashed, TimedOut, Worker

_CONTROL = b"/_sless/"


class _Refused(Exception):
    """The request is answered with a problem instead of a call."""

    def __init__(self, why: Problem) -> None:
        super().__init__(why.detail)
        self.problem = why


class App:
    """Answers requests with the function's handler."""

    def __init__(self, settings: Settings, function: Function, tracer: Tracer) -> None:
        self._settings = settings
        self._tracer = tracer
        self._function = function
        self.draining = False
        self.last_request = time.monotonic()

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        exchange = _Exchange(scope, receive, send, closing=self.draining)
        try:
            if exchange.path.startswith(_CONTROL):
                await self._control(exchange)
            else:
                mode = "value" if exchange.header(b"sless-payload") == b"body" else "http"
                await self._call(exchange, mode, inside=False)
        except _Refused as refused:
            await exchange.send_problem(refused.problem)
        except CallerGone:
            pass  # nobody is there to be told
        except Exception:
            # uvicorn answers 500; what it would log is silenced together with its chatter.
            sys.stderr.write(f"sless: internal error: {traceback.format_exc()}")
            raise

    async def _control(self, exchange: "_Exchange") -> None:
        if exchange.path == b"/_sless/health":
            await self._health(exchange)
        elif exchange.path != b"/_sless/invoke":
            raise _Refused(problem.NOT_FOUND)
        elif exchange.method != "POST":
            raise _Refused(problem.method_not_allowed("POST"))
        else:
            await self._call(exchange, "value", inside=True)

    async def _health(self, exchange: "_Exchange") -> None:
        revision = [(b"sless-revision", self._settings.revision.encode())]
        if exchange.method not in ("GET", "HEAD"):
            why: Problem | None = problem.method_not_allowed("GET")
        elif self.draining:
            why = problem.not_loaded("the server is stopping")
        elif not self._function.serving:
            why = problem.not_loaded(self._function.load_error or "the handler is loading")
        else:
            why = None
        if why is not None:
            await exchange.send_problem(why, revision)
        else:
            await exchange.send_whole(200, [(b"content-type", b"application/json"), *revision], b'{"status":"ok"}')

    async def _call(self, exchange: "_Exchange", mode: str, inside: bool) -> None:
        self.last_request = time.monotonic()
        function = self._function
        # Asked twice: a refusal should not wait for the body, and a slow body should not hold a place.
        if function.full:
            raise _Refused(problem.OVERLOADED)
        body = await exchange.body(self._settings.max_body_bytes, self._settings.body_idle_seconds)
        if function.full:
            raise _Refused(problem.OVERLOADED)
        function.reserve()
        watch = asyncio.ensure_future(exchange.gone())
        try:
            with self._tracer.span(exchange.parent(), exchange.request_id) as span:
                try:
                    call = await self._place(watch)
                    watch.add_done_callback(lambda _: call.abandon())
                    await self._converse(exchange, call, exchange.call_head(mode, span), body, inside)
                except _Refused as refused:
                    span.status, span.code = refused.problem.status, refused.problem.code
                    raise
                finally:
                    span.status = span.status or exchange.status
        finally:
            watch.cancel()

    async def _place(self, watch: asyncio.Future) -> Call:
        """The call, in the worker that is there or in the next one to come."""
        try:
            worker = self._function.current or await self._wait_for_worker(watch)
        except BaseException:
            self._function.release()
            raise
        return self._function.new_call(worker)

    async def _wait_for_worker(self, watch: asyncio.Future) -> Worker:
        coming = asyncio.ensure_future(self._function.worker())
        try:
            await asyncio.wait(
                {coming, watch}, timeout=self._settings.timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if watch.done():
                raise CallerGone
            if not coming.done():
                raise _Refused(problem.not_loaded(self._function.load_error or "the handler is loading"))
            return coming.result()
        finally:
            coming.cancel()

    async def _converse(self, exchange: "_Exchange", call: Call, head: dict, body: bytes, inside: bool) -> None:
        try:
            frame = await call.begin(head, body)
        except TimedOut:
            raise _Refused(problem.TIMED_OUT) from None
        except Crashed as err:
            raise _Refused(problem.crashed(str(err))) from None
        if frame.kind == wire.ERROR:
            raise _Refused(_failure(frame.head, inside))
        if frame.kind != wire.ANSWER:
            raise CallerGone
        headers = [(name.lower().encode(), value.encode("utf-8", "surrogatepass")) for name, value in frame.head["headers"]]
        if not frame.head.get("stream"):
            await exchange.send_whole(frame.head["status"], headers, frame.body)
            return
        await exchange.send_head(frame.head["status"], headers)
        if not exchange.wants_body(frame.head["status"]):
            call.abandon()
            await exchange.send_part(b"", more=False)
            return
        await self._stream(exchange, call, frame.body)

    async def _stream(self, exchange: "_Exchange", call: Call, first: bytes) -> None:
        """Sends the parts as they come. Leaving before the last one breaks the connection, which is how a caller learns."""
        if first:
            await exchange.send_part(first)
        while True:
            try:
                frame = await call.next()
            except (TimedOut, Crashed):
                return
            if frame.kind == wire.CHUNK:
                if frame.body:
                    await exchange.send_part(frame.body)
                continue
            if frame.kind == wire.END:
                await exchange.send_part(b"", more=False)
            return


def _failure(head: dict, inside: bool) -> Problem:
    if head["code"] == "bad_request":
        return Problem(400, "bad_request", head["error"])
    # What an exception says is for the function's own people; strangers get its type.
    detail = head["error"] if inside else f"the function failed: {head['type']}"
    return Problem(500, "function_failed", detail)


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: dict, receive: Any, send: Any, closing: bool) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._closing = closing
        self.status = 0  # of the answer, once that has begun
        self.method: str = scope["method"]
        self.path: bytes = scope["raw_path"]
        self.request_id = request_id(self.header(b"x-request-id").decode("latin-1"))

    def header(self, name: bytes) -> bytes:
        """The first value of a request header, given in lower case."""
        return next((value for key, value in self._scope["headers"] if key == name), b"")

    def parent(self) -> Parent:
        """The trace context that the request came with."""
        return Parent.of(self.header(b"traceparent").decode("latin-1"), self.header(b"tracestate").decode("latin-1"))

    def call_head(self, mode: str, span: Span) -> dict:
        """What the worker is told about the request."""
        head: dict = {"mode": mode, "requestId": self.request_id} | span.told()
        if mode == "http":
            scope = self._scope
            head["http"] = {
                "method": self.method,
                "path": self.path.decode("latin-1"),
                "query": scope["query_string"].decode("latin-1"),
                "protocol": f"HTTP/{scope['http_version']}",
                "peer": _address(scope["client"]),
                "headers": [(name.decode("latin-1"), _header_text(value)) for name, value in scope["headers"]],
            }
        return head

    async def body(self, limit: int, idle_seconds: int) -> bytes:
        """The whole body, of at most `limit` bytes, whose parts come with no longer pause than `idle_seconds`."""
        if int(self.header(b"content-length") or 0) > limit:
            raise _Refused(problem.body_too_large(limit))
        parts, size = [], 0
        while True:
            message = await self._next_message(idle_seconds)
            if message["type"] == "http.disconnect":
                raise CallerGone
            parts.append(message["body"])
            size += len(message["body"])
            if size > limit:
                raise _Refused(problem.body_too_large(limit))
            if not message["more_body"]:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _next_message(self, idle_seconds: int) -> dict:
        try:
            async with asyncio.timeout(idle_seconds):
                return await self._receive()
        except TimeoutError:
            raise _Refused(problem.BODY_TIMEOUT) from None

    async def gone(self) -> None:
        """Returns when the caller has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def wants_body(self, status: int) -> bool:
        """Whether an answer with this status has a body at all."""
        return self.method != "HEAD" and status not in (204, 304)

    async def send_problem(self, why: Problem, more: list | None = None) -> None:
        """Answers with a problem."""
        await self.send_whole(why.status, why.headers() + (more or []), why.body(self.request_id))

    async def send_whole(self, status: int, headers: list, body: bytes) -> None:
        """Answers with a body that is there in full."""
        # A handler may answer HEAD with the length of the body it would have had.
        given = [value for name, value in headers if name == b"content-length"]
        headers = [(name, value) for name, value in headers if name != b"content-length"]
        if self.method == "HEAD" and not body and given and given[0].isdigit():
            headers.append((b"content-length", given[0]))
        elif status not in (204, 304):
            headers.append((b"content-length", str(len(body)).encode()))
        await self.send_head(status, headers)
        await self.send_part(body if self.wants_body(status) else b"", more=False)

    async def send_head(self, status: int, headers: list) -> None:
        """Begins an answer."""
        self.status = status
        if self._closing:
            headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_part(self, body: bytes, more: bool = True) -> None:
        """Sends a part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _address(client: tuple | None) -> str:
    return client[0].removeprefix("::ffff:") if client else ""


def _header_text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
