"""pfw.trace and pfw.record_function: what is recorded, and that the program cannot tell."""
import asyncio
import copy
import importlib.util
import inspect
import json
import pickle

import pytest

import pfw
from conftest import PFW


@pfw.trace
def add(a, b=2, *rest, c=3, **more):
    """Adds."""
    return a + b + c + sum(rest) + sum(more.values())


@pfw.trace("own name", category="mine")
def named():
    raise KeyError("x")


class Shape:
    @pfw.trace
    def area(self, scale=1):
        return 6 * scale

    @staticmethod
    @pfw.trace
    def static(x):
        return x

    @pfw.trace
    @classmethod
    def of_class(cls):
        return cls

    @pfw.trace
    @property
    def sides(self):
        """How many."""
        return 6

    @sides.setter
    def sides(self, value):
        raise AttributeError(value)


@pfw.trace
class Whole:
    kind = "w"

    def __init__(self, x):
        self.x = x

    def double(self):
        return self.x * 2

    @staticmethod
    def static():
        return 1

    @classmethod
    def make(cls):
        return cls(3)

    @property
    def value(self):
        return self.x

    def __eq__(self, other):
        return self.x == other.x


def test_functions_are_called_as_before():
    assert add(1) == 6 and add(1, 1, 1, 1, c=1, d=1) == 6
    assert add(*[1, 2], **{"c": 4}) == 7
    with pytest.raises(TypeError, match=r"add\(\) missing 1 required"):
        add()
    with pytest.raises(KeyError):
        named()


def test_methods_bind():
    shape = Shape()
    assert shape.area() == 6 and shape.area(scale=2) == 12 and Shape.area(shape) == 6
    bound = shape.area
    assert bound() == 6 and bound.__self__ is shape
    assert Shape.static(5) == shape.static(5) == 5 and Shape.of_class() is Shape
    assert sorted([3, 1], key=Shape.static) == [1, 3]
    assert shape.sides == 6 and Shape.sides.fget.__wrapped__ and Shape.sides.__doc__ == "How many."
    with pytest.raises(AttributeError):
        shape.sides = 3


def test_classes_are_what_they_were():
    whole = Whole.make()
    assert (whole.double(), Whole.static(), whole.value, Whole.kind) == (6, 1, 3, "w")
    assert isinstance(whole, Whole) and whole == Whole(3)
    assert Whole.__init__.__wrapped__ and not hasattr(Whole.__eq__, "__wrapped__")


def test_looks_like_the_function():
    assert (add.__name__, add.__qualname__, add.__doc__, add.__module__) == \
        ("add", "add", "Adds.", __name__)
    assert str(inspect.signature(add)) == "(a, b=2, *rest, c=3, **more)"
    assert add.__code__ is add.__wrapped__.__code__ and add.__defaults__ == (2,)
    assert "function add" in repr(add) and callable(add)
    assert pickle.loads(pickle.dumps(add)) is add and copy.deepcopy(add) is add
    assert inspect.isfunction(add) and type(pfw.trace(len)).__name__ == "Traced" and not inspect.isfunction(pfw.trace(len))
    with pytest.raises(AttributeError):
        _ = add.nothing
    add.mark = 5
    assert add.mark == 5 and "mark" in vars(add)


@pytest.mark.skipif(not importlib.util.find_spec("cloudpickle"), reason="no cloudpickle here")
def test_another_process_gets_functions_of_main(run):
    """As Dask, joblib and Ray send them, which cannot import them by their names."""
    run.script("""
        import cloudpickle, pfw
        @pfw.trace
        def double(x):
            return 2 * x
        @pfw.trace
        class Model:
            def predict(self, x):
                return double(x)
        def local(y):
            return pfw.trace(lambda x: double(x) + y)
        with open("functions", "wb") as file:
            file.write(cloudpickle.dumps([double, Model(), local(1)]))
        """)
    run.script("""
        import pickle
        with open("functions", "rb") as file:
            double, model, local = pickle.load(file)
        print(double(1), model.predict(2), local(3))
        """)
    assert run.output == "2 4 7\n"


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch here")
def test_torch_compiles_it(run):
    run.script("""
        import pfw, torch
        pfw.start("t")
        @pfw.trace
        def twice(x):
            return x + x
        class Model(torch.nn.Module):
            @pfw.trace
            def forward(self, x):
                return twice(x)
        model, function = (torch.compile(Model(), backend="eager", fullgraph=True),
                           torch.compile(twice, backend="eager", fullgraph=True))
        for _ in range(3):
            assert model(torch.ones(2)).sum() == function(torch.ones(2)).sum() == 4
        """)
    spans = [event["name"] for event in pfw.query(run.directory / "t.pfw", cat="app")]
    assert spans.count("Model.forward") == 3


def test_what_is_no_function():
    with pytest.raises(TypeError):
        pfw.trace(3)


def test_generators():
    @pfw.trace
    def generator(n):
        got = []
        try:
            for i in range(n):
                got.append((yield i))
        except ValueError:
            got.append("thrown")
            yield "caught"
        finally:
            closed.append(True)
        return got

    closed = []
    assert inspect.isgeneratorfunction(generator) and list(generator(3)) == [0, 1, 2]
    one = generator(2)
    assert (next(one), one.send("a")) == (0, 1)
    with pytest.raises(StopIteration) as stopped:
        one.send("b")
    assert stopped.value.value == ["a", "b"]
    two = generator(2)
    next(two)
    assert two.throw(ValueError) == "caught"
    two.close()
    assert len(closed) == 3
    three = generator(2)
    next(three)
    del three
    assert len(closed) == 4


def test_generator_that_returns_a_tuple():
    @pfw.trace
    def generator():
        return 1, 2
        yield

    with pytest.raises(StopIteration) as stopped:
        next(generator())
    assert stopped.value.value == (1, 2)


def test_coroutines():
    @pfw.trace
    async def work(x):
        await asyncio.sleep(0)
        if x < 0:
            raise ValueError(x)
        return x, x

    async def main():
        assert await asyncio.gather(work(1), work(2)) == [(1, 1), (2, 2)]
        with pytest.raises(ValueError):
            await work(-1)
        task = asyncio.ensure_future(work(3))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert inspect.iscoroutinefunction(work) and asyncio.iscoroutinefunction(work)
    asyncio.run(main())


def test_async_generators():
    @pfw.trace
    async def numbers(n):
        for i in range(n):
            try:
                await asyncio.sleep(0)
                got = yield i
                if got:
                    yield got
            except ValueError:
                yield "caught"

    async def main():
        assert [i async for i in numbers(3)] == [0, 1, 2]
        one = numbers(5)
        assert await one.asend(None) == 0 and await one.asend("x") == "x"
        assert await one.asend(None) == 1 and await one.athrow(ValueError) == "caught"
        await one.aclose()
        with pytest.raises(StopAsyncIteration):
            await one.asend(None)
    assert inspect.isasyncgenfunction(numbers)
    asyncio.run(main())


def test_what_is_recorded(run):
    run.script("""
        import pfw
        pfw.start("t")

        @pfw.trace
        def outer():
            with pfw.span("block"):
                return inner()

        @pfw.trace("named", category="mine")
        def inner():
            pfw.instant("now")
            return 5

        @pfw.trace
        def fails():
            raise OSError

        @pfw.trace
        class Model:
            def forward(self):
                return inner()

        outer()
        Model().forward()
        try:
            fails()
        except OSError:
            pass
        """)
    spans = run.spans()
    first, second = [line for line in run.lines() if line["name"] == "named"]
    assert spans["block"]["args"]["parent"] == spans["outer"]["args"]["span_id"]
    assert first["args"]["parent"] == spans["block"]["args"]["span_id"] and first["cat"] == "mine"
    assert second["args"]["parent"] == spans["Model.forward"]["args"]["span_id"]
    assert spans["fails"]["args"]["error"] == "OSError"


def test_generator_spans_do_not_take_their_consumers_spans_in(run):
    run.script("""
        import pfw
        pfw.start("t")

        @pfw.trace
        def items():
            with pfw.span("inside"):
                for i in range(2):
                    with pfw.span(f"make {i}"):
                        pass
                    yield i

        with pfw.span("consumer"):
            for i in items():
                with pfw.span(f"use {i}"):
                    pass
        with pfw.span("after"):
            pass
        """)
    spans = run.spans()
    ids = {line["args"]["span_id"]: name for name, line in spans.items()}
    parents = {name: ids.get(line["args"].get("parent")) for name, line in spans.items()}
    assert parents == {"consumer": None, "items": "consumer", "inside": "items",
                       "make 0": "inside", "make 1": "inside", "use 0": "consumer",
                       "use 1": "consumer", "after": None}
    assert spans["items"]["args"]["resumes"] == 3
    assert 0 < spans["items"]["args"]["busy_us"] <= spans["items"]["dur"]


def test_spans_of_tasks_nest_by_task(run):
    run.script("""
        import asyncio, pfw
        pfw.start("t")

        @pfw.trace
        def plain(name):
            with pfw.span(f"{name} plain"):
                pass

        @pfw.trace
        async def decorated(name):
            with pfw.span(f"{name} decorated"):
                await asyncio.sleep(0)

        async def task(name):
            with pfw.span(f"{name} outer"):
                await asyncio.sleep(0)
                with pfw.span(f"{name} inner"):
                    await asyncio.sleep(0)
                    plain(name)
                    await decorated(name)
                await asyncio.sleep(0)
                async for i in numbers(name):
                    with pfw.span(f"{name} use {i}"):
                        await asyncio.sleep(0)

        @pfw.trace
        async def numbers(name):
            for i in range(2):
                with pfw.span(f"{name} make {i}"):
                    await asyncio.sleep(0)
                yield i

        async def main():
            with pfw.span("in loop"):
                await asyncio.gather(*(task(name) for name in "abc"))

        with pfw.span("around"):
            asyncio.run(main())
        with pfw.span("after"):
            pass
        """)
    lines = [line for line in run.lines() if line["cat"] == "app"]
    names = {line["args"]["span_id"]: line["name"] for line in lines}
    parents = {}
    for line in lines:
        parents.setdefault(line["name"], []).append(names.get(line["args"].get("parent")))
    assert len(lines) == 3 + 3 * 11
    assert parents["around"] == parents["after"] == [None] and parents["in loop"] == ["around"]
    for name in "abc":
        assert parents[f"{name} outer"] == ["in loop"]
        assert parents[f"{name} inner"] == [f"{name} outer"]
        for i in range(2):
            assert parents[f"{name} use {i}"] == [f"{name} outer"]
            assert parents[f"{name} make {i}"] == ["numbers"]
    assert sorted(parents["plain"]) == sorted(parents["decorated"]) == \
        ["a inner", "b inner", "c inner"]
    assert sorted(parents["numbers"]) == ["a outer", "b outer", "c outer"]
    assert {parents[f"{name} plain"][0] for name in "abc"} == {"plain"}
    assert {parents[f"{name} decorated"][0] for name in "abc"} == {"decorated"}


def test_record_function(run):
    run.script("""
        import asyncio, pfw
        pfw.start("t")
        with pfw.record_function("block", "text"):
            pass

        @pfw.record_function("decorated")
        def function(n):
            return n and function(n - 1)

        @pfw.record_function("coroutine")
        async def coroutine():
            await asyncio.sleep(0)
            return 7

        assert function(2) == 0
        assert asyncio.run(coroutine()) == 7
        """)
    assert run.spans()["block"]["args"]["args"] == "text"
    assert sum(line["name"] == "decorated" for line in run.lines()) == 3
    assert "coroutine" in run.spans()


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch here")
def test_record_function_is_torchs_too(run):
    run.script("""
        import pfw, torch
        pfw.start("t")
        with pfw.record_function("unseen"):
            pass
        with torch.profiler.profile() as profiler:
            with pfw.record_function("seen", "text"):
                torch.ones(2) + 1
        names = [event.key for event in profiler.key_averages()]
        assert "seen" in names and "unseen" not in names, names
        """)
    assert {"seen", "unseen"} <= run.spans().keys()


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch here")
@pytest.mark.parametrize("profile", [
    "from pfw.torch import profile",
    "from torch.profiler import profile as torchs\n"
    "from pfw.torch import trace_handler\n"
    "profile = lambda **options: torchs(on_trace_ready=trace_handler, **options)"])
def test_record_function_is_one_event(run, profile):
    """In a profile that goes to the trace, torch's annotation and our span are one; and what says nothing
    of memory, as the span around it, gives back none of its own."""
    run.script(f"""
import pfw, sys, torch
from pfw.torch import record_function
{profile}
pfw.start("t")
keep = []
with profile(profile_memory=True):
    for i in range(3):
        with pfw.span("outer"), record_function("forward"):
            keep.append(torch.randn(1000))
            with record_function("inner"):
                keep.append(torch.randn(500))
""")
    names = [line["name"] for line in run.lines()]
    assert (names.count("outer"), names.count("forward"), names.count("inner")) == (3, 3, 3)
    rows = {row["name"]: row for row in map(json.loads, run.command(
        PFW, "table", "--row-limit", "-1", "--format", "ndjson", "t.pfw").splitlines())}
    assert [rows[name]["count"] for name in ("outer", "forward", "inner")] == [3, 3, 3]
    assert rows["outer"]["cpu_memory_usage"] == rows["forward"]["cpu_memory_usage"] == 3 * 6000
    assert rows["inner"]["cpu_memory_usage"] == 3 * 2000
    assert not [name for name in rows if rows[name].get("self_cpu_memory_usage", 0) < 0]


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch here")
def test_their_names_begin_steps(run):
    run.script("""
        import pfw, torch
        from pfw.torch import profile, record_function
        pfw.start("t")
        with profile():
            for i in range(3):
                with record_function(f"batch {i}"):
                    torch.ones(2) + 1
        """, PFW_STEP="batch *")
    lines = run.lines()
    assert [line["args"]["step"] for line in lines if line["args"].get("kind") == "step"] == [0, 1, 2]
    assert [line["args"]["step"] for line in lines if line["name"].startswith("batch ")] == [0, 1, 2]
