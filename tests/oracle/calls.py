"""What a call does: the bytes that it moved (docs/format.rst), and its part in the use of a file
(docs/analysis.rst, `pfw calls`)."""
import dataclasses

READS = {"read", "pread", "readv", "preadv", "preadv2", "fread", "fgets", "getline", "getdelim", "fgetc"}
WRITES = {"write", "pwrite", "writev", "pwritev", "pwritev2", "fwrite", "fputs", "puts", "fprintf", "printf",
          "dprintf", "vmsplice"}
COPIES = {"sendfile", "copy_file_range", "splice", "tee"}
OPENS = {"open", "openat", "creat", "fopen", "mkstemp", "mkostemp", "mkstemps", "mkostemps", "tmpfile"}


def summed(event):
    """The calls whose count, time and bytes a `summed` line adds up; None for any other line."""
    if (event.cat, event.name) != ("pfw", "summed"):
        return None
    cat = "STDIO" if event.args["name"].startswith("f") else "POSIX"
    return dataclasses.replace(event, name=event.args["name"], cat=cat)


def left(event):
    """The munmap that a `mapping` line at the end of a process stands for; None for any other line."""
    if (event.cat, event.name) != ("pfw", "mapping"):
        return None
    return dataclasses.replace(event, name="munmap", cat="POSIX")


def failed(event):
    return event.args.get("ret", 0) < 0


def moved(event):
    """The bytes that it moved; None if that is not known, or of no call that moves any."""
    args = event.args
    if event.kind in ("memcpy", "memset", "memory"):
        return args.get("bytes")
    if event.cat not in ("POSIX", "STDIO") or event.name not in READS | WRITES | COPIES or "ret" not in args:
        return None
    if event.name == "fgetc":
        return None
    if failed(event):
        return 0
    if event.name in ("fread", "fwrite"):
        return args["ret"] * args["size"]
    return args["count"] if event.name in ("fputs", "puts") else args["ret"]
