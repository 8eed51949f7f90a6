"""What builds with sanitizers need, for every test; in other builds nothing."""
import os
import subprocess

import pytest

import harness

OPTIONS = {
    # The runtime is behind our object, and looks for no leaks in other people's programs, nor at how they
    # free things.  Signals
    # and what they do stay the program's.  No log_path: for that the runtime calls mkdir(), ours that
    # is, before it is ready for anything; what it finds is a program's status and standard error.
    "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0:detect_stack_use_after_return=0:"
                    "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:"
                    "use_sigaltstack=0:allocator_may_return_null=1:alloc_dealloc_mismatch=0:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def start_with_runtime(popen):
    """subprocess.Popen's start, which has every program preload the runtime: those that link the
    recorder, or are told to preload it, need it."""
    def start(self, *arguments, env=None, **options):
        env = dict(os.environ if env is None else env)
        preload = env.get("LD_PRELOAD", "")
        if harness.RUNTIME not in preload:
            env["LD_PRELOAD"] = f"{preload}:{harness.RUNTIME}".lstrip(":")
        popen(self, *arguments, env=env, **options)
    return start


if harness.RUNTIME:
    os.environ.update(OPTIONS)
    subprocess.Popen.__init__ = start_with_runtime(subprocess.Popen.__init__)


# Commands of several threads, which ThreadSanitizer shall see at work with four, however few CPUs there are.
THREADED = ("index", "query", "table", "patterns", "overlap", "compare", "memory", "counters", "export", "compact")


def start_with_threads(popen):
    """subprocess.Popen's start, which gives our commands -j 4.  A test's own -j comes later, and counts."""
    def start(self, command, *arguments, **options):
        words = [str(word) for word in command] if isinstance(command, (list, tuple)) else []
        if len(words) > 1 and words[0] == harness.PFW and words[1] in THREADED:
            command = [*words[:2], "-j", "4", *words[2:]]
        popen(self, command, *arguments, **options)
    return start


if harness.RACES:
    subprocess.Popen.__init__ = start_with_threads(subprocess.Popen.__init__)


@pytest.fixture(autouse=True)
def races(tmp_path_factory, monkeypatch):
    """Under ThreadSanitizer a test fails if a `pfw` that it ran had a data race, whatever it looked at."""
    if not harness.RACES:
        yield
        return
    top = tmp_path_factory.mktemp("races")
    monkeypatch.setenv("TSAN_OPTIONS", "report_thread_leaks=0:atexit_sleep_ms=0:exitcode=0:"
                       f"suppressions={harness.SOURCE}/tests/tsan.supp:log_path={top}/race")
    yield
    reports = [path.read_text(errors="replace") for path in top.iterdir()]
    assert not reports, "\n".join(reports)[:20000]


def pytest_collection_modifyitems(items):
    left_out = harness.NOT_SANITIZED if harness.RUNTIME else harness.NOT_FOR_RACES if harness.RACES else {}
    for item in items:
        file, _, test = item.nodeid.partition("::")  # parameters may have slashes
        for start, why in left_out.items():
            if f"{file.rpartition('/')[2]}::{test}".startswith(start):
                item.add_marker(pytest.mark.skip(reason=f"sanitizer: {why}"))
