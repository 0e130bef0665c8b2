import os
import subprocess

from refused import Refused

# Shorter values would be found in files that have nothing to do with them.
SHORTEST_TO_SEARCH = 8


class Secrets:
    """The values, one on a line of a file, that neither the log nor the result may have."""

    def __init__(self, path: str | None):
        lines: list[str] = []
        if path:
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
        self.values = sorted((line for line in lines if line), key=len, reverse=True)

    def hide(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, "***")
        return text

    def run(self, command: list[str], cwd: str) -> int:
        """Runs a program, hides the values in what it writes, and returns its exit code."""
        if not self.values:
            return subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, check=False).returncode
        with subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            for line in process.stdout or ():
                print(self.hide(line), end="", flush=True)
        return process.returncode

    def refuse_in(self, directory: str) -> None:
        searched = [value for value in self.values if len(value) >= SHORTEST_TO_SEARCH]
        if not searched:
            return
        found = subprocess.run(["grep", "-rlF", "-f", "-", directory], input="\n".join(searched), capture_output=True, text=True, check=False)
        if found.returncode == 1:
            return
        files = ", ".join(found.stdout.split("\n")[:5]) or "the files can not be searched"
        raise Refused(f"a credential of build.secretName would be in the image: {files}; see which package writes it there")
