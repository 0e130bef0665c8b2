"""The HTTP server: uvicorn, with a drain that loses nothing."""

import asyncio
import logging
import socket
import time
from types import FrameType

import uvicorn

from .app import App
from .function import Function
from .protocol import Protocol
from .settings import Settings

_KEEP_ALIVE_SECONDS = 620  # longer than any client keeps an idle connection, so that none is closed under a request


def listen(port: int) -> socket.socket:
    """A listening socket for both families, or for IPv4 where there is no other."""
    try:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        host = "::"
    except OSError:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        host = "0.0.0.0"
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    return sock


class Server(uvicorn.Server):
    """uvicorn, but for what it does on SIGTERM."""

    def __init__(self, settings: Settings, app: App, function: Function) -> None:
        # Its own lines say nothing that the platform does not know; the handler's log stays the handler's.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            )
        )
        self._settings = settings
        self._app = app
        self._function = function
        self._drain: asyncio.Task | None = None
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn on SIGTERM and SIGINT."""
        self._loop.call_soon_threadsafe(self._start_drain)

    def _start_drain(self) -> None:
        if self._drain is None:
            self._drain = self._loop.create_task(self._drained())

    async def _drained(self) -> None:
        # Requests still come for a moment, until whoever sends them knows that this pod is going.
        self._app.draining = True
        began = time.monotonic()
        while self._function.running or time.monotonic() - max(began, self._app.last_request) < self._settings.drain_seconds:
            await asyncio.sleep(0.05)
        self.should_exit = True
