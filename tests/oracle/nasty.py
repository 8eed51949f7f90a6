"""Traces that nobody should write but somebody has: those of generate.py, and these with damage by chance, as
{name of a file: its lines}.  What an answer about them has to be no oracle says; two ways to it have to agree."""
import json
import random
import re

import generate

NAMES = ["", "a\\u0000b", "\\ud800", "\u00e9\u4e2d", "x" * 300, "y" * 70000, "tab\\tline\\n", "\\\"quoted\\\"", "-1", "*"]
TIMES = ["0", "0.001", "-5.000", "9223372036854775.807", "9223372036854775807", "1e3", "1795230878000000.5", "null",
         "\"7\"", "18446744073709551616", "1795230878000000"]
LINES = [b"\n", b"[\n", b"{}\n", b"not JSON\n", b"\0\0\0\0\n", b"{\"name\":\"cut\",\"cat\":\"POSI\n", b"]\n", b"\xff\xfe{\n",
         b"{\"name\":\"bare\",\"cat\":\"app\",\"ph\":\"X\",\"ts\":1795230878000001.000,\"dur\":1.000}\n",
         b"{\"id\":1,\"name\":\"read\",\"cat\":\"POSIX\",\"pid\":100,\"tid\":100,\"ts\":1795230878000001,\"dur\":3,\"ph\":0,"
         b"\"args\":{\"ret\":\"12\",\"fname\":\"/of/dftracer\",\"hhash\":\"1\"}}\n",
         b"{\"id\":2,\"name\":\"FH\",\"cat\":\"dftracer\",\"pid\":100,\"tid\":100,\"ph\":\"M\",\"args\":{\"name\":\"/a\","
         b"\"value\":\"1234\"}}\n"]


def sample(seed):
    """The files of a run.  Every second one is as a tracer writes them."""
    chance = random.Random(f"nasty {seed}")
    files = {f"{process.file}.pfw": [line.encode(errors="surrogatepass") for line in process.text().splitlines(True)]
             for process in generate.world(seed)}
    if chance.random() < 0.5:
        return files
    for harm in chance.sample(HARMS, chance.choice([1, 1, 2, 3])):
        harm(chance, files)
    return files


def some_lines(chance, files, changed, odds=0.05):
    """`changed` of some lines of some files; lists of lines count as several."""
    for name in list(files):
        if chance.random() < 0.7:
            files[name] = [each for line in files[name]
                           for each in (changed(line) if chance.random() < odds else [line])]


def killed(chance, files):
    """No `end`, and the last line cut."""
    for name, lines in files.items():
        if chance.random() < 0.5 and len(lines) > 2:
            files[name] = lines[:-1 - chance.randrange(min(3, len(lines) - 2))]
            if chance.random() < 0.5:
                files[name][-1] = files[name][-1][:chance.randrange(len(files[name][-1]))]


def without_begin(chance, files):
    for name in files:
        if chance.random() < 0.5:
            files[name] = files[name][1 + chance.randrange(3):]


def between(chance, files):
    some_lines(chance, files, lambda line: [line, chance.choice(LINES)])


def twice(chance, files):
    some_lines(chance, files, lambda line: [line, line])


def in_another_order(chance, files):
    for name in files:
        if chance.random() < 0.7:
            middle = files[name][1:-1]
            chance.shuffle(middle)
            files[name] = files[name][:1] + middle + files[name][-1:]


def odd_times(chance, files):
    def changed(line):
        key = chance.choice([b"ts", b"dur"])
        return [re.sub(b'"%s":[0-9.-]+' % key, b'"%s":%s' % (key, chance.choice(TIMES).encode()), line, count=1)]
    some_lines(chance, files, changed)


def odd_names(chance, files):
    def changed(line):
        key = chance.choice([b"name", b"cat", b"fname"])
        return [re.sub(b'"%s":"[^"]*"' % key,
                       lambda _: b'"%s":"%s"' % (key, chance.choice(NAMES).encode()), line, count=1)]
    some_lines(chance, files, changed)


def odd_values(chance, files):
    """Numbers as texts, as doubles, too large; and keys twice."""
    def changed(line):
        key = chance.choice([b"ret", b"step", b"span_id", b"parent", b"correlation", b"bytes", b"device", b"stream",
                             b"tid", b"pid", b"count", b"external_id", b"offset", b"fd", b"rank", b"start_ts", b"id"])
        value = chance.choice([b"null", b"-1", b"1.5", b"\"3\"", b"99999999999999999999", b"9223372036854775807", b"{}",
                               b"[1]", b"true", b"4294967295", b"2"])
        return [re.sub(b'"%s":-?[0-9.]+' % key, b'"%s":%s' % (key, value), line, count=1)]
    some_lines(chance, files, changed, 0.1)


def with_shapes(chance, files):
    def changed(line):
        shapes = chance.choice([b"[[2,3],[3,4]]", b"[[],[7]]", b"\"[[2, 3], []]\"", b"[]"])
        return [re.sub(b'"kind":"cpu_op"', b'"kind":"cpu_op","input_shapes":%s,"flops":%d,"cpu_memory":%d' % (
            shapes, chance.randrange(1 << 40), chance.randrange(-4096, 4096)), line)]
    some_lines(chance, files, changed, 0.6)


def of_many_blocks(chance, files):
    """Lines so long that a file has several blocks of a MiB."""
    some_lines(chance, files, lambda line: [line.replace(b'"args":{', b'"args":{"pad":"%s",' % (b"p" * 60000))], 0.6)


def in_two_files(chance, files):
    """A process's lines in two files, as a copy that was cut has them."""
    for name, lines in list(files.items()):
        if chance.random() < 0.4:
            at = chance.randrange(len(lines) + 1)
            files[name], files[name.replace(".pfw", ".later.pfw")] = lines[:at], lines[:1] * chance.randrange(2) + lines[at:]


def in_one_file(chance, files):
    """All processes in one file: one after another, or mixed."""
    lines = [line for name in sorted(files) for line in files[name]]
    if chance.random() < 0.5:
        lines.sort(key=moment)
    name = sorted(files)[0]
    files.clear()
    files[name] = lines


def moment(line):
    try:
        return float(json.loads(line).get("ts", 0))
    except (ValueError, TypeError, AttributeError):
        return 0


def same_pids(chance, files):
    """Two processes of one pid, at the same time."""
    for name in files:
        if chance.random() < 0.5:
            files[name] = [re.sub(b'"pid":[0-9]+', b'"pid":100', line) for line in files[name]]


def of_many_ranks(chance, files):
    """Each file again, as one of twenty other ranks."""
    for name, lines in list(files.items()):
        for rank in chance.sample(range(10, 60), 20):
            files[f"t-rank{rank:04}.{name}"] = [
                re.sub(b'"pid":', b'"pid":%d' % rank, re.sub(b'"rank":(null|[0-9]+)', b'"rank":%d' % rank, line))
                for line in lines]


def empty(chance, files):
    files[f"empty{chance.randrange(9)}.pfw"] = chance.choice([[], [b"\n"], [b"[\n"]])


HARMS = [killed, killed, without_begin, between, twice, in_another_order, odd_times, odd_names, odd_values, with_shapes,
         with_shapes, of_many_blocks, in_two_files, in_one_file, in_one_file, same_pids, of_many_ranks, empty]
