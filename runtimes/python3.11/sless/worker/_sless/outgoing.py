"""Requests that a call makes carry its trace context, when they are made by http.client: urllib, requests, urllib3, boto3 and others."""

import functools
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from . import output

_MODULE = "http.client"


def install() -> None:
    """Has http.client add the headers, from when it is imported: importing it costs more than the rest of the worker's start."""
    if os.environ.get("OTEL_PROPAGATORS") != "none":
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds http.client as Python does, once, and changes it when it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module: Any) -> None:
                execute(module)
                _change(module)

            spec.loader.exec_module = execute_and_change
        return spec


def _change(client: Any) -> None:
    end = client.HTTPConnection.endheaders

    @functools.wraps(end)
    def endheaders(connection: Any, *args: Any, **kwargs: Any) -> None:
        context = output.current().context
        # _buffer is the lines of the head so far. Who sets a context himself has his reasons.
        if context and not any(line[:12].lower() == b"traceparent:" for line in getattr(connection, "_buffer", ())):
            for name, value in context.items():
                connection.putheader(name, value)
        end(connection, *args, **kwargs)

    client.HTTPConnection.endheaders = endheaders
