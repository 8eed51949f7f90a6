"""pfw.query, pfw.read, python -m pfw and the notebook's magic."""
import sys

import pytest

import pfw

PROGRAM = """
    import pfw
    pfw.start("t")
    for i in range(5):
        with pfw.span(f"work {i % 2}", number=i, text="x"):
            with open("file", "w") as file:
                file.write("y" * i)
    pfw.event("exact", 1_700_000_000_123_456_789, 1_001)
    """


@pytest.fixture
def trace(run):
    run.script(PROGRAM)
    return run.directory / "t.pfw"


def test_lines_that_fulfil_conditions(trace):
    assert [event["args"]["number"] for event in pfw.query(trace, cat="app", name="work*")] == [0, 1, 2, 3, 4]
    exact, = pfw.query([trace], name="exact")
    assert (exact["ts"], exact["dur"]) == (1_700_000_000_123_456_789, 1_001)
    assert len(list(pfw.query(trace, where="args.number > 1", limit=2))) == 2
    assert next(pfw.query(trace, meta=True))["name"] == "process"
    stopped = pfw.query(trace)
    next(stopped)
    stopped.close()


def test_what_cannot_be_read(trace):
    with pytest.raises(ValueError):
        list(pfw.query(trace.parent / "none"))
    with pytest.raises(ValueError):
        list(pfw.query(trace, where="(("))


def test_a_frame(trace):
    pandas = pytest.importorskip("pandas")
    frame = pfw.read(trace, cat="app")
    assert isinstance(frame, pandas.DataFrame) and frame["ts"].dtype == "int64"
    assert list(frame[frame["name"].str.startswith("work")]["args.number"]) == [0, 1, 2, 3, 4]
    assert frame[frame["name"] == "exact"]["ts"].item() == 1_700_000_000_123_456_789
    writes = pfw.read(trace, name="write", where='args.fname =~ "/file$"')
    assert writes["args.ret"].sum() == 10 and (writes["dur"] > 0).all()


def test_the_command_as_a_module(run):
    assert run.command(sys.executable, "-m", "pfw", "--version") == f"pfw {pfw.__version__}\n"
    run.command(sys.executable, "-m", "pfw", "table", "none", status=2)


def test_notebook(run):
    pytest.importorskip("IPython")
    run.script("""
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_line_magic("load_ext", "pfw")
        shell.run_cell("def twice(x):\\n    return [x for _ in range(2)]")
        shell.run_cell_magic("pfw", "first --calls", "made = twice(3)\\nopen('f', 'w').write('x')")
        assert shell.user_ns["made"] == [3, 3]
        shell.run_cell_magic("pfw", "second --quiet", "1 / 0")
        print("on")
        """)
    lines = run.lines("notebook.pfw")
    assert {line["name"]: line["cat"] for line in lines if line["cat"] == "cell"} == \
        {"first": "cell", "second": "cell"}
    assert "twice" in [line["name"] for line in lines if line["cat"] == "python"]
    assert "ZeroDivisionError" in run.output and run.output.endswith("on\n")
    assert "notebook.pfw" in run.output and "write" in run.output
    table = run.output[run.output.index("I/O\n"):run.output.index("I/O time total")].splitlines()
    assert len(table) > 4 and max(map(len, table)) <= 100
