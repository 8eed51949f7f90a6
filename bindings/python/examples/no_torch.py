"""Without PyTorch, and without `pfw run`: threads that write and read files, in spans and steps.

    python no_torch.py
    pfw query no_torch --sort-by -dur --limit 5 --fields dur,name,args.fname
"""
import concurrent.futures
import pathlib
import tempfile

import pfw


@pfw.trace
def make(path, kilobytes):
    path.write_bytes(bytes(1024 * kilobytes))


@pfw.trace
def checksum(path):
    with pfw.span("read", file=path.name) as span:
        text = path.read_bytes()
        span.set(bytes=len(text))
    return sum(text[::512])


def main():
    if not pfw.start("no_torch"):
        print("nothing is recorded; standard error says why")
    with tempfile.TemporaryDirectory() as directory, \
            concurrent.futures.ThreadPoolExecutor(4) as pool:
        for step in range(3):
            paths = [pathlib.Path(directory, f"{step}-{number}") for number in range(8)]
            list(pool.map(make, paths, [64] * len(paths)))
            with pfw.record_function("checksums"):
                total = sum(pool.map(checksum, paths))
            pfw.counter("total", total)
            pfw.step()
    pfw.stop()
    print(pfw.stats().events, "events in no_torch.pfw")


if __name__ == "__main__":
    main()
