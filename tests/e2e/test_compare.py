"""`pfw compare`: sums against pandas, and what it calls a difference, by runs whose truth is known
(C27, C29)."""
import collections
import csv
import functools
import gzip
import io
import json
import math
import os
import random
import statistics

import pandas
import pytest

import harness

PFW = os.environ["PFW_BIN"]


def compare(a, b, *options, status=0):
    """[row], summary"""
    done = harness.run([PFW, "compare", "--format", "ndjson", *options, str(a), str(b)],
                       status=status)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["section"] for line in lines] == ["row"] * (len(lines) - 1) + ["all"]
    return lines[:-1], lines[-1]


def head(run, rank=-1):
    return json.dumps({"id": 1, "name": "process", "cat": "pfw", "pid": 1, "tid": 1, "ts": 1e15,
                       "ph": "M", "args": {"format": 1, "version": "1", "run": run, "host": "h",
                                           "rank": rank, "world_size": 1, "start_ts": 1e15}})


def write(path, calls, run="r", rank=-1, opener=open):
    """A trace of calls: (name, µs) or (name, µs, args) or with cat as well."""
    ts, lines = 1795230878000000.0, [head(run, rank) + "\n"]
    for number, (name, dur, *more) in enumerate(calls, 2):
        args = json.dumps(more[0]) if more and more[0] else "{}"
        cat = more[1] if len(more) > 1 else "POSIX"
        lines.append(f'{{"id":{number},"name":"{name}","cat":"{cat}","pid":1,"tid":1,'
                     f'"ts":{ts:.3f},"dur":{dur:.3f},"ph":"X","args":{args}}}\n')
        ts += dur + 1
    lines.append(f'{{"id":{len(calls) + 2},"name":"end","cat":"pfw","pid":1,"tid":1,"ts":{ts:.3f},'
                 f'"ph":"M","args":{{"events":{len(calls)},"lost":0,"reason":"exit"}}}}\n')
    with opener(path, "wt") as out:
        out.write("".join(lines))
    return path


# ---- figures ----

@functools.lru_cache
def frame(path):
    lines = [json.loads(line) for line in open(path)]
    return pandas.DataFrame([line for line in lines if line["ph"] == "X"])


def durations(path, name):
    """In ns."""
    lines = frame(path)
    return lines[lines["name"] == name]["dur"] * 1000


def test_sums_as_pandas_has_them(tmp_path):
    chance = random.Random(3)
    names = ["read", "write", "open", "a\\n\\\"b", "ü"]
    for file in ("a", "b"):
        write(tmp_path / file, [(chance.choice(names), chance.lognormvariate(3, 1))
                                for _ in range(5000)])
    rows, _ = compare(tmp_path / "a", tmp_path / "b")
    both = [frame(tmp_path / file).groupby("name")["dur"].agg(["count", "sum", "mean"])
            for file in ("a", "b")]
    assert len(rows) == len(names)
    for row in rows:
        for side, table in zip("ab", both):
            expected = table.loc[row["name"]]
            assert row[f"count_{side}"] == expected["count"]
            assert row[f"total_{side}"] == pytest.approx(expected["sum"], abs=1e-3)
            assert row[f"mean_{side}"] == pytest.approx(expected["mean"], abs=1e-3)
        assert row["difference"] == pytest.approx(row["total_b"] - row["total_a"], abs=2e-3)
    sizes = [abs(row["difference"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)


def test_typical_is_the_geometric_mean(tmp_path):
    write(tmp_path / "a", [("read", 1), ("read", 100), ("gone", 5)])
    write(tmp_path / "b", [("read", 2), ("read", 200), ("new", 7)])
    rows, summary = compare(tmp_path / "a", tmp_path / "b")
    row = {row["name"]: row for row in rows}
    assert row["read"]["typical_a"] == 10 and row["read"]["typical_b"] == 20
    assert row["read"]["change"] == pytest.approx(100) and row["read"]["p"] is None
    assert row["new"]["count_a"] == 0 and row["new"]["change"] is None
    assert row["gone"]["mean_b"] is None and row["gone"]["difference"] == -5
    assert summary["tested"] == 0 and summary["together"] is None


def text_of(a, b, *options):
    return harness.run([PFW, "compare", *options, str(a), str(b)], status=None).stdout


def test_first_line_is_the_wall_time(tmp_path):
    """Of whole runs, whatever the conditions, and the change is of figures that are shown."""
    start = 1795230878000000.0
    for side, length in (("a", 2e6 + .25), ("b", 3e6 + .25)):  # a double of the time in ns has steps of 256
        lines = write(tmp_path / side, [("read", 10), ("write", 5)]).read_text().splitlines()
        lines[0] = lines[0].replace("1000000000000000.0", f"{start:.3f}")
        lines[-1] = lines[-1].replace(f'"ts":{start + 17:.3f}', f'"ts":{start + length:.3f}')
        (tmp_path / side).write_text("\n".join(lines) + "\n")
    for words in ([], ["--name", "read"], ["--since", "50%"]):
        first = text_of(tmp_path / "a", tmp_path / "b", *words).splitlines()[0]
        assert first == "Wall time: A 2.000s, B 3.000s (+50.0%)", words
        _, summary = compare(tmp_path / "a", tmp_path / "b", *words)
        assert (summary["wall_a"], summary["wall_b"]) == (2e6 + .25, 3e6 + .25), words
    harness.run([PFW, "index", "-q", tmp_path / "a", tmp_path / "b"])
    _, summary = compare(tmp_path / "a", tmp_path / "b", "--name", "none")
    assert (summary["wall_a"], summary["wall_b"]) == (2e6 + .25, 3e6 + .25)
    text = text_of(tmp_path / "a", tmp_path / "b")
    assert "Typical A" in text and "Typical B" in text and "Mean" not in text


def test_a_change_that_says_nothing_is_a_question_mark(tmp_path):
    """An interval of more than a factor of 100; programs get its figures."""
    chance = random.Random(2)
    for side in "ab":
        write(tmp_path / side, [("read", chance.choice([0.001, 1e6])) for _ in range(60)] +
              [("write", 10 + chance.random()) for _ in range(60)])
    rows, _ = compare(tmp_path / "a", tmp_path / "b")
    wide = next(row for row in rows if row["name"] == "read")
    assert wide["change_high"] > 10000 * wide["change_low"] and wide["change"] is not None
    lines = {line.split()[1]: line for line in text_of(tmp_path / "a", tmp_path / "b").splitlines()
             if "POSIX" in line}
    assert lines["read"].count("?") >= 3 and "%" not in lines["read"]


def test_groups(tmp_path):
    calls = [("read", 1, {"fname": f"/f{i % 2}", "step": i % 3}) for i in range(12)]
    calls += [(f"ProfilerStep#{i}", 9, {}, "PP") for i in range(4)]
    write(tmp_path / "a", calls, rank=2)
    rows, _ = compare(tmp_path / "a", tmp_path / "a")
    assert {(row["cat"], row["name"]): row["count_a"] for row in rows} == {
        ("POSIX", "read"): 12, ("PP", "ProfilerStep*"): 4}
    rows, _ = compare(tmp_path / "a", tmp_path / "a", "--group-by", "fname")
    assert {row["fname"]: row["count_a"] for row in rows} == {"/f0": 6, "/f1": 6, "": 4}
    rows, _ = compare(tmp_path / "a", tmp_path / "a", "--group-by", "step,rank", "--cat", "POSIX")
    assert {(row["step"], row["rank"]): row["count_a"] for row in rows} == {
        (str(i), "2"): 4 for i in range(3)}


def test_summed_calls_count_and_have_no_duration(tmp_path):
    write(tmp_path / "a", [("read", 10)] * 3)
    with open(tmp_path / "a", "a") as out:
        out.write('{"id":9,"name":"summed","cat":"pfw","pid":1,"tid":1,"ts":1795230879000000.000,'
                  '"ph":"M","args":{"name":"read","fname":"/f","count":100,"dur":50.000,'
                  '"bytes":1}}\n')
    rows, _ = compare(tmp_path / "a", tmp_path / "a")
    assert (rows[0]["count_a"], rows[0]["total_a"]) == (103, 80)
    assert rows[0]["typical_a"] == 10


def test_great_counts_are_exact(tmp_path):
    for side, count in (("a", 123456789), ("b", 123456790)):
        with open(tmp_path / side, "w") as out:
            out.write('{"id":9,"name":"summed","cat":"pfw","pid":1,"tid":1,"ts":1795230879000000.000,'
                      f'"ph":"M","args":{{"name":"read","fname":"/f","count":{count},"dur":50.000,'
                      '"bytes":1}}\n')
    rows, _ = compare(tmp_path / "a", tmp_path / "b")
    assert (rows[0]["count_a"], rows[0]["count_b"]) == (123456789, 123456790)
    text = harness.run([PFW, "compare", tmp_path / "a", tmp_path / "b"]).stdout
    assert "123,456,789  123,456,790" in text


@pytest.mark.parametrize("kind", ["gz", "compacted", "indexed", "directory", "foreign"])
def test_kinds_of_input(tmp_path, kind):
    calls = [(name, i % 7 + 1, {"fname": "/f"}) for i in range(300) for name in ("read", "write")]
    plain = write(tmp_path / "plain.pfw", calls)
    other = tmp_path / "other"
    other.mkdir()
    if kind == "gz":
        path = write(other / "t.pfw.gz", calls, opener=gzip.open)
    elif kind == "foreign":
        path = other / "t.pfw"
        path.write_text("[\n" + plain.read_text().split("\n", 1)[1].replace('"ts"', '"level":0,"ts"'))
    else:
        path = write(other / "t.pfw", calls)
    if kind == "compacted":
        harness.run([PFW, "compact", "-q", path])
        path = other / "t.pfw.gz"
    if kind == "indexed":
        harness.run([PFW, "index", "-q", path])
    rows, _ = compare(plain, other if kind == "directory" else path)
    assert [(row["count_a"], row["total_a"]) for row in rows] == [
        (row["count_b"], row["total_b"]) for row in rows] and len(rows) == 2


def test_formats(tmp_path):
    write(tmp_path / "a", [("read", 1), ("a|b,c", 4)])
    write(tmp_path / "b", [("read", 1), ("a|b,c", 5)])
    rows, _ = compare(tmp_path / "a", tmp_path / "b")
    done = {kind: harness.run([PFW, "compare", "--format", kind, tmp_path / "a", tmp_path / "b"])
            for kind in ("text", "csv", "tsv", "md")}
    table = list(csv.DictReader(io.StringIO(done["csv"].stdout)))
    assert [row["name"] for row in table] == [row["name"] for row in rows] == ["a|b,c", "read"]
    assert list(table[0]) == [key for key in rows[0] if key != "section"]
    assert float(table[0]["total_a"]) == 4 and table[0]["p"] == ""
    assert list(csv.DictReader(io.StringIO(done["tsv"].stdout), delimiter="\t")) == table
    assert "| a\\|b,c |" in done["md"].stdout and done["md"].stdout.splitlines()[3].count("|") > 9
    assert done["text"].stdout.splitlines()[2].startswith("Category") and "0 of 0 rows" in done["text"].stdout


@pytest.mark.parametrize("words", [[], ["a"], ["a", "a", "a"], ["a", "missing"], ["a", ","],
                                   ["--fail-above", "x", "a", "a"], ["--group-by", "no", "a", "a"],
                                   ["--format", "xml", "a", "a"]])
def test_wrong_use(tmp_path, words):
    write(tmp_path / "a", [("read", 1)])
    done = harness.run([PFW, "compare", *words], cwd=tmp_path, status=2)
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1


# ---- one run a side ----

def series(chance, count, middle, spread, neighbours):
    """Durations as calls have them: skewed, like their neighbours, a few that were interrupted."""
    value, found, rest = 0, [], math.sqrt(1 - neighbours**2)
    for _ in range(count):
        value = neighbours * value + rest * chance.gauss(0, 1)
        found.append(math.exp(middle + spread * value) * (200 if chance.random() < 0.003 else 1))
    return found


NAMES = 8
REPEATS = 100


def one_run(path, chance, middles, machine=0.05, slow=1.0, run="r", cat="POSIX"):
    """1,000 calls of each name in turn.  The machine is slower or faster as a whole."""
    pace = math.exp(chance.gauss(0, machine))
    calls = [series(chance, 1000, middle, 0.2, 0.2) for middle in middles]
    return write(path, [(f"call{name}", calls[name][i] * pace * (1 if name else slow), {}, cat)
                        for i in range(1000) for name in range(len(middles))], run)


def in_category(cat, *paths):
    """The same traces, their spans in that category."""
    for path in paths:
        path.write_text(path.read_text().replace('"cat":"app"', f'"cat":"{cat}"'))


@pytest.mark.parametrize("names, cats", [(1, ["app"]), (NAMES, ["app", "POSIX"])])
def test_two_runs(tmp_path, names, cats):
    """No difference between two runs of one program in 90 of 100 repeats; 10 % on one call in 95."""
    chance, called, found = random.Random(7000 + names), collections.Counter(), collections.Counter()
    machine = 0.05 if names > 1 else 0  # one name alone cannot tell it from its own change
    a, b, c = (tmp_path / side for side in "abc")
    for _ in range(REPEATS):
        middles = [chance.uniform(0, 5) for _ in range(names)]
        for path, slow in ((a, 1), (b, 1), (c, 1.1)):
            one_run(path, chance, middles, machine, slow, cat="app")
        for cat in cats:
            in_category(cat, a, b, c)
            called[cat] += compare(a, b)[1]["significant"] > 0
            row = next(row for row in compare(a, c)[0] if row["name"] == "call0")
            change = row["change"] if row["beside"] is None else row["beside"]
            found[cat] += row["significant"] and change > 0
    for cat in cats:
        assert called[cat] <= REPEATS / 10, (cat, called)
        assert found[cat] >= REPEATS * 0.95, (cat, found)


def test_a_call_alone(tmp_path):
    """What the machine did to it nobody tells: 25 % are within what calls differ by from run to run,
    twice as long is a change.  A span that computes differs by less."""
    chance, expected = random.Random(7), {("POSIX", 1.25): False, ("POSIX", 2): True,
                                          ("app", 1.25): True}
    for (cat, slow), called in expected.items():
        one_run(tmp_path / "a", chance, [3], 0, cat=cat)
        one_run(tmp_path / "b", chance, [3], 0, slow, cat=cat)
        rows, _ = compare(tmp_path / "a", tmp_path / "b")
        assert rows[0]["significant"] == called, (cat, slow)


def noise(chance, kind, count, middle):
    """Durations of a call that is not changed, of all kinds that calls have."""
    level = chance.gauss(0, 0.3)  # to which a run drifts
    value, found = chance.gauss(0, 1), []
    for i in range(count):
        value = 0.8 * value + 0.6 * chance.gauss(0, 1)
        found.append({"normal": lambda: middle * max(0.05, 1 + 0.2 * chance.gauss(0, 1)),
                      "lognormal": lambda: middle * chance.lognormvariate(0, 0.5),
                      "neighbours": lambda: middle * math.exp(0.2 * value),
                      "bimodal": lambda: middle * chance.choice([1, 1, 3]) * chance.lognormvariate(0, 0.05),
                      "drift": lambda: middle * math.exp(level * i / count) * chance.lognormvariate(0, 0.2),
                      "outliers": lambda: middle * chance.lognormvariate(0, 0.2)
                      * (200 if chance.random() < 0.01 else 1)}[kind]())
    return found


@pytest.mark.parametrize("kind", ["normal", "lognormal", "neighbours", "bimodal", "drift",
                                  "outliers"])
def test_no_difference_between_runs_alike(tmp_path, kind):
    """Of 20 pairs of runs of four calls, in two, whatever the noise is like."""
    chance, called = random.Random(f"{kind} of 2026"), 0
    for _ in range(20):
        middles = [math.exp(chance.uniform(1, 5)) for _ in range(4)]
        for side in "ab":
            calls = [noise(chance, kind, 300, middle) for middle in middles]
            write(tmp_path / side, [(f"call{name}", calls[name][i]) for i in range(300)
                                    for name in range(4)], f"run {side}")
        called += compare(tmp_path / "a", tmp_path / "b")[1]["significant"] > 0
    assert called <= 2, called


def test_a_burst_is_held_against_no_other(tmp_path):
    """A call that is over before the others begin had the machine for itself: that it was slower, as
    others were at other times, is nothing."""
    chance = random.Random(2026)
    for side, paces in (("a", [1, 1, 1, 1, 1, 1]), ("b", [1.2, 0.85, 1.1, 0.8, 1.25, 0.9])):
        write(tmp_path / side, [(f"call{name}", 10 * pace * chance.lognormvariate(0, 0.1))
                                for name, pace in enumerate(paces) for _ in range(1000)], side)
    rows, summary = compare(tmp_path / "a", tmp_path / "b")
    assert summary["significant"] == 0 and summary["together"] is None
    assert all(row["change_low"] is not None and row["beside"] is None for row in rows)


def test_a_slower_machine_is_no_change(tmp_path):
    chance = random.Random(1)
    middles = [chance.uniform(0, 5) for _ in range(NAMES)]
    one_run(tmp_path / "a", chance, middles, 0)
    one_run(tmp_path / "b", chance, [middle + math.log(1.3) for middle in middles], 0)
    rows, summary = compare(tmp_path / "a", tmp_path / "b", "--fail-above", "5%")
    assert summary["significant"] == 0 and 27 < summary["together"] < 33
    assert all(25 < row["change"] < 35 and row["change_low"] is None for row in rows)


# ---- several runs a side ----

def many_runs(directory, chance, middles, count, slow=1.0):
    directory.mkdir()
    for i in range(count):
        noisy = [middle + chance.gauss(0, 0.02) for middle in middles]
        one_run(directory / f"t{i}.pfw", chance, noisy, 0.05, slow, f"run{i}")
    return directory


def test_runs_are_the_unit(tmp_path):
    """As Welch says of the runs' own means, and what is wrong in all rows is not in one of them."""
    chance = random.Random(8)
    middles = [chance.uniform(0, 5) for _ in range(NAMES)]
    a = many_runs(tmp_path / "a", chance, middles, 6)
    b = many_runs(tmp_path / "b", chance, middles, 4)
    c = many_runs(tmp_path / "c", chance, middles, 4, 1.15)
    rows, summary = compare(a, b, "--fail-above", "0")
    assert (summary["runs_a"], summary["runs_b"], summary["significant"]) == (6, 4, 0)
    assert all(row["count_a"] == row["count_b"] == 1000 for row in rows)
    for row in rows:
        means = [[statistics.fmean(map(math.log, durations(path, row["name"])))
                  for path in sorted(side.iterdir())] for side in (a, b)]
        shift = statistics.fmean(means[1]) - statistics.fmean(means[0])
        errors = [statistics.variance(each) / len(each) for each in means]
        freedom = sum(errors)**2 / sum(e * e / (len(m) - 1) for e, m in zip(errors, means))
        assert row["change"] == pytest.approx(100 * math.expm1(shift), abs=1e-3)
        reach = math.log1p(row["change_high"] / 100) - shift
        assert reach == pytest.approx(student(freedom) * math.sqrt(sum(errors)), rel=1e-4)
    rows, _ = compare(a, c, "--fail-above", "5%", status=1)
    assert [row["name"] for row in rows if row["significant"]] == ["call0"]
    compare(a, c, "--fail-above", "30%")
    compare(c, a, "--fail-above", "5%")  # faster


def student(freedom):
    """The 97.5 % point, by integrating the density."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(
        freedom * math.pi)
    t, area, step = 0.0, 0.5, 1e-4
    while area < 0.975:
        area += step * scale * (1 + (t + step / 2)**2 / freedom)**(-(freedom + 1) / 2)
        t += step
    return t


def test_operands_of_several_runs(tmp_path):
    for i in range(3):
        write(tmp_path / f"t{i}.pfw", [("read", 10)] * (i + 1), f"run{i}")
    write(tmp_path / "one,two.pfw", [("read", 10)])
    commas = ",".join(str(tmp_path / f"t{i}.pfw") for i in range(3))
    for operand in (commas, f"{tmp_path}/t?.pfw"):
        rows, summary = compare(operand, tmp_path / "one,two.pfw")
        assert (summary["runs_a"], summary["runs_b"]) == (3, 1)
        assert (rows[0]["count_a"], rows[0]["count_b"]) == (2, 1)


def test_sides_with_dashes_between(tmp_path):
    for i in range(4):
        write(tmp_path / f"t{i}.pfw", [("read", 10)] * (i + 1), f"run{i}")
        foreign = (tmp_path / f"t{i}.pfw").read_text().split("\n", 1)[1]
        (tmp_path / f"f{i}.pfw").write_text("[\n" + foreign)
    for kind in "tf":
        names = [tmp_path / f"{kind}{i}.pfw" for i in range(4)]
        _, summary = compare(*names[:1], *names[1:2])
        assert (summary["runs_a"], summary["runs_b"]) == (1, 1)
        for words in (names[:3] + ["--"] + names[3:], names[:1] + ["--", *names[1:]]):
            done = harness.run([PFW, "compare", "--format", "ndjson", *words])
            summary = json.loads(done.stdout.splitlines()[-1])
            assert (summary["runs_a"], summary["runs_b"]) == (
                words.index("--"), len(words) - words.index("--") - 1)
    for words in (["--", names[0], names[1]], [names[0], names[1], "--"], [names[0], "--", names[1]]):
        done = harness.run([PFW, "compare", "--format", "ndjson", *words])
        assert json.loads(done.stdout.splitlines()[-1])["runs_b"] == 1


def test_more_calls_are_a_change(tmp_path):
    """Their durations are the same; the total is not."""
    chance = random.Random(5)
    for side, calls in (("a", 100), ("b", 150)):
        (tmp_path / side).mkdir()
        for i in range(4):
            write(tmp_path / side / f"{i}.pfw",
                  [("read", chance.uniform(9, 11)) for _ in range(calls)], f"{side}{i}")
    rows, _ = compare(tmp_path / "a", tmp_path / "b", "--fail-above", "20%", status=1)
    assert rows[0]["significant"] and 45 < rows[0]["total_change"] < 55
    assert abs(rows[0]["change"]) < 5


# ---- real programs ----

def test_real_runs(tmp_path):
    """Run, compared with itself: everything is equal.  Its every figure is in the trace."""
    program = "import os\nfor i in range(100): os.stat('/etc/passwd')"
    harness.run([PFW, "run", "-q", "-o", tmp_path / "t", "--all", "--", "/usr/bin/python3", "-c",
                 program])
    rows, summary = compare(tmp_path / "t", tmp_path / "t.pfw", "--fail-above", "0%")
    counts = collections.Counter(line["name"] for line in harness.read_lines(tmp_path / "t.pfw")
                                 if line["ph"] == "X")
    assert {row["name"]: row["count_a"] for row in rows} == counts and counts["stat"] >= 100
    assert all(row["difference"] == 0 for row in rows) and summary["significant"] == 0


# ---- from the index ----

ASKED = [[], ["--format", "ndjson"], ["-g", "cat"], ["-g", "name"], ["-g", "rank,name"], ["--cat", "P*"],
         ["--name", "*e*"]]


def lines_of_run(seed, count, slow=1.0):
    """Lines of a run, without its head: calls, spans, operators, kernels, allocations, sums, of several processes
    and threads, many at the same time, some at the same nanosecond."""
    chance, found = random.Random(seed), []
    names = [("read", "POSIX", {}), ("fread", "STDIO", {}), ("we\\u00e9k", "app", {}), ("a\\\"b", "app", {}),
             ("aten::mm", "PP", {"kind": "cpu_op"}), ("aten::is_leaf", "PP", {"kind": "cpu_op"}),
             ("gemm", "PP", {"kind": "kernel", "device": 1}), ("[memory]", "PP", {"kind": "memory", "bytes": 64}),
             ("twice", "PP", {"kind": "kernel"}), ("twice", "PP", {"kind": "cpu_op"}), ("twice", "PP", {})]
    for number in range(count):
        # Half of all calls have one name, so that its sample is full.
        name, cat, args = names[0] if chance.random() < 0.5 else chance.choice(names)
        if chance.random() < 0.02:
            name, cat = f"ProfilerStep#{number}", chance.choice(["PP", "app", "POSIX"])
        ts = 1795230878000000000 + chance.randrange(count * 300) * 10
        dur = chance.choice([0, 1, int(slow * chance.lognormvariate(8, 1)), 2**40])
        pid = chance.choice([7, 8, 9])
        begin = f'{{"id":{number},"name":"{name}","cat":"{cat}","pid":{pid},"tid":{pid + number % 2},"ts":{us(ts)},'
        if chance.random() < 0.02:
            found.append(f'{{"id":{number},"name":"summed","cat":"pfw","pid":{pid},"tid":{pid},"ts":{us(ts)},"ph":"M",'
                         f'"args":{{"name":"read","fname":"/f","count":{number},"dur":{us(dur)},"bytes":1}}}}\n')
        elif chance.random() < 0.02:
            found.append(f'{begin}"ph":"i","args":{json.dumps(args)}}}\n')
        else:
            found.append(f'{begin}"dur":{us(dur)},"ph":"X","args":{json.dumps(args)}}}\n')
    return found


def us(ns):
    return f"{ns // 1000}.{ns % 1000:03}"


def put(path, lines, run="r", rank=-1, number=0):
    """`number`: that of a process, which is in no other file."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(head(run, rank).replace('"pid": 1,', f'"pid": {100 + number},') + "\n" + "".join(lines))


def answers(a, b, *options, asked=ASKED):
    return [harness.run([PFW, "compare", *words, *options, a, b]).stdout for words in asked]


def lie(trace):
    """Change times in the middle of the trace, which its index cannot see."""
    text = trace.read_text()
    part = slice(len(text) * 2 // 5, len(text) // 2)
    trace.write_text(text[:part.start] + text[part].replace('"dur":1.', '"dur":7.') + text[part.stop:])


@pytest.mark.parametrize("seed", range(8))
def test_index_gives_what_lines_give(tmp_path, seed):
    """Raw, gz and compacted, of several ranks, killed or not; and however the lines are split over files."""
    chance = random.Random(seed)
    runs = {side: lines_of_run(10 * seed + number, chance.choice([60, 900, 9000]), 1 + number * seed / 10)
            for number, side in enumerate("ab")}
    for side, lines in runs.items():
        for number in range(3):
            put(tmp_path / f"{side}1" / f"t-rank{number}.pfw", lines[number::3], side, number, number)
    true = answers(tmp_path / "a1", tmp_path / "b1", "--no-index")
    for side in "ab":
        harness.run([PFW, "compact", "-q", "--force", "--keep", "-o", tmp_path / f"{side}2", tmp_path / f"{side}1"],
                    status=None)
        harness.run([PFW, "index", "-q", tmp_path / f"{side}1"])
    assert len(list(tmp_path.glob("?2/*.idx"))) == 6
    for a, b in ("a1", "b1"), ("a2", "b2"), ("a1", "b2"):
        assert answers(tmp_path / a, tmp_path / b) == true
    for side in "ab":
        harness.run([PFW, "index", "--partial", "-q", "-o", tmp_path / f"{side}.partial", tmp_path / f"{side}2"])
    assert answers(tmp_path / "a.partial", tmp_path / "b.partial", asked=ASKED[:-1]) == true[:-1]
    assert answers(tmp_path / "a.partial", tmp_path / "b1", asked=ASKED[:-1]) == true[:-1]


@pytest.mark.parametrize("seed", range(6))
def test_any_split_of_a_run_gives_the_same(tmp_path, seed):
    """Lines of any process in any file, in any order."""
    chance = random.Random(seed)
    runs = {side: lines_of_run(77 * seed + number, chance.choice([700, 12000])) for number, side in enumerate("ab")}
    for side, lines in runs.items():
        put(tmp_path / f"{side}0" / "t.pfw", lines, side)
    true = answers(tmp_path / "a0", tmp_path / "b0", "--no-index")[:4]
    for split in range(1, 4):
        for side, lines in runs.items():
            pieces = [[] for _ in range(chance.randrange(1, 9))]
            for line in lines:
                chance.choice(pieces).append(line)
            for number, piece in enumerate(pieces):
                put(tmp_path / f"{side}{split}" / f"t{chance.random()}.pfw", chance.sample(piece, len(piece)), side,
                    number=number)
        for options in (["--no-index"], []):
            assert answers(tmp_path / f"a{split}", tmp_path / f"b{split}", *options)[:4] == true
            harness.run([PFW, "index", "-q", tmp_path / f"a{split}", tmp_path / f"b{split}"])
        assert answers(tmp_path / f"a{split}", tmp_path / f"b{split}")[:4] == true


def test_it_is_the_index_that_answers(tmp_path):
    for number, side in enumerate("ab"):
        put(tmp_path / f"{side}.pfw", lines_of_run(number, 120000), side)
    traces = tmp_path / "a.pfw", tmp_path / "b.pfw"
    harness.run([PFW, "index", "-q", *traces])
    true = answers(*traces)
    lie(traces[0])
    assert answers(*traces)[0] == true[0] != answers(*traces, "--no-index")[0]


def test_what_is_in_no_index_is_read(tmp_path):
    for number, side in enumerate("ab"):
        put(tmp_path / f"{side}.pfw", lines_of_run(number, 3000), side)
    traces = tmp_path / "a.pfw", tmp_path / "b.pfw"
    asked = [["-g", "tid"], ["-g", "step"], ["--since", "+1ms"], ["--pid", "7"], ["--min-dur", "1us"],
             ["--where", "dur>1us"], ["--name", "ProfilerStep*"]]
    before = [harness.run([PFW, "compare", *words, *traces], status=None).stdout for words in asked]
    harness.run([PFW, "index", "-q", *traces])
    for words, expected in zip(asked, before):
        assert harness.run([PFW, "compare", *words, *traces], status=None).stdout == expected, words
    write(tmp_path / "c.pfw", [("ProfilerStep#1", 9, {}, "PP")])
    harness.run([PFW, "index", "--partial", "-q", "-o", tmp_path / "a.partial", tmp_path / "c.pfw"])
    for words in asked:
        done = harness.run([PFW, "compare", *words, tmp_path / "a.partial", traces[1]], status=2)
        assert "is in no partial: read the trace itself" in done.stderr and not done.stdout


@pytest.mark.parametrize("names", [1500, 9000, 17000])
def test_many_names_have_small_samples(tmp_path, names):
    """Each of them less, and too many none: then the lines answer, and say the same."""
    chance = random.Random(names)
    for side in "ab":
        calls = [(f"n{number % names}", chance.lognormvariate(3, 1), {}, "app") for number in range(3 * names)]
        calls += [("read", chance.lognormvariate(3, 1)) for _ in range(3000)]
        write(tmp_path / f"{side}.pfw", calls, side)
    traces = tmp_path / "a.pfw", tmp_path / "b.pfw"
    asked = [["--format", "ndjson"], ["--cat", "POSIX", "--format", "ndjson"], ["-g", "cat"]]
    true = [harness.run([PFW, "compare", *words, "--no-index", *traces]).stdout for words in asked]
    harness.run([PFW, "index", "-q", *traces])
    assert [harness.run([PFW, "compare", *words, *traces]).stdout for words in asked] == true
    assert json.loads(true[0].splitlines()[-1])["tested"] == (names <= 16384)


def test_the_first_answer_leaves_indexes(tmp_path):
    for side in "ab":
        write(tmp_path / f"{side}.pfw", [("read", 5 + i % 7) for i in range(3000)], side)
    traces = tmp_path / "a.pfw", tmp_path / "b.pfw"
    environment = harness.clean_environment(PFW_INDEX_EVENTS="1000")
    true = harness.run([PFW, "compare", "--no-index", *traces], environment)
    first = harness.run([PFW, "compare", *traces], environment)
    assert first.stdout == true.stdout and first.stderr.count("the next answers come at once") == 2
    assert (tmp_path / "a.pfw.idx").exists() and (tmp_path / "b.pfw.idx").exists()
    assert harness.run([PFW, "compare", *traces], environment).stderr == ""
