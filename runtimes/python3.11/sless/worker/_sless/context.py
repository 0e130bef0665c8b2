"""What a handler is told about its call besides the event, and how a call is taken back."""

import ctypes
import threading
import time
from typing import Any, Callable, NamedTuple


class RequestCancelled(BaseException):
    """Raised in a sync handler whose caller is gone. Not an Exception, so that `except Exception` lets it pass."""


class Function(NamedTuple):
    """The function that this process serves."""

    name: str = ""
    namespace: str = ""
    revision: str = ""
    timeout_seconds: float = 60


class Context:
    """The second argument of a handler."""

    def __init__(self, request_id: str, function: Function, trace: dict[str, str] | None = None) -> None:
        self.request_id = request_id
        self.traceparent = (trace or {}).get("traceparent", "")
        self.tracestate = (trace or {}).get("tracestate", "")
        self.function_name = function.name
        self.function_namespace = function.namespace
        self.function_version = function.revision
        self.cancelled = False
        self._deadline = time.monotonic() + function.timeout_seconds

    def get_remaining_time_in_millis(self) -> int:
        """How long the handler may still take, in milliseconds; 0 when its time is up."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


class Interruptible:
    """Runs steps of user code in a thread so that another thread can raise RequestCancelled in them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards both below
        self._thread: int | None = None
        self._interrupted = False

    @property
    def thread(self) -> int | None:
        """The thread that runs user code now."""
        return self._thread

    def run(self, step: Callable, *args: Any) -> Any:
        """Runs one step; raises RequestCancelled instead when the call was interrupted before."""
        with self._lock:
            if self._interrupted:
                raise RequestCancelled
            self._thread = threading.get_ident()
        try:
            return step(*args)
        finally:
            self._disarm()

    def interrupt(self) -> None:
        """Raises RequestCancelled at the next bytecode of the running step, or before the next one. Works once."""
        with self._lock:
            if self._interrupted:
                return
            self._interrupted = True
            if self._thread is not None:
                _set_async_exception(self._thread, ctypes.py_object(RequestCancelled))

    def _disarm(self) -> None:
        # An exception that was set too late for the step must not hit the pool's own code: it either arrives in
        # here, where it is swallowed, or is taken back under the lock. There is only ever one.
        thread = threading.get_ident()
        for _ in range(2):
            try:
                with self._lock:
                    self._thread = None
                    _set_async_exception(thread, None)
                return
            except RequestCancelled:
                continue


def _set_async_exception(thread: int, exception: Any) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)
