"""One call of the handler, from its CALL frame to its final frame."""

import asyncio
import inspect
import json
import queue
import sys
import traceback
from concurrent.futures import Executor
from typing import Any, Callable, Iterator

from . import output, wire
from .answer import Answer, BadAnswer, chunk_bytes, chunk_type, http_answer, is_stream, value_json
from .context import Context, Function, Interruptible, RequestCancelled
from .event import http_event
from .load import Handler


class BadEvent(Exception):
    """The event is not the JSON that it should be."""


class Call:
    """A call. Sync user code runs in a thread of the pool and async code on the loop.

    `send` takes the bytes of a frame and whether it is the final one; it is used from both.
    """

    def __init__(self, frame: wire.Frame, handler: Handler, function: Function, send: Callable[[bytes, bool], None]) -> None:
        self._number = frame.call
        self._request = frame.head
        self._body = frame.body
        self._handler = handler
        self._send_bytes = send
        self._is_http = frame.head["mode"] == "http"
        self._interruptible = Interruptible()
        self._pulls: queue.SimpleQueue = queue.SimpleQueue()  # True: the next part is wanted; False: no more
        self._pulled: asyncio.Event | None = None  # the same for a stream on the loop
        self._task: asyncio.Task | None = None
        trace = frame.head.get("trace") or {}
        self.context = Context(frame.head["requestId"], function, trace)
        self._origin = output.Origin(frame.head["requestId"], trace)

    def start(self, loop: asyncio.AbstractEventLoop, pool: Executor) -> None:
        """Begins; called on the loop."""
        self._loop, self._pool = loop, pool
        if self._handler.is_async:
            self._task = loop.create_task(self._guard_async(self._run_async()))
        else:
            self._submit(self._run_sync)

    def pull(self) -> None:
        """Asks a stream for its next part; called on the loop."""
        if self._pulled is not None:
            self._pulled.set()
        else:
            self._pulls.put(True)

    def cancel(self, reason: str) -> None:
        """Takes the call back; called on the loop. A call past its time only shows where it is: it is killed soon."""
        self.context.cancelled = True
        if reason == "timeout":
            self._print_where()
            self._send(wire.END)
            return
        if self._task is not None:
            self._task.cancel()
        self._pulls.put(False)
        self._interruptible.interrupt()

    # Sync handlers.

    def _run_sync(self) -> None:
        result = self._interruptible.run(self._handler, self._event(), self.context)
        if inspect.isawaitable(result):
            self._go_on_async(self._await_and_settle(result))
        elif hasattr(result, "__anext__"):
            self._go_on_async(self._settle_async(result))
        else:
            self._settle_sync(result)

    def _go_on_async(self, coroutine: Any) -> None:
        def begin() -> None:
            self._task = self._loop.create_task(self._guard_async(coroutine))

        self._loop.call_soon_threadsafe(begin)

    def _settle_sync(self, result: Any) -> None:
        if not self._is_http:
            if is_stream(result):
                result = self._interruptible.run(list, result)
            self._send_value(result)
            return
        answer = http_answer(result)
        if answer.stream is None:
            self._send_answer(answer)
        elif hasattr(answer.stream, "__anext__"):
            self._go_on_async(self._stream_async(answer))
        else:
            self._stream_sync(answer)

    def _stream_sync(self, answer: Answer) -> None:
        items = answer.stream
        try:
            if not self._begin_stream(answer, lambda: self._next_sync(items)):
                return
            while self._pulls.get():
                item = self._next_sync(items)
                if item is _NOTHING:
                    break
                self._send(wire.CHUNK, None, chunk_bytes(item))
            self._send(wire.END)
        finally:
            _close(items)

    def _next_sync(self, items: Iterator) -> Any:
        return self._interruptible.run(next, items, _NOTHING)

    def _begin_stream(self, answer: Answer, first: Callable[[], Any]) -> bool:
        """Sends the head of a stream; a stream without a type of its own gets it from its first item."""
        if not answer.guess_type:
            self._send_head(answer, answer.headers, b"", stream=True)
            return True
        item = first()
        return self._send_guessed(answer, item)

    def _send_guessed(self, answer: Answer, item: Any) -> bool:
        headers = [("Content-Type", chunk_type(item))]
        if item is _NOTHING:
            self._send_head(answer, headers, b"")
            return False
        self._send_head(answer, headers, chunk_bytes(item), stream=True)
        return True

    # Async handlers.

    async def _run_async(self) -> None:
        result = self._handler(self._event(), self.context)
        await self._await_and_settle(result)

    async def _await_and_settle(self, result: Any) -> None:
        if inspect.isawaitable(result):
            result = await result
        await self._settle_async(result)

    async def _settle_async(self, result: Any) -> None:
        if not self._is_http:
            if hasattr(result, "__anext__"):
                result = [item async for item in result]
            self._send_value(list(result) if is_stream(result) else result)
            return
        answer = http_answer(result)
        if answer.stream is None:
            self._send_answer(answer)
        elif hasattr(answer.stream, "__anext__"):
            await self._stream_async(answer)
        else:
            # Its items may block: a thread is the place for them.
            self._task = None
            self._submit(lambda: self._stream_sync(answer))

    async def _stream_async(self, answer: Answer) -> None:
        items, self._pulled = answer.stream, asyncio.Event()
        try:
            if answer.guess_type:
                if not self._send_guessed(answer, await anext(items, _NOTHING)):
                    return
            else:
                self._send_head(answer, answer.headers, b"", stream=True)
            while True:
                await self._pulled.wait()
                self._pulled.clear()
                item = await anext(items, _NOTHING)
                if item is _NOTHING:
                    break
                self._send(wire.CHUNK, None, chunk_bytes(item))
            self._send(wire.END)
        finally:
            if hasattr(items, "aclose"):
                await items.aclose()

    # Both.

    def _event(self) -> Any:
        body, self._body = self._body, b""
        if self._is_http:
            return http_event(self._request["http"], self.context.request_id, body)
        if not body.strip():
            return None
        try:
            return json.loads(body)
        except ValueError as err:
            raise BadEvent(f"the body is no JSON: {err}") from None

    def _submit(self, step: Callable[[], None]) -> None:
        try:
            self._pool.submit(self._guard_sync, step)
        except RuntimeError as err:
            # No thread more is to be had. The step is queued all the same and waits for one that gets free.
            self._print_error(f"waiting for a thread: {err}\n")

    def _guard_sync(self, step: Callable[[], None]) -> None:
        with output.of(self._origin):
            try:
                step()
            except BaseException as err:
                self._failed(err)
            finally:
                self._end_lines()

    async def _guard_async(self, step: Any) -> None:
        with output.of(self._origin):
            try:
                await step
            except BaseException as err:
                self._failed(err)
            finally:
                self._end_lines()

    def _failed(self, err: BaseException) -> None:
        if isinstance(err, (RequestCancelled, asyncio.CancelledError)) and self.context.cancelled:
            self._send(wire.END)
            return
        kind = type(err).__name__
        if isinstance(err, BadEvent):
            self._send(wire.ERROR, {"code": "bad_request", "error": str(err)})
        elif isinstance(err, BadAnswer):
            self._print_error(f"{err}\n")
            self._send(wire.ERROR, {"code": "function_failed", "type": "an answer that can't be sent", "error": str(err)})
        else:
            text = f"{kind}: {err}" if str(err) else kind
            self._print_error(f"the handler raised {text}\n{_trace(err)}")
            self._send(wire.ERROR, {"code": "function_failed", "type": kind, "error": text})

    def _print_where(self) -> None:
        thread = self._interruptible.thread
        frame = sys._current_frames().get(thread) if thread is not None else None
        if frame is not None:
            stack = "".join(traceback.format_list(_own_frames(traceback.extract_stack(frame))))
            self._print_error(f"past its time-out, the handler is at\n{stack}")
        output.flush(self._origin)

    def _print_error(self, text: str) -> None:
        # In one piece, so that the lines of calls at the same time stay together.
        with output.of(self._origin):
            sys.stderr.write(f"sless: {text}")

    def _end_lines(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()  # the handler may have put one of its own there
            except (OSError, ValueError, AttributeError):
                pass
        output.finish(self._origin)

    def _send_value(self, value: Any) -> None:
        self._send(wire.ANSWER, {"status": 200, "headers": [("Content-Type", "application/json")]}, value_json(value))

    def _send_answer(self, answer: Answer) -> None:
        self._send_head(answer, answer.headers, answer.body)

    def _send_head(self, answer: Answer, headers: list, body: bytes, stream: bool = False) -> None:
        head: dict = {"status": answer.status, "headers": headers}
        if stream:
            head["stream"] = True
        self._send(wire.ANSWER, head, body)

    def _send(self, kind: int, head: dict | None = None, body: bytes = b"") -> None:
        final = wire.is_final(kind, head)
        self._send_bytes(wire.encode(kind, self._number, head, body), final)


_NOTHING = object()


def _close(items: Any) -> None:
    if hasattr(items, "close"):
        items.close()


def _own_frames(stack: traceback.StackSummary) -> list:
    here = __file__.rsplit("/", 1)[0]
    own = [frame for frame in stack]
    while own and not own[0].filename.startswith(here):
        own.pop(0)
    return [frame for frame in own if not frame.filename.startswith(here)] or list(stack)


def _trace(err: BaseException) -> str:
    """The traceback without the runtime's own frames at its top."""
    here = __file__.rsplit("/", 1)[0]
    tb = err.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(here):
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(err), err, tb or err.__traceback__))
