"""The server process: it owns the port, the clocks and the limits, and keeps the user's handler in a worker process.

Its libraries lie in a directory of their own that the worker never sees.
"""

import os
import sys


def _main() -> int:
    here = os.path.dirname(os.path.abspath(__file__))
    home = os.path.dirname(here)
    sys.path[:0] = [
        here,
        os.path.join(home, "worker"),  # for _sless.wire, which both sides share
        os.environ.get("SLESS_VENDOR") or os.path.join(home, "vendor"),
    ]
    from slessd.run import run

    return run(os.path.join(home, "worker"))


if __name__ == "__main__":
    sys.exit(_main())
