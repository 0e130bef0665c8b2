"""Job mode: one call of the handler, its result in the termination log."""

import asyncio
import signal

from _sless import wire

from .function import Function
from .settings import Settings
from .termination import write_error, write_result
from .tracing import Parent, Tracer
from .worker import Crashed, TimedOut


class _Failed(Exception):
    """The job has no result; the text says why."""


async def run_job(settings: Settings, program: str) -> int:
    """Runs the job and returns the exit code."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    job = asyncio.ensure_future(_result(settings, program))
    stop = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({job, stop}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if not job.done():
            raise _Failed("stopped before the handler was done")
        write_result(settings.termination_log, job.result())
        return 0
    except _Failed as err:
        write_error(settings.termination_log, str(err))
        return 1
    finally:
        stop.cancel()
        job.cancel()
        await asyncio.wait({job})


async def _result(settings: Settings, program: str) -> bytes:
    event = _read(settings.event_file)
    function = Function(settings, program)
    tracer = Tracer()
    try:
        await function.start()
        if error := await function.first_load:
            raise _Failed(error)
        function.reserve()
        call = function.new_call(await function.worker())
        with tracer.span(Parent.of_environment(), settings.request_id) as span:
            frame = await call.begin({"mode": "value", "requestId": settings.request_id} | span.told(), event)
            if frame.kind != wire.ANSWER:
                span.code = frame.head["code"]
                raise _Failed(frame.head["error"])
        return frame.body
    except TimedOut:
        raise _Failed(f"the handler was not done within its time-out of {settings.timeout_seconds} s") from None
    except Crashed as err:
        raise _Failed(str(err)) from None
    finally:
        await function.close()
        tracer.close(patient=True)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as err:
        raise _Failed(f"read the event: {err}") from None
