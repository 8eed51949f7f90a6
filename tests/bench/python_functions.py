"""python_functions.py none|pfw|dftracer|viztracer - what a decorated function of Python takes: ns of the
thread's CPU time, as JSON.

Each is run by a Python that has it, alternately, a few times.  Bursts that fit a ring that has grown to
them: no waiting is counted.  `least` is the least burst's mean, `median` the middle one's.
"""
import json
import statistics
import sys
import time

BURST, BURSTS = 2000, 40


def plain(function):
    return function


def decorators(who):
    """(decorator of a function, of one of a category of AI, what ends it)"""
    if who == "none":
        return plain, plain, lambda: None
    if who == "viztracer":
        import viztracer
        tracer = viztracer.VizTracer(log_sparse=True, verbose=0, tracer_entries=BURST * BURSTS * 5)
        tracer.start()
        return viztracer.log_sparse, viztracer.log_sparse, tracer.stop
    if who == "pfw":
        from pfw.compat.dftracer import ai, dft_fn, dftracer
    else:
        from dftracer.python import ai, dft_fn, dftracer
    logger = dftracer.initialize_log(f"functions-{who}.pfw", None, -1)
    return dft_fn("bench").log, ai.compute.forward, logger.finalize


def cost(function, *arguments):
    means = []
    for _ in range(BURSTS):
        begin = time.thread_time_ns()
        for _ in range(BURST):
            function(*arguments)
        means.append((time.thread_time_ns() - begin) / BURST)
        time.sleep(0.01)
    return {"least": round(min(means)), "median": round(statistics.median(means))}


def main():
    log, ai, finish = decorators(sys.argv[1])

    @log
    def empty():
        pass

    @log
    def with_step(step):
        pass

    @ai
    def of_ai():
        pass

    class Reader:
        epoch = 1

        @log
        def method(self):
            pass

    print(json.dumps({"empty": cost(empty), "ai": cost(of_ai), "argument": cost(with_step, 3),
                      "method": cost(Reader().method)}))
    finish()


main()
