"""Random traces: processes of several ranks, some with a pid that was used before, that read and
write, compute, launch work on devices, step and allocate, nested, at the same moment, and failing."""
import random

from model import START, Event, Process, Time

FILES = ["/data/a.npz", "/data/b.npz", "/data/\u00e9 \"x\".txt", "/ckpt/model.pt", "/ckpt/opt.pt", "pipe:[77]"]
OPERATORS = ["aten::mm", "aten::add_", "aten::conv2d", "aten::copy_", "forward"]
KERNELS = ["gemm", "relu_kernel", "ncclDevKernel_AllReduce_Sum_f32", "nccl_broadcast"]
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
STREAMS = [7, 13, 20]


def world(seed):
    """The processes of one run, by chance."""
    chance = random.Random(seed)
    ranks = chance.choice([1, 1, 2, 3])
    habits = {habit for habit in ("io", "nested io", "failures", "stdio", "ops", "gpu", "spans", "steps",
                                  "said steps", "memory", "counters", "summed", "ties", "crossing", "loading",
                                  "copies", "instants") if chance.random() < 0.6}
    if chance.random() < 0.04:
        habits.add("fat")
    room = chance.choice([60, 2000, 10**6, 10**9])
    return [process for rank in range(ranks)
            for process in processes_of_rank(chance, rank if ranks > 1 else None, ranks, habits, room)]


def processes_of_rank(chance, rank, ranks, habits, room):
    base = "t" if rank is None else f"t-rank{rank:04}"
    # Containers begin to count at 1: ranks of other hosts may have the same pids, but such cannot be merged.
    pid = 100 + 10 * (rank or 0)
    made = [Process(f"{base}", pid, START + chance.randrange(1000), rank, ranks)]
    begin = START + 2000 + chance.randrange(1 + room // 4)
    Maker(chance, made[0], habits, begin, room).make(steps="steps" in habits)
    if chance.random() < 0.3:  # exec, or the same pid again after the first one's end
        after = max(event.end for event in made[0].events) + chance.randrange(1, 1000)
        again = Process(f"{base}.2", pid, after, rank, ranks)
        Maker(chance, again, habits, after + 1, room).make(steps=False)
        made.append(again)
    while chance.random() < 0.3:  # the workers of its loader
        child = pid + len(made)
        worker = Process(f"{base}-pid{child}", child, START + chance.randrange(1000), rank, ranks)
        Maker(chance, worker, habits - {"gpu"}, begin, room).make(steps=False)
        made.append(worker)
    return made


class Descriptors:
    """The open files of a process, with their positions, so that its calls are ones that happen."""

    def __init__(self, chance):
        self.chance, self.open, self.shut = chance, {}, 3

    def opened(self, name):
        self.shut += 1
        self.open[self.shut] = name
        return self.shut

    def any(self):
        return self.chance.choice(sorted(self.open.items())) if self.open else (99, self.chance.choice(FILES))


class Maker:
    """Makes the events of one process."""

    def __init__(self, chance, process, habits, begin, room):
        self.chance, self.process, self.habits = chance, process, habits
        self.begin, self.room = begin, room
        self.files, self.numbers, self.launched, self.steps = Descriptors(chance), 0, [], []
        self.allocated = []

    def number(self):
        self.numbers += 1
        return self.numbers

    def make(self, steps):
        events = []
        if steps:
            self.make_steps()
        for thread in range(self.chance.choice([1, 1, 2, 3])):
            tid = self.process.pid + 1000 * thread
            wanted = self.chance.choice([0, 3, 10, 25])
            late = self.chance.randrange(self.room // 10 + 1)  # when this thread's ring is drained
            lines = list(self.nest(tid, self.begin, self.begin + self.room, wanted, []))
            if "crossing" in self.habits:
                lines += [self.crossing(tid) for _ in range(self.chance.randrange(3))]
                lines.sort(key=lambda event: event.end)
            events.append((late, lines))
        events.append((0, self.steps))
        events.append((self.chance.randrange(self.room + 1), self.device_work()))
        events.append((0, list(self.other_lines())))
        lines = sorted(((event.end + late, event) for late, each in events for event in each),
                       key=lambda pair: pair[0])
        self.write([event for _, event in lines])

    def write(self, lines):
        process, add = self.process, self.process.add
        args = {"format": 1, "version": "1", "run": "r", "host": "h", "boot": "b", "rank": process.rank,
                "world_size": process.world, "local_rank": process.rank, "rank_source": "RANK", "ppid": 1, "cmd": "c",
                "start_ts": Time(process.start), "clock": "tsc"}
        add(Event("process", "pfw", process.pid, process.start, None, args, "M"))
        named = set()
        for event in lines:
            if event.tid not in named:
                named.add(event.tid)
                add(Event("thread_name", "pfw", event.tid, event.ts, None, {"name": f"thread {event.tid}"}, "M"))
            if "fat" in self.habits and event.ph == "X":
                event.args["pad"] = "x" * 12000
            add(event)
        last = max([event.end for event in process.events])
        count = sum(event.ph != "M" for event in process.events)
        if self.chance.random() < 0.1:
            add(Event("lost", "pfw", process.pid, last, None,
                      {"reason": "full", "count": 3, "first_ts": Time(last), "last_ts": Time(last)}, "M"))
        add(Event("end", "pfw", process.pid, last, None, {"events": count, "lost": 0, "reason": "exit"}, "M"))
        process.number()

    # ---- what its threads do ----

    def nest(self, tid, begin, end, wanted, above):
        """Events within [begin, end), inner ones before those that they lie in, as they end."""
        at = begin
        while wanted > 0 and at <= end:
            if "ties" not in self.habits or self.chance.random() < 0.5:
                at += self.chance.randrange((end - at) // (wanted + 1) + 1)
            length = self.chance.randrange((end - at) * 2 // (wanted + 1) + 1)
            if "ties" in self.habits and self.chance.random() < 0.4:
                length = self.chance.choice([0, end - at])
            length = min(length, end - at)
            inside = self.chance.choice([0, 0, wanted // 2, wanted - 1])
            yield from self.event_with(tid, at, length, inside, above)
            wanted -= 1 + inside
            at += length

    def event_with(self, tid, ts, dur, inside, above):
        made = self.event(tid, ts, dur, above)
        if made is None:
            return
        # Nothing lies in a call but what a signal handler does.
        if not made.io or "nested io" in self.habits:
            yield from self.nest(tid, ts, ts + dur, inside, above + [made])
        yield made

    def event(self, tid, ts, dur, above):
        kinds = [kind for kind in ("io", "ops", "gpu", "spans", "loading", "copies") if kind in self.habits]
        kind = self.chance.choice(kinds or ["io"])
        if above and above[-1].io:
            kind = "io"
        made = {"io": self.call, "ops": self.operator, "gpu": self.launch, "spans": self.span,
                "loading": self.loading, "copies": self.copy}[kind](tid, ts, dur, above)
        return self.stepped(made)

    def stepped(self, event):
        if "said steps" in self.habits:
            for step in self.steps:
                if step.ts <= event.ts < step.end:
                    event.args["step"] = step.args["step"]
        return event

    def crossing(self, tid):
        """A span that crosses others: one that began in one thread's call and ended in another."""
        ts = self.begin + self.chance.randrange(self.room)
        return Event("crossing", "app", tid, ts, self.chance.randrange(self.room // 2 + 1), {"span_id": self.number()})

    def operator(self, tid, ts, dur, above):
        name = above[-1].name if above and self.chance.random() < 0.2 else self.chance.choice(OPERATORS)
        args = {"kind": "cpu_op", "device": 0, "external_id": self.number()}
        return Event(name, "PP", tid, ts, dur, args)

    def loading(self, tid, ts, dur, above):
        return Event(LOADER, "PP", tid, ts, dur, {"kind": "cpu_op", "device": 0})

    def span(self, tid, ts, dur, above):
        parents = [each.args["span_id"] for each in above if "span_id" in each.args]
        args = {"span_id": self.number(), **({"parent": parents[-1]} if parents else {})}
        return Event(self.chance.choice(["train", "load", "load", "epoch"]), "app", tid, ts, dur, args)

    def launch(self, tid, ts, dur, above):
        """A call that launches work, or that calls another one which does, or that only waits."""
        if above and above[-1].kind == "runtime" and self.chance.random() < 0.5:
            args = {"kind": "driver", "device": 0, "device_index": -1,
                    "correlation": above[-1].args.get("correlation", 0)}
            return Event("cuLaunchKernel", "PP", tid, ts, dur, args)
        name = self.chance.choice(["cudaLaunchKernel", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"])
        args = {"kind": "runtime", "device": 0, "device_index": -1, "correlation": self.number()}
        made = Event(name, "PP", tid, ts, dur, args)
        if not name.endswith("Synchronize"):
            self.launched.append((made, list(above)))
        return made

    def device_work(self):
        """What the launches launched, in the order in which each stream ended it."""
        made, free = [], {}
        for call, above in self.launched:
            if self.chance.random() < 0.1:
                continue  # not recorded
            stream = self.chance.choice(STREAMS)
            # By its clock before its call, but not before its process, to whose pid another one's line would belong.
            ts = max(call.ts + self.chance.randrange(-2, self.room // 5 + 3), free.get(stream, 0), self.process.start)
            dur = self.chance.choice([0, self.chance.randrange(self.room // 10 + 2)])
            free[stream] = ts + dur
            made.append(self.work(call, above, stream, ts, dur))
        return sorted(made, key=lambda event: event.end)

    def work(self, call, above, stream, ts, dur):
        args = {"device": 1, "device_index": 0, "context": 1, "stream": stream,
                "correlation": call.args["correlation"]}
        operators = [each for each in above if each.kind == "cpu_op" and "external_id" in each.args]
        spans = [each for each in above if "span_id" in each.args]
        if operators and self.chance.random() < 0.5:
            args["external_id"] = operators[-1].args["external_id"]
        if spans:
            args["span"] = spans[-1].args["span_id"]
        if "step" in call.args:
            args["step"] = call.args["step"]
        if call.name == "cudaMemcpyAsync":
            name = self.chance.choice(["Memcpy HtoD", "Memset"])
            args |= {"kind": "memset" if name == "Memset" else "memcpy",
                     "bytes": self.chance.choice([0, 1, self.chance.randrange(1 << 20), 1 << 40])}
        else:
            name = self.chance.choice(KERNELS)
            args |= {"kind": "kernel", "grid": [1, 1, 1], "block": [256, 1, 1]}
        return Event(name, "PP", 10000000 + 1000 + stream, ts, dur, args)

    # ---- calls ----

    def call(self, tid, ts, dur, above):
        make = self.chance.choice([self.open_call, self.transfer, self.transfer, self.transfer, self.seek, self.meta])
        cat, name, args = make()
        if "failures" in self.habits and self.chance.random() < 0.2 and "ret" in args:
            args = {key: value for key, value in args.items() if not name.endswith(("open", "creat", "temp")) or
                    key != "fd"}
            args |= {"ret": -1, "errno": self.chance.choice(["EIO", "ENOENT"])}
        elif name in ("open", "openat", "creat", "fopen", "mkstemp", "mkostemp"):
            args["ret"] = args["fd"] = self.files.opened(args["fname"])
        return Event(name, cat, tid, ts, dur, args)

    def open_call(self):
        name = self.chance.choice(["open", "open", "openat", "creat", "mkostemp", "fopen"])
        args = {"fname": self.chance.choice(FILES), "fd": -1, "ret": -1,
                "flags": self.chance.choice([0, 577, 1025, "O_RDWR", "O_WRONLY|O_CREAT|O_APPEND"])}
        return "STDIO" if name == "fopen" else "POSIX", name, args

    def size(self):
        return self.chance.choice([0, 1, 100, 101, 4096, self.chance.randrange(20000), 1 << 20, (1 << 20) + 1,
                                   (1 << 30) + self.chance.randrange(9)])

    def place(self):
        return self.chance.choice([0, 4096, 8192, 100, self.chance.randrange(100000)])

    def transfer(self):
        fd, fname = self.files.any()
        size, on = self.size(), {"fname": fname, "fd": fd}
        if "stdio" in self.habits and self.chance.random() < 0.4:
            name = self.chance.choice(["fread", "fwrite", "fputs", "fgets", "fprintf", "fgetc", "puts"])
            if name in ("fread", "fwrite"):
                return "STDIO", name, on | {"size": 8, "count": size // 8, "ret": self.chance.choice([size // 8, 0])}
            if name in ("fputs", "puts"):
                return "STDIO", name, on | {"count": size, "ret": self.chance.choice([1, size])}
            return "STDIO", name, on | {"ret": size}
        if self.chance.random() < 0.15:
            name = self.chance.choice(["sendfile", "copy_file_range", "splice"])
            other, target = self.files.any()
            args = on | {"fd_out": other, "count": size, "ret": size, "target": target}
            if name != "splice" and self.chance.random() < 0.5:
                args["offset"] = self.place()
            return "POSIX", name, args
        name = self.chance.choice(["read", "write", "read", "write", "pread", "pwrite", "readv", "writev", "preadv2"])
        args = on | ({} if "v" in name else {"count": size})
        if name.startswith("p"):
            args["offset"] = self.place()
        return "POSIX", name, args | {"ret": self.chance.choice([size, size, size // 2])}

    def seek(self):
        fd, fname = self.files.any()
        place = self.place()
        if "stdio" in self.habits and self.chance.random() < 0.5:
            if self.chance.random() < 0.3:
                return "STDIO", "rewind", {"fname": fname, "fd": fd}
            return "STDIO", "fseek", {"fname": fname, "fd": fd, "offset": place, "ret": 0,
                                      "whence": self.chance.choice([0, 1, "SEEK_SET", "SEEK_CUR", "SEEK_END"])}
        return "POSIX", "lseek", {"fname": fname, "fd": fd, "offset": place, "whence": 0, "ret": place}

    def meta(self):
        fd, fname = self.files.any()
        name = self.chance.choice(["close", "fstat", "stat", "unlink", "fsync", "sync", "ftruncate", "dup", "mmap",
                                   "munmap"])
        if name == "sync":
            return "POSIX", name, {"ret": 0}
        if name == "close":
            self.files.open.pop(fd, None)
        if name == "dup":
            copy = self.files.opened(fname)
            return "POSIX", name, {"fname": fname, "fd": fd, "ret": copy}
        if name == "mmap":
            return "POSIX", name, {"fname": fname, "fd": fd, "ret": self.chance.choice([-1, 1 << 46, 4096]),
                                   "length": self.chance.randrange(1, 9999), "prot": "PROT_READ"}
        if name == "munmap":
            return "POSIX", name, {"fname": fname, "ret": 0, "length": 4096} | self.touched()
        return "POSIX", name, {"fname": fname, "ret": 0} | ({} if name in ("stat", "unlink") else {"fd": fd})

    def touched(self):
        """Where the kernel said it."""
        return {"touched": 4096 * self.chance.randrange(9)} if self.chance.random() < 0.7 else {}

    # ---- all else ----

    def make_steps(self):
        at = self.begin + self.chance.randrange(self.room // 4 + 1)
        for number in range(self.chance.randrange(1, 6)):
            dur = self.chance.randrange(1, self.room // 4 + 2)
            args = {"kind": "step", "step": number if self.chance.random() < 0.9 else 0}
            self.steps.append(Event(f"ProfilerStep#{args['step']}", "PP", self.process.pid, at, dur, args))
            at += dur + self.chance.choice([0, 0, 5])

    def copy(self, tid, ts, dur, above):
        return Event("cudaMemsetAsync", "PP", tid, ts, dur,
                     {"kind": "runtime", "device": 0, "device_index": -1, "correlation": self.number()})

    def moment(self):
        return self.begin + self.chance.randrange(self.room)

    def other_lines(self):
        pid, total = self.process.pid, 0
        if "instants" in self.habits:
            for _ in range(self.chance.randrange(3)):
                yield Event("mark", "app", pid, self.moment(), None, {}, "i")
        if "counters" in self.habits:
            for _ in range(self.chance.randrange(3)):
                at = self.moment()
                for name in ("io", "storage"):
                    yield Event(name, "COUNTER", pid, at, None, {"read": self.chance.randrange(9999), "written": 5},
                                "C")
        if "summed" in self.habits:
            for _ in range(self.chance.randrange(3)):
                name = self.chance.choice(["read", "write", "close", "fread"])
                count = self.chance.randrange(1, 50)
                args = {"name": name, "fname": self.chance.choice(FILES), "count": count, "failed": 0,
                        "dur": Time(self.chance.randrange(10**6)),
                        "bytes": self.chance.randrange(9999) if name != "close" else 0}
                yield Event("summed", "pfw", pid, self.moment(), None, args, "M")
                args = {"fname": self.chance.choice(FILES), "size": 1 << 20} | self.touched()
                yield Event("mapping", "pfw", pid, self.moment(), None, args, "M")
        if "memory" in self.habits:
            yield from self.allocations()

    def allocations(self):
        moments, live, total = sorted(self.moment() for _ in range(self.chance.randrange(15))), [], 0
        for at in moments:
            if live and self.chance.random() < 0.4:
                address, size = live.pop(self.chance.randrange(len(live)))
                size = -size
            else:
                address, size = 4096 * self.chance.randrange(1, 9), self.chance.choice([0, 512, 1 << 20, 777])
                live.append((address, size))
            total += size
            args = {"kind": "memory", "device": 1, "device_index": 0, "addr": address, "bytes": size,
                    "total_allocated": max(total, 0), "total_reserved": 1 << 21}
            yield self.stepped(Event("[memory]", "PP", self.process.pid, at, None, args, "i"))
