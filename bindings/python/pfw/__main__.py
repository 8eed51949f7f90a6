"""``python -m pfw``: the command."""
import os
import sys

from ._command import path

os.execv(path(), ["pfw", *sys.argv[1:]])
