"""The function as the server keeps it: one worker that takes calls, and those that only end what they began."""

import asyncio
import sys

from .settings import Settings
from .worker import Call, Worker

_LOAD_SECONDS = 300
_LAST_WORDS_SECONDS = 2
_LONGEST_RETRY_SECONDS = 30


class Function:
    """Owner of the workers; it admits calls and replaces a worker that is overdue or dead."""

    def __init__(self, settings: Settings, program: str) -> None:
        self._settings = settings
        self._program = program
        self._current: Worker | None = None
        self._loading: Worker | None = None
        self._retiring: set[Worker] = set()
        self._available = asyncio.Event()
        self._retry_seconds = 1
        self._closed = False
        self._tasks: set[asyncio.Task] = set()
        self.running = 0
        self.load_error = ""
        self.first_load: asyncio.Future = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Starts the first worker. `first_load` becomes its load error, or "" once it is loaded."""
        await self._spawn()

    @property
    def serving(self) -> bool:
        """Whether a call would reach the handler, if need be after a wait for its next worker."""
        return self.first_load.done() and not self.load_error

    @property
    def full(self) -> bool:
        """Whether another call is one too many."""
        return 0 < self._settings.concurrency <= self.running

    async def worker(self) -> Worker:
        """The worker for a new call; waits while there is none."""
        while self._current is None:
            self._available.clear()
            await self._available.wait()
        return self._current

    @property
    def current(self) -> Worker | None:
        """The worker for a new call, when there is one at once."""
        return self._current

    def reserve(self) -> None:
        """Counts a call as running; `release` takes that back."""
        self.running += 1

    def release(self) -> None:
        """A call no longer counts."""
        self.running -= 1

    def new_call(self, worker: Worker) -> Call:
        """Makes the call of a reservation, which ends with it."""
        return worker.new_call(self._settings.timeout_seconds, self.release)

    async def close(self) -> None:
        """Ends all workers: the one that takes calls by itself, the others now or at their last words."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._loading is not None:
            self._loading.kill()
        if self._retiring:
            await asyncio.wait({worker.gone for worker in self._retiring}, timeout=_LAST_WORDS_SECONDS)
        for worker in list(self._retiring):
            worker.kill()
        if self._current is not None:
            await self._current.leave(grace=2)

    # worker.Owner.

    def ended(self, worker: Worker, error: str) -> None:
        """A worker's process is gone: the one that takes calls is replaced, a failed load is told or tried again."""
        self._retiring.discard(worker)
        if self._closed:
            return
        if worker is self._current:
            self._current = None
            _log(f"{error}; starting another")
            self._later(0)
        elif worker is self._loading:
            self._loading = None
            self._failed(error)

    def overdue(self, worker: Worker) -> None:
        """A call of this worker is past its time: the worker takes no more, and goes when its other calls are done."""
        if worker is self._current:
            _log("a call is past its time-out; its worker is replaced")
            self._current = None
            self._retiring.add(worker)
            self._later(0)
        self.idle(worker)

    def idle(self, worker: Worker) -> None:
        """A call has ended. A worker that retires goes when the last one has; an overdue call may still say where it is."""
        if worker not in self._retiring or worker.busy:
            return
        if worker.empty:
            worker.kill()
        else:
            asyncio.get_running_loop().call_later(_LAST_WORDS_SECONDS, worker.kill)

    def loaded(self, worker: Worker) -> None:
        """The handler is loaded in this worker."""
        if worker is not self._loading:
            return
        self._loading, self._current = None, worker
        self.load_error, self._retry_seconds = "", 1
        self._available.set()
        if not self.first_load.done():
            self.first_load.set_result("")

    def _failed(self, error: str) -> None:
        self.load_error = error
        if not self.first_load.done():
            self.first_load.set_result(error)
            return
        _log(f"loading the handler again failed: {error}")
        self._later(self._retry_seconds)
        self._retry_seconds = min(2 * self._retry_seconds, _LONGEST_RETRY_SECONDS)

    def _later(self, seconds: float) -> None:
        async def spawn() -> None:
            await asyncio.sleep(seconds)
            await self._spawn()

        task = asyncio.get_running_loop().create_task(spawn())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _spawn(self) -> None:
        loop = asyncio.get_running_loop()
        # Known before it starts: on a busy machine the handler may be loaded by the time that starting ends.
        self._loading = worker = Worker(self, loop)
        try:
            await worker.start(self._program)
        except OSError as err:
            self.ended(worker, f"start the function's process: {err}")
            return
        loop.call_later(_LOAD_SECONDS, self._give_up_loading, worker)

    def _give_up_loading(self, worker: Worker) -> None:
        if worker is self._loading:
            worker.load_error = f"the handler was not loaded within {_LOAD_SECONDS} s; do less when the module is imported"
            worker.kill()


def _log(text: str) -> None:
    sys.stderr.write(f"sless: {text}\n")
