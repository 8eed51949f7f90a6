"""torch_ops.py OPERATORS - what a small operator of PyTorch takes: ns of the thread's CPU time, as JSON.

Bursts that fit a ring that has grown to them: no waiting is counted.  `least` is the least burst's mean,
`median` the middle one's.
"""
import json
import statistics
import sys
import time

import torch

BURST = 2000
NOTICED_SECONDS = 0.6  # after which the recorder has found PyTorch


def main():
    torch.set_num_threads(1)
    one, other, out = torch.ones(4), torch.ones(4), torch.empty(4)
    add = torch.add

    def burst(operators):
        begin = time.thread_time_ns()
        for _ in range(operators):
            add(one, other, out=out)
        return (time.thread_time_ns() - begin) / operators

    open("data").close()  # the recorder's thread begins with the first event
    end = time.monotonic() + NOTICED_SECONDS
    while time.monotonic() < end:
        burst(100)
        time.sleep(0.01)
    bursts = []
    for _ in range(int(sys.argv[1]) // BURST):
        bursts.append(burst(BURST))
        time.sleep(0.004)
    print(json.dumps({"least": min(bursts), "median": statistics.median(bursts),
                      "operators": len(bursts) * BURST}))


main()
