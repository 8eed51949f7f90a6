"""``python -m pfw``: the command."""
import os
import sys

from ._command import path

# By a path beside this Python, so that `run` takes it for the current one.
os.execv(path(), [os.path.join(os.path.dirname(sys.executable), "pfw"), *sys.argv[1:]])
