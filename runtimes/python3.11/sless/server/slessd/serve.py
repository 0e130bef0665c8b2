"""Serving: the function's worker and the HTTP server in front of it, from start to stop."""

import asyncio

from .function import Function
from .settings import Settings
from .termination import write_error


async def serve(settings: Settings, program: str) -> int:
    """Serves until SIGTERM, or until the handler turns out not to load. Returns the exit code."""
    function = Function(settings, program)
    await function.start()
    # Only now: the handler loads in its process while the libraries load in this one.
    from .app import App
    from .httpd import Server, listen
    from .tracing import Tracer

    try:
        sock = listen(settings.port)
    except OSError as err:
        write_error(settings.termination_log, f"listen on port {settings.port}: {err}")
        await function.close()
        return 1
    tracer = Tracer()
    server = Server(settings, App(settings, function, tracer), function)
    serving = asyncio.ensure_future(server.serve([sock]))
    await asyncio.wait({serving, function.first_load}, return_when=asyncio.FIRST_COMPLETED)
    error = function.first_load.result() if function.first_load.done() else ""
    if error:
        write_error(settings.termination_log, error)
        server.should_exit = server.force_exit = True
    await serving
    await function.close()
    tracer.close()
    return 1 if error else 0
