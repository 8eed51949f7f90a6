"""pfw.trace_calls: calls of functions that know nothing of it."""
import sys

from conftest import PFW

PROGRAM = """
    import json, threading, pfw
    import helper
    pfw.start("t")

    def leaf(n):
        return n

    def tree(n):
        return leaf(n) if n == 0 else tree(n - 1)

    def fails():
        raise KeyError

    def items():
        yield 1
        yield 2

    class Net:
        def forward(self):
            return helper.help(2)

    def in_thread():
        leaf(1)

    def main():
        tree(2)
        try:
            fails()
        except KeyError:
            pass
        list(items())
        Net().forward()
        json.dumps([1])
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
    """


def calls(run, arguments, after="main()"):
    run.save("def help(n):\n    return [h() for h in [inner] * n]\n\ndef inner():\n    pass\n",
             "helper.py")
    run.script(PROGRAM + f"""
    with pfw.trace_calls({arguments}):
        {after}
    main()
    """)
    lines = [line for line in run.lines() if line["cat"] == "python"]
    ids = {line["args"]["span_id"]: line["name"] for line in lines}
    return [(line["name"], ids.get(line["args"].get("parent"), "none")) for line in lines], lines


def test_all_of_the_programs_own(run):
    made, lines = calls(run, "")
    # Before 3.12 a comprehension is a function, and before 3.11 code has no qualified name.
    made = sorted((name, outer and outer.replace("help.<locals>.<listcomp>", "help"))
                  for name, outer in made if "listcomp" not in name)
    net = "Net.forward" if sys.version_info >= (3, 11) else "forward"
    assert [pair for pair in made if pair[0] != "helper.inner"] == sorted([
        ("leaf", "tree"), ("tree", "tree"), ("tree", "tree"), ("tree", "main"), ("fails", "main"),
        ("items", "main"), ("items", "main"), ("items", "main"), ("helper.help", net),
        (net, "main"), ("leaf", "in_thread"), ("in_thread", "none"), ("main", "none")])
    assert len({line["tid"] for line in lines}) == 2


def test_what_is_included(run):
    assert {name for name, _ in calls(run, "'helper'")[0] if "comp" not in name} == \
        {"helper.help", "helper.inner"}
    for path in run.directory.glob("*.pfw"):
        path.unlink()
    assert {name for name, _ in calls(run, "['tree', 'json.*encode*', 'helper.in*']")[0]} >= \
        {"tree", "helper.inner"}
    names = {line["name"] for line in run.lines() if line["cat"] == "python"}
    assert "helper.help" not in names and any(name.startswith("json.encoder") for name in names)


def test_short_calls_are_left_out(run):
    run.script("""
        import time, pfw
        pfw.start("t")

        def short():
            pass

        def long():
            short()
            time.sleep(2.1)

        with pfw.trace_calls(min_us=2_000_000):
            long()
            with pfw.span("mine"):
                pass
        """)
    assert [line["name"] for line in run.lines() if line["cat"] == "python"] == ["long"]
    assert "parent" not in run.spans()["mine"]["args"]


def test_beside_another_profiler(run):
    run.script("""
        import sys, pfw
        pfw.start("t")

        def function():
            pass

        seen = []
        if hasattr(sys, "monitoring"):
            for number in range(2, 5):
                sys.monitoring.use_tool_id(number, "other")
        else:
            sys.setprofile(lambda *event: seen.append(event))
        with pfw.trace_calls():
            function()
        if not hasattr(sys, "monitoring"):
            assert seen and sys.getprofile()
        """)
    assert "function calls are not traced" in run.errors
    assert not run.spans(cat="python")


def test_many_functions_and_restarts(run):
    run.script("""
        import pfw
        pfw.start("t")
        for i in range(3):
            with pfw.trace_calls(include=f"f{i}"):
                for n in range(3):
                    exec(f"def f{n}(): return {n}\\nf{n}()", globals())
                f0(); f1(); f2()
        calls = pfw.trace_calls(include="f0")
        again = pfw.trace_calls(include="f1")
        f0(); f1()
        calls.stop(); again.stop(); again.stop()
        f1()
        """)
    names = [line["name"] for line in run.lines() if line["cat"] == "python"]
    assert names == ["f0"] * 2 + ["f1"] * 2 + ["f2"] * 2 + ["f1"]


def test_nothing_while_nothing_is_recorded(run):
    run.script("""
        import pfw
        pfw.start("t")
        pfw.schedule(wait=1, active=1, repeat=1)

        def function():
            pass

        with pfw.trace_calls():
            for _ in range(4):
                function()
                pfw.step()
        """)
    assert len([line for line in run.lines() if line["name"] == "function"]) == 1


def test_pfw_run_py_calls(run):
    run.save("def help():\n    pass\n", "helper.py")
    run.save("import os\nos.environ['OWN'] = 'ran'\n", "sitecustomize.py")
    program = """
        import multiprocessing, os, helper
        assert os.environ["OWN"] == "ran"

        def main():
            helper.help()
            process = multiprocessing.get_context("spawn").Process(target=helper.help)
            process.start()
            process.join()

        if __name__ == "__main__":
            main()
        """
    run.traced(program, "--py-calls", PYTHONPATH=str(run.directory))
    lines = [line for line in run.lines() if line["cat"] == "python"]
    assert sorted(line["name"] for line in lines if not line["name"].endswith("<module>")) \
        == ["helper.help", "helper.help", "main"]
    assert len({line["pid"] for line in lines if line["name"] == "helper.help"}) == 2
    for path in run.directory.glob("*.pfw"):
        path.unlink()
    run.traced(program, "--py-calls", PYTHONPATH=str(run.directory), PFW_PY_CALLS="helper,min=0.001us")
    assert {line["name"] for line in run.lines() if line["cat"] == "python"} \
        == {"helper.help", "helper.<module>"}


def test_a_python_without_the_package_runs(run):
    """As sitecustomize finds the package that it lies in, an environment without it is traced, too."""
    run.command(sys.executable, "-m", "venv", "--without-pip", "bare")
    run.save("def main():\n    pass\nmain()\n")
    run.command(PFW, "run", "-o", "t", "--py-calls", "--", "bare/bin/python", "script.py")
    assert [line["name"] for line in run.lines() if line["cat"] == "python"] == ["main", "<module>"]
    assert "Python's part" not in run.errors


def test_packages_of_any_environment_are_left_out(run):
    """What PYTHONPATH or a .pth file adds is installed, too, wherever its site-packages is."""
    for place in ("other/lib/python3/site-packages", "third/dist-packages", "mine"):
        (run.directory / place).mkdir(parents=True)
        name = place.rsplit("/", maxsplit=1)[-1].replace("-", "_")
        (run.directory / place / f"{name}.py").write_text("def help():\n    pass\n")
    run.traced("""
        import dist_packages, mine, site_packages
        for module in (dist_packages, mine, site_packages):
            module.help()
        """, "--py-calls", PYTHONPATH="other/lib/python3/site-packages:third/dist-packages:mine")
    assert {line["name"] for line in run.lines() if line["cat"] == "python" and "module" not in line["name"]} \
        == {"mine.help"}


def test_what_no_call_was_is_said(run):
    program = "def train():\n    pass\ntrain()\n"
    run.traced(program, "--py-calls", PFW_PY_CALLS="train,evaluate")
    assert run.errors.count("PFW_PY_CALLS: no call was evaluate") == 1
    run.traced(program, "--py-calls", PFW_PY_CALLS="train")
    assert "no call was" not in run.errors
