"""Fail, naming what to install, when the end-to-end tests cannot run; they are never skipped."""
import importlib.util
import shutil
import sys

MODULES = {"pytest": "python3-pytest", "pandas": "python3-pandas",
           "numpy": "python3-numpy"}
PROGRAMS = {"jq": "jq", "readelf": "binutils", "nm": "binutils", "strace": "strace",
            "sqlite3": "sqlite3", "git": "git", "make": "make", "cc": "gcc"}

missing = {package for name, package in MODULES.items() if not importlib.util.find_spec(name)}
missing |= {package for name, package in PROGRAMS.items() if not shutil.which(name)}
if missing:
    sys.exit("the end-to-end tests need: apt-get install " + " ".join(sorted(missing)))
