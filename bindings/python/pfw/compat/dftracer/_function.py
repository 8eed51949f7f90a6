"""dft_fn: a category, a name and arguments under which functions, blocks and loops are recorded."""
from __future__ import annotations

import functools
import inspect
import numbers
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

from ..._load import core
from ._logger import (DFTRACER_ENABLE, EntityRelation, EntityStore, TagDType, TagType, TagValue,
                      dftracer, get_time_scale)

__all__ = ["DFTRACER_ENABLE", "EntityRelation", "EntityStore", "TagDType", "TagType", "TagValue",
           "dft_fn", "dftracer", "get_time_scale"]

Function = Callable[..., Any]
Wrapped = TypeVar("Wrapped")
Value = TypeVar("Value")
_KEYS = {"epoch": False, "step": False, "image_idx": False, "image_size": True} # name: a float?


def _picks(function: Function, method: bool) -> tuple[tuple[str, int, object, bool], ...]:
    """Which of a function's arguments its events carry, and of a method's object which attributes."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()
    picks = []
    first = next(iter(parameters), None)
    for key, is_float in _KEYS.items():
        if key in parameters:
            parameter = parameters[key]
            at = list(parameters).index(key)
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                at = sys.maxsize
            default = None if parameter.default is inspect.Parameter.empty else parameter.default
            picks.append((key, at, default, is_float))
        elif method and first == "self":
            picks.append((key, -1, None, is_float))
    return tuple(picks)


class dft_fn(core.Mark):
    """Records under a category: functions, blocks and loops.

    >>> io = dft_fn("io")
    >>> @io.log
    ... def read(path, step): ...       # events "read" of category "io" with args.step
    >>> with dft_fn("io", "scan") as scan:
    ...     scan.update(args={"files": 3})

    :param cat: the category.
    :param name: of blocks; None: the name of the function that makes it.
    :param epoch: and step, image_idx, image_size: args of its events.
    :param enable: False: nothing is recorded.
    """

    def __init__(self, cat: str, name: str | None = None, epoch: int | None = None,
                 step: int | None = None, image_idx: int | None = None,
                 image_size: Any | None = None, enable: bool = True) -> None:
        super().__init__(str(name or sys._getframe(1).f_code.co_name), str(cat))
        self._set(epoch, step, image_idx, image_size, None)
        self._enable = bool(enable)

    def _set(self, epoch: Any, step: Any, image_idx: Any, image_size: Any,
             args: dict[str, Any] | None) -> None:
        if epoch is not None:
            self._arguments_int["epoch"] = 0, int(epoch)
        if step is not None:
            self._arguments_int["step"] = 0, int(step)
        if image_idx is not None:
            self._arguments_int["image_idx"] = 0, int(image_idx)
        if image_size is not None:
            self._arguments_float["image_size"] = 0, float(image_size)
        for key, value in (args or {}).items():
            plain = value._value if isinstance(value, TagValue) else value
            if isinstance(plain, numbers.Integral):
                self._arguments_int[key] = 0, int(plain)
            elif isinstance(plain, numbers.Real):
                self._arguments_float[key] = 0, float(plain)
            else:
                self._arguments_string[key] = 0, str(plain)

    def update(self, epoch: int | None = None, step: int | None = None,
               image_idx: int | None = None, image_size: Any | None = None,
               args: dict[str, Any] | None = None) -> dft_fn:
        """Give the event that is going on, and those after it, arguments."""
        if self._enable:
            self._set(epoch, step, image_idx, image_size, args)
        return self

    def _values(self) -> dict[str, Any]:
        return {key: value[1] for kind in (self._arguments_int, self._arguments_float,
                                           self._arguments_string) for key, value in kind.items()}

    def _on(self) -> bool:
        return bool(self._enable) and core.enabled()

    def _decorated(self, function: Any, name: str | None,
                   picks: tuple[tuple[str, int, object, bool], ...] = ()) -> Any:
        """The function, its calls recorded; a generator's is the call that makes it, as DFTracer's."""
        name = name or getattr(function, "__qualname__", None) or repr(function)
        if inspect.iscoroutinefunction(function):
            return self._coroutine(function, name)
        marked = core.marked(function, str(name), self, picks)
        return functools.update_wrapper(marked, function) if marked is not function else function

    def _coroutine(self, function: Function, name: str) -> Function:
        @functools.wraps(function)
        async def marked(*args: Any, **keywords: Any) -> Any:
            if not self._on():
                return await function(*args, **keywords)
            span = core.span(name, self._cat, **self._values())
            return await core.steps(function(*args, **keywords), span, True)
        return marked

    @overload
    def log(self, func: None = None, name: str | None = None) -> Callable[[Wrapped], Wrapped]: ...
    @overload
    def log(self, func: Wrapped, name: str | None = None) -> Wrapped: ...

    def log(self, func: Any = None, name: str | None = None) -> Any:
        """Decorate a function or method: an event for each call, named as it or ``name``.

        Its arguments epoch, step, image_idx and image_size go into the event, and so do the
        attributes of these names of a method's object.  An exception passes; ``error`` names it.
        """
        if func is None:
            return functools.partial(self.log, name=name)
        if isinstance(func, (staticmethod, classmethod)):
            return type(func)(self.log(func.__func__, name))
        return self._decorated(func, name, _picks(func, True))

    @overload
    def log_init(self, init: None = None, name: str | None = None) -> Callable[[Wrapped], Wrapped]: ...
    @overload
    def log_init(self, init: Wrapped, name: str | None = None) -> Wrapped: ...

    def log_init(self, init: Any = None, name: str | None = None) -> Any:
        """Decorate an ``__init__``: its arguments as with :meth:`log`."""
        if init is None:
            return functools.partial(self.log_init, name=name)
        return self._decorated(init, name, _picks(init, False))

    @overload
    def log_static(self, func: None = None, name: str | None = None) -> Callable[[Wrapped], Wrapped]: ...
    @overload
    def log_static(self, func: Wrapped, name: str | None = None) -> Wrapped: ...

    def log_static(self, func: Any = None, name: str | None = None) -> Any:
        """Decorate a static method or a function, no arguments looked at."""
        if func is None:
            return functools.partial(self.log_static, name=name)
        if isinstance(func, staticmethod):
            return staticmethod(self._decorated(func.__func__, name))
        return self._decorated(func, name)

    def iter(self, func: Iterable[Value], name: str = "loop", iter_name: str = "step"
             ) -> Iterator[Value]:
        """Iterate: ``NAME.iter`` is the getting of each value, ``NAME.yield`` what is done with it.

        :param iter_name: the argument that counts them, from 1.
        """
        return self._loop(func, f"{name}.iter", f"{name}.yield", iter_name)

    def _loop(self, values: Iterable[Value], got: str | None, done: str | None, count_name: str,
              got_after: bool = False) -> Iterator[Value]:
        """The values; ``got_after``: what the loop's body tells update() is in ``got``'s event, too."""
        begin = time.time_ns()
        for count, value in enumerate(values, 1):
            if not self._on():
                yield value
                begin = time.time_ns()
                continue
            had = begin, time.time_ns() - begin
            if got and not got_after:
                core.finished(got, self._cat, *had, {**self._values(), count_name: count})
            try:
                if done:
                    yield from self._done(value, done, count_name, count)
                else:
                    yield value
            finally: # also of a loop that is left
                if got and got_after:
                    core.finished(got, self._cat, *had, {**self._values(), count_name: count})
            begin = time.time_ns()

    def _done(self, value: Value, name: str, count_name: str, count: int) -> Iterator[Value]:
        """The value, and a span around what is done with it."""
        span = core.span(name, self._cat, **{count_name: count})
        span.begin()
        try:
            yield value
        finally:
            span.set(**{key: value for key, value in self._values().items() if key != count_name})
            span.end()

    def log_metadata(self, key: str, value: str) -> None:
        """Write a value that belongs to no event."""
        if self._on():
            dftracer.get_instance().log_metadata_event(key, value)

    # DFTracer 2.2 has no entities in its traces: their number is 0 there, and here.

    def relate(self, relation: EntityRelation, entity: int) -> dft_fn:
        """Nothing, as with DFTracer 2.2."""
        return self

    def relate_entity(self, relation: EntityRelation, type: str, key: Any,
                      store: EntityStore = EntityStore.MEMORY, uri: str = "") -> int:
        """0, no entity, as with DFTracer 2.2."""
        return 0

    def uses(self, type: str, key: Any, store: EntityStore = EntityStore.MEMORY,
             uri: str = "") -> int:
        """0, no entity, as with DFTracer 2.2."""
        return 0

    def generates(self, type: str, key: Any, store: EntityStore = EntityStore.MEMORY,
                  uri: str = "") -> int:
        """0, no entity, as with DFTracer 2.2."""
        return 0
