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


def pytest_collection_modifyitems(items):
    for item in items if harness.RUNTIME else []:
        file, _, test = item.nodeid.partition("::")  # parameters may have slashes
        for start, why in harness.NOT_SANITIZED.items():
            if f"{file.rpartition('/')[2]}::{test}".startswith(start):
                item.add_marker(pytest.mark.skip(reason=f"AddressSanitizer: {why}"))
