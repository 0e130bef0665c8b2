"""Where the server process begins."""

import asyncio
import os

from .settings import BadSetting, Settings
from .termination import write_error


def run(program: str) -> int:
    """Serves, or runs a job, with the worker in the directory `program`. Returns the exit code."""
    try:
        settings = Settings.read()
    except BadSetting as err:
        write_error(os.environ.get("SLESS_TERMINATION_LOG") or "/dev/termination-log", str(err))
        return 1
    if settings.event_file:
        from .job import run_job

        return asyncio.run(run_job(settings, program))
    import uvloop

    from .serve import serve

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(settings, program))
