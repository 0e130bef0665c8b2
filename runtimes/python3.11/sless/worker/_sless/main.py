"""The life of the worker process: load the handler, say so, serve calls until the server closes the socket."""

import asyncio
import os
import socket
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

from . import outgoing, output, wire
from .call import Call
from .context import Function
from .load import Handler, LoadError, load, set_search_path

# Sync calls beyond this many wait for a thread; a pod's limit on processes and threads is not far above it.
_MAX_THREADS = 200


def main(fd: int) -> None:
    """Runs the worker on the socket with this number."""
    os.set_inheritable(fd, False)
    output.install()
    outgoing.install()
    connection = socket.socket(fileno=fd)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # for modules that ask for a loop when they are imported
    root = os.environ.get("SLESS_ROOT") or "/function"
    try:
        handler = _load(root)
    except LoadError as err:
        connection.setblocking(True)
        connection.sendall(wire.encode(wire.FAILED, 0, {"error": str(err)}))
        sys.exit(1)
    asyncio.set_event_loop(loop)
    worker = _Worker(handler, _function(), loop)
    loop.run_until_complete(loop.create_connection(lambda: worker, sock=connection))
    loop.run_forever()
    _leave(busy=bool(worker.calls))


def _load(root: str) -> Handler:
    code = os.path.realpath(os.path.join(root, "code"))
    set_search_path(os.path.realpath(root))
    try:
        return load(os.environ.get("SLESS_ENTRYPOINT") or "handler.handle", code)
    except LoadError as err:
        if err.__cause__ is not None:
            traceback.print_exception(err.__cause__)
        raise


def _function() -> Function:
    env = os.environ.get
    return Function(
        name=env("SLESS_FUNCTION", ""),
        namespace=env("SLESS_NAMESPACE", ""),
        revision=env("SLESS_REVISION", ""),
        timeout_seconds=float(env("SLESS_TIMEOUT_SECONDS") or 60),
    )


class _Worker(asyncio.Protocol):
    """The worker's end of the socket."""

    def __init__(self, handler: Handler, function: Function, loop: asyncio.AbstractEventLoop) -> None:
        self._handler = handler
        self._function = function
        self._loop = loop
        self._thread = threading.get_ident()  # the loop's
        self._decoder = wire.Decoder()
        self._pool = ThreadPoolExecutor(_threads(), thread_name_prefix="sless")
        self._transport: asyncio.Transport | None = None
        self.calls: dict[int, Call] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(wire.encode(wire.LOADED, 0))

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            if frame.kind == wire.CALL:
                self._start(frame)
            elif (call := self.calls.get(frame.call)) is None:
                continue  # it ended while the frame was on its way
            elif frame.kind == wire.NEXT:
                call.pull()
            elif frame.kind == wire.CANCEL:
                call.cancel(frame.head.get("reason", ""))

    def connection_lost(self, exc: Exception | None) -> None:
        self._loop.stop()

    def _start(self, frame: wire.Frame) -> None:
        number = frame.call

        def send(data: bytes, final: bool) -> None:
            if threading.get_ident() == self._thread:
                self._send(number, data, final)
            else:
                self._loop.call_soon_threadsafe(self._send, number, data, final)

        self.calls[number] = call = Call(frame, self._handler, self._function, send)
        call.start(self._loop, self._pool)

    def _send(self, number: int, data: bytes, final: bool) -> None:
        if final:
            self.calls.pop(number, None)
        self._transport.write(data)


def _threads() -> int:
    try:
        concurrency = int(os.environ.get("SLESS_CONCURRENCY") or 0)
    except ValueError:
        concurrency = 0
    return min(concurrency, _MAX_THREADS) if concurrency > 0 else _MAX_THREADS


def _leave(busy: bool) -> None:
    """Ends the process. With calls still running nobody would hear their end, so their threads aren't waited for."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if busy:
        os._exit(0)
    sys.exit(0)
