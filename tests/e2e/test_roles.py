"""What a call does, for each row of calls.def: every command counts it as the row's columns say, in a
raw trace, an indexed one and a compacted one."""
import json
import re

import pytest

from harness import PFW, SOURCE, run

START = 1795230878000000  # µs
RET, SIZE, COUNT = 3, 8, 5
MOVED = {"NOTHING": 0, "RET": RET, "ITEMS": RET * SIZE, "COUNT": COUNT}
TEXT = re.sub(r"/\*.*?\*/", "", (SOURCE / "src/common/calls/calls.def").read_text(), flags=re.S)
# category, libc's name, canonical name, role, what says how many bytes it moved
ROWS = re.findall(r"^CALL_\w+\((\w+), [^,]+, (\w+), (\w+), (\w+), (\w+),", TEXT, re.M)


def expected(row):
    """{file: (opens, reads, writes, others, bytes read, bytes written)} of one call."""
    _, name, _, role, moves = row
    bytes_ = MOVED[moves]
    fname, target = f"/f/{name}", f"/t/{name}"
    return {"OPEN": {fname: (1, 0, 0, 0, 0, 0)},
            "READ": {fname: (0, 1, 0, 0, bytes_, 0)},
            "WRITE": {fname: (0, 0, 1, 0, 0, bytes_)},
            "COPY": {fname: (0, 1, 0, 0, bytes_, 0), target: (0, 0, 1, 0, 0, bytes_)},
            "OTHER": {fname: (0, 0, 0, 1, 0, 0)}}[role]


FILE_ROWS = [row for row in ROWS if row[0] not in ("NET", "SYNC")]
EXPECTED = {fname: counts for row in ROWS for fname, counts in expected(row).items()}
OF_FILES = {fname: counts for row in FILE_ROWS for fname, counts in expected(row).items()}


@pytest.fixture(scope="module", params=["raw", "indexed", "compacted"])
def trace(request, tmp_path_factory):
    """One call of each row by libc's name, as DFTracer writes it; canonical names are among them."""
    top, lines = tmp_path_factory.mktemp("roles"), []

    def add(name, cat, phase, args, dur=""):
        lines.append(f'{{"id":{len(lines) + 1},"name":"{name}","cat":"{cat}","pid":1,"tid":1,'
                     f'"ts":{START + len(lines) * 10}.000{dur},"ph":"{phase}",'
                     f'"args":{json.dumps(args, separators=(",", ":"))}}}\n')
    add("process", "pfw", "M", {"format": 1, "version": "1", "run": "r", "host": "h", "rank": 0,
                                "world_size": 1})
    for category, name, *_ in ROWS:
        add(name, category, "X", {"fname": f"/f/{name}", "fd": 3, "ret": RET, "size": SIZE,
                                  "count": COUNT, "target": f"/t/{name}"}, ',"dur":2.000')
    add("end", "pfw", "M", {"events": len(ROWS), "lost": 0, "reason": "exit"})
    path = top / "t.pfw"
    path.write_text("".join(lines))
    if request.param == "indexed":
        run([PFW, "index", path])
    if request.param == "compacted":
        run([PFW, "compact", path])
        path = top / "t.pfw.gz"
    return path


def objects(*words):
    return [json.loads(line) for line in run([PFW, *words]).stdout.splitlines()]


def test_rows_are_read_whole():
    assert len(ROWS) == len(re.findall(r"^CALL_", TEXT, re.M)) > 400
    names = {row[1] for row in ROWS}
    assert len(names) == len(ROWS) and {row[2] for row in ROWS} <= names
    known = {}
    for category, _, canonical, *columns in ROWS:
        assert known.setdefault(canonical, (category, columns)) == (category, columns)


@pytest.mark.parametrize("name", ["open", "openat", "creat", "mkstemp", "mkostemp", "mkostemps",
                                  "mkstemps", "tmpfile", "fopen64", "__open_2"])
def test_what_opens(name):
    assert EXPECTED[f"/f/{name}"] == (1, 0, 0, 0, 0, 0)


def test_patterns(trace):
    keys = ("opens", "reads", "writes", "metadata_calls", "read_bytes", "written_bytes")
    rows = objects("patterns", "--format", "ndjson", "--row-limit", "-1", trace)
    assert {row["fname"]: tuple(row[key] for key in keys)
            for row in rows if row["section"] == "file"} == OF_FILES
    assert tuple(rows[0][key] for key in keys) == tuple(map(sum, zip(*OF_FILES.values())))


@pytest.mark.parametrize("options", [(), ("--where", "args.fd == 3")])  # also line by line
def test_table(trace, options):
    rows = objects("table", "--format", "ndjson", "--row-limit", "-1", "--group-by", "fname,name",
                   *options, trace)
    moved = {row["fname"]: row["bytes"] or 0 for row in rows if row["section"] == "io"}
    assert {row["fname"]: row["count"] for row in rows} == dict.fromkeys(moved, 1)
    assert moved == {fname: read + written for fname, (*_, read, written) in EXPECTED.items()}


def test_overlap(trace):
    whole = [row for row in objects("overlap", "--format", "ndjson", trace)
             if row["type"] == "rank" and row["rank"] == "all"]
    assert [(row["io_calls"], row["io_bytes"]) for row in whole] == [
        (len(FILE_ROWS), sum(MOVED[row[4]] for row in FILE_ROWS))]


def test_index(trace):
    path = trace.with_name(trace.name + ".idx")
    if not path.exists():
        run([PFW, "index", trace])

    def select(columns):
        found = run(["sqlite3", "-readonly", path, f"SELECT {columns}"]).stdout
        return [line.split("|") for line in found.splitlines()]
    files = select("fname, opens, reads, writes, others, read_bytes, written_bytes FROM file "
                   "WHERE fname != ''")
    assert {fname: tuple(map(int, counts)) for fname, *counts in files} == EXPECTED
    names = select("name, bytes FROM name WHERE cat IN ('POSIX', 'STDIO', 'NET', 'SYNC')")
    assert {name: int(moved) for name, moved in names} == {
        name: MOVED[moves] for _, name, _, _, moves in ROWS}


def test_query(trace):
    for category in ("POSIX", "STDIO", "NET", "SYNC"):
        found = run([PFW, "query", "--cat", category, "--count", trace]).stdout
        assert int(found) == sum(row[0] == category for row in ROWS)
