"""What the end-to-end tests share is there for these, too."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
