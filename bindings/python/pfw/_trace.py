"""Spans around calls: ``@pfw.trace`` and ``pfw.record_function``."""
from __future__ import annotations

import collections
import functools
import os
import sys
import time
import types

from ._load import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    Wrapped = TypeVar("Wrapped", bound=Any)
    Function = Callable[..., Any]
on_enter: Callable[[str], object] | None = None  # told the names of record_function()s: PFW_STEP
_STEP_NAMES = os.environ.get("PFW_STEP", "auto") != "auto"  # a span with such a name begins a step
profile_writes = False  # a pfw.torch.profile records: torch's annotations go to the trace
_annotated: collections.deque[tuple[str, int, int]] = collections.deque(maxlen=1 << 17)


def _generator(function: Function, name: str, category: str | None) -> Function:
    @functools.wraps(function)
    def traced(*args: Any, **keywords: Any) -> Any:
        return (yield from core.steps(function(*args, **keywords), core.span(name, category), True))
    return traced


def _coroutine(function: Function, name: str, category: str | None) -> Function:
    @functools.wraps(function)
    async def traced(*args: Any, **keywords: Any) -> Any:
        return await core.steps(function(*args, **keywords), core.span(name, category), True)
    return traced


def _async_generator(function: Function, name: str, category: str | None) -> Function:
    @functools.wraps(function)
    async def traced(*args: Any, **keywords: Any) -> Any:
        inner, span = function(*args, **keywords), core.span(name, category)
        try:
            step = inner.asend(None)
            while True:
                value = await core.steps(step, span, False)
                try:
                    sent = yield value
                except GeneratorExit:
                    await core.steps(inner.aclose(), span, False)
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)
        except StopAsyncIteration:
            return
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                span.set(error=type(error).__name__)
            raise
        finally:
            span.end()
    return traced


def _function(function: Function, name: str | None, category: str | None) -> Function:
    import inspect  # here: it takes as long as the rest of pfw

    name = name or getattr(function, "__qualname__", None) or repr(function)
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, name, category)
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, name, category)
    if inspect.isgeneratorfunction(function):
        return _generator(function, name, category)
    traced = core.traced(function, name, category)
    return functools.update_wrapper(traced, function) if traced is not function else function


def _attribute(value: Any, name: str | None, category: str | None) -> Any:
    """An attribute of a class, traced where it is a function of the class's own."""
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(_function(value.__func__, name, category))
    if isinstance(value, property):
        return property(*(each and _function(each, name, category) for each in (value.fget, value.fset, value.fdel)),
                        doc=value.__doc__)
    return _function(value, name, category)


def _class(cls: type, name: str | None, category: str | None) -> type:
    for key, value in list(vars(cls).items()):
        own = isinstance(value, (types.FunctionType, staticmethod, classmethod))
        hidden = key.startswith("__") and key not in ("__init__", "__call__", "__iter__", "__next__",
                                                      "__getitem__", "__enter__", "__exit__")
        if own and not hidden:
            setattr(cls, key, _attribute(value, name and f"{name}.{key}", category))
    return cls


if TYPE_CHECKING:
    @overload
    def trace(target: Wrapped, /) -> Wrapped: ...
    @overload
    def trace(target: str | None = None, /, *, category: str | None = None) -> Callable[[Wrapped], Wrapped]: ...


def trace(target: Any = None, /, *, category: str | None = None) -> Any:
    """Record each call of a function, generator, coroutine or method, or of a class's methods.

    ``@pfw.trace``, ``@pfw.trace("name")`` or ``@pfw.trace(category="data")``.  The span is named as
    the function is (``__qualname__``) and is of category "app".  That of a generator or coroutine
    reaches from its first step to its end; ``busy_us`` is the time in it, in microseconds, and
    ``resumes`` how often it was entered.  Of a class what it defines itself is traced, and of its
    special methods the calls, iterations and contexts.  An exception passes; ``error`` names it.

    A decorated function is an object that says that it is a function (``isinstance(it,
    types.FunctionType)``), and ``__wrapped__`` is the function.  What takes functions apart finds the
    function without its span: torch.compile() in code that it compiles, and cloudpickle.
    """
    if isinstance(target, str) or target is None:
        return functools.partial(_decorate, name=target, category=category)
    return _decorate(target, name=None, category=category)


def _decorate(target: Any, *, name: str | None, category: str | None) -> Any:
    if isinstance(target, type):
        return _class(target, name, category)
    if isinstance(target, (staticmethod, classmethod, property)):
        return _attribute(target, name, category)
    if callable(target):
        return _function(target, name, category)
    raise TypeError(f"pfw.trace: {target!r} is neither a function nor a class")


def annotated_twice() -> list[tuple[str, int, int]]:
    """Name, begin and end of the spans that torch.profiler has as annotations, too; forgets them."""
    spans = list(_annotated)
    _annotated.clear()
    return spans


def around(function: Wrapped, context: Callable[[], Any]) -> Wrapped:
    """The function, each call of which is in a ``context()``: of a coroutine or generator, to its end."""
    import inspect

    async def awaited(*args: Any, **keywords: Any) -> Any:
        with context():
            return await function(*args, **keywords)

    def generated(*args: Any, **keywords: Any) -> Any:
        with context():
            return (yield from function(*args, **keywords))

    def called(*args: Any, **keywords: Any) -> Any:
        with context():
            return function(*args, **keywords)
    within = (awaited if inspect.iscoroutinefunction(function)
              else generated if inspect.isgeneratorfunction(function) else called)
    return functools.update_wrapper(within, function)  # type: ignore[return-value]


class record_function:
    """A span as a context manager or decorator, as torch.profiler.record_function().

    While torch's profiler runs it is an annotation there, too; in a pfw.torch.profile it is that
    annotation alone, with what torch knows of it.  Use an object of it once at a time.

    :param name: what the span is called.
    :param args: a text that goes into the span's ``args``, as torch's does.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[Any] = []

    def __enter__(self) -> record_function:
        if on_enter is not None:
            on_enter(self.name)
        since = time.time_ns()
        annotation = _torch_annotation(self.name, self.args)
        if annotation is not None and profile_writes and not _STEP_NAMES:
            self._open.append((None, annotation, 0))
            return self
        span = (core.span(self.name) if self.args is None
                else core.span(self.name, None, args=self.args))
        self._open.append((span.__enter__(), annotation, since if annotation is not None else 0))
        return self

    def __exit__(self, *exception: Any) -> None:
        if not self._open:
            return
        span, annotation, since = self._open.pop()
        if annotation is not None:
            annotation.__exit__(*exception)
        if span is not None:
            span.__exit__(*exception)
        if since:
            _annotated.append((self.name, since, time.time_ns()))

    def __call__(self, function: Wrapped) -> Wrapped:
        import inspect

        @functools.wraps(function)
        def recorded(*args: Any, **keywords: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **keywords)

        async def recorded_async(*args: Any, **keywords: Any) -> Any:
            with record_function(self.name, self.args):
                return await function(*args, **keywords)
        if inspect.iscoroutinefunction(function):
            return functools.wraps(function)(recorded_async)  # type: ignore[return-value]
        return recorded  # type: ignore[return-value]


def _torch_annotation(name: str, args: str | None) -> Any:
    """torch's record_function, entered; None where torch is not there or does not profile."""
    profiler = sys.modules.get("torch.autograd.profiler")
    try:
        if profiler is None or not profiler.torch._C._autograd._profiler_enabled():
            return None
        return profiler.record_function(name, args).__enter__()
    except (AttributeError, RuntimeError, TypeError):
        return None
