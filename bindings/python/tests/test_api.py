"""The functions of pfw: what each leaves in the trace."""
import pytest

import pfw


def test_spans_nest_and_carry_arguments(run):
    run.script("""
        import pfw
        assert pfw.start("t")
        with pfw.span("outer", "mine", epoch=3, big=2**70, x=0.5, who="me", flag=True, what=[1]):
            with pfw.span("inner") as inner:
                inner.set(bytes=7)
        late = pfw.span("begun").begin()
        late.end()
        late.end()
        """)
    outer, inner = run.spans(cat="mine")["outer"], run.spans()["inner"]
    assert {key: outer["args"][key] for key in ("epoch", "big", "x", "who", "flag", "what")} == {
        "epoch": 3, "big": str(2 ** 70), "x": 0.5, "who": "me", "flag": 1, "what": "[1]"}
    assert inner["args"]["parent"] == outer["args"]["span_id"] and inner["args"]["bytes"] == 7
    assert "parent" not in run.spans()["begun"]["args"]


def test_exception_passes_and_is_named(run):
    run.script("""
        import pfw
        pfw.start("t")
        try:
            with pfw.span("fails"):
                {}["x"]
        except KeyError:
            print("passed")
        """)
    assert run.output == "passed\n" and run.spans()["fails"]["args"]["error"] == "KeyError"


def test_names_that_are_no_utf8(run):
    run.script("""
        import pfw
        pfw.start("t")
        with pfw.span("a\\udc80b", x="\\udc80"):
            pass
        """)
    assert run.spans()["a?b"]["args"]["x"] == "?"


@pytest.mark.parametrize("call", ["span()", "span(1)", "span('a', 2)", "instant()", "instant(b'x')",
                                  "event('a')", "event('a', -1, 0)", "compute_event('a')",
                                  "compute_event('a', 1, 2, bad=3)", "counter('a', 'x')",
                                  "compute_event('a', 1, 2, kind='none')"])
def test_wrong_use_says_so(call):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        eval(f"pfw.{call}", {"pfw": pfw})


@pytest.mark.parametrize("call, said", [
    ("event('a', 1.5, 2)", "event(ts_ns=1.5): want nanoseconds"), ("event('a', 1, -2)", "event(dur_ns=-2): want nano"),
    ("counter('loss', 'x')", "counter('loss', value='x'): want a number"),
    ("compute_event('k', 1, 2, stream='a')", "compute_event(stream='a'): want an int from 0 on"),
    ("compute_event('k', 1, 2, grid=(1, 2))", "compute_event(grid=(1, 2)): want three ints"),
    ("compute_event('k', 1, 2, grid=3)", "compute_event(grid=3): want three ints"),
    ("compute_event('k', 1, 2, stack=3)", "compute_event(stack=3): want a str"),
    ("trace_calls(include=5)", "trace_calls(include=5): want a name"),
    ("trace_calls('x', min_us='a')", "trace_calls(min_us='a'): want a number of microseconds"),
    ("read([])", "paths=[]: there is no path"), ("table([]).rows()", "paths=[]: there is no path"),
    ("summary('none')", "summary: none: there is no such file"),
    ("counter('queue', length='x')", "counter('queue', length='x'): want a number")])
def test_wrong_values_are_named(call, said):
    with pytest.raises((TypeError, OverflowError, ValueError)) as error:
        eval(f"pfw.{call}", {"pfw": pfw})
    assert said in str(error.value)


def test_args_are_numbers_where_they_are_and_the_last_of_a_key_counts(run):
    run.script("""
        import decimal, pfw
        class Index:                # as numpy.int64
            def __index__(self): return 7
        class Scalar:               # as numpy.float32, and a tensor of one number
            def __float__(self): return 0.5
        class Many(Scalar):         # as an array
            def __len__(self): return 1
            def __str__(self): return "many"
        pfw.start("t")
        with pfw.span("work", epoch=1, rows=Index()) as span:
            span.set(epoch=2, loss=Scalar(), many=Many(), price=decimal.Decimal("1.5"))
        pfw.instant("saved", "cat", path="x.pt", step=Index())
        pfw.event("over", 1_700_000_000_000_000_000, 2_000, rows=3)
        """)
    def own(name, **where):
        return {key: value for key, value in run.spans(**where)[name]["args"].items() if key != "span_id"}
    assert own("work") == {"rows": 7, "epoch": 2, "loss": 0.5, "many": "many", "price": 1.5}
    assert own("saved", cat="cat") == {"path": "x.pt", "step": 7}
    assert run.spans(cat="cat")["saved"]["ph"] == "i" and "dur" not in run.spans(cat="cat")["saved"]
    assert own("over") == {"rows": 3} and run.spans()["over"]["dur"] == 2.0
    assert '"epoch":1,' not in (run.directory / "t.pfw").read_text()


def test_events(run):
    run.script("""
        import pfw
        pfw.start("t")
        pfw.instant("now", "cat")
        pfw.counter("loss", 0.25)
        pfw.counter("queue", length=3, free=5)
        pfw.event("over", 1_700_000_000_000_000_500, 2_500, "cat")
        """)
    lines = run.lines()
    assert run.spans(cat="cat")["now"]["ph"] == "i"
    assert [line["args"] for line in lines if line["ph"] == "C"] == [
        {"value": 0.25}, {"length": 3.0}, {"free": 5.0}]
    over = run.spans(cat="cat")["over"]
    assert over["dur"] == 2.5 and int(over["ts"]) == 1_700_000_000_000_000


def test_compute_events_have_all_fields(run):
    run.script("""
        import pfw
        pfw.start("t")
        pfw.compute_event("k", 1_700_000_000_000_000_000, 1_000, kind="kernel", device=1,
            device_index=0, context=1, stream=7, correlation=42, external_id=3, span=9, step=2,
            grid=(1, 2, 3), block=(4, 5, 6), registers=32, static_smem=1, dynamic_smem=2,
            local_mem=3, occupancy=0.5, priority=-1, queued=4, channel=5, graph=6, graph_node=7,
            cbid=8, bytes=-9, copy_kind="HtoD", src_kind="pinned", dst_kind="device", src_device=0,
            dst_device=1, gbps=1.5, wait_on_stream=1, wait_on_event=2, cpu_memory=-1,
            device_memory_usage=2**40, is_remote=0, input_size=2, input_shapes="[[8,16],[]]",
            dtypes='["float"]', strides="[[1]]", flops=10**15, sequence=11, fwd_tid=12,
            module="m", python_id=13, parent=14, total_cpu_percent=1.5, total_device_percent=2.5,
            stack='["f"]', addr=2**63, total_allocated=1, total_reserved=2, phase="warmup",
            blocks_per_sm=0.25, tid=None)
        """)
    args = run.spans(cat="PP")["k"]["args"]
    assert len(args) == 52
    assert (args["grid"], args["addr"], args["cpu_memory"]) == ([1, 2, 3], 2 ** 63, -1)
    assert args["input_shapes"] == [[8, 16], []] and args["phase"] == "warmup"


def test_schedule_and_hook(run):
    run.script("""
        import pfw
        pfw.start("t")
        assert pfw.schedule(wait=1, warmup=1, active=2, repeat=2)
        assert pfw.on_trace_ready(lambda segment: print(segment.cycle, segment.first_step, segment.steps))
        for number in range(9):
            with pfw.span(f"work {number}"):
                pass
            pfw.step()
        """)
    assert run.output == "0 2 2\n1 6 2\n"
    assert sorted(run.spans()) == [f"work {n}" for n in (1, 2, 3, 5, 6, 7)]
    assert run.spans()["work 1"]["args"]["phase"] == "warmup"


def test_a_schedule_set_before_the_start(run):
    run.script("""
        import pfw
        assert pfw.schedule(wait=1, warmup=1, active=2, repeat=1)
        pfw.step()
        pfw.start("t")
        for number in range(6):
            with pfw.span(f"work {number}"):
                pass
            pfw.step()
        """)
    assert sorted(run.spans()) == [f"work {n}" for n in (1, 2, 3)]


def test_exception_in_the_hook_goes_no_further(run):
    run.script("""
        import pfw
        pfw.start("t")
        pfw.schedule(active=1, repeat=1)
        pfw.on_trace_ready(lambda segment: 1 / 0)
        pfw.step()
        print("on")
        """)
    assert run.output == "on\n" and "ZeroDivisionError" in run.errors


def test_stats_flush_and_names(run):
    run.script("""
        import pathlib, pfw
        pfw.start(pathlib.Path("t"), compression=True, data_dir="/nowhere")
        with pfw.span("a"):
            pass
        assert pfw.flush()
        stats = pfw.stats()
        assert stats.events == 1 and stats.enabled and stats.path.endswith("/t.pfw.gz"), stats
        pfw.stop()
        assert not pfw.stats().enabled
        """)


def test_late_rank_renames(run):
    run.script("""
        import pfw
        pfw.start("t")
        with pfw.span("a"):
            pass
        assert pfw.set_rank(3, 8) and not pfw.set_rank(8, 8)
        """)
    assert [path.name for path in run.directory.glob("*.pfw")] == ["t-rank0003.pfw"]
