"""The tables of commands as rows and frames, what a notebook shows, and plots."""
import _thread
import _thread
import html.parser
import json
import os
import signal
import sys
import threading

import pytest

import pfw
from conftest import PFW
from pfw import _reader, _tables

PROGRAM = """
    import pfw, sys
    pfw.set_rank(int(sys.argv[1]), 2)
    pfw.start("t")
    for i in range(4):
        with pfw.span("work", number=i):
            with open("<b>&'file", "w") as file:
                file.write("y" * 3000 * i)
        pfw.step()
    """


@pytest.fixture
def trace(run):
    for rank in range(2):
        run.script(PROGRAM, rank)
    return run.directory


def printed(run, command, *options):
    return [json.loads(line) for line in run.command(PFW, command, "-q", "--format", "ndjson", *options, "--",
                                                     run.directory).splitlines()]


def same(row, wanted):
    """Times are printed with three decimals, ts in µs."""
    for name, value in wanted.items():
        given = row[name]
        if name in ("ts", "peak_ts") and given is not None:
            given /= 1000
        assert given == value or (isinstance(given, float) and abs(given - value) < 1e-3 + 1e-9 * abs(value)) or \
            (given is None and value in ("", "all")), (name, given, value)


@pytest.mark.parametrize("command, options, words", [
    ("table", {}, []), ("table", {"group_by": ["name", "rank"], "sort_by": "count"}, ["-g", "name,rank", "-s", "count"]),
    ("table", {"group_by": "fname", "columns": ["count", "bytes"], "ranks": 1},
     ["-g", "fname", "--columns", "count,bytes", "-r", "1"]),
    ("table", {"plain": True, "where": ["dur > 1us", "ph == 'X'"], "row_limit": 3, "cat": ["app", "POSIX"]},
     ["-p", "--where", "dur > 1us", "--where", "ph == 'X'", "--row-limit", "3", "--cat", "app", "--cat", "POSIX"]),
    ("overlap", {}, []), ("overlap", {"ranks": [0, 1]}, ["-r", "0,1"]), ("overlap", {"steps": True}, ["--steps"]),
    ("overlap", {"bins": 5}, ["--bins", "5"]), ("patterns", {"small": 4096}, ["--small", "4096"]),
])
def test_rows_are_those_of_the_command(run, trace, command, options, words):
    wanted = printed(run, command, *words)
    if command == "overlap":
        last = "step" if "steps" in options else "bin" if "bins" in options else "rank"
        wanted = [{name: value for name, value in row.items() if name != "type"} for row in wanted if row["type"] == last]
    rows = getattr(pfw, command)(trace, **options).rows()
    assert len(rows) == len(wanted) > 0
    for row, line in zip(rows, wanted):
        same(row, line)


def test_frames(trace):
    pyarrow = pytest.importorskip("pyarrow")
    pandas, polars, duckdb = map(pytest.importorskip, ("pandas", "polars", "duckdb"))
    table = pfw.table(trace, group_by="name,rank")
    columns = table.columns()
    assert table._parts() == [table]  # unlike lines, in however large traces
    assert table.arrow().to_pydict() == pyarrow.table(table).to_pydict() == columns
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and str(frame["count"].dtype) == "int64[pyarrow]"
    assert str(frame["total"].dtype) == "double[pyarrow]" and frame["rank"].tolist() == columns["rank"]
    assert table.to_polars()["total"].to_list() == columns["total"]
    assert table.to_polars().schema["rank"] == polars.Int64
    assert table.duckdb().filter("section = 'io'").sum("count").fetchall()[0][0] == \
        sum(count for section, count in zip(columns["section"], columns["count"]) if section == "io")
    with duckdb.connect() as other:
        assert len(pfw.overlap(trace).duckdb(other).fetchall()) == 3
    overlap = pfw.overlap(trace).to_pandas()
    assert overlap["type"].tolist() == ["rank", "rank", "all"] and str(overlap["ts"].dtype) == "int64[pyarrow]"
    assert overlap["rank"].isna().tolist() == [False, False, True]
    assert overlap["ts"].min() == min(line["ts"] for line in pfw.query(trace))


def test_memory(run):
    run.script("""
        import pfw
        pfw.start("t")
        for number in range(5):
            pfw.compute_event("[memory]", 1_700_000_000_000_000_000 + 1000 * number, 0, kind="memory", device=1, device_index=0,
                              addr=number, bytes=100)
        """)
    device, = pfw.memory(run.directory).rows()
    same(device, *(row for row in printed(run, "memory") if row["section"] == "device"))
    assert (device["allocations"], device["peak_bytes"], device["device"]) == (5, 500, "cuda:0")
    assert device["peak_ts"] == 1_700_000_000_000_004_000
    assert len(pfw.memory(run.directory, rows="unfreed", row_limit=3).rows()) == 3
    assert len(pfw.memory(run.directory, rows="time", bins=4).rows()) == 4
    with pytest.raises(ValueError, match="memory: rows all: want device, step"):
        pfw.memory(run.directory, rows="all").rows()


def test_compare(run, trace):
    one, other = trace / "t-rank0000.pfw", trace / "t-rank0001.pfw"
    wanted = [json.loads(line) for line in run.command(PFW, "compare", "-q", "--format", "ndjson", one, other).splitlines()]
    rows = pfw.compare(one, other).rows()
    assert len(rows) == len([row for row in wanted if row["section"] == "row"]) > 3
    for row, line in zip(rows, wanted):
        same(row, {name: value for name, value in line.items() if name != "section"})
    assert {type(row["significant"]) for row in rows} == {bool}
    assert len(pfw.compare([one, other], [other, one], group_by="cat").rows()) == len({row["cat"] for row in rows})


def test_what_cannot_be_made(trace):
    for make, said in ((lambda: pfw.table(trace / "none"), "table: .*none: there is no such file"),
                       (lambda: pfw.table(trace, colour=1), "table: there is no option colour"),
                       (lambda: pfw.table(trace, group_by="colour"), "table: --group-by"),
                       (lambda: pfw.overlap(trace, where="dur > 1"), "overlap: there is no option where"),
                       (lambda: pfw.table(trace, where="(("), "where"), (lambda: pfw.patterns(trace, small=0), "--small 0"),
                       (lambda: pfw.table(trace, plain="yes"), "plain yes: want 0 or 1")):
        with pytest.raises(ValueError, match=said):
            make().rows()
    with open(next(trace.glob("*.pfw")), "a", encoding="utf-8") as file:
        file.write("broken\n")
    with pytest.warns(UserWarning, match=r"\.pfw:\d+: not a JSON object"):
        assert pfw.table(trace).rows()


def test_neither_output_nor_handlers(trace, capfd):
    """A command in our own process leaves it as it is."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        files = sorted(os.listdir(trace))
        assert pfw.table(trace).rows() and pfw.overlap(trace, steps=True).rows() and pfw.patterns(trace).rows()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)
    assert capfd.readouterr() == ("", "") and sorted(os.listdir(trace)) == files


def test_ctrl_c(trace):
    """While a table is made, in a thread of its own."""
    stopped = threading.Event()

    def make():
        _thread.interrupt_main()
        assert stopped.wait(60)
        raise ValueError("stopped")

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        _tables._interruptible(make, stopped.set)
    assert stopped.is_set() and threading.active_count() == before
    reader = _reader.reader([os.fsencode(trace)], [])
    _reader.stop(reader)
    with pytest.raises(ValueError, match="Interrupted system call"):
        _reader.table(reader, "table", [])


class Cells(html.parser.HTMLParser):
    """The texts of td and th, and the tags."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
        assert "color" not in str(attrs) and "background" not in str(attrs)  # as light or dark as the page

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def test_a_table_in_a_notebook(trace):
    made = pfw.table(trace, group_by="fname", columns="count,bytes")
    shown = Cells(made._repr_html_())
    assert shown.cells[:5] == ["section", "fname", "device", "count", "bytes"] and "b" not in shown.tags
    row = next(row for row in made.rows() if row["fname"].endswith("<b>&'file"))
    assert shown.cells[shown.cells.index(row["fname"]) + 2] == f"{row['count']:,}"
    assert f"{row['bytes']:,}" == "36,000" in shown.cells
    bins = pfw.overlap(trace, bins=100)
    shown = Cells(bins._repr_html_())
    assert shown.tags.count("tr") == 61 and "140 more rows" in shown.cells[-1]
    assert str(bins.rows()[0]["ts"]) in shown.cells  # a ts without commas
    assert repr(made) == f"<pfw.Table: table of {trace}>"


def test_a_summary(run, trace):
    made = pfw.summary(trace)
    assert made.ranks == [0, 1] and made.processes == 2 and made.lost == 0 and made.warnings == []
    events = list(pfw.query(trace))
    assert made.events == len(events) and made.start_ns == min(event["ts"] for event in events)
    end = max(event["ts"] + event.get("dur", 0) for event in events)
    assert made.wall_us == pytest.approx((end - made.start_ns) / 1000)
    assert [words.split()[-1] for words in made.commands] == ["0", "1"]
    assert made.io_bytes == 36000 and f"events       {made.events}" in str(made).splitlines()
    shown = Cells(made._repr_html_()).cells
    assert shown[shown.index("I/O bytes") + 1] == "36,000" and "\n".join(made.commands) in shown
    assert pfw.summary(trace, ranks=1).ranks == [1]
    run.script("import os, pfw; pfw.start('killed')\nwith pfw.span('<i>'): pass\npfw.flush(); os.kill(os.getpid(), 9)",
               status=-9)
    killed = pfw.summary(trace / "killed")
    assert killed.io_calls is None or killed.io_calls > 0
    assert killed.warnings == ["1 process was killed"] and killed.warnings[0] in Cells(killed._repr_html_()).cells
    with pytest.raises(ValueError, match="there is no such file"):
        pfw.summary(trace / "none")


def test_a_summary_of_what_was_lost(run):
    process = ('{"id":1,"name":"process","cat":"pfw","pid":7,"tid":7,"ts":1.000,"ph":"M","args":{"format":1,"run":"r",'
               '"host":"h","cmd":"<script>","rank":0}}\n')
    lost = '{"id":%d,"name":"lost","cat":"pfw","pid":7,"tid":7,"ts":5.000,"ph":"M","args":{"reason":"full","count":%d}}\n'
    read = '{"id":3,"name":"read","cat":"POSIX","pid":7,"tid":7,"ts":2.000,"dur":1.000,"ph":"X","args":{"ret":5}}\n'
    other = ('{"id":6,"name":"untraced_child","cat":"pfw","pid":7,"tid":8,"ts":5.000,"ph":"M","args":{"pid":9}}\n'
             '{"id":7,"name":"unrecorded","cat":"pfw","pid":7,"tid":7,"ts":5.000,"ph":"M","args":{"aio_contexts":2,"gpu_us":300}}\n'
             '{"id":2,"name":"unrecorded","cat":"pfw","pid":9,"tid":9,"ts":5.000,"ph":"M","args":{"gpu_us":1200}}\n'
             '{"id":8,"name":"end","cat":"pfw","pid":7,"tid":7,"ts":6.000,"ph":"M","args":{"events":1,"lost":90}}\n')
    (run.directory / "cut.pfw").write_text(process + read)
    assert pfw.summary(run.directory / "cut.pfw").warnings == ["1 process still runs, or was killed"]
    (run.directory / "t.pfw").write_text(process + read + lost % (4, 40) + lost % (5, 90) + other)
    made = pfw.summary(run.directory / "t.pfw")
    assert made.warnings == ["90 events were lost: full", "1 program that the run started is not traced",
                             "2 aio contexts were not recorded",
                             "GPU work of the last 1.2 ms before a kill was not recorded"]
    assert (made.lost, made.events, made.io_calls, made.hosts, made.commands) == (90, 1, 1, ["h"], ["<script>"])
    assert "script" not in Cells(made._repr_html_()).tags


def heights(ax, label):
    container, = (one for one in ax.containers if one.get_label() == label)
    return [bar.get_height() for bar in container]


def test_plots(trace):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    steps = pfw.overlap(trace, steps=True).rows()
    begin = min(row["ts"] for row in steps)
    ax = pfw.plot.timeline(trace)
    assert len(ax.collections) == 2 and [text.get_text() for text in ax.get_yticklabels()] == ["rank 0", "rank 1"]
    for rank, lane in enumerate(ax.collections):
        boxes = [path.get_extents() for path in lane.get_paths()]
        assert [(box.x0, box.x1 - box.x0) for box in boxes] == \
            [(pytest.approx((row["ts"] - begin) / 1e9), pytest.approx(row["wall"] / 1e6)) for row in steps
             if row["rank"] == rank]
    ax = pfw.plot.overlap(trace, ranks=0)
    mine = [row for row in steps if row["rank"] == 0]
    assert heights(ax, "unoverlapped I/O") == pytest.approx([row["io_unoverlapped"] / 1000 for row in mine])
    assert heights(ax, "overlapped I/O") == pytest.approx([(row["io"] - row["io_unoverlapped"]) / 1000 for row in mine])
    both = pfw.plot.overlap(trace, ax=matplotlib.pyplot.figure().subplots())
    assert len(heights(both, "unoverlapped I/O")) == len({row["step"] for row in steps})
    ax = pfw.plot.sizes(trace)
    whole = pfw.patterns(trace).rows()[0]
    sizes = lambda side: [value for name, value in whole.items() if name.startswith(f"size_{side}_")]
    assert heights(ax, "writes") == sizes("write") and heights(ax, "reads") == sizes("read")
    assert sum(heights(ax, "writes")) == whole["writes"] > 0 and len(heights(ax, "reads")) == 10
    matplotlib.pyplot.close("all")


def test_what_print_shows(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    line = '{"id":%d,"name":"%s","cat":"app","pid":1,"tid":1,"ts":%d.000,"dur":%d.000,"ph":"X","args":{}}\n'
    (tmp_path / "t.pfw").write_text("".join(line % (i, f"n{i}" if i else "\\u001b\u2028" + 60 * "x", 10 * i, i + 1)
                                            for i in range(25)))
    table = pfw.table(tmp_path, group_by="name", columns=["count", "cpu_time", "max"])
    lines = str(table).splitlines()
    assert "name" in lines[0].split() and "n24" in lines[1].split() and max(map(len, lines)) <= 70
    assert len(lines) == 1 + 20 + 2 and lines[-2] == "… 5 more rows" and lines[-1].startswith("[25 rows, ")
    assert repr(table).startswith("<pfw.Table: table of ")
    first = str(pfw.table(tmp_path, where="id == 0")).splitlines()[1]
    assert "\\x1b\\u2028xxx" in first and "…" in first
    assert str(pfw.table(tmp_path, where="id > 99")).splitlines()[-1].startswith("[0 rows, ")


def test_what_cannot_be_drawn(run, trace):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    run.script("import pfw; pfw.start('plain')\nwith pfw.span('work'): pass\n")
    for plot in (pfw.plot.timeline, pfw.plot.overlap):
        with pytest.raises(ValueError, match="these traces have no steps"):
            plot(trace / "plain")
    run.script("""
        import sys
        sys.modules["matplotlib"] = None
        import pfw
        try:
            pfw.plot.sizes("t")
        except ImportError as error:
            print(error)
        """)
    assert run.output == "needs matplotlib: pip install 'pfwtrace[plot]'\n"


def test_nothing_else_is_needed(run, trace):
    """Rows, a notebook's view and a summary without any other package."""
    run.script("""
        import sys
        for name in ("pyarrow", "pandas", "polars", "duckdb", "matplotlib", "numpy"):
            sys.modules[name] = None
        import pfw
        print(len(pfw.table("t").rows()) > 3, "table" in pfw.table("t")._repr_html_(), pfw.summary("t").processes)
        """)
    assert run.output == "True True 2\n", sys.version
