"""Names of traces, runs and ranks (docs/format.rst), by the variables that launchers set."""
import glob
import os
import re
import shutil
import stat
import subprocess

import pytest

import harness

STEPS = harness.BUILD / "tests" / "steps"
HOST = re.sub(r"[^A-Za-z0-9._:@-]", "_", os.uname().nodename)
PYTHON = "/usr/bin/python3"


class Place:
    """A directory of traces, d, one of spools, and what runs between them."""

    def __init__(self, top):
        self.top = top
        self.traces = top / "d"
        self.spools = top / "spools"
        self.traces.mkdir()
        self.spools.mkdir()

    def environment(self, base="d/t", **variables):
        return harness.traced_environment(base, self.spools, **variables)

    def run(self, *steps, base="d/t", program=STEPS, status=0, **variables):
        result = harness.run([program, *steps], self.environment(base, **variables), self.top,
                             status)
        assert result.stdout == ""
        assert os.listdir(self.spools) == []
        return result

    def start(self, *command, base="d/t", **variables):
        return subprocess.Popen([str(word) for word in command], cwd=self.top,
                                env=self.environment(base, **variables))

    def names(self):
        """Names of what is there, numbers of processes as N; each trace is whole."""
        for name in harness.trace_names(self.traces):
            harness.check_trace(self.traces / name, ("exit", "exec", "renamed"))
        assert harness.trace_names(self.traces) == sorted(os.listdir(self.traces))
        return sorted(re.sub(r"pid\d+", "pidN", name) for name in os.listdir(self.traces))

    def head(self, name):
        return harness.process_args(self.traces / name)

    def files_of(self, name):
        """What was opened, by the trace."""
        return [os.path.basename(line["args"]["fname"])
                for line in harness.events(harness.read_lines(self.traces / name), "open")]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path.resolve())


# ---- one process, its children ----

def test_single_process(place):
    place.run("write", "a")
    assert place.names() == ["t.pfw"]
    args = place.head("t.pfw")
    assert (args["rank"], args["world_size"], args["local_rank"]) == (-1, 1, -1)
    assert args["rank_source"] == "none" and args["host"] == os.uname().nodename
    assert args["cmd"] == f"{STEPS} write a" and args["ppid"] == os.getpid()
    assert args["format"] == 1 and args["clock"] in ("tsc", "cntvct", "monotonic")


def test_forked_child(place):
    place.run("write", "a", "fork", "write", "b")
    assert place.names() == ["t-pidN.pfw", "t.pfw"]
    child, parent = harness.trace_names(place.traces)
    assert child == f"t-pid{harness.read_lines(place.traces / child)[0]['pid']}.pfw"
    assert place.head(child)["ppid"] == harness.read_lines(place.traces / parent)[0]["pid"]
    assert place.files_of(child) == ["b"] and place.files_of(parent) == ["a"]


def test_children_of_children(place):
    place.run("write", "a", "fork", "write", "b", "fork", "write", "c", "fork", "exec", "write",
              "e")
    assert place.names() == ["t-pidN.pfw"] * 3 + ["t.pfw"]


def test_fork_and_exec(place):
    """The child between fork and exec records nothing, and leaves nothing."""
    place.run("write", "a", "fork", "exec", "write", "b")
    assert place.names() == ["t-pidN.pfw", "t.pfw"]


def test_parent_that_only_forks(place):
    place.run("fork", "write", "a")
    assert place.names() == ["t-pidN.pfw", "t.pfw"]
    assert [line["name"] for line in harness.events(harness.read_lines(
        place.traces / "t.pfw"))] == ["fork"]


def test_child_of_a_parent_that_records_nothing(place):
    """By a route that no wrapper sees: the child is a child all the same."""
    script = "import os, ctypes; c = ctypes.CDLL(None).syscall(57); " \
             "open('a', 'w') if not c else os.waitpid(c, 0)"
    place.run("-I", "-S", "-c", script, program=PYTHON, DFTRACER_DATA_DIR=str(place.top))
    assert place.names() == ["t-pidN.pfw"]


def looked_up(place):
    """Which other processes a traced one looks up in /proc."""
    environment = place.environment()
    preload = environment.pop("LD_PRELOAD")
    result = harness.run(["strace", "-e", "trace=openat", "-E", f"LD_PRELOAD={preload}", "true"],
                         environment, place.top)
    return re.findall(r'"/proc/(\d+)/stat"', result.stderr)


def test_ancestors_are_looked_up_only_where_one_may_be_traced(place):
    assert looked_up(place) == []
    (place.spools / f"pfw-{os.geteuid()}-{2**22}-1.spool").write_bytes(b"")
    assert str(os.getpid()) in looked_up(place)


def test_exec_in_one_process(place):
    place.run("write", "a", "exec", "write", "b", "exec", "write", "c")
    assert place.names() == ["t.2.pfw", "t.3.pfw", "t.pfw"]
    assert [place.files_of(name) for name in ("t.pfw", "t.2.pfw", "t.3.pfw")] == \
        [["a"], ["b"], ["c"]]
    ends = [harness.read_lines(place.traces / name)[-1]["args"]["reason"]
            for name in ("t.pfw", "t.2.pfw", "t.3.pfw")]
    assert ends == ["exec", "exec", "exit"]


def test_exec_twice_in_a_child(place):
    place.run("write", "a", "fork", "write", "b", "exec", "write", "c")
    assert place.names() == ["t-pidN.2.pfw", "t-pidN.pfw", "t.pfw"]


def test_child_in_another_directory(place):
    (place.top / "elsewhere").mkdir()
    place.run("write", "a", "fork", "chdir", "elsewhere", "write", "b", "exec", "write", "c")
    assert place.names() == ["t-pidN.2.pfw", "t-pidN.pfw", "t.pfw"]
    assert sorted(os.listdir(place.top / "elsewhere")) == ["b", "c"]


# ---- runs ----

def test_second_run_never_overwrites(place):
    place.run("write", "a")
    before = (place.traces / "t.pfw").read_bytes()
    place.run("write", "b")
    place.run("write", "c")
    assert place.names() == ["t.2.pfw", "t.3.pfw", "t.pfw"]
    assert (place.traces / "t.pfw").read_bytes() == before
    assert place.files_of("t.3.pfw") == ["c"]


def runs_of(place):
    return {name: place.head(name)["run"] for name in harness.trace_names(place.traces)}


def test_run_is_the_same_for_all_its_processes(place):
    place.run("write", "a", "fork", "write", "b", "exec", "write", "c", "fork", "write", "e")
    first = set(runs_of(place).values())
    assert len(first) == 1 and len(runs_of(place)) == 4
    place.run("write", "a", "fork", "write", "b")
    assert len(set(runs_of(place).values()) - first) == 1


@pytest.mark.parametrize("variables, run", [
    ({"PFW_RUN": "mine"}, "mine"),
    ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "3"}, "slurm-7.3"),
    ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "3", "SLURM_RESTART_COUNT": "2"}, "slurm-7.3-r2"),
    ({"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": "1"}, "torch-x-r1"),
])
def test_run_of_a_job(place, variables, run):
    place.run("write", "a", **variables)
    assert place.head("t.pfw")["run"] == run


def test_each_mpirun_of_a_job_is_a_run(place):
    """Also of ranks whose launcher is traced, since on other nodes it is no ancestor."""
    script = f"echo > x; for n in 1 2; do PMIX_NAMESPACE=$n PMIX_RANK=0 {STEPS} write a fork write b; done"
    place.run("-c", script, program="/bin/sh", SLURM_JOB_ID="7", SLURM_PROCID="0", SLURM_NTASKS="2",
              SLURM_TASK_PID="1")
    assert sorted(runs_of(place).values()) == ["slurm-7", "slurm-7.1", "slurm-7.1", "slurm-7.2", "slurm-7.2"]
    assert place.head("t.pfw")["rank"] == -1 and place.head("t-rank0000.2.pfw")["run"] == "slurm-7.2"


def test_pfw_run_names_one_free_name(place):
    for base in ("t", "t.2"):
        harness.run([harness.PFW, "run", "-q", "--all", "-o", "d/t", "--", STEPS, "write", "a",
                     "fork", "write", "b"], cwd=place.top,
                    environment=harness.clean_environment(PFW_SPOOL_DIR=str(place.spools)))
        traces = [name for name in harness.trace_names(place.traces)
                  if re.fullmatch(rf"{re.escape(base)}(-pid\d+)?\.pfw", name)]
        assert len(traces) == 2, os.listdir(place.traces)
        assert len({place.head(name)["run"] for name in traces}) == 1
    assert len(harness.trace_names(place.traces)) == 4
    assert len(set(runs_of(place).values())) == 2


# ---- ranks ----

RANKS = {
    "RANK": ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, 8, 1),
    "PFW_RANK": ({"PFW_RANK": "3", "RANK": "5", "WORLD_SIZE": "8"}, 8, -1),
    "MINE": ({"PFW_RANK_VAR": "MINE", "MINE": "3", "WORLD_SIZE": "8", "RANK": "4"}, 8, -1),
    "OMPI_COMM_WORLD_RANK": ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8",
                              "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 8, 1),
    "PMI_RANK": ({"PMI_RANK": "3", "PMI_SIZE": "8"}, 8, -1),
    "MV2_COMM_WORLD_RANK": ({"MV2_COMM_WORLD_RANK": "3", "MV2_COMM_WORLD_SIZE": "8"}, 8, -1),
    "FLUX_TASK_RANK": ({"FLUX_TASK_RANK": "3", "FLUX_JOB_SIZE": "8"}, 8, -1),
    "JSM_NAMESPACE_RANK": ({"JSM_NAMESPACE_RANK": "3", "JSM_NAMESPACE_SIZE": "8"}, 8, -1),
    "SLURM_PROCID": ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}, 8, 1),
}


@pytest.mark.parametrize("source", RANKS)
def test_rank_by_the_launchers_variables(place, source):
    variables, world_size, local_rank = RANKS[source]
    place.run("write", "a", "fork", "write", "b", **variables)
    assert place.names() == ["t-rank0003-pidN.pfw", "t-rank0003.pfw"]
    for name in harness.trace_names(place.traces):
        args = place.head(name)
        assert (args["rank"], args["world_size"], args["local_rank"], args["rank_source"]) == \
            (3, world_size, local_rank, source)


@pytest.mark.parametrize("variables", [
    {"RANK": "0", "WORLD_SIZE": "1"}, {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, {"RANK": "3"},
    {"RANK": "x", "WORLD_SIZE": "8"},
])
def test_no_rank_in_a_world_of_one(place, variables):
    place.run("write", "a", **variables)
    assert place.names() == ["t.pfw"]


def test_eight_ranks_at_once(place):
    """One directory, one name, no two writers on one file, one run; twice."""
    for turn in (1, 2):
        ranks = [place.start(STEPS, "write", f"a{rank}", "fork", "write", f"b{rank}",
                             RANK=str(rank), WORLD_SIZE="8", LOCAL_RANK=str(rank))
                 for rank in range(8)]
        assert [rank.wait(300) for rank in ranks] == [0] * 8
        expected = [f"t-rank000{rank}{part}.pfw" for rank in range(8)
                    for part in ["-pidN", ""] * turn]
        expected = [name.replace(".pfw", ".2.pfw") if turn == 2 and "pid" not in name and
                    n % 4 == 3 else name for n, name in enumerate(expected)]
        assert place.names() == sorted(expected)
    assert len(set(runs_of(place).values())) == 1  # one session started both: nothing tells more
    for rank in range(8):
        assert place.files_of(f"t-rank000{rank}.pfw") == [f"a{rank}"]
        assert place.files_of(f"t-rank000{rank}.2.pfw") == [f"a{rank}"]


def test_pfw_ranks_records_these_only(place):
    for rank in range(10):
        place.run("write", "a", "fork", "write", "b", RANK=str(rank), WORLD_SIZE="16",
                  PFW_RANKS="0,8-15")
    assert place.names() == [f"t-rank000{rank}{part}.pfw" for rank in (0, 8, 9)
                             for part in ("-pidN", "")]


# ---- launchers ----

AGENT = """
import os, subprocess, sys
open(f"agent{os.environ['SLURM_PROCID']}", "w").close()
first = 2 * int(os.environ["SLURM_PROCID"])
workers = [subprocess.Popen([*sys.argv[1:], "write", f"worker{first + n}", "fork", "write",
                             f"loader{first + n}"],
                            env={**os.environ, "RANK": str(first + n), "WORLD_SIZE": "4",
                                 "LOCAL_RANK": str(n), "LOCAL_WORLD_SIZE": "2",
                                 "TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "here",
                                 "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "0"})
           for n in range(2)]
sys.exit(max(worker.wait() for worker in workers))
"""


@pytest.mark.parametrize("how", ["script", "module"])
def test_torchrun_under_srun(place, how):
    """Two nodes, an agent each, which srun has given a rank; two workers each."""
    (place.top / "torch" / "distributed").mkdir(parents=True)
    (place.top / "torch" / "distributed" / "run.py").write_text(AGENT)
    (place.top / "torchrun").write_text(AGENT)
    command = [PYTHON, "torchrun"] if how == "script" else \
        [PYTHON, "-m", "torch.distributed.run"]
    agents = [place.start(*command, STEPS, SLURM_JOB_ID="77", SLURM_STEP_ID="0",
                          SLURM_PROCID=str(node), SLURM_NTASKS="2", SLURM_LOCALID="0",
                          PYTHONDONTWRITEBYTECODE="1") for node in range(2)]
    assert [agent.wait(300) for agent in agents] == [0, 0]
    assert place.names() == [f"t-launcher-{HOST}-pidN.pfw"] * 2 + \
        [f"t-rank000{rank}{part}.pfw" for rank in range(4) for part in ("-pidN", "")]
    assert set(runs_of(place).values()) == {"slurm-77.0"}
    for rank in range(4):
        args = place.head(f"t-rank000{rank}.pfw")
        assert (args["rank"], args["world_size"], args["local_rank"], args["rank_source"]) == \
            (rank, 4, rank % 2, "RANK")
        assert place.files_of(f"t-rank000{rank}.pfw") == [f"worker{rank}"]


@pytest.mark.parametrize("name", ["torchrun", "accelerate", "deepspeed", "mpirun", "srun",
                                  "mpiexec.hydra"])
def test_launcher_by_its_name(place, name):
    shutil.copy(STEPS, place.top / name)
    place.run("write", "a", program=place.top / name)
    place.run("write", "a", program=place.top / name, RANK="1", WORLD_SIZE="2")
    assert place.names() == [f"t-launcher-{HOST}-pidN.pfw"] * 2
    for path in place.traces.iterdir():
        assert harness.process_args(path)["rank"] == -1


# ---- bases and suffixes ----

def test_words(place):
    place.run("write", "a", base="d/%p_%h_%r_%j_%q{MY_NAME}_%%", SLURM_JOB_ID="7", RANK="3",
              WORLD_SIZE="8", MY_NAME="x y")
    (name,) = os.listdir(place.traces)
    pid = harness.read_lines(place.traces / name)[0]["pid"]
    assert name == f"{pid}_{HOST}_3_7_x y_%-rank0003.pfw"


def test_bad_word(place):
    result = place.run("write", "a", base="d/%z")
    assert place.names() == []
    assert result.stderr == "pfw: DFTRACER_LOG_FILE: the trace's name has no word %z; it takes " \
        "%p %h %r %j %q{VAR} %%; nothing is recorded under it\n"


def test_no_words_in_directories(place):
    """A relative base below a directory with a word in its own name."""
    odd = place.top / "100%p%%h"
    (odd / "d").mkdir(parents=True)
    harness.run([STEPS, "write", "a", "fork", "exec", "write", "b"], place.environment(), odd)
    assert [re.sub(r"pid\d+", "pidN", name) for name in harness.trace_names(odd / "d")] == \
        ["t-pidN.pfw", "t.pfw"]


@pytest.mark.parametrize("base, compression, name", [
    ("d/t", "0", "t.pfw"), ("d/t", "1", "t.pfw.gz"), ("d/t.pfw", "1", "t.pfw"),
    ("d/t.pfw.gz", "0", "t.pfw.gz"), ("d/new/deep/t", "0", None), ("d/.", "0", "trace.pfw"),
])
def test_suffix_chooses_compression(place, base, compression, name):
    place.run("write", "a", base=base, DFTRACER_TRACE_COMPRESSION=compression)
    if name is None:
        harness.check_trace(place.top / (base + ".pfw"))
        return
    assert place.names() == [name]
    magic = (place.traces / name).read_bytes()[:2]
    assert (magic == b"\x1f\x8b") == name.endswith(".gz")


def test_absolute_base(place):
    place.run("chdir", "spools", "write", "../a", base=str(place.traces / "abs"))
    assert place.names() == ["abs.pfw"]


# ---- late names ----

def test_late_rank(place):
    place.run("write", "a", "flush", "rank", "3", "8", "write", "b", "fork", "write", "c")
    assert place.names() == ["t-rank0003-pidN.pfw", "t-rank0003.pfw"]
    assert place.files_of("t-rank0003.pfw") == ["a", "b"]
    lines = harness.read_lines(place.traces / "t-rank0003.pfw")
    (late,) = harness.own(lines, "rank")
    assert late["args"] == {"rank": 3, "world_size": 8, "local_rank": -1,
                            "rank_source": "pfw_set_rank"}
    assert lines[0]["args"]["rank"] == -1
    child = [name for name in harness.trace_names(place.traces) if "pid" in name]
    assert place.head(child[0])["rank"] == 3


def test_late_rank_before_anything(place):
    place.run("rank", "1", "2", "write", "a")
    assert place.names() == ["t-rank0001.pfw"]
    assert place.head("t-rank0001.pfw")["rank_source"] == "pfw_set_rank"


def test_late_rank_wins_over_variables(place):
    place.run("write", "a", "flush", "rank", "1", "2", "write", "b", RANK="3", WORLD_SIZE="8")
    assert place.names() == ["t-rank0001.pfw"]


def test_late_rank_where_the_name_is_taken(place):
    (place.traces / "t-rank0001.pfw").write_bytes(b"somebody's")
    place.run("write", "a", "flush", "rank", "1", "2", "write", "b")
    assert (place.traces / "t-rank0001.pfw").read_bytes() == b"somebody's"
    harness.check_trace(place.traces / "t-rank0001.2.pfw")


def test_impossible_ranks(place):
    for rank, size in ((-1, 2), (2, 2), (0, 0)):
        result = harness.run([STEPS, "rank", rank, size], cwd=place.top,
                             environment=place.environment(DFTRACER_DATA_DIR="/nowhere"))
        assert result.stdout == "rank: -22\n" and place.names() == []


def test_start_under_another_name(place):
    place.run("write", "a", "flush", "start", "d/other", "write", "b", "fork", "write", "c")
    assert place.names() == ["other-pidN.pfw", "other.pfw"]
    assert place.files_of("other.pfw") == ["a", "b"]


def test_start_under_another_name_before_anything(place):
    place.run("start", "d/other", "write", "a")
    assert place.names() == ["other.pfw"]


@pytest.mark.parametrize("before, after", [("", ".pfw.gz"), (".pfw.gz", ".pfw"),
                                           (".pfw.gz", "")])
def test_start_with_another_suffix(place, before, after):
    """What was begun stays what it is, and its suffix says so; what comes is as was asked."""
    place.run("write", "a", "flush", "start", f"d/other{after}", "write", "b", "fork", "write", "c",
              base=f"d/t{before}")
    kept = before or ".pfw"
    assert place.names() == sorted([f"other{kept}", f"other-pidN{after or '.pfw'}"])
    for path in place.traces.iterdir():
        assert (path.read_bytes()[:2] == b"\x1f\x8b") == path.name.endswith(".gz"), path
    assert place.files_of(f"other{kept}") == ["a", "b"]


@pytest.mark.parametrize("before, after", [("", ".pfw.gz"), (".pfw.gz", ".pfw"),
                                           (".pfw.gz", "")])
def test_start_with_a_suffix_before_anything(place, before, after):
    place.run("start", f"d/other{after}", "write", "a", base=f"d/t{before}")
    (name,) = place.names()
    assert name == f"other{after or '.pfw'}"
    assert ((place.traces / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_programs_run_after_another_name_keep_it(place):
    place.run("start", "d/other", "write", "a", "fork", "exec", "write", "b")
    assert place.names() == ["other-pidN.pfw", "other.pfw"]


def test_the_name_of_run_wins(place):
    """What the program says of its trace's name does not count against what its user says."""
    harness.run([harness.PFW, "run", "-q", "--all", "-o", "d/t", "--", STEPS, "start", "d/other.pfw.gz",
                 "write", "a", "fork", "write", "b"], cwd=place.top,
                environment=harness.clean_environment(PFW_SPOOL_DIR=str(place.spools)))
    assert place.names() == ["t-pidN.pfw", "t.pfw"]
    assert place.files_of("t.pfw") == ["a"]


def test_start_under_an_impossible_name(place):
    """Said, and the trace goes on under the name that it has; so do its children."""
    for name, word in (("d/%z", "%z"), ("d/" + 300 * "x", "too long"), (600 * "d/" + "x", "too long")):
        result = harness.run([STEPS, "write", "a", "flush", "start", name, "write", "b", "fork",
                              "write", "c"], place.environment(), place.top)
        assert re.fullmatch(r"start: -(22|36)\n", result.stdout)
        assert len(result.stderr.splitlines()) == 1 and word in result.stderr
        for path in place.traces.iterdir():
            harness.check_trace(path)
            path.unlink()


def test_a_base_that_is_too_long(place):
    deep = place.top / "/".join(11 * [98 * "d"])
    assert "too long" in harness.run([STEPS, "write", "a"], place.environment(str(deep)), place.top).stderr
    done = harness.run([harness.PFW, "run", "-o", deep, "true"], cwd=place.top, status=125)
    assert "File name too long" in done.stderr


def test_a_relative_name_in_a_directory_that_is_gone(place):
    """It went to the root directory."""
    gone = place.top / "gone"
    gone.mkdir()
    leave = lambda: (os.chdir(gone), os.rmdir(gone))
    said = harness.run([STEPS, "write", place.top / "a"], place.environment(gone.parent.name), preexec_fn=leave).stderr
    assert len(said.splitlines()) == 1 and "the current directory is not there" in said
    assert not glob.glob(f"/{gone.parent.name}*")


# ---- files ----

def test_nothing_recorded_leaves_nothing(place):
    place.run()
    place.run("write", "a", "thread", "b", DFTRACER_DATA_DIR="/nowhere")
    assert os.listdir(place.traces) == []


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o077, 0o600), (0o000, 0o666),
                                        (0o277, 0o400)])
def test_mode(place, mask, mode):
    harness.run([STEPS, "write", "a"], place.environment(), place.top, umask=mask)
    assert stat.S_IMODE((place.traces / "t.pfw").stat().st_mode) == mode


def test_spools_are_private(place):
    """Whatever the umask: they hold what the program did, for its owner."""
    target = harness.BUILD / "tests" / "guest_target"
    spools = place.top / "here"
    spools.mkdir()
    environment = place.environment(PFW_SPOOL_DIR=str(spools))
    harness.run([target, "modes", "1"], environment, place.top, umask=0)
    assert (place.top / "modes").read_text() == "600"


@pytest.mark.parametrize("there", [False, True], ids=["dangling", "file"])
def test_links_are_not_followed(place, there):
    victim = place.top / "victim"
    if there:
        victim.write_bytes(b"precious")
    os.symlink(victim, place.traces / "t.pfw")
    place.run("write", "a")
    assert sorted(os.listdir(place.traces)) == ["t.2.pfw", "t.pfw"]
    assert (place.traces / "t.pfw").is_symlink()
    assert victim.read_bytes() == b"precious" if there else not victim.exists()
    harness.check_trace(place.traces / "t.2.pfw")


def test_trace_is_not_in_the_trace(place):
    """A program that reads its own trace's directory does not fill the trace with itself."""
    program = "import os, sys; [open(f'd/{n}').read() for n in os.listdir('d') * 50]"
    harness.run([STEPS, "write", "a"], place.environment(), place.top)
    harness.run([PYTHON, "-S", "-c", program], place.environment(), place.top)
    lines = harness.check_trace(place.traces / "t.2.pfw")
    assert not [line for line in harness.events(lines, "read", "open")
                if ".pfw" in line["args"].get("fname", "")]
    (excluded,) = harness.own(lines, "excluded")
    assert excluded["args"]["trace"] >= 50
