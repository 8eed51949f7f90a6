"""dynamo: the operators of a model that torch.compile has taken apart, an event each."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..._load import core
from ._logger import DFTRACER_ENABLE
from ._function import Wrapped
from .ai import DFTracerAI

CAT_DYNAMO = "dynamo"


def _node_name(node: Any, graph_module: Any) -> str:
    target = str(node.target).replace(".", "_")
    if node.op == "call_module":
        return f"{node.target}.{type(graph_module.get_submodule(node.target)).__name__}_{target}"
    if node.op == "call_function":
        return f"function.{getattr(node.target, '__name__', str(node.target))}"
    return f"method.{target}"


def _run(graph_module: Any, tracer: DFTracerAI) -> Callable[..., Any]:
    """The graph, run node by node, with a span around each that computes."""
    import torch

    names = {node: _node_name(node, graph_module) for node in graph_module.graph.nodes
             if node.op in ("call_module", "call_function", "call_method")}

    class Traced(torch.fx.Interpreter):
        def run_node(self, node: Any) -> Any:
            if node not in names or not tracer.profiler._on():
                return super().run_node(node)
            with core.span(names[node], tracer.cat, grad_enabled=int(torch.is_grad_enabled()),
                           **tracer.profiler._values()):
                return super().run_node(node)

    return lambda *args: Traced(graph_module).run(*args)


def _backend(tracer: DFTracerAI, autograd: bool) -> Callable[..., Any]:
    """A backend of torch.compile; with ``autograd`` it gets the graphs of forward and backward."""
    def compiler(graph_module: Any, inputs: Any, **keywords: Any) -> Any:
        return _run(graph_module, tracer)

    if not autograd:
        return compiler
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=lambda module, inputs: make_boxed_func(_run(module, tracer)))


class Dynamo(DFTracerAI):
    """Compiles functions and models so that each of their operators is recorded.

    >>> class Model(torch.nn.Module):
    ...     @dynamo.compile
    ...     def forward(self, x): ...
    """

    def __init__(self, name: str | None = None, epoch: int | None = None, step: int | None = None,
                 image_idx: int | None = None, image_size: Any | None = None,
                 enable: bool = True) -> None:
        super().__init__(cat=CAT_DYNAMO, name=name, epoch=epoch, step=step, image_idx=image_idx,
                         image_size=image_size, enable=enable)

    @overload
    def compile(self, f_py: None = None, autograd: bool = True) -> Callable[[Wrapped], Wrapped]: ...
    @overload
    def compile(self, f_py: Wrapped, autograd: bool = True) -> Wrapped: ...

    def compile(self, f_py: Any = None, autograd: bool = True) -> Any:
        """Decorate a function or ``forward()``; it stays as it is where nothing is recorded.

        :param autograd: record forward and backward as autograd runs them.
        """
        if f_py is None:
            return lambda function: self.compile(function, autograd)
        if not (self.profiler._enable and (DFTRACER_ENABLE or core.enabled())):
            return f_py
        import torch

        return torch.compile(f_py, backend=_backend(self, autograd))

    def count_parameters(self, module: Any) -> int | None:
        """How many parameters a module has; None: it is none."""
        if not hasattr(module, "parameters"):
            return None
        return int(sum(parameter.numel() for parameter in module.parameters()))


dynamo = Dynamo()


def create_backend(name: str | None = None, epoch: int | None = None, step: int | None = None,
                   image_idx: int | None = None, image_size: Any | None = None,
                   enable: bool = True, autograd: bool = True) -> Callable[..., Any]:
    """A backend for ``torch.compile(model, backend=...)`` that records each operator."""
    return _backend(Dynamo(name, epoch, step, image_idx, image_size, enable), autograd)


__all__ = ["Dynamo", "create_backend", "dynamo"]
