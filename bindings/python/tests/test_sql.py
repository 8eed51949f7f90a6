"""pfw sql: SQL about traces, by duckdb."""
import csv
import io
import json
import os
import signal
import subprocess

import pytest

from conftest import CLEAN, PFW
from test_cluster import line, write_run

duckdb = pytest.importorskip("duckdb")

import pfw
import pfw.sql

RANKS = 3


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), RANKS)


def sql(*words, status=0, **env):
    done = subprocess.run([PFW, "sql", *words], capture_output=True, text=True, env={**CLEAN, **env}, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def test_the_sums_are_those_of_the_lines(traces):
    sums = {}
    for event in pfw.query(traces, cat="POSIX"):
        sums.setdefault((event["name"], event["pid"] - 1000), []).append(event["dur"])
    rows = [json.loads(text) for text in sql(
        "SELECT name, rank, count(*) AS calls, sum(dur) AS ns FROM events WHERE cat = 'POSIX' GROUP BY ALL", traces,
        "--format", "ndjson").splitlines()]
    assert {(row["name"], row["rank"]): (row["calls"], row["ns"]) for row in rows} == \
        {key: (len(all_), sum(all_)) for key, all_ in sums.items()} and len(rows) == 2 * RANKS


@pytest.mark.parametrize("query, count", [
    ("SELECT count(*) FROM events", 40 * RANKS), ("SELECT count(*) FROM (SELECT * FROM events)", 40 * RANKS),
    ("WITH a AS (SELECT ts, rank FROM events) SELECT count(*) FROM a JOIN events b USING (ts, rank)", 40 * RANKS),
    ("CREATE TABLE x AS SELECT name FROM events; SELECT count(*) FROM x", 40 * RANKS),
    ("CREATE VIEW v AS SELECT * FROM events; SELECT count(\"args.ret\") FROM v WHERE cat = 'POSIX'", 27 * RANKS),
    ("SELECT count(DISTINCT \"args.fname\") FROM events", 9), ("SELECT 7", 7),
    ("SELECT count(*) FROM events WHERE \"args.grid\" IS NULL AND args_json IS NULL", 40 * RANKS)])
def test_queries_of_many_kinds(traces, query, count):
    assert sql(query, traces, "--format=csv").splitlines()[1:] == [str(count)]


def test_conditions_are_those_of_query(traces):
    wanted = pfw.read(traces, since="20%", until="80%", cat="POSIX", ranks="0,2", min_dur="1us", where="args.ret > 0")
    assert sql("SELECT count(*) FROM events", "--since=20%", "--until", "80%", "-c", "POSIX", "-r0,2", "--min-dur=1us",
               "--where=args.ret > 0", "-j2", "--format=tsv", traces).split()[1] == str(wanted.arrow().num_rows)
    assert sql("SELECT name FROM events WHERE ph = 'M' ORDER BY id", "--meta", "--format=csv", traces).split() == \
        ["name", *["process"] * RANKS, *["end"] * RANKS]


def test_formats(tmp_path):
    (tmp_path / "t.pfw").write_text(
        line(1, "a,\\\"b|", "c", 1, 1000, "X", {"ret": -5, "gbps": 0.5}, 2000) + line(2, "\\u001b[31m", "c", 1, 3000, "i", {}))
    query = 'SELECT name, dur, "args.ret" AS ret, "args.gbps" AS gbps FROM events'
    text = sql(query, tmp_path).splitlines()
    assert text[0].split() == ["name", "dur", "ret", "gbps"] and text[2].split() == ['a,"b|', "2000", "-5", "0.5"]
    assert text[3] == "\\x1b[31m" and text[2].index("2000") + 4 == text[0].index("dur") + 3  # numbers at the right
    assert sql(query, tmp_path, "--format", "md").splitlines()[1:3] == \
        ["| -------- | ---: | --: | ---: |", '| a,"b\\|   | 2000 |  -5 |  0.5 |']
    assert list(csv.reader(io.StringIO(sql(query, tmp_path, "--format", "csv")))) == \
        [["name", "dur", "ret", "gbps"], ['a,"b|', "2000", "-5", "0.5"], ["\x1b[31m", "", "", ""]]
    assert [json.loads(one) for one in sql(query, tmp_path, "--format", "ndjson").splitlines()][1] == \
        {"name": "\x1b[31m", "dur": None, "ret": None, "gbps": None}
    assert sql("SELECT name FROM events WHERE false", tmp_path).splitlines() == ["name", "----"]


def narrowed(lines, query):
    """What duckdb's answer is, and what was read for it: columns, and conditions."""
    events = lines.dataset()
    with duckdb.connect() as connection:
        connection.register("events", events)
        rows = connection.execute(query).fetchall()
    options = events._read[-1]._options
    return rows, dict(options)["columns"].split(","), [value for name, value in options if name == "where"]


@pytest.mark.parametrize("query, columns, where", [
    ('SELECT sum(dur) FROM events WHERE "args.ret" > 0', ["dur", "args.ret"], ["args.ret > 0"]),
    ("SELECT name FROM events WHERE rank = 1 AND ts >= 5 AND dur < 9007199254740993 ORDER BY ALL", ["name", "rank", "ts", "dur"],
     ["rank == 1", "ts >= 0.005", "dur < 9007199254740.993"]),
    ("SELECT dur FROM events WHERE name IN ('read', 'write') AND \"args.fname\" <> '' ORDER BY 1", ["dur", "name", "args.fname"],
     ['name in ("read", "write")', 'args.fname != ""']),
    ("SELECT dur FROM events WHERE name IN ('read', 'x\"\\y') AND cat = 'POSIX' ORDER BY 1", ["dur", "name", "cat"], []),
    ("SELECT rank FROM events WHERE rank IN (0, 2) AND \"args.ret\" IS NOT NULL ORDER BY 1", ["rank", "args.ret"],
     ["rank in (0, 2)", "has(args.ret)"]),
    ("SELECT ts FROM events WHERE ph = 'X' AND cat = 'POSIX' ORDER BY 1", ["ts", "ph", "cat"], ['cat == "POSIX"']),
    ("SELECT rank FROM events WHERE cat = 'pfw' OR rank = 1 ORDER BY 1", ["rank", "cat"], []),
    ("SELECT dur FROM events WHERE rank = 1 OR (name = 'read' AND dur > 5) ORDER BY 1", ["dur", "rank", "name"],
     ['((rank == 1) || (name == "read" && dur > 0.005))']),
    ("SELECT rank FROM events WHERE \"args.grid\" IS NULL OR rank = 1 ORDER BY 1", ["rank", "args.grid"], []),
])
def test_only_what_a_query_needs(traces, query, columns, where):
    lines = pfw.read(traces)
    rows, read, conditions = narrowed(lines, query)
    assert set(read) == set(columns) and set(conditions) == set(where)
    events = lines.arrow()  # noqa: F841  duckdb finds it by its name
    assert rows == duckdb.sql(query).fetchall() and rows


def test_as_a_user_types_it(traces):
    """Columns of args without quotes, several statements, values as of a shell."""
    exact = sql('SELECT "args.fname", sum("args.ret") AS b FROM events GROUP BY 1 ORDER BY 1', traces, "--format=csv")
    assert sql("SELECT args.fname, sum(e.args.ret) AS b FROM events e GROUP BY 1 ORDER BY 1", traces, "--format=csv") == exact
    assert sql("CREATE TABLE x AS SELECT args.ret, 'args.ret' AS s FROM events; SELECT 7; SELECT DISTINCT s FROM x", traces,
               "--format=csv").split() == ["7", "7", "s", "args.ret"]
    query = "SELECT true AS b, [1, NULL] AS l, {'a': 1.5} AS s, NULL AS n"
    assert sql(query, traces, "--format=csv").splitlines()[1] == 'true,"[1, null]","{""a"": 1.5}",'
    assert json.loads(sql(query, traces, "--format=ndjson")) == {"b": True, "l": [1, None], "s": {"a": 1.5}, "n": None}
    assert "The column is args.fname." in sql("SELECT fname FROM events", traces, status=2)
    assert "query is empty" in sql(" -- nothing", traces, status=2)
    assert "the query comes first" in sql(traces, "SELECT 1", status=2)


def test_what_cannot_be_answered(traces, tmp_path):
    assert "Parser Error" in sql("SELEC", traces, status=2)
    assert '"nothing" not found' in sql("SELECT nothing FROM events", traces, status=2)
    assert sql("SELECT 1", tmp_path / "none", status=2).startswith(f"pfw sql: {tmp_path}/none: there is no such file")
    assert "where" in sql("SELECT 1", "--where=((", traces, status=2)
    text = (traces / "t-rank0001.pfw").read_text().splitlines(True)
    (tmp_path / "t.pfw").write_text("".join([*text[:5], "{broken\n", *text[5:]]))
    assert "t.pfw:6: " in sql("SELECT sum(dur) FROM events", tmp_path, status=1)
    (tmp_path / "duckdb.py").write_text("raise ImportError('no duckdb')")
    assert sql("SELECT 1", traces, status=2, PYTHONPATH=str(tmp_path)) == \
        "pfw sql: needs duckdb: pip install 'pfwtrace[duckdb]' (no duckdb)\n"


def test_a_reader_that_goes_away(traces):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", '"$0" sql "SELECT * FROM events, range(10000)" --format=csv "$1" | head -1',
                           PFW, traces], capture_output=True, text=True, env=CLEAN, check=False)
    assert done.stdout.startswith("rank,pid,") and not done.stderr


@pytest.mark.parametrize("command", ["compat", "sql"])
def test_a_help_that_nobody_reads(command):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([PFW, command, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, env=CLEAN, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")
