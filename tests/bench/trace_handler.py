"""What trace_handler costs the thread that calls it: trace_handler.py pfw|dftracer[-all] OUTPUT

CPU time an event of one profile of a model on the CPU, at first and again; -all: with shapes, stacks and FLOPs.
pfw is to be installed, dftracer and torch too; one of them a run, since both open the process's trace.
"""
import os
import sys
import time


def handler(what, output):
    if what.startswith("dftracer"):
        os.environ.update(DFTRACER_ENABLE="1", DFTRACER_INC_METADATA="1")
        from dftracer.python import dftracer
        from dftracer.python.torch import trace_handler
        return trace_handler, dftracer.initialize_log(output, "/nonexistent", -1)
    import pfw
    from pfw.torch import trace_handler
    assert pfw.start(output)
    return trace_handler, None


def main(what, output):
    write, log = handler(what, output)
    import torch
    from torch.profiler import ProfilerActivity, profile

    options = {"record_shapes": True, "with_stack": True, "with_flops": True} if what.endswith("-all") else {}
    model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(20)])
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        for _ in range(60):
            model(torch.randn(8, 32)).sum().backward()
    count = len(profiler.profiler.kineto_results.events())
    for _ in range(1 if log else 3): # the other keeps its FunctionEvents after the first
        begin = time.thread_time()
        write(profiler)
        print(f"{what}: {(time.thread_time() - begin) * 1e6 / count:.2f} us an event of {count}")


if __name__ == "__main__":
    main(*sys.argv[1:])
