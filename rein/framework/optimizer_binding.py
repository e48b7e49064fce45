"""Which optimizer handles which parameter: each exactly once, or reported.

An algorithm may have a default optimizer and optimizers for some of its modules. A parameter goes to the innermost
optimizer that claims it: one added for it by `add_optimizer`, the default of the algorithm it belongs to, or else that of
the nearest ancestor algorithm with a default. Attributes that an algorithm ignores are trained elsewhere or not at all.
"""

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn import Parameter

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm


class OptimizerBinding:
    """The optimizers of one algorithm and, once bound, their parameters."""

    def __init__(self, default: Any | None) -> None:
        """Starts with the default optimizer of an algorithm, if it has one."""
        self.default = None if default is None else _unused(default)
        self.explicit: list[tuple[Any, list[nn.Module | Parameter]]] = []
        self.is_bound = False

    def add(self, optimizer: Any, modules_and_params: Iterable[nn.Module | Parameter]) -> None:
        """Gives `modules_and_params` to `optimizer` instead of the default one."""
        items = list(modules_and_params)
        for item in items:
            if not isinstance(item, nn.Module | Parameter):
                raise TypeError(f"expected modules and parameters for {optimizer}, got {type(item).__name__}")
        self.explicit.append((_unused(optimizer), items))

    def own_optimizers(self) -> list[Any]:
        """The default optimizer, if any, then those that were added."""
        default = [] if self.default is None else [self.default]
        return default + [optimizer for optimizer, _ in self.explicit]


def _unused(optimizer: Any) -> Any:
    """`optimizer`, or a fresh copy if another algorithm has it: a conf may give one object to several."""
    if getattr(optimizer, "has_owner", False):
        optimizer = optimizer.copy()
    optimizer.has_owner = True
    return optimizer


def bind(algorithm: "Algorithm") -> list[Parameter]:
    """Gives every optimizer below `algorithm` its parameters, once.

    Returns:
        The parameters that no optimizer below `algorithm` handles, for the parent's default one.
    """
    handled: set[Parameter] = set()
    unhandled = _bind(algorithm, handled, visited=set())
    return [p for p in unhandled if p not in handled]


def _bind(algorithm: "Algorithm", handled: set[Parameter], visited: set[int]) -> list[Parameter]:
    if id(algorithm) in visited:
        return []
    visited.add(id(algorithm))
    binding = algorithm.optimizer_binding
    claimed: set[int] = set()
    for optimizer, items in binding.explicit:
        claimed.update(id(item) for item in items)
        params = _unique(p for item in items for p in _trainable(item) if p not in handled)
        _give(binding, optimizer, params)
        handled.update(params)
    unhandled: list[Parameter] = []
    for child in _children(algorithm, claimed=claimed):
        if _is_algorithm(child):
            unhandled += _bind(child, handled, visited)
            if child.force_params_visible_to_parent:
                unhandled += _optimized(child, handled)
        else:
            unhandled += _trainable(child)
    unhandled = _unique(p for p in unhandled if p not in handled)
    if binding.default is not None:
        _give(binding, binding.default, unhandled)
        handled.update(unhandled)
        unhandled = []
    binding.is_bound = True
    return unhandled


def _optimized(child: "Algorithm", handled: set[Parameter]) -> list[Parameter]:
    """Parameters that `child`'s optimizers handle, made visible to the parent's optimizer too."""
    params = _unique(p for o in optimizers(child) for group in o.param_groups for p in group["params"])
    handled.difference_update(params)
    return params


def _give(binding: OptimizerBinding, optimizer: Any, params: list[Parameter]) -> None:
    if not binding.is_bound and params:
        optimizer.add_param_group({"params": params})


def optimizers(algorithm: "Algorithm", recurse: bool = True, include_ignored_attributes: bool = False) -> list[Any]:
    """The bound optimizers of `algorithm` and, with `recurse`, of all algorithms below it."""
    found: list[Any] = []
    _collect_optimizers(algorithm, recurse, include_ignored_attributes, found, set())
    return found


def _collect_optimizers(
    algorithm: "Algorithm", recurse: bool, with_ignored: bool, found: list[Any], visited: set[int]
) -> None:
    if id(algorithm) in visited:
        return
    visited.add(id(algorithm))
    found += [o for o in algorithm.optimizer_binding.own_optimizers() if all(o is not f for f in found)]
    if recurse:
        for child in _children(algorithm, with_ignored):
            if _is_algorithm(child):
                _collect_optimizers(child, recurse, with_ignored, found, visited)


def optimizer_info(algorithm: "Algorithm") -> str:
    """JSON text: for each optimizer its description and the names of the parameters it handles."""
    names = _names(algorithm)
    entries: list[dict[str, Any]] = []
    handled: set[Parameter] = set()
    for optimizer in optimizers(algorithm):
        params = [p for group in optimizer.param_groups for p in group["params"]]
        handled.update(params)
        entries.append(
            {"optimizer": str(getattr(optimizer, "name", optimizer)), "parameters": [names[p] for p in params]}
        )
    rest = [names[p] for p in _visible(algorithm) if p not in handled]
    if rest:
        entries.insert(0, {"optimizer": "None", "parameters": rest})
    return json.dumps(entries, indent=2)


def unoptimized_parameter_info(algorithm: "Algorithm") -> str:
    """One line for each trainable parameter anywhere below `algorithm` that no optimizer handles."""
    handled = {
        p
        for optimizer in optimizers(algorithm, include_ignored_attributes=True)
        for group in optimizer.param_groups
        for p in group["params"]
    }
    return "\n".join(name for p, name in _names(algorithm).items() if p.requires_grad and p not in handled)


def parameter_name(algorithm: "Algorithm", param: Parameter) -> str | None:
    """The dotted name of `param` below `algorithm`, or None."""
    return _names(algorithm).get(param)


def _names(algorithm: nn.Module) -> dict[Parameter, str]:
    return {param: name for name, param in algorithm.named_parameters()}


def _visible(algorithm: "Algorithm", visited: set[int] | None = None) -> list[Parameter]:
    """What somebody should train: all but what the algorithms of the tree ignore."""
    visited = set() if visited is None else visited
    if id(algorithm) in visited:
        return []
    visited.add(id(algorithm))
    found: list[Parameter] = []
    for child in _children(algorithm):
        found += _visible(child, visited) if _is_algorithm(child) else _trainable(child)
    return _unique(found)


def _children(algorithm: "Algorithm", with_ignored: bool = False, claimed: Collection[int] = ()) -> list[Any]:
    """The modules and parameters of an algorithm; of lists and dicts of algorithms, what is in them.

    Args:
        algorithm: whose.
        with_ignored: those that it does not train too.
        claimed: ids of those to leave out.
    """
    ignored = set() if with_ignored else set(algorithm._trainable_attributes_to_ignore())
    members = {**algorithm._modules, **algorithm._parameters}
    return _unfolded((member for name, member in members.items() if name not in ignored), claimed)


def _unfolded(members: Iterable[Any], claimed: Collection[int]) -> list[Any]:
    found: list[Any] = []
    for member in members:
        if member is None or id(member) in claimed:
            continue
        is_plain = isinstance(member, Parameter) or _is_algorithm(member)
        if is_plain or not any(_is_algorithm(module) for module in member.modules()):
            found.append(member)
        else:
            found += _unfolded([*member._modules.values(), *member._parameters.values()], claimed)
    return found


def _is_algorithm(member: Any) -> bool:
    return hasattr(member, "optimizer_binding")


def _trainable(item: nn.Module | Parameter) -> list[Parameter]:
    params = [item] if isinstance(item, Parameter) else list(item.parameters())
    return [p for p in params if p.requires_grad]


def _unique(params: Iterable[Parameter]) -> list[Parameter]:
    return list(dict.fromkeys(params))
