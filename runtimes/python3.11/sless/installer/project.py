"""What the manifests ask to be installed."""

import os
import platform
import tomllib
from typing import Any

import locks
from packages import SpecifierSet, InvalidSpecifier, Requirement, canonical, required
from refused import Refused


def what_to_install(manifests: str, work: str) -> list[str]:
    """The arguments that tell pip what to install; none when there is nothing. A file they name is made in work."""
    if os.path.isfile(os.path.join(manifests, "requirements.txt")):
        return ["-r", "requirements.txt"]
    pyproject = read_pyproject(os.path.join(manifests, "pyproject.toml"))
    for name, lock in locks.KNOWN.items():
        path = os.path.join(manifests, name)
        if not os.path.isfile(path):
            continue
        pins = lock.read(path, pyproject)
        refuse_stale(lock, pins, pyproject)
        pinned = os.path.join(work, "requirements.txt")
        with open(pinned, "w", encoding="utf-8") as file:
            file.writelines(f"{pin.requirement()}\n" for pin in pins)
        # The lock has all there is and its hashes: what else a package may ask for is not looked at.
        return ["--no-deps", "--require-hashes", "-r", pinned] if pins else []
    return project_dependencies(pyproject)


def read_pyproject(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            pyproject = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise Refused(f"pyproject.toml is no TOML: {err}") from None
    refuse_other_python(str(pyproject.get("project", {}).get("requires-python", "")))
    return pyproject


def refuse_other_python(wanted: str) -> None:
    try:
        fits = SpecifierSet(wanted).contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier:
        return  # pip says so, should it matter
    if not fits:
        raise Refused(f"pyproject.toml requires Python {wanted}, and this runtime has {platform.python_version()}; use another runtime, or widen project.requires-python")


def project_dependencies(pyproject: dict[str, Any]) -> list[str]:
    """The dependencies that a pyproject.toml declares for the project itself: neither its extras nor its groups."""
    project = pyproject.get("project", {})
    if "dependencies" in project.get("dynamic", []):
        raise Refused("pyproject.toml says that its dependencies are dynamic; list them in a requirements.txt")
    dependencies = project.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(item, str) for item in dependencies):
        raise Refused("project.dependencies in pyproject.toml must be a list of strings")
    if any(item.lstrip().startswith("-") for item in dependencies):
        raise Refused("project.dependencies in pyproject.toml has an entry that begins with a dash")
    if not dependencies and set(locks.poetry_dependencies(pyproject)) - {"python"}:
        raise Refused("pyproject.toml names its dependencies for Poetry alone; put poetry.lock beside it: poetry lock")
    return dependencies


def refuse_stale(lock: locks.Lock, pins: list[locks.Pin], pyproject: dict[str, Any]) -> None:
    """A lock that was not brought up to date would leave a dependency out, or install another version of it than is wanted."""
    versions = {canonical(pin.name): pin for pin in pins}
    for requirement in map(Requirement, required(pyproject)):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        pin = versions.get(canonical(requirement.name))
        if pin is None or not (pin.url or requirement.specifier.contains(pin.version, prereleases=True)):
            raise Refused(f"{lock.name} does not have {requirement}, which pyproject.toml asks for; bring it up to date: {lock.renew}")
