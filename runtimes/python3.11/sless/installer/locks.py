"""What the lock files of other tools pin, for the project itself: neither its extras nor its groups of development."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from packages import applies, canonical
from refused import Refused


@dataclass(frozen=True)
class Pin:
    """One package at one version."""

    name: str
    version: str
    hashes: tuple[str, ...]
    url: str = ""

    def requirement(self) -> str:
        what = f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"
        return " ".join([what, *(f"--hash={text}" for text in self.hashes)])


@dataclass(frozen=True)
class Lock:
    """A kind of lock file. export makes a requirements.txt of one, and renew brings one up to date."""

    name: str
    export: str
    renew: str
    parse: Callable[[str], dict[str, Any]]
    pins: Callable[[dict[str, Any], dict[str, Any]], Iterator[Pin]]

    def read(self, path: str, pyproject: dict[str, Any]) -> list[Pin]:
        try:
            with open(path, encoding="utf-8") as file:
                content = self.parse(file.read())
        except ValueError as err:  # both parsers' errors are
            raise Refused(f"{self.name} can't be read: {err}; make it anew: {self.renew}") from None
        found: dict[str, Pin] = {}
        try:
            for pin in self.pins(content, pyproject):
                if not pin.hashes:
                    raise Unpinned(pin.name, "has no hash")
                found.setdefault(canonical(pin.name), pin)
        except Unpinned as err:
            raise Refused(f"{self.name}: {err}; put a requirements.txt beside it: {self.export}") from None
        except (KeyError, TypeError, AttributeError) as err:
            raise Refused(f"{self.name} has not the form that is known ({err!r}); put a requirements.txt beside it: {self.export}") from None
        return list(found.values())


class Unpinned(Exception):
    """The lock has something for which there is no name, version and hash."""

    def __init__(self, name: str, why: str):
        super().__init__(f"{name} {why}")


def local_or_git(name: str, source: dict[str, Any], kinds: Iterable[str]) -> None:
    for kind in kinds:
        if source.get(kind):
            raise Unpinned(name, f"comes from {kind} {source[kind]}, of which there is no hash" if isinstance(source[kind], str) else f"comes from {kind}, of which there is no hash")


def pylock(content: dict[str, Any], _: dict[str, Any]) -> Iterator[Pin]:
    """PEP 751."""
    groups = content.get("default-groups", [])

    def decided(match: re.Match[str]) -> str:
        wanted = match["name"] in groups and match["set"] == "dependency_groups"
        return "python_version >= '0'" if wanted != bool(match["no"]) else "python_version < '0'"

    for package in content["packages"]:
        marker = re.sub(r"""["'](?P<name>[^"']*)["']\s+(?P<no>not\s+)?in\s+(?P<set>extras|dependency_groups)""", decided, package.get("marker", ""))
        if not applies(marker):
            continue
        local_or_git(package["name"], package, ("vcs", "directory"))
        archive = package.get("archive")
        files = [archive] if archive else [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        hashes = tuple(f"sha256:{file['hashes']['sha256']}" for file in files)
        yield Pin(package["name"], package.get("version", ""), hashes, archive["url"] if archive else "")


def pipfile(content: dict[str, Any], _: dict[str, Any]) -> Iterator[Pin]:
    for name, package in content.get("default", {}).items():
        if applies(package.get("markers")):
            local_or_git(name, package, ("git", "path", "file"))
            yield Pin(name, package["version"].removeprefix("=="), tuple(package.get("hashes", ())))


def pdm(content: dict[str, Any], _: dict[str, Any]) -> Iterator[Pin]:
    for package in content.get("package", []):
        name = package["name"]
        if "groups" not in package:
            raise Unpinned(name, "is in a lock file that does not say what is for development")
        if "default" in package["groups"] and applies(package.get("marker")):
            local_or_git(name, package, ("git", "path"))
            yield Pin(name, package["version"], tuple(file["hash"] for file in package.get("files", [])), package.get("url", ""))


@dataclass(frozen=True)
class Edge:
    """One package asks for another."""

    name: str
    marker: str = ""
    extras: tuple[str, ...] = ()
    version: str = ""


@dataclass
class Node:
    """A package of a lock file that says what each package asks for, and not under what conditions it is needed at all."""

    name: str
    version: str
    pin: Callable[[], Pin]
    edges: list[Edge] = field(default_factory=list)
    extras: dict[str, list[Edge]] = field(default_factory=dict)


def reached(roots: list[Edge], nodes: list[Node]) -> Iterator[Pin]:
    """The pins that are needed here. A package is visited once for each set of extras that it is asked for with."""
    by_name: dict[str, list[Node]] = {}
    for node in nodes:
        by_name.setdefault(canonical(node.name), []).append(node)
    waiting, seen = [edge for edge in roots if applies(edge.marker)], set()
    while waiting:
        edge = waiting.pop()
        for node in by_name.get(canonical(edge.name), []):
            visit = (node.name, node.version, edge.extras)
            if visit in seen or edge.version not in ("", node.version):
                continue
            seen.add(visit)
            yield node.pin()
            extras = list(edge.extras)
            asked = [*node.edges, *(more for extra in extras for more in node.extras.get(extra, []))]
            waiting += [more for more in asked if applies(more.marker, extras)]


def uv(content: dict[str, Any], _: dict[str, Any]) -> Iterator[Pin]:
    def edges(dependencies: list[dict[str, Any]]) -> list[Edge]:
        return [Edge(d["name"], d.get("marker", ""), tuple(d.get("extra", ())), d.get("version", "")) for d in dependencies]

    def pin(package: dict[str, Any]) -> Pin:
        name, source = package["name"], package["source"]
        local_or_git(name, source, ("git", "path", "directory", "editable", "virtual"))
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        return Pin(name, package["version"], tuple(file["hash"] for file in files if "hash" in file), source.get("url", ""))

    roots, nodes = [], []
    for package in content.get("package", []):
        own = edges(package.get("dependencies", []))
        if "." in (package["source"].get("virtual"), package["source"].get("editable"), package["source"].get("directory")):
            roots += own
            continue
        extras = {name: edges(more) for name, more in package.get("optional-dependencies", {}).items()}
        nodes.append(Node(package["name"], package.get("version", ""), lambda package=package: pin(package), own, extras))
    return reached(roots, nodes)


def poetry(content: dict[str, Any], pyproject: dict[str, Any]) -> Iterator[Pin]:
    def pin(package: dict[str, Any]) -> Pin:
        source = package.get("source", {})
        if source.get("type") in ("git", "directory", "file"):
            raise Unpinned(package["name"], f"comes from a {source['type']}, {source.get('url')}, of which there is no hash")
        return Pin(package["name"], package["version"], tuple(f["hash"] for f in package.get("files", [])), source["url"] if source.get("type") == "url" else "")

    packages = content.get("package", [])
    if all("groups" in package for package in packages):
        for package in packages:
            marker = package.get("markers", "")
            if isinstance(marker, dict):
                marker = marker.get("main", "")
            if "main" in package["groups"] and not package.get("optional") and applies(marker):
                yield pin(package)
        return
    # Poetry 1 leaves it to the reader to find out what is needed.
    nodes = [Node(p["name"], p["version"], lambda p=p: pin(p), list(poetry_edges(p.get("dependencies", {})))) for p in packages]
    yield from reached(list(poetry_edges(poetry_dependencies(pyproject))), nodes)


def poetry_dependencies(pyproject: dict[str, Any]) -> dict[str, Any]:
    return pyproject.get("tool", {}).get("poetry", {}).get("dependencies", {})


def poetry_edges(dependencies: dict[str, Any]) -> Iterator[Edge]:
    for name, forms in dependencies.items():
        for form in forms if isinstance(forms, list) else [forms]:
            form = form if isinstance(form, dict) else {}
            marker = form.get("markers", "")
            if name != "python" and not (form.get("optional") and "extra" not in marker):
                yield Edge(name, marker, tuple(form.get("extras", ())))


# In the order in which they are looked for.
KNOWN = {
    lock.name: lock
    for lock in (
        Lock("pylock.toml", "uv export --no-dev -o requirements.txt", "the tool that made it", tomllib.loads, pylock),
        Lock("uv.lock", "uv export --no-dev --no-emit-project -o requirements.txt", "uv lock", tomllib.loads, uv),
        Lock("poetry.lock", "poetry export -o requirements.txt", "poetry lock", tomllib.loads, poetry),
        Lock("pdm.lock", "pdm export --prod -o requirements.txt", "pdm lock", tomllib.loads, pdm),
        Lock("Pipfile.lock", "pipenv requirements --hash > requirements.txt", "pipenv lock", json.loads, pipfile),
    )
}
