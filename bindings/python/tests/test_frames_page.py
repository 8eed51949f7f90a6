"""All blocks of docs/frames.rst run, in order, on a trace; what they say of ns and bytes agrees."""
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import CLEAN, PFW
from test_cluster import write_process

for module in ("pandas", "pyarrow", "polars", "duckdb", "dask.dataframe", "distributed"):
    pytest.importorskip(module)

import duckdb

import pfw

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "frames.rst"
BLOCKS = re.findall(r"^\.\. code-block:: (\w+)\n(?:    :force:\n)?\n((?:    .*\n|\n)+)", PAGE.read_text(), re.M)


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    for rank in range(3):
        write_process(directory / f"t-rank{rank:04}.pfw", rank, 3, 1000 + rank, rank)
    return directory


def dedented(text):
    return re.sub(r"^    ", "", text, flags=re.M)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block(where, number):
    kind, text = BLOCKS[number][0], dedented(BLOCKS[number][1])
    if kind == "sql":
        with duckdb.connect() as connection:
            connection.execute(f"SET file_search_path = '{where}'")
            rows = connection.execute(text).fetchall()
        assert rows
        if "read_json" in text:  # the same as by pfw
            of_file = pfw.read(where, name="read").duckdb().aggregate(
                '"args.fname", count(*), sum("args.ret"), sum(dur)', '"args.fname"').fetchall()
            assert sorted(rows) == sorted(of_file)
        return
    if kind == "python":
        (where / f"block{number}.py").write_text(text)
        assert len([line for line in text.splitlines() if line.strip()]) <= 14
    words = [sys.executable, f"block{number}.py"] if kind == "python" else ["bash", "-e", "-c", text]
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, check=False, timeout=300,
                          env={**CLEAN, "PATH": f"{PFW.parent}:{CLEAN['PATH']}"})
    assert done.returncode == 0 and (done.stdout or "export" in text), done.stdout + done.stderr
    assert "Warning" not in done.stderr, done.stderr


def test_the_page_has_blocks_of_each():
    assert [kind for kind, _ in BLOCKS].count("python") == 7 and {"bash", "sql"} < {kind for kind, _ in BLOCKS}
