"""Finding and loading the user's handler; what goes wrong is said in words that name the thing and the remedy."""

import importlib
import inspect
import os
import site
import sys
import traceback
from typing import Any, Callable, NamedTuple


class LoadError(Exception):
    """The handler can't be loaded; the text is for its author."""


class Handler(NamedTuple):
    """The user's handler and how it wants to be called."""

    function: Callable
    wants_context: bool
    is_async: bool

    def __call__(self, event: Any, context: Any) -> Any:
        return self.function(event, context) if self.wants_context else self.function(event)


def set_search_path(root: str) -> None:
    """Puts the code, what it brought along, and what was installed for it before the standard library."""
    code = os.path.join(root, "code")
    deps = os.path.join(root, "python")
    first = [code]
    if os.path.isdir(os.path.join(code, "lib")):
        first.append(os.path.join(code, "lib"))
    sys.path[:0] = first
    if not os.path.isdir(deps):
        return
    sys.path.insert(len(first), deps)
    # Reads the .pth files too; deps itself is on the path already and keeps its place.
    before = list(sys.path)
    site.addsitedir(deps)
    added = [path for path in sys.path if path not in before]
    at = len(first) + 1
    sys.path[:] = before[:at] + added + before[at:]


def load(entrypoint: str, code: str) -> Handler:
    """Imports the module of an entrypoint such as pkg.sub.handler and takes the function out of it."""
    path, _, name = entrypoint.rpartition(".")
    module_name = path.replace("/", ".")
    if not path or not name or not all(module_name.split(".")):
        raise LoadError(f"the entrypoint {entrypoint!r} is not a module, a dot and a function, such as handler.handle")
    file = _module_file(module_name, code)
    module = _import(module_name, file, code)
    function = getattr(module, name, None)
    if function is None:
        raise LoadError(_no_function(module, file, name))
    if not callable(function):
        raise LoadError(f"{name} in {file} is a {type(function).__name__}, not a function")
    return describe(function, name, file)


def describe(function: Callable, name: str, file: str) -> Handler:
    """Finds out how a function wants to be called."""
    return Handler(function, _wants_context(function, name, file), _is_async(function))


def _module_file(module_name: str, code: str) -> str:
    relative = module_name.replace(".", "/")
    for candidate in (f"{relative}.py", f"{relative}/__init__.py"):
        if os.path.isfile(os.path.join(code, candidate)):
            return candidate
    raise LoadError(
        f"the code has no {relative}.py for the entrypoint's module {module_name}; "
        f"at its root it has {_listing(code)}. Set the entrypoint to MODULE.FUNCTION of a file that is there"
    )


def _import(module_name: str, file: str, code: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except SyntaxError as err:
        line = f" ({err.text.strip()})" if err.text else ""
        where = f"{_relative(err.filename or file, code)}, line {err.lineno}"
        raise LoadError(f"syntax error in {where}: {err.msg}{line}") from err
    except ModuleNotFoundError as err:
        where = _where(err, file, code)
        raise LoadError(
            f"{where}: no module named {err.name!r}; list what provides it in requirements.txt, "
            "or put it beside the code"
        ) from err
    except BaseException as err:
        text = f"{type(err).__name__}: {err}" if str(err) else type(err).__name__
        raise LoadError(f"{_where(err, file, code)}: importing {module_name} raised {text}") from err


def _no_function(module: Any, file: str, name: str) -> str:
    there = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
    has = f"it has {', '.join(sorted(there)[:10])}" if there else "it has no function at all"
    return f"{file} has no function {name}; {has}. Define {name}(event, context) or set the entrypoint to MODULE.FUNCTION"


def _wants_context(function: Callable, name: str, file: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    spread = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    required = sum(p.default is p.empty for p in positional)
    required_keywords = any(p.kind == p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if required > 2 or required_keywords or not (positional or spread):
        raise LoadError(f"{name} in {file} must take (event) or (event, context); it takes {inspect.signature(function)}")
    return spread or len(positional) >= 2


def _is_async(function: Callable) -> bool:
    call = getattr(type(function), "__call__", None)
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in (function, call))


def _where(err: BaseException, file: str, code: str) -> str:
    """The deepest line of the user's own code on the way to an error."""
    where = file
    for frame in traceback.extract_tb(err.__traceback__):
        if frame.filename.startswith(code + os.sep):
            where = f"{_relative(frame.filename, code)}, line {frame.lineno}"
    return where


def _relative(path: str, code: str) -> str:
    return os.path.relpath(path, code) if path.startswith(code + os.sep) else path


def _listing(code: str) -> str:
    try:
        names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in os.scandir(code))
    except OSError:
        names = []
    if not names:
        return "no file"
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
