"""The worker process: it loads the user's handler and runs it for the server at the other end of a socket.

It uses the standard library alone and takes its own directory off the search path before any of the
user's code runs, so nothing of the runtime shadows what the user installs.
"""

import sys

if __name__ == "__main__":
    from _sless.main import main

    del sys.path[0]
    main(int(sys.argv[1]))
