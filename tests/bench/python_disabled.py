"""python_disabled.py pfw|nullcontext - what a profile that is switched off takes: ns a `with`, as JSON.

`kept`: made before; `made`: anew each time.  The loop's own time is taken off; the least of all bursts.
"""
import contextlib
import json
import sys
import timeit

BURST, BURSTS = 100_000, 40


def least(statement, names):
    return min(timeit.repeat(statement, globals=names, number=BURST, repeat=BURSTS)) / BURST * 1e9


def main():
    if sys.argv[1] == "pfw":
        from pfw.compat.cache_dit import ProfilerContext
        names, anew = {"ProfilerContext": ProfilerContext}, "ProfilerContext(enabled=False)"
    else:
        names, anew = {"nullcontext": contextlib.nullcontext}, "nullcontext()"
    names["kept"] = eval(anew, names)
    loop = least("pass", names)
    print(json.dumps({"kept": round(least("with kept: pass", names) - loop, 1),
                      "made": round(least(f"with {anew}: pass", names) - loop, 1)}))


main()
