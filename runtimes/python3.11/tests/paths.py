"""Puts what is tested on the search path, as its processes have it."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SLESS = os.path.join(os.path.dirname(HERE), "sless")

sys.path[:0] = [os.path.join(SLESS, "server"), os.path.join(SLESS, "worker"), os.path.join(SLESS, "installer")]
