"""The hard cases: a row each.  What the modes do stands in the C files beside this one."""
import dataclasses
import signal


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    shows: str
    # Mode and arguments of `torture`; whole numbers are multiplied by the scale.
    mode: tuple = ()
    # How many calls have to be in the trace: of the scale, or None where it is the witness that
    # says (races); at least 1 then.
    expect: object = None
    # The process, or one of its children, may die without having been able to end its trace.
    dies: bool = False
    # What is before the program on the command line: {dir} is the case's directory.
    before: tuple = ()
    variables: dict = dataclasses.field(default_factory=dict)
    # Another preload, by the name of its library: in front of the tracer's, and behind it.
    preload: tuple = ()
    program: str = "torture"
    # Seconds after which the runner kills it: between these two.
    kill: tuple = ()
    # Not all can be kept: what is missing has to be counted in the trace or said on stderr.
    may_lose: bool = False
    root: bool = False
    nobody: bool = False  # started as that user
    needs: tuple = ()  # commands
    # Not held against the scale: too long otherwise.
    rounds: int = 1


def all_cases():
    return [*threads(), *forks(), *execs(), *ends(), *fatal_signals(), *handlers(), *kills(),
            *namespaces(), *others(), *limits(), *surroundings(), *files(), *libraries()]


def threads():
    yield Case("threads", "threads are born and die by the hundred, 8 at a time",
               ("threads", 300), lambda s: 3000 * s)
    yield Case("threads-alive", "300 threads at once", ("threads-alive", "300"), lambda s: 6000)
    yield Case("tls-destructors", "thread-local destructors do I/O after the tracer's own have run",
               ("tls-destructors", 100), lambda s: 1 + 100 * s * (1 + 2 * 4))
    yield Case("streams", "8 threads in fopen and fclose", ("streams", 200), lambda s: 1600 * s)
    yield Case("cancel", "threads are cancelled in and between calls, and clean up with I/O",
               ("cancel", 100))
    yield Case("small-stacks", "threads on stacks of 16 KiB", ("small-stacks", 100),
               lambda s: 500 * s)
    yield Case("detached", "main returns while detached threads do I/O", ("detached", 20000))


def forks():
    for name, shows in (("fork", "fork, with work before and after"),
                        ("fork-first", "fork before anything was recorded"),
                        ("fork-raw", "clone(SIGCHLD) past libc: no handler of fork runs"),
                        ("_Fork", "_Fork: no handler of fork runs")):
        yield Case(name, shows, (name, 20), lambda s, first=name != "fork-first": first + 80 * s)
    yield Case("clone", "clone() on a stack of its own; the child ends past libc", ("clone", 5),
               lambda s: 1 + 20 * s)
    yield Case("vfork", "vfork; the child closes, dups, opens, and leaves by _exit",
               ("vfork", 30), lambda s: 1 + 30 * s)
    yield Case("vfork-exec", "vfork, then exec, which works and which fails", ("vfork-exec", 20),
               lambda s: 1 + 50 * s)
    yield Case("posix_spawn", "posix_spawn with file actions, and one that fails", ("spawn", 20),
               lambda s: 1 + 80 * s)
    yield Case("system", "system and popen", ("system", 5), lambda s: 1 + 35 * s)
    yield Case("daemon", "daemon(), by a child; its parent ends inside libc", ("daemon", 5),
               lambda s: 2 + 20 * s, dies=True)
    yield Case("fork-nested", "each child forks the next", ("fork-nested", "12"),
               lambda s: 12 * 3 + 11)
    yield Case("fork-exit", "children with threads and exit handlers", ("fork-exit", 10),
               lambda s: 1 + 10 * s * 11)
    yield Case("fork-storm", "a storm of forks, 32 alive at a time", ("fork-storm", 300),
               lambda s: 1 + 300 * s)
    yield Case("fork-threads", "fork while 4 threads do I/O", ("fork-threads", 50))
    yield Case("fork-from-threads", "4 threads fork while 2 others do I/O",
               ("fork-from-threads", 60))
    yield Case("fork-raw-threads", "clone past libc while others hold malloc's locks",
               ("fork-raw-threads", 50))
    yield Case("_Fork-threads", "_Fork while others hold malloc's locks", ("_Fork-threads", 50))
    yield Case("fork-raw-long", "such a child records more than its first ring holds",
               ("fork-raw-long", 20000))


def execs():
    yield Case("exec-chain", "a program that execs itself, by five of the calls",
               ("exec-chain", 10), lambda s: 30 * s)
    yield Case("exec-fails", "execs that fail, four ways", ("exec-fails", 20), lambda s: 40 * s)
    yield Case("exec-clean", "exec with an environment that has been cleaned: it stays clean",
               ("exec-clean", 20), lambda s: 20 * s)
    yield Case("exec-thread", "exec by a second thread while others do I/O", ("exec-thread", 10),
               dies=True)  # where the exec begins before the first event


def ends():
    for name, shows, more in (("return", "return from main", 0), ("exit", "exit", 0),
                              ("_exit", "_exit", 0), ("_Exit", "_Exit", 0),
                              ("quick_exit", "quick_exit, with a handler that does I/O", 4),
                              ("raw-exit", "the exit system call of the only thread", 0),
                              ("raw-exit_group", "the exit_group system call", 0),
                              ("abort", "abort", 0),
                              ("pthread_exit", "pthread_exit from main; a thread goes on", 10),
                              ("exit-in-thread", "exit by a second thread", 2),
                              ("atexit", "an exit handler that does I/O", 4)):
        yield Case("end-" + name, shows, ("end", 100, name),
                   lambda s, more=more: 100 * s + more,
                   dies=name in ("raw-exit", "raw-exit_group", "abort"))
    yield Case("exit-races", "11 ways to end, at random moments, while 3 threads do I/O",
               ("exit-races", 40), dies=True)


FATAL = [signal.Signals(n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26,
                                     27, 29, 30, 31)]


def fatal_signals():
    for number in FATAL:
        yield Case(f"{number.name}-default", "kills", ("signal", 50, str(int(number)), "default"),
                   lambda s: 50 * s, dies=True)
        yield Case(f"{number.name}-handled", "a handler does I/O, then dies of it",
                   ("signal", 50, str(int(number)), "handled"), lambda s: 50 * s + 3, dies=True)
    yield Case("SIGTERM-left", "a handler does I/O and leaves by _exit",
               ("signal", 50, str(int(signal.SIGTERM)), "left"), lambda s: 50 * s + 3)
    yield Case("stack-overflow", "the stack overflows", ("stack-overflow", 50), lambda s: 50 * s,
               dies=True)
    yield Case("stack-overflow-handled", "a handler on another stack does I/O and leaves",
               ("stack-overflow", 50, "handled"), lambda s: 50 * s + 3)
    yield Case("pipe-broken", "SIGPIPE kills", ("pipe-broken", 50), lambda s: 50 * s, dies=True)
    yield Case("pipe-broken-ignored", "SIGPIPE is ignored: EPIPE", ("pipe-broken", 50, "ignored"),
               lambda s: 50 * s + 1)


def handlers():
    yield Case("storm", "a signal every 100 us whose handler does I/O", ("storm", 500))
    yield Case("storm-nested", "such handlers, in each other", ("storm", 500, "nested"))
    yield Case("storm-threads", "such signals to 4 threads", ("storm-threads", 500))
    yield Case("first-in-handler", "a process's first event, in a handler that interrupted malloc",
               ("first-in-handler", 50), lambda s: 50 * s)
    yield Case("only-in-handlers", "all events in handlers, more than a ring holds",
               ("only-in-handlers", 20000), lambda s: 20000 * s)
    yield Case("longjmp", "siglongjmp out of handlers, in the middle of calls", ("longjmp", 300))
    yield Case("altstack", "handlers on a stack of 8 KiB", ("altstack", 300), lambda s: 300 * s)
    yield Case("sigwait", "a thread waits for signals that all others block", ("sigwait", 20),
               lambda s: 1 + 40 * s)
    yield Case("eintr", "calls are interrupted as before", ("eintr", 20), lambda s: 20 * s)
    yield Case("fork-in-handler", "_Fork in a handler", ("fork-in-handler", 10))
    yield Case("exit-in-handler", "_exit in a handler that interrupted malloc",
               ("exit-in-handler", 20))
    yield Case("stop", "SIGSTOP and SIGCONT while threads do I/O", ("stop", 3))


def kills():
    yield Case("kill-start", "SIGKILL while it starts", ("busy", "3000"), dies=True,
               kill=(0.0, 0.03), rounds=5, may_lose=False)
    yield Case("kill-busy", "SIGKILL while 3 threads do I/O", ("busy", "400000"), dies=True,
               kill=(0.03, 0.3), rounds=5)
    yield Case("kill-idle", "SIGKILL while nothing happens", ("idle", 700), lambda s: 700 * s,
               dies=True, kill=(0.3, 0.4))
    yield Case("kill-asleep", "SIGKILL when the writer has gone to rest", ("idle", 700),
               lambda s: 700 * s, dies=True, kill=(2.8, 3.0))


def namespaces():
    inside = ("unshare", "-pf", "--mount-proc")
    yield Case("container", "pid 1 of a container", ("end", 100, "return"), lambda s: 100 * s,
               before=inside, root=True, needs=("unshare",))
    yield Case("container-killed", "pid 1 of a container, which dies",
               ("end", 100, "raw-exit_group"), lambda s: 100 * s, dies=True, before=inside,
               root=True, needs=("unshare",))
    yield Case("containers", "pid 1 of three containers, one directory", ("end", 100, "return"),
               lambda s: 300 * s, before=inside, root=True, needs=("unshare",), rounds=3)
    yield Case("containers-killed", "the same, and each is killed", ("end", 100, "raw-exit_group"),
               lambda s: 300 * s, dies=True, before=inside, root=True, needs=("unshare",),
               rounds=3)
    yield Case("pid-again", "one child after the other has the same pid", ("pid-again", 20),
               lambda s: 1 + 60 * s, before=inside, root=True, needs=("unshare",))
    yield Case("crowd", "40 processes start in one directory at once", ("crowd", "40"),
               lambda s: 120)
    yield Case("ranks", "40 ranks start in one directory at once", ("crowd", "40", "ranks"),
               lambda s: 120)
    yield Case("ranks-container", "ranks whose session leader is outside the pid namespace",
               ("crowd", "8", "ranks"), lambda s: 24, before=inside, root=True,
               needs=("unshare",))


def others():
    for package, library, variables in (
            ("libjemalloc2", "libjemalloc.so.2", {}), ("fakeroot", "libfakeroot-sysv.so", {}),
            ("faketime", "libfaketime.so.1", {"FAKETIME": "-15d"}),
            ("coreutils", "libstdbuf.so", {"_STDBUF_O": "L"}), ("gcc", "libasan.so", {})):
        if package == "gcc":
            variables = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
        for place in ("before", "after"):
            yield Case(f"{package}-{place}", f"{library}, preloaded {place} the tracer",
                       ("fork-exit", 5), lambda s: 1 + 5 * s * 11, preload=(library, place),
                       variables=variables)
    yield Case("asan-program", "a program built with ASan", ("fork-exit", 5),
               lambda s: 1 + 5 * s * 11, program="torture-asan",
               preload=("libasan.so", "before"),
               variables={"ASAN_OPTIONS": "detect_leaks=0"})
    yield Case("setuid", "set-user-ID programs are left alone", ("ticks", 20), lambda s: 0,
               program="torture-setuid", root=True, nobody=True)


def limits():
    for left in (6, 5, 4):
        yield Case(f"nofile-{left}", f"RLIMIT_NOFILE is {left} from the start",
                   ("nofile-exec", 20, str(left)), lambda s: 20 * s)
    yield Case("nofile-none", "no descriptor is left, at the first event and ever after",
               ("nofile", 3000), lambda s: 3000 * s)
    for kib in ("65536", "1024", "64", "0"):
        yield Case(f"as-{kib}", f"{kib} KiB of address space are left", ("as", 3000, kib),
                   lambda s: 3000 * s, may_lose=int(kib) <= 1024)
    for size in ("0", "4096", "200000"):
        yield Case(f"fsize-{size}", f"RLIMIT_FSIZE is {size}", ("fsize", 3000, size),
                   lambda s: 3000 * s, may_lose=True, dies=True)
    yield Case("core", "RLIMIT_CORE is 0, then abort", ("core", 50), lambda s: 50 * s, dies=True)
    yield Case("nproc", "neither a thread nor a process more is allowed", ("nproc", 3000),
               lambda s: 3000 * s + 1, root=True, nobody=True)
    for rule, shows in (("table", "a descriptor table of the writer's own"),
                        ("thread", "a thread"), ("extras", "11 calls we would like")):
        yield Case(f"seccomp-{rule}", f"a filter refuses {shows}, from the start",
                   ("seccomp", 3000, rule, "exec"), lambda s: 3000 * s)
        yield Case(f"seccomp-{rule}-later", f"a filter refuses {shows}, after the first events",
                   ("seccomp", 3000, rule), lambda s: 6000 * s)


def surroundings():
    yield Case("drop", "root becomes nobody", ("drop", 200), lambda s: 600 * s, dies=True,
               root=True)  # its spool stays: nobody may not remove it
    yield Case("drop-idle", "root becomes nobody, rests, and goes on", ("drop", 200, "idle"),
               lambda s: 600 * s, dies=True, root=True)
    yield Case("drop-fork", "root becomes nobody and forks", ("drop", 200, "fork"),
               lambda s: 800 * s, dies=True, root=True)
    yield Case("chroot", "another root directory", ("chroot", 200), lambda s: 400 * s, root=True)
    yield Case("unshare", "a user namespace of its own, refused to two threads", ("unshare", 200),
               lambda s: 400 * s, root=True)
    yield Case("umask", "umask stays, and does not matter", ("umask", 20), lambda s: 40 * s)
    yield Case("cwd", "the working directory is gone", ("cwd", 20), lambda s: 20 * s)
    yield Case("locale", "a locale with commas", ("locale", 20), lambda s: 20 * s,
               variables={"LC_ALL": "de_DE.UTF-8"})


def files():
    yield Case("many-open", "10,000 open files", ("many-open", "10000"), lambda s: 10001)
    yield Case("odd-names", "names of every byte", ("odd-names", 20), lambda s: 20 * s)
    yield Case("long-path", "a path of 4,095 bytes", ("long-path", 20), lambda s: 20 * s + 1)
    yield Case("renamed", "files renamed and deleted while open", ("renamed", 20),
               lambda s: 60 * s)
    yield Case("nameless", "pipes, sockets, memory", ("nameless", 20), lambda s: 20 * s)


def libraries():
    yield Case("constructor-first", "a library's constructor ran before ours, its destructor after",
               ("linked", 20), lambda s: 20 * s + 1, program="torture-linked")
    yield Case("dlopen", "libraries opened and closed, with I/O in their destructors",
               ("dlopen", 20), lambda s: 40 * s)
    yield Case("dlmopen", "a library with a libc of its own", ("dlopen-apart", "8", "dlmopen"),
               lambda s: 9)
    yield Case("deepbind", "a library that sees libc before us", ("dlopen-apart", 20, "deepbind"),
               lambda s: 20 * s + 1)
    yield Case("env-i", "env -i env prints nothing", program="env",
               mode=("-i", "env"), expect=lambda s: 0)


def long_cases():
    """Only by name: `--only 'long-*'`; they take minutes, whatever the scale."""
    yield Case("long-exit-races", "1,000 random exits while 3 threads do I/O",
               ("exit-races", "1000"), dies=True)
    yield Case("long-forks", "10,000 forks whose child does one traced call",
               ("fork-cost", "10000"), lambda s: 10001)
    yield Case("long-fork-threads", "300 rounds of fork while 4 threads do I/O",
               ("fork-threads", "300"))
    yield Case("long-fork-raw", "300 rounds of clone past libc while others hold malloc's locks",
               ("fork-raw-threads", "300"))
    yield Case("long-kills", "1,000 random SIGKILLs: tests/e2e/test_kill.py", program="kills")
