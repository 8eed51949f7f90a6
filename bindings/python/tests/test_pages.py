"""Every block of code in docs/ and README.rst runs, page by page, and prints what the page shows.

The blocks of a page run in their order in one empty directory:

    console     each `$ command` by bash (`> ` continues it); each line of output that the page shows must be
                printed, where figures stand for any figures, and "..." for any lines
    bash, sql   by bash; by duckdb
    ::          the same as console or bash, if it begins with a command; else it is no code
    with a :caption: the block is a file of that name; without: python runs, c is compiled

Comments of a page steer this; readers do not see them:

    .. first: SHELL              what runs before the next block; $SAMPLE has a program train.py and its trace t
    .. with: PYTHON              what the next block of Python begins with
    .. output varies: REASON     the output of the next block is not compared
    .. not run: REASON           the next block is only shown
    .. needs: mpirun py:torch    the next block is left out where one of these is missing
    .. page needs: py:torch      so is the whole page
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from conftest import CLEAN, PFW

SOURCE = pathlib.Path(__file__).parents[3]
DOCS = SOURCE / "docs"
# The blocks of these are run by tests of their own.
OWN_TEST = {"frames", "tutorial", "cache_dit", "parallelization", "diffulex_profiler"}
PAGES = sorted(page for page in [*DOCS.glob("**/*.rst"), SOURCE / "README.rst"] if page.stem not in OWN_TEST)
RUN = {"console", "bash", "python", "c", "fortran", "sql"}
SHOWN = {"text", "json", "none", "yaml", "ipython", "docker"}  # of these only files, by a caption

# What a launcher asks of root in a container.
ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
           "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
COMMAND = re.compile(r"(\$ |[A-Z_]+=\S+ )*(pfw (?![a-z]+:)|jq |python3? |duckdb |sqlite3 |mpirun |srun |pip |import |cc |"
                     r"#include|SELECT )", re.M)


class Block:
    """A block of code, with what the comments before it say."""

    def __init__(self, kind, text, caption, said):
        self.kind, self.text, self.caption, self.said = kind, text, caption, said


def blocks(page):
    """The blocks of a page; those behind a plain `::` are of kind `::`."""
    lines, found, said, at = page.read_text().splitlines(), [], {}, 0
    while at < len(lines):
        line, at = lines[at], at + 1
        indent = len(line) - len(line.lstrip())
        comment = re.match(r"\s*\.\. (first|with|output varies|not run|needs|page needs):(?!:)\s*(.*)", line)
        directive = re.match(r"\s*\.\. code-block:: (\S+)", line)
        literal = line.endswith("::") and not re.match(r"\s*\.\. ", line)
        if not (comment or directive or literal):
            continue
        body = []
        while at < len(lines) and (not lines[at].strip() or len(lines[at]) - len(lines[at].lstrip()) > indent):
            body.append(lines[at])
            at += 1
        if comment:
            said[comment[1]] = "\n".join([comment[2], dedented(body)]).strip()
            continue
        caption = next((one.split(":caption:")[1].strip() for one in body if ":caption:" in one), None)
        body = [one for one in body if not re.match(r"\s+:(caption|force|emphasize-lines):", one)]
        text = dedented(body)
        kind = directive[1] if directive else "::"
        if kind == "::" and COMMAND.match(text):
            kind = "console" if text.startswith("$ ") else "bash"
        found.append(Block(kind, text, caption, said))
        said = {key: value for key, value in said.items() if key == "page needs"}
    return found


def dedented(body):
    depth = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    return "\n".join(line[depth:] for line in body).strip("\n") + "\n"


def missing(words):
    """Which of these programs and modules (py:NAME) are not here."""
    return [word for word in words.split()
            if not (importlib.util.find_spec(word[3:]) if word.startswith("py:") else
                    shutil.which(word, path=f"{PFW.parent}:{CLEAN['PATH']}"))]


def masked(line):
    """A line of output without what differs from run to run: figures with their units, rules, blanks."""
    line = re.sub(r"\d[\d,.]*(?:e-?\d+)?(?: ?(?:ns|us|µs|ms|s|min|[KMGT]i?B|B|%)(?:/s)?(?![\w/]))?", "#", line)
    return re.sub(r"\s+", " ", re.sub(r"-{3,}|={3,}", "-", line)).strip()


class Shell:
    """Runs the blocks of a page."""

    def __init__(self, directory, sample):
        self.directory = directory
        self.environment = {**CLEAN, **ALLOWED, "PATH": f"{PFW.parent}:{CLEAN['PATH']}", "LC_ALL": "C.UTF-8",
                            "SOURCE": str(SOURCE), "SAMPLE": str(sample), "XDG_CACHE_HOME": str(directory / ".cache")}

    def words(self, *words):
        done = subprocess.run(words, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300)
        assert done.returncode == 0, f"{words[-1]}\nstatus {done.returncode}:\n{done.stdout}"
        return done.stdout.replace(str(self.directory), "/tmp/demo")

    def bash(self, text):
        return self.words("bash", "-e", "-c", text)

    def console(self, text, compared=True):
        commands = []
        for line in text.splitlines():
            if line.startswith("$ "):
                commands.append(([line[2:]], []))
            elif line.startswith("> "):
                commands[-1][0].append(line[2:])
            else:
                commands[-1][1].append(line)
        for command, shown in commands:
            printed = self.bash("\n".join(command))
            lines = {masked(line) for line in printed.splitlines()}
            lost = [line for line in shown if line.strip() not in ("", "...") and masked(line) not in lines]
            assert not (lost and compared), "\n".join(["not printed by", *command, ":", *lost, "printed was:", printed])

    def python(self, text):
        (self.directory / "block.py").write_text(text)
        self.words(sys.executable, "block.py")

    def c(self, text):
        (self.directory / "block.c").write_text(text)
        self.bash("cc -Wall -Werror -c block.c $(pfw config --cflags)")

    def sql(self, text):
        import duckdb
        with duckdb.connect() as connection:
            connection.execute(f"SET file_search_path = '{self.directory}'")
            assert connection.execute(text).fetchall()

    def block(self, block):
        if "first" in block.said:
            self.bash(block.said["first"])
        if "not run" in block.said:
            return
        if block.caption:
            (self.directory / block.caption).write_text(block.text)
        elif block.kind == "console":
            self.console(block.text, "output varies" not in block.said)
        elif block.kind in RUN:
            getattr(self, block.kind)("\n".join([block.said.get("with", ""), block.text]))


SAMPLE = """
import sys
import pfw
for step in range(12):
    with pfw.span("load"), open(f"{step % 3}.bin", "wb") as out:
        out.write(bytes(100000))
    pfw.step()
if "torch" in sys.argv:
    import torch
    from pfw.torch import trace_handler
    with torch.profiler.profile(profile_memory=True, on_trace_ready=trace_handler):
        for batch in torch.utils.data.DataLoader(torch.randn(32, 8), batch_size=4):
            torch.nn.Linear(8, 8)(batch).sum().backward()
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A directory with a program and its trace: spans, steps, counters and I/O; with PyTorch operators and memory."""
    directory = tmp_path_factory.mktemp("sample")
    (directory / "train.py").write_text(SAMPLE)
    Shell(directory, directory).bash("PFW_COUNTERS=10ms pfw run -q -o t -- python train.py " +
                                     "torch" * bool(importlib.util.find_spec("torch")))
    return directory


@pytest.mark.parametrize("page", [page for page in PAGES if any(one.kind in RUN for one in blocks(page))],
                         ids=lambda page: page.stem)
def test_page(page, sample):
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="p") as directory:  # tables cut long names of files
        run_page(page, Shell(pathlib.Path(directory), sample))


def run_page(page, shell):
    left_out = []
    for block in blocks(page):
        if block.kind == "::":
            continue
        lack = missing(block.said.get("page needs", ""))
        if lack:
            pytest.skip(f"no {', '.join(lack)}")
        lack = missing(block.said.get("needs", ""))
        if lack:
            left_out.append(f"no {', '.join(lack)}: {block.text.splitlines()[0]}")
        else:
            shell.block(block)
    if left_out:
        pytest.skip("all but " + "; ".join(left_out))


def test_each_block_is_run_or_says_why_not():
    wrong = [f"{page.name}: {block.kind}: {block.text.splitlines()[0]}"
             for page in PAGES for block in blocks(page)
             if not (block.kind in RUN | SHOWN | {"::"} and len(block.said.get("not run", "a reason")) > 5)]
    assert not wrong, "\n".join(wrong)
