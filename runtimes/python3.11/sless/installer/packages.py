"""Names, versions and markers of packages, as pip itself understands them: by the library that pip carries along."""

from collections.abc import Sequence
from typing import Any

from pip._vendor.packaging.markers import InvalidMarker, Marker
from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
from pip._vendor.packaging.specifiers import InvalidSpecifier, SpecifierSet
from pip._vendor.packaging.utils import canonicalize_name as canonical

from refused import Refused

__all__ = ["InvalidSpecifier", "Requirement", "SpecifierSet", "applies", "canonical", "required"]


def applies(marker: str | None, extras: Sequence[str] = ()) -> bool:
    """Whether a marker holds here, with one of the extras or without any."""
    if not marker:
        return True
    try:
        parsed = Marker(marker)
        return any(parsed.evaluate({"extra": extra}) for extra in ["", *extras])
    except (InvalidMarker, KeyError, ValueError) as err:
        raise Refused(f"the marker {marker!r} can't be understood: {err}") from None


def required(pyproject: dict[str, Any]) -> list[str]:
    """The requirements of the project itself that can be understood; pip says what it thinks of others."""
    found = []
    for text in pyproject.get("project", {}).get("dependencies", []):
        try:
            Requirement(text)
        except (InvalidRequirement, TypeError):
            continue
        found.append(text)
    return found
