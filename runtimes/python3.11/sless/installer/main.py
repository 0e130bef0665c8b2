"""Fills /deps/python from the manifests of a function; see CONTRACT.md section 7."""

import compileall
import os
import py_compile
import shutil
import sys
import tempfile

import project
from credentials import Secrets
from refused import Refused


def main() -> int:
    """Runs the step and says in one last line how it went."""
    manifests = os.environ.get("SLESS_MANIFESTS") or "/manifests"
    target = os.path.join(os.environ.get("SLESS_DEPS") or "/deps", "python")
    secrets = Secrets(os.environ.get("SLESS_SECRETS_FILE"))
    try:
        shutil.rmtree(target, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="sless-install-") as work:
            wanted = project.what_to_install(manifests, work)
            os.makedirs(target)
            if wanted:
                pip_install(manifests, target, wanted, work, secrets)
                compile_all(target)
        secrets.refuse_in(target)
    except Refused as err:
        print(f"sless install: {secrets.hide(str(err))}", flush=True)
        return 1
    print(f"sless install: {count(target)} packages installed", flush=True)
    return 0


def pip_install(manifests: str, target: str, wanted: list[str], work: str, secrets: Secrets) -> None:
    """Runs pip in a writable copy of the manifests, since building from a source tree writes beside it."""
    copy = os.path.join(work, "manifests")
    # A mounted ConfigMap has hidden directories of its own and links into them.
    shutil.copytree(manifests, copy, ignore=shutil.ignore_patterns("..*"), ignore_dangling_symlinks=True)
    command = [
        *(sys.executable, "-m", "pip", "install", "--target", target, "--no-compile", "--no-input"),
        *("--progress-bar", "off", "--no-warn-script-location", "--disable-pip-version-check"),
        *("--cache-dir", os.path.join(work, "cache"), *wanted),
    ]
    code = secrets.run(command, copy)
    if code != 0:
        raise Refused(f"pip failed with exit code {code}; what it says above names the requirement and the reason")


def compile_all(target: str) -> None:
    """Compiles to files that stay valid whatever time an image gives them; code that does not compile is left as it is."""
    compileall.compile_dir(target, quiet=2, workers=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def count(target: str) -> int:
    """How many packages are there."""
    return sum(name.endswith(".dist-info") for name in os.listdir(target))


if __name__ == "__main__":
    sys.exit(main())
