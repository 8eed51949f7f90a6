"""Real programs, untraced and traced: nothing about them changes, and the trace is whole and true.

Each case runs three times in directories whose names are equally long: by itself, traced to plain
text, traced to gzip.  What it prints, its status and the files it leaves must be the same.  Where
the program does its I/O by libc's POSIX calls, the trace counts what `strace -f` counts.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import pandas
import pytest

import harness

PYTHON = "/usr/bin/python3"
RUNS = {"plain": None, "trac1": ".pfw", "trac2": ".pfw.gz"}


def fill(work):
    """The input of every case."""
    (work / "text").write_text("".join(f"line {n} of the text\n" for n in range(5000)))
    (work / "bytes").write_bytes(b"".join(hashlib.sha256(b"%d" % n).digest()
                                          for n in range(10000)))
    tree = work / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    for n in range(12):
        (tree / "deep" / f"f{n}").write_text(f"file {n}\n" * n)
    (tree / "name with spaces, ü and \"quotes\"").write_text("x")
    os.symlink("deep/f3", tree / "link")
    for path in [work, *work.rglob("*")]:
        os.utime(path, (1_700_000_000, 1_700_000_000), follow_symlinks=False)


def snapshot(work):
    """{path: what is there} of all that a program left."""
    found = {}
    for path in sorted(work.rglob("*")):
        name = str(path.relative_to(work))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "directory"
    return found


def c_project(work):
    project = work / "project"
    project.mkdir()
    names = ["main", *(f"part{n}" for n in range(6))]
    for name in names[1:]:
        (project / f"{name}.c").write_text(f"int {name}(int x) {{ return x + {len(name)}; }}\n")
    calls = " + ".join(f"{name}(1)" for name in names[1:])
    (project / "main.c").write_text(
        "#include <stdio.h>\n" + "".join(f"int {name}(int);\n" for name in names[1:]) +
        f'int main(void) {{ printf("%d\\n", {calls}); return 0; }}\n')
    objects = " ".join(f"{name}.o" for name in names)
    (project / "Makefile").write_text(
        f"prog: {objects}\n\t@gcc -o $@ {objects}\n\t@./prog\n"
        "%.o: %.c\n\t@gcc -g0 -c -o $@ $<\n")


def script(work, name, text):
    (work / name).write_text(textwrap.dedent(text))


def bash_script(work):
    script(work, "script.sh", """\
        set -u
        grep -c 7 text
        cat text | sort -r | head -n 3
        ( cd tree/deep && cat f1 f2 f3 > ../joined; exit 3 )
        echo "subshell: $?"
        for n in 1 2 3; do echo "$n" >> counted; done
        while read -r line; do echo "<$line>"; done < counted
        x=$(wc -c < bytes); echo "$((x / 32))"
        diff <(sort text) <(sort -r text) > differences; echo "diff: $?"
        cat /no/such/file
        exec 5> held; echo five >&5; exec 5>&-
        { sleep 0.05; echo background > later; } & wait
        kill -TERM $BASHPID
        """)


def git_script(work):
    script(work, "git.sh", """\
        export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD
        git init -q -b main repo && cd repo && cp -r ../tree/. . && git add . &&
        git -c gc.auto=0 commit -q -m one && echo two > two && git add two &&
        git -c gc.auto=0 commit -q -m two && git log --oneline && git status --short && git fsck
        rm .git/index
        """)


def python_threads(work):
    script(work, "threads.py", """\
        import hashlib, threading
        def work(n):
            for turn in range(20):
                with open(f"out{n}", "ab") as out, open("text", "rb") as text:
                    out.write(hashlib.sha256(text.read() + bytes([turn])).digest())
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(sum(len(open(f"out{n}", "rb").read()) for n in range(8)), threading.active_count())
        """)


def python_processes(method):
    def prepare(work):
        script(work, "pool.py", f"""\
            import hashlib, multiprocessing, os, warnings
            warnings.simplefilter("error")
            def work(n):
                with open(f"out{{n}}", "wb") as out, open("text", "rb") as text:
                    out.write(hashlib.sha256(text.read() + bytes([n])).digest())
                return n * n
            if __name__ == "__main__":
                multiprocessing.set_start_method("{method}")
                pool = multiprocessing.Pool(3)
                print(sorted(pool.imap_unordered(work, range(24))))
                pool.close()
                pool.join()
            """)
    return prepare


def python_terminated(work):
    """Pool's `with` ends in terminate(): SIGTERM, by which the workers die."""
    script(work, "pool.py", """\
        import multiprocessing
        both = multiprocessing.Barrier(2)
        def begin():
            with open("begun", "a") as out:
                out.write("1")
            both.wait()  # else one worker may do it all, and the other nothing that is traced
        def work(n):
            with open(f"out{n}", "w") as out:
                out.write(str(n))
            return n
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2, begin) as pool:
                print(sum(pool.map(work, range(10))))
        """)


def nothing(work):
    del work


SQL = "create table t(a, b); insert into t select value, hex(value) from " \
      "generate_series(1, 3000); create index i on t(b); select count(*), max(b) from t; " \
      "update t set a = a + 1 where a % 3 = 0; pragma integrity_check; select * from missing;"

# name: (how to prepare, the command, its status)
CASES = {
    "cp": (nothing, ["cp", "-a", "tree", "copy"], 0),
    "cp-fails": (nothing, ["cp", "no-such", "text", "tree/"], 1),
    "cat": (nothing, ["cat", "text", "bytes", "tree/link"], 0),
    "dd": (nothing, ["dd", "if=bytes", "of=out", "bs=1000", "status=none", "conv=fsync"], 0),
    "tar": (nothing, ["tar", "--sort=name", "-cf", "all.tar", "tree", "text", "bytes"], 0),
    "tar-gzip": (nothing, ["tar", "--sort=name", "-czf", "all.tgz", "tree", "text"], 0),
    "gzip": (nothing, ["gzip", "-k", "text", "bytes"], 0),
    "sqlite": (nothing, ["sqlite3", "data.db", SQL], 1),
    "git": (git_script, ["bash", "git.sh"], 0),
    "bash": (bash_script, ["bash", "script.sh"], -15),
    "make": (c_project, ["make", "-s", "-j2", "-C", "project"], 0),
    "threads": (python_threads, [PYTHON, "threads.py"], 0),
    "fork": (python_processes("fork"), [PYTHON, "pool.py"], 0),
    "spawn": (python_processes("spawn"), [PYTHON, "pool.py"], 0),
    "terminate": (python_terminated, [PYTHON, "pool.py"], 0),
}
# Processes that a signal ends: their files are completed by `pfw repair`.
KILLED = {"bash", "terminate"}


class Case:
    """One program, run in all three ways."""

    def __init__(self, name, top):
        self.name, self.top = name, top
        self.prepare, self.command, self.status = CASES[name]
        self.spools = top / "spools"
        self.spools.mkdir()
        self.results = {mode: self.run(mode, suffix) for mode, suffix in RUNS.items()}

    def work(self, mode):
        work = self.top / mode
        work.mkdir()
        fill(work)
        self.prepare(work)
        return work

    def environment(self, mode, suffix):
        common = {"PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", "GZIP_OPT": ""}
        if not suffix:
            return harness.clean_environment(**common)
        (self.top / f"{mode}.d").mkdir()
        return harness.traced_environment(self.top / f"{mode}.d" / f"t{suffix}", self.spools,
                                          **common)

    def run(self, mode, suffix):
        work = self.work(mode)
        result = harness.run(self.command, self.environment(mode, suffix), work, self.status)
        hidden = re.compile(rf"/{mode}/")
        return {"stdout": hidden.sub("/here/", result.stdout),
                "stderr": hidden.sub("/here/", result.stderr), "files": snapshot(work)}

    def traces(self, mode):
        directory = self.top / f"{mode}.d"
        if os.listdir(self.spools):
            assert self.name in KILLED, os.listdir(self.spools)
            harness.run([harness.PFW, "repair", directory],
                        harness.clean_environment(PFW_SPOOL_DIR=str(self.spools)))
        reasons = ("exit", "exec") + (("recovered",) if self.name in KILLED else ())
        return {name: harness.check_trace(directory / name, reasons)
                for name in harness.trace_names(directory)}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    top = tmp_path_factory.mktemp(request.param).resolve()
    yield Case(request.param, top)
    shutil.rmtree(top)


def test_programs_do_the_same(case):
    for mode in ("trac1", "trac2"):
        assert case.results[mode] == case.results["plain"]


def test_traces_are_whole(case):
    for mode, suffix in RUNS.items():
        if suffix:
            traces = case.traces(mode)
            assert traces and all(name.endswith(suffix) for name in traces), list(traces)
            assert f"t{suffix}" in traces
            assert len({lines[0]["args"]["run"] for lines in traces.values()}) == 1
            assert all(harness.events(lines) for lines in traces.values())
            harness.run([harness.PFW, "validate", case.top / f"{mode}.d"])
    assert os.listdir(case.spools) == []


def expected_processes(case):
    """At least so many files: the processes that do I/O."""
    return {"bash": 8, "git": 5, "make": 8, "fork": 4, "spawn": 4, "terminate": 3,
            "tar-gzip": 2}.get(case.name, 1)


def test_each_process_has_its_file(case):
    traces = case.traces("trac1")
    assert len(traces) >= expected_processes(case), sorted(traces)
    pids = {}
    for name, lines in traces.items():
        pids.setdefault(lines[0]["pid"], []).append(name)
    for names in pids.values():  # several only where a process has exec'd
        ends = [traces[name][-1]["args"]["reason"] for name in names]
        assert ends.count("exec") >= len(names) - 1, {name: ends for name in names}


# Where the trace and strace see the same.  Each case: the files of which they do not, and why:
# fopen is one call for the program, and an openat, reads and a close inside libc for strace.
COUNTED = {
    "cp-fails": (),
    "cat": (),
    "dd": (),
    "gzip": (),
    "tar": (("close", "tree"), ("close", "tree/deep"), ("close", "tree/deep/er")),  # by closedir
    "sqlite": (("open", "data.db"),),   # the shell looks by fopen whether it is there, then open
    "threads": ("threads.py",),         # Python reads the program itself by stdio
    "fork": ("pool.py",),
}


def comparable(counts, work, leave):
    """By path below the work directory, links followed as strace shows them."""
    found = {}
    for (kind, path), count in counts.items():
        key = kind, os.path.relpath(os.path.realpath(path), work)
        if key not in leave and key[1] not in leave:
            found[key] = found.get(key, 0) + count
    return found


@pytest.mark.parametrize("case", COUNTED, indirect=True)
def test_counts_are_those_of_strace(case, tmp_path):
    work = case.top / "strac"
    work.mkdir()
    fill(work)
    case.prepare(work)
    _, seen = harness.strace_counts(case.command, work, work,
                                    case.environment("strac", None), tmp_path)
    traced = harness.traced_counts(case.traces("trac1").values(), case.top / "trac1")
    leave = COUNTED[case.name]
    assert comparable(traced, case.top / "trac1", leave) == comparable(seen, work, leave)
    assert sum(seen.values()) >= 4


def test_pandas_reads_them(tmp_path):
    case = Case("gzip", tmp_path.resolve())
    for mode, suffix in RUNS.items():
        if suffix:
            path = case.top / f"{mode}.d" / f"t{suffix}"
            frame = pandas.read_json(path, lines=True)
            lines = case.traces(mode)[f"t{suffix}"]
            assert len(frame) == len(lines)
            assert list(frame["name"]) == [line["name"] for line in lines]
            assert frame[frame.cat == "POSIX"].dur.sum() > 0


def test_jq_reads_them(tmp_path):
    case = Case("dd", tmp_path.resolve())
    expression = 'select(.cat=="POSIX")|[.name,.args.fname,.args.ret]|@tsv'
    lines = case.traces("trac1")["t.pfw"]
    printed = harness.run(["jq", "-r", expression, case.top / "trac1.d" / "t.pfw"]).stdout
    rows = [row.split("\t") for row in printed.splitlines()]
    assert rows == [[line["name"], line["args"].get("fname") or "", str(line["args"].get("ret", ""))]
                    for line in lines if line["cat"] == "POSIX"]
    reads = [row for row in rows if row[:2] == ["read", str(case.top / "trac1" / "bytes")]]
    assert sum(int(row[2]) for row in reads) == 320000 and len(reads) == 321


def test_run_does_what_the_variables_do(tmp_path):
    """`pfw run` and the five variables: the same events."""
    top = tmp_path.resolve()
    (top / "spools").mkdir()
    (top / "in").write_bytes(bytes(100000))
    command = ["dd", f"if={top}/in", f"of={top}/out", "bs=4096", "status=none"]
    harness.run(command, harness.traced_environment(top / "a", top / "spools"))
    (top / "out").unlink()
    ran = harness.run([harness.PFW, "run", "--all", "-o", top / "b", "--", *command],
                      harness.clean_environment(PFW_SPOOL_DIR=str(top / "spools")))
    assert ran.stdout == "" and 1 <= len(ran.stderr.splitlines()) <= 5
    told = [[(line["name"], line["args"]) for line in harness.events(harness.check_trace(path))
             if "stderr" not in str(line["args"]) and "pipe:" not in str(line["args"])]
            for path in (top / "a.pfw", top / "b.pfw")]
    assert told[0] == told[1] and len(told[0]) > 50


def test_trace_is_live(tmp_path):
    """What was recorded is in the file after PFW_FLUSH_MS, while the program goes on."""
    top = tmp_path.resolve()
    (top / "spools").mkdir()
    (top / "in").write_text("x")
    program = top / "live.py"
    program.write_text("import sys\nopen(sys.argv[1]).read()\nprint('go', flush=True)\n"
                       "sys.stdin.readline()\n")
    with subprocess.Popen([PYTHON, program, top / "in"], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=harness.traced_environment(
                              top / "t", top / "spools", PFW_FLUSH_MS="20")) as process:
        assert process.stdout.readline() == "go\n"
        while not any(line["args"].get("fname") == str(top / "in")
                      for line in (harness.read_lines(top / "t.pfw")
                                   if pathlib.Path(top / "t.pfw").exists() else [])):
            assert process.poll() is None
        process.communicate("\n")
    harness.check_trace(top / "t.pfw")


def test_repair_finds_what_was_never_begun(tmp_path):
    """Killed before its file was there: a directory, a base or the name itself lead to its spool."""
    top = tmp_path.resolve()
    (top / "spools").mkdir()
    for base, argument in (("d/a", "d"), ("d/b", "d/b"), ("d/c", "d/c.pfw")):
        program = "import os, sys; os.stat(sys.argv[1]); os.kill(os.getpid(), 9)"
        harness.run([PYTHON, "-c", program, top], cwd=top, status=-9,
                    environment=harness.traced_environment(
                        top / base, top / "spools", PFW_FLUSH_MS="60000"))
        assert len(os.listdir(top / "spools")) == 1
        (top / "d").mkdir(exist_ok=True)
        said = harness.run([harness.PFW, "repair", argument], cwd=top,
                           environment=harness.clean_environment(
                               PFW_SPOOL_DIR=str(top / "spools")))
        assert said.stderr == "" and f"{base}.pfw: " in said.stdout
        assert os.listdir(top / "spools") == []
        lines = harness.check_trace(top / f"{base}.pfw", ["recovered"])
        assert str(top) in [line["args"]["fname"] for line in harness.events(lines)]
