"""Every command that reads traces, on every kind of trace: the counts are jq's."""
import gzip
import json
import re
import struct
import subprocess
import zlib
from decimal import Decimal

import pytest

from harness import PFW, run

START = 1795230878000000  # µs

# Objects of any of these, one a line; what DFTracer 1.x frames them with is passed over.
FACTS = r"""
[inputs | rtrimstr(",") | select(. != "" and . != "[" and . != "]") | fromjson] as $all |
($all | map(select(.ph == "X" or .ph == 1))) as $spans |
{lines: ($all | length),
 events: ($all | map(select(.ph != "M" and .ph != 4)) | length),
 spans: ($spans | length),
 posix: ($spans | map(select(.cat == "POSIX")) | length),
 long: ($all | map(select(.dur != null and .dur > 7)) | length),
 names: ($spans | group_by([.cat, .name]) | map({key: "\(.[0].cat) \(.[0].name)",
   value: [length, (map(.dur * 1000 | round) | add)]}) | from_entries)}
"""


# ---- traces ----

def ours(rank, count=400):
    """The lines of one rank: calls, spans, an instant, a counter."""
    def line(number, name, cat, phase, dur, args):
        times = f'"ts":{START + number * 10}.{number % 1000:03}' + (
            "" if dur is None else f',"dur":{dur // 1000}.{dur % 1000:03}')
        return (f'{{"id":{number},"name":"{name}","cat":"{cat}","pid":{100 + rank},"tid":{100 + rank},'
                f'{times},"ph":"{phase}","args":{json.dumps(args, separators=(",", ":"))}}}')
    lines = [line(1, "process", "pfw", "M", None, {
        "format": 1, "version": "1", "run": "r", "host": "h", "rank": rank, "world_size": 3})]
    for n in range(2, count):
        if n % 7 == 0:
            lines.append(line(n, "step", "app", "X", n * 31, {"span_id": n}))
        elif n % 50 == 1:
            lines.append(line(n, "mark", "app", "i", None, {}))
        elif n % 50 == 2:
            lines.append(line(n, "load", "COUNTER", "C", None, {"value": n}))
        else:
            lines.append(line(n, ("read", "open", "write")[n % 3], "POSIX", "X", n * 17 % 9000,
                              {"fname": f"/data/{n % 5}", "ret": n}))
    lines.append(line(count, "end", "pfw", "M", None,
                      {"events": count - 2, "lost": 0, "reason": "exit"}))
    return [text + "\n" for text in lines]


def dftracer_1(count=300):
    lines = ['{"id":"0","name":"FH","cat":"dftracer","pid":7,"tid":7,"ph":"M",'
             '"args":{"name":"/data/a","value":"9b"}}']
    lines += [f'{{"id":"{n}","name":"{("read", "open64")[n % 2]}","cat":"POSIX","pid":7,"tid":8,'
              f'"ts":{START + n * 10},"dur":{n % 12},"ph":"X","args":{{"fhash":"9b","level":1}}}}'
              for n in range(1, count)]
    return ["[\n", *(line + ",\n" for line in lines), "]\n"]


def dftracer_2(count=300):
    """Numbers for ph and type; now and then another order of the keys."""
    lines = ['{"name":"FH","cat":"dftracer","type":1,"pid":9,"tid":9,"ph":4,'
             '"args":{"name":"/data/b","value":"8b2c"}}']
    for n in range(1, count):
        if n % 40 == 0:
            lines.append(f'{{"name":"cpu","cat":"sys","type":7,"ts":{START + n * 10},"ph":2,"pid":9,'
                         '"tid":9,"args":{"user":0.25}}')
        elif n % 9 == 0:
            lines.append(f'{{"ph":1,"args":{{"fhash":"8b2c"}},"dur":{n % 12},"ts":{START + n * 10},'
                         f'"tid":9,"pid":9,"type":3,"cat":"POSIX","name":"close","id":{n}}}')
        else:
            lines.append(f'{{"id":{n},"name":"read","cat":"POSIX","type":3,"pid":9,"tid":9,'
                         f'"ts":{START + n * 10},"dur":{n % 12},"ph":1,"args":{{"fhash":"8b2c"}}}}')
    return [line + "\n" for line in lines]


def member(lines):
    """A gzip member of the recorder, as it was before headers had a checksum."""
    text = "".join(lines).encode()
    found = [(int(Decimal(ts) * 1000), int(Decimal(dur or 0) * 1000)) for ts, dur in (
        [(re.search(r'"ts":([\d.]+)', line)[1], (re.search(r'"dur":([\d.]+)', line) or [0, 0])[1])
         for line in lines if '"ts":' in line])] or [(2 ** 64 - 1, 0)]
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = deflate.compress(text) + deflate.flush()
    return (b"\x1f\x8b\x08\4\0\0\0\0\4\3" + struct.pack("<H", 28) + b"PF" +
            struct.pack("<HIIQQ", 24, 40 + len(packed) + 8, len(lines),
                        min(ts for ts, _ in found), max(ts + dur for ts, dur in found) % 2 ** 64) +
            packed + struct.pack("<II", zlib.crc32(text), len(text)))


def write(path, lines, packed=None):
    if packed == "members":
        path.write_bytes(b"".join(member(lines[i:i + 90]) for i in range(0, len(lines), 90)))
    elif packed == "one":
        path.write_bytes(gzip.compress("".join(lines).encode()))
    else:
        path.write_text("".join(lines))
    return path


def compacted(directory, rank=0):
    write(directory / f"c-rank000{rank}.pfw", ours(rank))
    run([PFW, "compact", directory / f"c-rank000{rank}.pfw"])
    return directory / f"c-rank000{rank}.pfw.gz"


def indexed(path):
    run([PFW, "index", path])
    return path


# Of each: its files.
KINDS = {
    "raw": lambda top: [write(top / "a.pfw", ours(0))],
    "live gz": lambda top: [write(top / "a.pfw.gz", ours(0), "members")],
    "compacted": lambda top: [compacted(top)],
    "foreign gz": lambda top: [write(top / "a.pfw.gz", ours(0), "one")],
    "DFTracer 1": lambda top: [write(top / "a.pfw", dftracer_1())],
    "DFTracer 1 gz": lambda top: [write(top / "a.pfw.gz", dftracer_1(), "one")],
    "DFTracer 2": lambda top: [write(top / "a.pfw", dftracer_2())],
    "DFTracer 2 gz": lambda top: [write(top / "a.pfw.gz", dftracer_2(), "one")],
    "indexed": lambda top: [indexed(write(top / "a.pfw", ours(0)))],
    "indexed foreign gz": lambda top: [indexed(write(top / "a.pfw.gz", ours(0), "one"))],
    "three ranks": lambda top: [compacted(top, 0), write(top / "c-rank0001.pfw", ours(1)),
                                write(top / "c-rank0002.pfw.gz", ours(2), "members")],
    "of several tools": lambda top: [write(top / "a.pfw", dftracer_1()),
                                     write(top / "b.pfw.gz", dftracer_2(), "one"),
                                     write(top / "c.pfw.gz", ours(0), "members")],
}


def text_of(path):
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def facts_of(paths):
    done = subprocess.run(["jq", "-nRc", FACTS], input=b"".join(map(text_of, paths)),
                          capture_output=True, check=True)
    return json.loads(done.stdout)


# ---- commands ----

def pfw(*words):
    return run([PFW, *words]).stdout


def objects(*words):
    return [json.loads(line) for line in pfw(*words, "--format", "ndjson").splitlines()]


def check_query(paths, facts, _):
    for words, wanted in [([], "events"), (["--meta"], "lines"), (["--cat", "POSIX"], "posix"),
                          (["--where", "dur > 7"], "long"), (["--where", "ph == 'X'"], "spans")]:
        assert int(pfw("query", "--count", *words, *paths)) == facts[wanted], words
    assert len(pfw("query", *paths).splitlines()) == facts["events"]
    rows = pfw("query", "--format", "csv", "--fields", "name,dur", *paths).splitlines()
    assert len(rows) == facts["events"] + 1
    longest = pfw("query", "--sort", "-dur", "--limit", "5", *paths).splitlines()
    assert len(longest) == 5


def check_table(paths, facts, _):
    rows = {f"{row['cat']} {row['name']}": [row["count"], round(row["total"] * 1000)]
            for row in objects("table", "--plain", "-g", "cat,name", "--row-limit", "-1", *paths)}
    assert {name: rows.get(name) for name in facts["names"]} == facts["names"]
    calls = objects("table", "--cat", "POSIX", "-g", "cat", *paths)
    assert [row["count"] for row in calls] == [facts["posix"]]
    files = objects("table", "--cat", "POSIX", "-g", "fname", *paths)
    assert sum(row["count"] for row in files) == facts["posix"]


def check_index(paths, facts, _):
    built = objects("index", "--force", *paths)
    assert sum(row["events"] for row in built) == facts["events"]
    pfw("index", "--check", *paths)
    check_query(paths, facts, _)
    check_table(paths, facts, _)


def check_validate(paths, facts, _):
    found = objects("validate", *paths)
    assert found[-1]["events"] == facts["events"] and not found[-1]["problems"]


def check_compact(paths, facts, top):
    originals = [path.read_bytes() for path in paths]
    made = objects("compact", "--keep", "--all-runs", "-o", top / "o", *paths)
    assert sum(row["events"] for row in made) == facts["events"]
    results = sorted((top / "o").glob("*.pfw.gz"))
    assert facts_of(results) == facts
    for path in results:
        check_query([path], facts_of([path]), top)
    assert [path.read_bytes() for path in paths] == originals


def check_export(paths, facts, top):
    pfw("export", "--format", "chrome", "--merge", "-o", top / "out.json", *paths)
    kinds = run(["jq", "-c", '[.traceEvents[] | select(.ph == "X")] | length', top / "out.json"])
    assert int(kinds.stdout) == facts["spans"]


def check_overlap(paths, facts, _):
    found = [row for row in objects("overlap", *paths) if row["type"] == "rank"]
    assert found and facts["spans"]


def check_patterns(paths, facts, _):
    """Each call is one that opens, reads, writes or is of metadata."""
    found, = [row for row in objects("patterns", *paths) if row["section"] == "all"]
    assert sum(found[key] for key in ("opens", "reads", "writes", "metadata_calls")) == facts["posix"]
    calls = [ns for name, (_, ns) in facts["names"].items() if name.startswith("POSIX ")]
    assert round((found["metadata_us"] + found["data_us"]) * 1000) == sum(calls)


def check_memory(paths, facts, _):
    """There are no allocations in any of them, which is said."""
    done = run([PFW, "memory", "--format", "ndjson", *paths])
    assert facts["events"] and not done.stdout and "no allocations" in done.stderr


def check_counters(paths, facts, _):
    """A row for each number of a counter's lines; where there are none, that is said."""
    done = run([PFW, "counters", "--format", "ndjson", *paths])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    counted = int(pfw("query", "--count", "--where", "ph == 'C'", *paths))
    assert facts["events"] and (sum(row["samples"] for row in rows) >= counted if counted else not rows)
    assert ("no counter" in done.stderr) == (not counted)


def check_report(paths, facts, _):
    """The page has the calls and the time of each rank that the commands have."""
    sheets = json.loads(pfw("report", "--format", "json", *paths))["sheets"]
    calls, = [row for row in sheets["patterns"]["rows"] if row["section"] == "all"]
    assert sum(calls[key] for key in ("opens", "reads", "writes", "metadata_calls")) == facts["posix"]
    assert sum(row["io_calls"] for row in sheets["overlap"]["rows"] if row["type"] == "rank") == facts["posix"]
    assert sum(row["count"] for row in sheets["files"]["rows"] if row["section"] == "io") == facts["posix"]


def check_advise(paths, facts, _):
    """The findings are those of the report, whatever they are."""
    found = [json.loads(line) for line in pfw("advise", "--format", "ndjson", *paths).splitlines()]
    wanted = json.loads(pfw("report", "--format", "json", *paths))["findings"]
    assert facts["events"] and [one["finding"] for one in found] == [one["text"] for one in wanted]


def check_anonymise(paths, facts, top, command="anonymise"):
    """The copies have the same lines but for names."""
    run([PFW, command, "--all-runs", "-o", top / "o", *paths])
    made = sorted((top / "o").iterdir())
    assert len(made) == len(paths) and facts_of(made) == facts
    run([PFW, "validate", *made])


def check_symbolize(paths, facts, top):
    """The copies have the same lines but for stacks, of which there are none."""
    check_anonymise(paths, facts, top, "symbolize")


def check_repair(paths, facts, _):
    """What is whole is left as it is; what is not ours is refused."""
    before = [path.read_bytes() for path in paths]
    run([PFW, "repair", *paths], status=None)
    assert [path.read_bytes() for path in paths] == before
    assert facts_of(paths) == facts


COMMANDS = [check_query, check_table, check_index, check_validate, check_compact, check_export,
            check_overlap, check_patterns, check_memory, check_counters, check_report, check_advise,
            check_repair, check_anonymise, check_symbolize]


@pytest.mark.parametrize("check", COMMANDS, ids=lambda check: check.__name__.split("_")[1])
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_jq(tmp_path, kind, check):
    (tmp_path / "in").mkdir()
    paths = KINDS[kind](tmp_path / "in")
    facts = facts_of(paths)
    assert facts["posix"] > 200 and facts["long"] > 10
    check(paths, facts, tmp_path)


def test_every_command_that_reads_traces_is_here():
    """As in the list that `pfw` prints: what takes traces says so in its usage."""
    names = re.findall(r"^  ([a-z]+) +\S", run([PFW, "--help"]).stdout.split("commands:\n")[1], re.M)
    reading = [name for name in names
               if "[PATH...]" in run([PFW, name, "--help"]).stdout.splitlines()[0]]
    assert {"query", "table", "index", "compact", "validate"} <= set(reading)
    assert {check.__name__.split("_")[1] for check in COMMANDS} >= set(reading)
