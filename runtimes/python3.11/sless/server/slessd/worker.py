"""One worker process, seen from the server."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from typing import Callable, Protocol

from _sless import wire

from . import leftovers

_LAST_FRAMES_SECONDS = 0.5


class TimedOut(Exception):
    """The handler did not come to the next step of its call in time."""


class Crashed(Exception):
    """The worker process ended under the call; the text says how."""


class CallerGone(Exception):
    """Nobody waits for the call any more."""


class Owner(Protocol):
    """Who is told what happens to a worker."""

    def loaded(self, worker: "Worker") -> None:
        """The worker takes calls from now on."""

    def ended(self, worker: "Worker", error: str) -> None:
        """Its process is gone; the error is the one of loading the handler, or how it ended."""

    def overdue(self, worker: "Worker") -> None:
        """One of its calls is past its time."""

    def idle(self, worker: "Worker") -> None:
        """A call has ended; none is left that deserves to be waited for."""


class Call:
    """A call in a worker, for the one who waits for its answer."""

    def __init__(self, worker: "Worker", number: int, timeout: float, done: Callable[[], None]) -> None:
        self._worker = worker
        self._number = number
        self._timeout = timeout
        self._done: Callable[[], None] | None = done
        self._waiter: asyncio.Future | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._abandoned = False

    @property
    def running(self) -> bool:
        """Whether the handler is at it and still has time."""
        return self._done is not None

    async def begin(self, head: dict, body: bytes) -> wire.Frame:
        """Sends the call and waits for the first frame about it."""
        return await self._step(wire.CALL, head, body)

    async def next(self) -> wire.Frame:
        """Waits for the next part of a stream."""
        return await self._step(wire.NEXT, None, b"")

    def abandon(self) -> None:
        """Takes the call back. It goes on to count as running until the worker says that it has ended."""
        if self._abandoned or not self.running:
            return
        self._abandoned = True
        self._worker.send(wire.CANCEL, self._number, {"reason": "gone"})
        if self._timer is None:
            self._arm()
        self._wake(CallerGone())

    def got(self, frame: wire.Frame) -> None:
        """The worker sent a frame about this call."""
        if frame.final:
            self._finish()
        elif not self._abandoned:
            self._disarm()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(frame)

    def crashed(self, how: str) -> None:
        """The worker is gone."""
        self._finish()
        self._wake(Crashed(how))

    async def _step(self, kind: int, head: dict | None, body: bytes) -> wire.Frame:
        if self._abandoned:
            raise CallerGone
        if not self.running:
            raise Crashed("the function's process ended")
        self._waiter = self._worker.loop.create_future()
        self._arm()
        self._worker.send(kind, self._number, head, body)
        return await self._waiter

    def _arm(self) -> None:
        self._timer = self._worker.loop.call_later(self._timeout, self._expire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        self._finish()
        self._worker.send(wire.CANCEL, self._number, {"reason": "timeout"})
        self._wake(TimedOut())
        self._worker.overdue()

    def _finish(self) -> None:
        self._disarm()
        done, self._done = self._done, None
        if done is not None:
            done()

    def _wake(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class Worker(asyncio.Protocol):
    """A worker process, once it is started, and its calls."""

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._owner = owner
        self._mark = uuid.uuid4().hex
        self._decoder = wire.Decoder()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen | None = None
        self._calls: dict[int, Call] = {}
        self._last = 0
        self.load_error = ""
        self._exit_code: int | None = None
        self._leaving = False
        self.gone = loop.create_future()

    async def start(self, program: str) -> None:
        """Starts the process from the directory `program`. It may be loaded before this ends."""
        ours, theirs = socket.socketpair()
        with theirs:
            # -S: the site-packages of the image are the runtime's affair. -B: the code lies where nobody may write.
            self._process = subprocess.Popen(
                [sys.executable, "-B", "-S", "-X", "utf8", program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, leftovers.MARK: self._mark},
            )
        threading.Thread(target=self._wait_for_process, daemon=True).start()
        await self.loop.create_connection(lambda: self, sock=ours)

    @property
    def busy(self) -> bool:
        """Whether it has a call that deserves to be waited for."""
        return any(call.running for call in self._calls.values())

    @property
    def empty(self) -> bool:
        """Whether every call has ended, or said where it is when its time was up."""
        return not self._calls

    def new_call(self, timeout: float, done: Callable[[], None]) -> Call:
        """Makes a call; it does nothing yet. `done` is called once, when the call no longer counts as running."""
        self._last += 1
        self._calls[self._last] = call = Call(self, self._last, timeout, done)
        return call

    def send(self, kind: int, number: int, head: dict | None = None, body: bytes = b"") -> None:
        """Sends a frame; to a worker that is gone it goes nowhere, its calls are told otherwise."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(wire.encode(kind, number, head, body))

    def overdue(self) -> None:
        """A call is past its time."""
        self._owner.overdue(self)

    def kill(self) -> None:
        """Ends the process and everything that it started."""
        if not self.gone.done():
            leftovers.kill(self._mark, self._process.pid)

    async def leave(self, grace: float) -> None:
        """Lets the process end by itself, and ends it when it does not."""
        self._leaving = True
        self._transport.close()
        await asyncio.wait({self.gone}, timeout=grace)
        self.kill()

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            if frame.kind == wire.LOADED:
                self._owner.loaded(self)
            elif frame.kind == wire.FAILED:
                self.load_error = frame.head["error"]
            else:
                self._deliver(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._exit_code is not None:
            self._finish()
        elif not self._leaving:
            self.kill()  # it closed its end without ending: nothing can reach it any more

    def _deliver(self, frame: wire.Frame) -> None:
        call = self._calls.get(frame.call)
        if call is None:
            return
        if frame.final:
            del self._calls[frame.call]
        call.got(frame)
        if frame.final:
            self._owner.idle(self)

    # The end of the process.

    def _wait_for_process(self) -> None:
        code = self._process.wait()
        try:
            self.loop.call_soon_threadsafe(self._ended, code)
        except RuntimeError:
            pass  # the loop is closed: the server itself is leaving

    def _ended(self, code: int) -> None:
        self._exit_code = code
        self.kill()  # one that ended by itself may have left children
        if self._transport.is_closing():
            self._finish()
        else:
            # Its last frames may still be in the socket; connection_lost comes after them.
            self.loop.call_later(_LAST_FRAMES_SECONDS, self._finish)

    def _finish(self) -> None:
        if self.gone.done():
            return
        self.gone.set_result(None)
        self._transport.close()
        how = self.load_error or _how(self._exit_code)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.crashed(how)
        self._owner.ended(self, how)


def _how(code: int) -> str:
    if code >= 0:
        return f"the function's process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = "; was it out of memory?" if -code == signal.SIGKILL else ""
    return f"the function's process was ended by {name}{hint}"
