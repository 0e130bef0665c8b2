"""What keeps the credentials of an index out of logs and results."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

import paths  # noqa: F401
from credentials import Secrets
from refused import Refused


class HidesSecrets(unittest.TestCase):
    """The file with the values, and what is done with them."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = made.name
        listed = self.write("list", "secret-one\nsecret-one-and-more\npin\n")
        self.secrets = Secrets(listed)
        os.remove(listed)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_the_longest_goes_first(self):
        self.assertEqual(self.secrets.hide("secret-one-and-more, secret-one, pin."), "***, ***, ***.")

    def test_output_of_programs(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = self.secrets.run([sys.executable, "-c", "import sys; print('is secret-one'); print('and pin', file=sys.stderr); sys.exit(3)"], self.directory)
        self.assertEqual((code, sorted(output.getvalue().splitlines())), (3, ["and ***", "is ***"]))

    def test_files(self):
        self.write("clean", "pin")
        self.secrets.refuse_in(self.directory)
        self.write("guilty", "x secret-one x")
        with self.assertRaisesRegex(Refused, "build.secretName.*guilty"):
            self.secrets.refuse_in(self.directory)
        Secrets(None).refuse_in("/nowhere")


if __name__ == "__main__":
    unittest.main()
