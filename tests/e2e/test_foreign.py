"""Traces of other hands, DFTracer's 1.x and 2.x among them, read the same as Python's json reads them."""
import csv
import gzip
import io
import json
import os
import pathlib
import subprocess

import pytest

PFW = os.environ["PFW_BIN"]
CORPUS = pathlib.Path(os.environ["PFW_SOURCE_DIR"]) / "tests/fuzz/corpus/validate"
FIELDS = ["id", "name", "cat", "pid", "tid", "ts", "dur"]

# As DFTracer 1.x and 2.0 write: brackets, commas, whole µs; the text of `id` as they do it.
FIRST = """[
{"id":"0","name":"FH","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"name":"/a b","value":"9b"}},
{"id":"1","name":"open","cat":"POSIX","pid":7,"tid":8,"ts":1795231645699165,"dur":14,"ph":"X","args":{"hhash":"ab","fhash":"9b","level":1}},
{"id":"2","name":"step \\u00e9\\n","cat":"app","pid":7,"tid":8,"ts":1795231645699265,"dur":0,"ph":"X","args":{"epoch":"1","note":"\\"x\\" {y}, [z]"}},

]
"""
# As 2.2 does: numbers for ph and type, no order of keys that could be counted on.
SECOND = """{"name":"HH","cat":"dftracer","type":1,"pid":16861,"tid":16861,"ph":4,"args":{"hhash":"6882","name":"vm","value":"6882"}}
{"id":2,"name":"open","cat":"POSIX","type":3,"pid":17325,"tid":17325,"ts":1795231645699165,"dur":14,"ph":1,"args":{"flags":66,"mode":420,"fhash":"8b2c"}}
{"ph":1,"args":{"a":[1,{"b":null}],"fhash":"8b2c"},"dur":3,"ts":1795231645699175,"tid":17325,"pid":17325,"type":3,"cat":"POSIX","name":"close","id":3}
{"name":"cpu-0","cat":"sys","type":7,"ts":1795235597389692,"ph":2,"pid":0,"tid":0,"args":{"steal_pct":0.267488,"irq_pct":0}}
"""


def lines_of(path):
    """What Python makes of it."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    for line in data.decode().splitlines():
        line = line.strip().removesuffix(",")
        if line not in ("", "[", "]"):
            yield json.loads(line)


def query(path, *arguments):
    result = subprocess.run([PFW, "query", "--meta", *arguments, path], capture_output=True,
                            text=True)
    assert result.returncode == 0 and result.stderr == ""
    return result.stdout


def same(text, value):
    """Whether a cell of CSV is that value: a number as a number, what is not there as nothing."""
    if value is None or text == "":
        return text == "" and value in (None, "")
    return text == value if isinstance(value, str) else float(text) == float(value)


def agree(path):
    wanted = list(lines_of(path))
    printed = [json.loads(line.removesuffix(",")) for line in query(path).splitlines()]
    assert printed == wanted
    rows = list(csv.DictReader(io.StringIO(query(path, "--format", "csv", "--fields",
                                                 ",".join(FIELDS)))))
    assert len(rows) == len(wanted)
    for row, line in zip(rows, wanted):
        for field in FIELDS[1:]:
            assert same(row[field], line.get(field)), (field, row, line)
    return len(wanted)


@pytest.mark.parametrize("text", [FIRST, SECOND, FIRST.replace("\n", "\r\n")],
                         ids=["1.x", "2.2", "1.x, CRLF"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_of_dftracer(tmp_path, text, packed):
    path = tmp_path / ("t.pfw.gz" if packed else "t.pfw")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert agree(path) in (3, 4)


@pytest.mark.parametrize("name", ["dftracer1.pfw", "dftracer2.pfw", "training.pfw"])
def test_of_the_corpus(name):
    assert agree(CORPUS / name) > 0


@pytest.mark.parametrize("unit", ["US", "NS", "MS"])
def test_times_in_other_units_are_refused(tmp_path, unit):
    """DFTRACER_TIME_METRIC=MS would make all figures a thousandth of what they are, and nothing would show it."""
    line = f'{{"name":"CM","cat":"dftracer","type":1,"pid":7,"tid":7,"ph":4,"args":{{"name":"time_metric","value":"{unit}"}}}}'
    for number, text in enumerate((line + "\n" + SECOND, SECOND.replace("\n", "\n" + line + "\n", 1), "[\n" + line + "\n")):
        path = tmp_path / f"t{number}.pfw"
        path.write_text(text)
        done = subprocess.run([PFW, "table", path], capture_output=True, text=True)
        assert (done.returncode == 2 and "time_metric" in done.stderr) == (unit != "US"), done.stderr


@pytest.mark.parametrize("split", ["rank", "process", "none"])
def test_the_index_of_a_compacted_trace_knows_the_files(tmp_path, split):
    """The index that compact writes on the way is that of the result: names stand for their hashes."""
    for number in (1, 2):
        (tmp_path / f"t-{number}.pfw").write_text(FIRST.replace('"pid":7', f'"pid":{number}').replace('"9b"', f'"9{number}"'))

    def pfw(*words):
        done = subprocess.run([PFW, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout
    pfw("compact", "-q", "--split-by", split, "-o", tmp_path / "out", tmp_path)
    pfw("index", "--check", tmp_path / "out")
    for words in (["patterns"], ["table", "-g", "fname"], ["query", "--count", "--fname", "/a b"]):
        found = pfw(*words, tmp_path / "out")
        assert found == pfw(*words, tmp_path) and ("/a b" in found or found == "2\n"), words


def test_calls_that_dftracer_summed_are_told(tmp_path):
    """DFTRACER_ENABLE_AGGREGATION: no other command counts them."""
    path = tmp_path / "t.pfw"
    path.write_text(SECOND + '{"name":"pread","cat":"POSIX","type":3,"ts":1795232263000000,"ph":3,"pid":1,"tid":1,'
                    '"args":{"dur_sum":66,"dft_cnt":100}}\n')
    done = subprocess.run([PFW, "validate", path], capture_output=True, text=True)
    assert done.returncode == 0 and "100 calls summed by DFTracer" in done.stdout
