"""Which system calls each function of a library comes to: from its machine code (x86-64).

Followed are calls and jumps inside the library, functions whose address is taken (they are handed to
whoever calls them), and, in functions that handle the tables of streams' methods, all methods.  So
the answer has too much rather than too little in it.
"""
import bisect
import collections
import re
import struct
import subprocess

INSTRUCTION = re.compile(r" +([0-9a-f]+):\t(\S+) *([^#<\n]*)(?:<[^>]*>)?(?: *# ([0-9a-f]+))?")
# Names of one register's halves.
WIDE = {f"r{name}": f"e{name}" for name in ("ax", "bx", "cx", "dx", "si", "di", "bp")} | {
    f"r{number}": f"r{number}d" for number in range(8, 16)}


def output(*command):
    # readelf gives 1 for a mere warning; what its output must hold is looked at below.
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout


def system_calls():
    """{number: name}, from the kernel's header."""
    text = output("cc", "-E", "-dM", "-include", "asm/unistd_64.h", "-xc", "/dev/null")
    return {int(number): name for name, number in re.findall(r"__NR_(\w+) (\d+)$", text, re.M)}


class Numbers:
    """The constants that a function puts into registers: the number of a system call is one."""

    def __init__(self):
        self.last, self.ever = {}, collections.defaultdict(set)

    def follow(self, operation, operands):
        source, _, target = operands.partition(",")
        if not re.fullmatch(r"%\w+", target):
            return
        target = WIDE.get(target[1:], target[1:])
        if operation == "xor" and operands.split(",")[0] == operands.split(",")[1]:
            source = "$0x0"
        if operation.startswith("mov") and source.startswith("%"):
            self.last[target] = self.last.get(WIDE.get(source[1:], source[1:]), ...)
        elif source.startswith("$0x") and operation.startswith(("mov", "xor")):
            self.last[target] = int(source[1:], 16)
            self.ever[target].add(self.last[target])
        elif operation.startswith(("mov", "lea", "pop")):
            self.last[target] = None


class Library:
    def __init__(self, path):
        self.path = path
        self.public = set()
        self.functions = self.read_symbols()
        self.methods_at = range(0)
        self.methods = self.read_methods()
        self.edges = collections.defaultdict(set)
        self.made = collections.defaultdict(set)  # {function: its own system calls}
        self.unknown = set()  # functions with a system call whose number is not in them
        self.through_methods = set()
        self.read_code()

    def read_symbols(self):
        """{name: addresses, one for each version}; `public` are those for everybody."""
        found = collections.defaultdict(set)
        for line in output("readelf", "--dyn-syms", "-W", self.path).splitlines():
            words = line.split()
            if len(words) < 8 or words[3] not in ("FUNC", "IFUNC") or words[6] == "UND":
                continue
            name, _, version = words[7].partition("@")
            found[name].add(int(words[1], 16))
            if "GLIBC_PRIVATE" not in version:
                self.public.add(name)
        return dict(found)

    def read_methods(self):
        """The functions in the tables of streams' methods."""
        line = re.search(r"__libc_IO_vtables\s+\w+\s+(\w+)\s+(\w+)\s+(\w+)",
                         output("readelf", "-SW", self.path))
        if not line:
            return set()
        address, offset, size = (int(number, 16) for number in line.groups())
        self.methods_at = range(address, address + size)
        with open(self.path, "rb") as file:
            file.seek(offset)
            return set(struct.unpack(f"<{size // 8}Q", file.read(size))) - {0}

    def read_code(self):
        code = []
        starts = set().union(*self.functions.values()) | {
            int(at, 16) for at in re.findall(
                r"pc=([0-9a-f]+)\.\.", output("readelf", "--debug-dump=frames", self.path))}
        for line in output("objdump", "-d", "--no-show-raw-insn", self.path).splitlines():
            found = INSTRUCTION.match(line)
            if not found:
                continue
            address, operation, operands, about = found.groups()
            operands = operands.strip()
            to = int(operands, 16) if re.fullmatch("[0-9a-f]+", operands) else None
            if operation == "call" and to is not None:
                starts.add(to)
            code.append((int(address, 16), operation, operands, to, about and int(about, 16)))
        self.starts = sorted(starts)
        calls, numbers, function = [], Numbers(), None
        for address, operation, operands, to, about in code:
            if self.function_at(address) != function:
                self.settle(function, calls, numbers)
                calls, numbers, function = [], Numbers(), self.function_at(address)
            if operation == "syscall":
                calls.append(numbers.last.get("eax", ...))
            elif to is not None and operation[0] in "jc":
                self.edges[function].add(self.function_at(to))
            elif operation == "lea" and about in self.methods_at:
                self.through_methods.add(function)
            elif operation == "lea" and about in starts:
                self.edges[function].add(about)
            else:
                numbers.follow(operation, operands)
        self.settle(function, calls, numbers)

    def function_at(self, address):
        return self.starts[bisect.bisect_right(self.starts, address) - 1]

    def settle(self, function, calls, numbers):
        """Where a number was set further down, before a jump back: all that it may be."""
        for number in calls:
            may_be = numbers.ever["eax"] if number is ... else {number} - {None}
            self.made[function].update(may_be)
            if not may_be:
                self.unknown.add(function)

    def reach(self, start, cut):
        """Numbers of the system calls made by the function at `start` itself, and by those that it
        comes to without going through the functions in `cut`."""
        seen, todo, inner = {start}, [start], set()
        while todo:
            function = todo.pop()
            onward = set(self.edges[function])
            if function in self.through_methods:
                onward |= self.methods
            for other in onward - seen - cut:
                seen.add(other)
                todo.append(other)
                inner |= self.made[other]
        return self.made[start], inner
