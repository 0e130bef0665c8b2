"""What is read from the lock files of other tools: for the project itself, here, and nothing that has no hash."""

import json
import os
import tempfile
import textwrap
import unittest

import paths  # noqa: F401
import project
from refused import Refused

PYPROJECT = """
[project]
name = "x"
version = "1"
dependencies = ["a[more]>=1", "w; sys_platform == 'win32'"]

[dependency-groups]
dev = ["d"]
"""

# Each has the same: a with its extra, which brings m; b by a; w for another system; d for development; old for an older Python.
UV = """
version = 1

[[package]]
name = "a"
version = "1.5"
source = { registry = "https://index.example.org/simple" }
dependencies = [
    { name = "b", version = "1.0", source = { registry = "https://index.example.org/simple" }, marker = "python_full_version < '3.11'" },
    { name = "b", version = "2.0", source = { registry = "https://index.example.org/simple" }, marker = "python_full_version >= '3.11'" },
    { name = "old", marker = "python_full_version < '3.9'" },
]
sdist = { url = "https://files.example.org/a.tar.gz", hash = "sha256:a0" }
wheels = [{ url = "https://files.example.org/a.whl", hash = "sha256:a1" }]

[package.optional-dependencies]
more = [{ name = "m" }]
never = [{ name = "old" }]

[[package]]
name = "b"
version = "1.0"
source = { registry = "https://index.example.org/simple" }
sdist = { url = "https://files.example.org/b1.tar.gz", hash = "sha256:b1" }

[[package]]
name = "b"
version = "2.0"
source = { registry = "https://index.example.org/simple" }
dependencies = [{ name = "a" }]
sdist = { url = "https://files.example.org/b2.tar.gz", hash = "sha256:b2" }

[[package]]
name = "d"
version = "1"
source = { git = "https://git.example.org/d?rev=1#1" }

[[package]]
name = "m"
version = "3"
source = { url = "https://files.example.org/m.whl" }
wheels = [{ url = "https://files.example.org/m.whl", hash = "sha256:m" }]

[[package]]
name = "old"
version = "1"
source = { registry = "https://index.example.org/simple" }

[[package]]
name = "w"
version = "1"
source = { registry = "https://index.example.org/simple" }

[[package]]
name = "x"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "a", extra = ["more"] }, { name = "w", marker = "sys_platform == 'win32'" }]

[package.dev-dependencies]
dev = [{ name = "d" }]
"""

POETRY_2 = """
[[package]]
name = "a"
version = "1.5"
optional = false
groups = ["main", "dev"]
markers = {main = "python_version >= '3.9'", dev = "python_version < '3'"}
files = [{file = "a.whl", hash = "sha256:a1"}, {file = "a.tar.gz", hash = "sha256:a0"}]

[[package]]
name = "b"
version = "2.0"
optional = false
groups = ["main"]
files = [{file = "b.tar.gz", hash = "sha256:b2"}]

[[package]]
name = "d"
version = "1"
optional = false
groups = ["dev"]
files = []

[[package]]
name = "m"
version = "3"
optional = false
groups = ["main"]
files = [{file = "m.whl", hash = "sha256:m"}]
source = {type = "url", url = "https://files.example.org/m.whl"}

[[package]]
name = "old"
version = "1"
optional = true
groups = ["main"]
files = []

[[package]]
name = "w"
version = "1"
optional = false
groups = ["main"]
markers = "sys_platform == 'win32'"
files = []
"""

POETRY_1 = """
[[package]]
name = "a"
version = "1.5"
optional = false
files = [{file = "a.whl", hash = "sha256:a1"}, {file = "a.tar.gz", hash = "sha256:a0"}]

[package.dependencies]
b = ">=2"
m = {version = "*", optional = true, markers = "extra == \\"more\\""}
old = {version = "*", markers = "python_version < \\"3.9\\""}

[package.extras]
more = ["m"]

[[package]]
name = "b"
version = "2.0"
optional = false
files = [{file = "b.tar.gz", hash = "sha256:b2"}]

[[package]]
name = "d"
version = "1"
optional = false
files = []

[[package]]
name = "m"
version = "3"
optional = true
files = [{file = "m.whl", hash = "sha256:m"}]
source = {type = "url", url = "https://files.example.org/m.whl"}
"""

POETRY_1_PROJECT = """
[tool.poetry.dependencies]
python = "^3.11"
a = {version = ">=1", extras = ["more"]}
w = {version = "*", markers = "sys_platform == 'win32'"}
d = {version = "*", optional = true}

[tool.poetry.group.dev.dependencies]
d = "*"
"""

PDM = """
[[package]]
name = "a"
version = "1.5"
groups = ["default"]
files = [{file = "a.whl", hash = "sha256:a1"}, {file = "a.tar.gz", hash = "sha256:a0"}]

[[package]]
name = "a"
version = "1.5"
extras = ["more"]
groups = ["default"]
files = [{file = "a.whl", hash = "sha256:a1"}, {file = "a.tar.gz", hash = "sha256:a0"}]

[[package]]
name = "b"
version = "2.0"
groups = ["default", "dev"]
files = [{file = "b.tar.gz", hash = "sha256:b2"}]

[[package]]
name = "d"
version = "1"
groups = ["dev"]
git = "https://git.example.org/d"

[[package]]
name = "m"
version = "3"
groups = ["default"]
url = "https://files.example.org/m.whl"
files = [{url = "https://files.example.org/m.whl", hash = "sha256:m"}]

[[package]]
name = "w"
version = "1"
groups = ["default"]
marker = "sys_platform == 'win32'"
"""

PYLOCK = """
lock-version = "1.0"
default-groups = ["main"]

[[packages]]
name = "a"
version = "1.5"
marker = "'main' in dependency_groups and 'never' not in extras"
sdist = { url = "https://files.example.org/a.tar.gz", hashes = { sha256 = "a0" } }
wheels = [{ url = "https://files.example.org/a.whl", hashes = { sha256 = "a1" } }]

[[packages]]
name = "b"
version = "2.0"
sdist = { url = "https://files.example.org/b.tar.gz", hashes = { sha256 = "b2" } }

[[packages]]
name = "d"
marker = "'dev' in dependency_groups"
vcs = { type = "git", url = "https://git.example.org/d" }

[[packages]]
name = "m"
archive = { url = "https://files.example.org/m.whl", hashes = { sha256 = "m" } }

[[packages]]
name = "w"
version = "1"
marker = "sys_platform == 'win32'"
"""

PIPFILE = json.dumps({
    "default": {
        "a": {"version": "==1.5", "hashes": ["sha256:a1", "sha256:a0"], "extras": ["more"]},
        "b": {"version": "==2.0", "hashes": ["sha256:b2"], "markers": "python_version >= '3.9'"},
        "w": {"version": "==1", "hashes": [], "markers": "sys_platform == 'win32'"},
    },
    "develop": {"d": {"git": "https://git.example.org/d"}},
})

ALL = {
    "a==1.5": {"sha256:a0", "sha256:a1"},
    "b==2.0": {"sha256:b2"},
    "m @ https://files.example.org/m.whl": {"sha256:m"},
}
NO_URL = {name: hashes for name, hashes in ALL.items() if "@" not in name}  # Pipfile.lock knows no archives by address


class ReadsLocks(unittest.TestCase):
    """The arguments for pip, and the file they name."""

    def ask(self, **files):
        with tempfile.TemporaryDirectory() as manifests, tempfile.TemporaryDirectory() as work:
            for name, text in files.items():
                with open(os.path.join(manifests, name), "w", encoding="utf-8") as file:
                    file.write(textwrap.dedent(text))
            arguments = project.what_to_install(manifests, work)
            if "--require-hashes" not in arguments:
                return arguments
            self.assertIn("--no-deps", arguments)
            with open(arguments[-1], encoding="utf-8") as file:
                lines = [line.strip().split(" --hash=") for line in file]
        return {name: set(hashes) for name, *hashes in lines}

    def test_every_kind(self):
        for name, text, pyproject, want in (
            ("uv.lock", UV, PYPROJECT, ALL), ("poetry.lock", POETRY_2, PYPROJECT, ALL), ("poetry.lock", POETRY_1, POETRY_1_PROJECT, ALL),
            ("pdm.lock", PDM, PYPROJECT, ALL), ("pylock.toml", PYLOCK, PYPROJECT, ALL), ("Pipfile.lock", PIPFILE, "", NO_URL),
        ):
            with self.subTest(name):
                self.assertEqual(self.ask(**{name: text, "pyproject.toml": pyproject}), want)

    def test_requirements_go_first(self):
        self.assertEqual(self.ask(**{"uv.lock": UV, "pyproject.toml": PYPROJECT, "requirements.txt": "b"}), ["-r", "requirements.txt"])

    def test_nothing_to_install(self):
        self.assertEqual(self.ask(**{"uv.lock": "version = 1\n", "pyproject.toml": "[project]\nname = 'x'\n"}), [])

    def test_refused(self):
        for name, text, pyproject, says in (
            ("uv.lock", UV.replace('{ registry = "https://index.example.org/simple" }\ndependencies = [{ name = "a" }]', '{ git = "https://git.example.org/b#1" }'), PYPROJECT, ["b comes from git", "uv export"]),
            ("uv.lock", UV.replace(', hash = "sha256:b2"', ""), PYPROJECT, ["b has no hash", "uv export"]),
            ("uv.lock", UV, PYPROJECT.replace("a[more]>=1", "a>=2"), ["uv.lock does not have a>=2", "uv lock"]),
            ("pdm.lock", PDM, PYPROJECT.replace('"a[more]>=1"', '"a", "new"'), ["pdm.lock does not have new", "pdm lock"]),
            ("pdm.lock", PDM.replace('groups = ["default"]', ""), PYPROJECT, ["does not say what is for development", "pdm export"]),
            ("poetry.lock", POETRY_2.replace('type = "url"', 'type = "directory"'), PYPROJECT, ["m comes from a directory", "poetry export"]),
            ("poetry.lock", "[[package]]\nname = 'a'\ngroups = ['main']\n", "", ["poetry.lock has not the form", "poetry export"]),
            ("Pipfile.lock", "{", "", ["Pipfile.lock can't be read", "pipenv lock"]),
            ("pylock.toml", PYLOCK.replace("sys_platform ==", "platform_colour =="), "", ["the marker", "platform_colour"]),
            ("uv.lock", UV, PYPROJECT.replace('version = "1"', 'version = "1"\nrequires-python = ">=3.12"'), ["requires Python >=3.12"]),
            ("other.lock", "", POETRY_1_PROJECT, ["poetry.lock beside it"]),
        ):
            with self.subTest(says=says), self.assertRaises(Refused) as caught:
                self.ask(**{name: text, "pyproject.toml": pyproject})
            for part in says:
                self.assertIn(part, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
