"""The tests of docs/security.rst: what the end-to-end tests have, and a place that other users can reach."""
import importlib.util
import pathlib
import shutil
import sys
import tempfile

import pytest

E2E = pathlib.Path(__file__).parent.parent / "e2e"
sys.path[:0] = [str(E2E)]
spec = importlib.util.spec_from_file_location("e2e_conftest", E2E / "conftest.py")
sanitizers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sanitizers)
pytest_collection_modifyitems = sanitizers.pytest_collection_modifyitems


@pytest.fixture
def place():
    """A directory that every user can reach, unlike pytest's own."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="pfw-security-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)
