"""Reads Arrow's C stream interface with ctypes, as its specification says and without Arrow: batches of
libpfwread.so.1 as lists of Python values.  What is not as specified is an assertion."""
import ctypes
import os
import struct
from ctypes import POINTER, c_char_p, c_int64, c_void_p

LIBRARY = os.path.join(os.environ["PFW_LIB_DIR"], "libpfwread.so.1")


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


Schema._fields_ = [("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64),
                   ("n_children", c_int64), ("children", POINTER(POINTER(Schema))), ("dictionary", POINTER(Schema)),
                   ("release", ctypes.CFUNCTYPE(None, POINTER(Schema))), ("private_data", c_void_p)]
Array._fields_ = [("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64),
                  ("n_children", c_int64), ("buffers", POINTER(c_void_p)), ("children", POINTER(POINTER(Array))),
                  ("dictionary", POINTER(Array)), ("release", ctypes.CFUNCTYPE(None, POINTER(Array))),
                  ("private_data", c_void_p)]
Stream._fields_ = [("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, POINTER(Stream), POINTER(Schema))),
                   ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, POINTER(Stream), POINTER(Array))),
                   ("get_last_error", ctypes.CFUNCTYPE(c_char_p, POINTER(Stream))),
                   ("release", ctypes.CFUNCTYPE(None, POINTER(Stream))), ("private_data", c_void_p)]


Each = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_int64, c_int64)


def load():
    library = ctypes.CDLL(LIBRARY)
    for name, result, arguments in (
            ("new", c_void_p, []), ("free", None, [c_void_p]), ("path", ctypes.c_int, [c_void_p, c_char_p]),
            ("set", ctypes.c_int, [c_void_p, c_char_p, c_char_p]), ("error", c_char_p, [c_void_p]),
            ("stream", ctypes.c_int, [c_void_p, POINTER(Stream)]),
            ("table", ctypes.c_int, [c_void_p, c_char_p, POINTER(c_char_p), POINTER(Stream)]),
            ("problems", ctypes.c_uint64, [c_void_p]),
            ("divide", ctypes.c_int, [c_void_p, ctypes.c_uint64, Each, c_void_p]),
            ("problem", c_char_p, [c_void_p, ctypes.c_uint64]), ("version", c_char_p, [])):
        function = getattr(library, "pfw_read_" + name)
        function.restype, function.argtypes = result, arguments
    return library


class Failed(Exception):
    """-errno and the text of an error."""


class Reader:
    """A struct pfw_read: its paths and options, then its batches."""

    def __init__(self, *paths, **options):
        self.library = load()
        self.handle = self.library.pfw_read_new()
        for path in paths:
            self.check(self.library.pfw_read_path(self.handle, os.fsencode(path)))
        for name, values in options.items():
            for value in values if isinstance(values, list) else [values]:
                self.check(self.library.pfw_read_set(self.handle, name.replace("_", "-").encode(), str(value).encode()))

    def check(self, error):
        if error:
            raise Failed(error, self.library.pfw_read_error(self.handle).decode())

    def table(self, command, **options):
        """(schema, columns) of the table of a command."""
        words = [word.encode() for name, value in options.items() for word in (name.replace("_", "-"), str(value))]
        stream = Stream()
        self.check(self.library.pfw_read_table(self.handle, command.encode(),
                                               (c_char_p * (len(words) + 1))(*words, None), ctypes.byref(stream)))
        found, = self.drain(stream)
        return found

    def batches(self):
        """(schema, columns) of each batch; a column is a list."""
        stream = Stream()
        self.check(self.library.pfw_read_stream(self.handle, ctypes.byref(stream)))
        return self.drain(stream)

    @staticmethod
    def drain(stream):
        schema = Schema()
        assert stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)) == 0
        try:
            while True:
                array = Array()
                error = stream.get_next(ctypes.byref(stream), ctypes.byref(array))
                if error:
                    raise Failed(-error, stream.get_last_error(ctypes.byref(stream)).decode())
                if not array.release:
                    break
                yield described(schema), columns(schema, array)
                array.release(ctypes.byref(array))
        finally:
            schema.release(ctypes.byref(schema))
            stream.release(ctypes.byref(stream))

    def rows(self):
        """All rows as dicts, and the schema, which every batch has."""
        rows, schemas = [], set()
        for schema, values in self.batches():
            schemas.add(tuple(schema.items()))
            names = list(schema)
            rows += [dict(zip(names, row)) for row in zip(*values)]
        assert len(schemas) <= 1
        return rows

    def divide(self, blocks):
        """[(part, least ts, greatest ts)]."""
        parts = []
        self.check(self.library.pfw_read_divide(
            self.handle, blocks, Each(lambda _, part, least, greatest: parts.append((part.decode(), least, greatest))), None))
        return parts

    def problems(self):
        count = self.library.pfw_read_problems(self.handle)
        return [self.library.pfw_read_problem(self.handle, i).decode() for i in range(min(count, 100))]

    def close(self):
        self.library.pfw_read_free(self.handle)


def described(schema):
    """{name: format} of the columns; a dictionary's format is behind its index's, as is a child's."""
    assert schema.format == b"+s"
    inner = lambda one: (b"," + one.dictionary[0].format if one.dictionary else
                         b"," + one.children[0][0].format if one.n_children else b"")
    children = [schema.children[i][0] for i in range(schema.n_children)]
    return {child.name.decode(): (child.format + inner(child)).decode() for child in children}


def metadata(reader):
    """That of the schema, as a dict."""
    stream, schema = Stream(), Schema()
    reader.check(reader.library.pfw_read_stream(reader.handle, ctypes.byref(stream)))
    assert stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)) == 0
    number = lambda at: ctypes.c_int32.from_address(at).value
    at, found = schema.metadata + 4, []
    for _ in range(2 * number(schema.metadata)):
        found.append(ctypes.string_at(at + 4, number(at)).decode())
        at += 4 + number(at)
    schema.release(ctypes.byref(schema))
    stream.release(ctypes.byref(stream))
    return dict(zip(found[::2], found[1::2]))


def columns(schema, array):
    assert array.n_children == schema.n_children and array.null_count == 0 and array.offset == 0
    return [values(schema.children[i][0], array.children[i][0], array.length) for i in range(array.n_children)]


def numbers(array, code, count):
    assert array.buffers[1], "no values"
    return struct.unpack(f"{count}{code}", ctypes.string_at(array.buffers[1], count * struct.calcsize(code)))


def texts(array):
    offsets = numbers(array, "i", array.length + 1)
    assert offsets[0] == 0 and array.n_buffers == 3 and list(offsets) == sorted(offsets)
    data = ctypes.string_at(array.buffers[2], offsets[-1])
    return [data[begin:end].decode() for begin, end in zip(offsets, offsets[1:])]


def values(schema, array, length):
    assert array.length == length and array.offset == 0
    if schema.format == b"+w:3":
        child = array.children[0][0]
        assert child.length == 3 * length and child.null_count == 0
        flat = numbers(child, "i", 3 * length)
        found = [list(flat[3 * i:3 * i + 3]) for i in range(length)]
    elif schema.format == b"u":
        found = texts(array)
    elif schema.dictionary:
        words = texts(array.dictionary[0])
        assert len(set(words)) == len(words) and schema.dictionary[0].format == b"u"
        found = [words[i] if i < len(words) else None for i in numbers(array, "i", length)]
    elif schema.format == b"b":
        found = [bool(ctypes.string_at(array.buffers[1] + i // 8, 1)[0] >> i % 8 & 1) for i in range(length)]
    else:
        found = list(numbers(array, {b"l": "q", b"g": "d"}[schema.format], length))
    bits = ctypes.string_at(array.buffers[0], (length + 7) // 8) if array.buffers[0] else b"\xff" * length
    found = [value if bits[i // 8] >> i % 8 & 1 else None for i, value in enumerate(found)]
    assert array.null_count == found.count(None)
    return found
