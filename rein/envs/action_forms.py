"""Actions of any space in a form that an algorithm takes, and back.

Forms, from the widest to the narrowest:

- "any": as the world has them.
- "several": whole numbers count from 0 and stand in vectors; real numbers have bounds and stand in arrays. So
  MultiBinary, MultiDiscrete of any shape and start, Discrete with a start, Boxes of whole numbers, single real numbers and
  Boxes without bounds become Discrete, MultiDiscrete and Box. Dicts and Tuples stay.
- "discrete first": further, all discrete parts become one Discrete, and beside continuous ones the pair
  (discrete, continuous).
- "one discrete": further, if all parts are discrete, they become one Discrete.

Where a Box has no bound, the agent acts up to `UNBOUNDED` from zero, or from the bound on the other side.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["ACTION_FORMS", "UNBOUNDED", "ActionForm", "FittedActions", "action_form"]

logger = logging.getLogger("rein.envs")

ACTION_FORMS = ("any", "several", "discrete first", "one discrete")
UNBOUNDED = 10.0
_MOST_JOINT = 4096
_MOST_VALUES = 1024
Convert = Callable[[Any], Any]


class ActionForm(NamedTuple):
    """How an agent sees an action space."""

    space: spaces.Space[Any]
    """What the agent gives."""
    decode: Convert
    """From an action of the agent, arrays or tensors with any number of dimensions in front, to one of the world."""
    unbounded: tuple[str, ...] = ()
    """Paths of the parts that have no bounds in the world."""


def action_form(space: spaces.Space[Any], form: str) -> ActionForm | None:
    """How an agent that takes actions of a form sees `space`; None if just as it is.

    Args:
        space: of the world.
        form: one of `ACTION_FORMS`.

    Raises:
        ValueError: the actions cannot be brought into that form.
    """
    if form not in ACTION_FORMS:
        raise ValueError(f"action_form is {form!r}: choose one of {ACTION_FORMS}")
    if form == "any":
        return None
    unbounded: list[str] = []
    several = _several(space, (), unbounded)
    is_discrete = [isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete) for _, leaf in _leaves(several.space)]
    is_plain = isinstance(several.space, spaces.Discrete)
    joins = any(is_discrete) and not is_plain and not _is_pair(several.space)
    if joins and (form == "discrete first" or (form == "one discrete" and all(is_discrete))):
        several = _joined(several)
    if several.space == space:
        return None
    return several._replace(unbounded=tuple(unbounded))


class FittedActions(gym.ActionWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Offers the actions of a world in another form."""

    def __init__(self, env: gym.Env[Any, Any], form: str) -> None:
        """Wraps `env`; `form` is one of `ACTION_FORMS` that differs from what it has."""
        gym.utils.RecordConstructorArgs.__init__(self, form=form)
        gym.ActionWrapper.__init__(self, env)
        found = action_form(env.action_space, form)
        if found is None:
            raise ValueError(f"{env.action_space} has the form {form!r} already")
        self._decode = found.decode
        self.action_space: Any = found.space
        self.fitted_from = (env.action_space, form)
        """The world's own action space, and the form."""

    def action(self, action: Any) -> Any:
        """The world's action."""
        return self._decode(action)


# One part ------------------------------------------------------------------------------------------------------------


def _several(space: spaces.Space[Any], path: tuple[Any, ...], unbounded: list[str]) -> ActionForm:
    if isinstance(space, spaces.Dict):
        parts = {key: _several(part, (*path, key), unbounded) for key, part in space.spaces.items()}
        return ActionForm(
            spaces.Dict({key: part.space for key, part in parts.items()}),
            lambda action: {key: part.decode(action[key]) for key, part in parts.items()},
        )
    if isinstance(space, spaces.Tuple):
        members = [_several(part, (*path, i), unbounded) for i, part in enumerate(space.spaces)]
        return ActionForm(
            spaces.Tuple([part.space for part in members]),
            lambda action: tuple(part.decode(one) for part, one in zip(members, action, strict=True)),
        )
    if isinstance(space, spaces.Discrete):
        return _choice(space)
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return _choices(space)
    if isinstance(space, spaces.Box) and space.dtype.kind in "iub":
        return _whole_box(space)
    if isinstance(space, spaces.Box):
        return _real_box(space, path, unbounded)
    return ActionForm(space, _same)  # what it is will be refused by name elsewhere


def _same(action: Any) -> Any:
    return action


def _choice(space: spaces.Discrete) -> ActionForm:
    if int(space.start) == 0:
        return ActionForm(space, _same)
    start = space.start
    return ActionForm(spaces.Discrete(int(space.n)), lambda action: _plus(_whole(action), start))


def _choices(space: spaces.MultiDiscrete | spaces.MultiBinary) -> ActionForm:
    shape = tuple(space.shape)
    start: Any = 0
    if isinstance(space, spaces.MultiBinary):
        counts = np.full(shape, 2, np.int64)
    else:
        counts, start = space.nvec, space.start
        if len(shape) == 1 and not start.any() and space.dtype == np.int64:
            return ActionForm(space, _same)
    return ActionForm(spaces.MultiDiscrete(counts.reshape(-1)), _shifter(shape, start, space.dtype))


def _shifter(shape: tuple[int, ...], start: Any, dtype: Any) -> Convert:
    def decode(action: Any) -> Any:
        array = _whole(action)
        return _cast(_plus(array.reshape(*array.shape[:-1], *shape), start), dtype)

    return decode


def _whole_box(space: spaces.Box) -> ActionForm:
    low, high = space.low.astype(np.int64), space.high.astype(np.int64)
    counts = (high.astype(np.float64) - low + 1).reshape(-1)
    if (counts > _MOST_VALUES).any():
        raise ValueError(
            f"an action is {space}, whole numbers with up to {counts.max():.0f} values: use a Box of floats and round "
            "them in the world"
        )
    if space.shape == ():
        return ActionForm(
            spaces.Discrete(int(counts[0])), lambda action: _cast(_plus(_whole(action), low), space.dtype)
        )
    return ActionForm(spaces.MultiDiscrete(counts.astype(np.int64)), _shifter(space.shape, low, space.dtype))


def _real_box(space: spaces.Box, path: tuple[Any, ...], unbounded: list[str]) -> ActionForm:
    below, above = np.isfinite(space.low), np.isfinite(space.high)
    is_bounded = bool(below.all() and above.all())
    if is_bounded and space.shape != ():
        return ActionForm(space, _same)
    low, high = space.low, space.high
    if not is_bounded:
        unbounded.append(".".join(str(key) for key in path))
        low = np.where(below, low, np.where(above, high - UNBOUNDED, -UNBOUNDED))
        high = np.where(above, high, np.where(below, low + UNBOUNDED, UNBOUNDED))
    dtype: Any = space.dtype
    if space.shape != ():
        return ActionForm(spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype), _same)
    box = spaces.Box(low.reshape(1).astype(dtype), high.reshape(1).astype(dtype), dtype=dtype)
    return ActionForm(box, lambda action: _cast(_array(action)[..., 0], dtype))


# Arrays and tensors alike ----------------------------------------------------------------------------------------------


def _is_tensor(value: Any) -> bool:
    """Whether it is one of torch's, without loading torch in workers that have none."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def _array(action: Any) -> Any:
    return action if _is_tensor(action) else np.asarray(action)


def _whole(action: Any) -> Any:
    return action.long() if _is_tensor(action) else np.asarray(action, np.int64)[()]


def _plus(array: Any, offset: Any) -> Any:
    if not _is_tensor(array):
        return array + offset
    import torch

    return array + torch.as_tensor(offset)


def _cast(array: Any, dtype: Any) -> Any:
    if not _is_tensor(array):
        return np.asarray(array, dtype)
    from rein.specs import torch_dtype

    return array.to(torch_dtype(np.dtype(dtype)))


def _digits(number: Any, counts: list[int]) -> Sequence[Any]:
    """What `np.unravel_index` gives."""
    if not _is_tensor(number):
        return np.unravel_index(number, counts)
    digits = []
    for size in reversed(counts):
        digits.append(number % size)
        number = number // size
    return digits[::-1]


def _stack(parts: Sequence[Any]) -> Any:
    if not _is_tensor(parts[0]):
        return np.stack(parts, -1)
    import torch

    return torch.stack(list(parts), -1)


# Several parts as one ------------------------------------------------------------------------------------------------


def _leaves(space: spaces.Space[Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _leaves(part, (*path, i))
    else:
        yield path, space


def _is_pair(space: spaces.Space[Any]) -> bool:
    """Whether a space is (Discrete, Box) already."""
    return (
        isinstance(space, spaces.Tuple)
        and [type(part) for part in space.spaces] == [spaces.Discrete, spaces.Box]
        and int(space.spaces[0].start) == 0  # type: ignore[attr-defined]
    )


def _joined(several: ActionForm) -> ActionForm:
    """All discrete parts as one Discrete; beside continuous ones the pair of it and one Box of all their numbers."""
    leaves = list(_leaves(several.space))
    discrete = [(path, leaf) for path, leaf in leaves if not isinstance(leaf, spaces.Box)]
    boxes = [(path, leaf) for path, leaf in leaves if isinstance(leaf, spaces.Box)]
    sizes = [[int(leaf.n)] if isinstance(leaf, spaces.Discrete) else leaf.nvec.tolist() for _, leaf in discrete]
    counts = [count for leaf in sizes for count in leaf]
    total = int(np.prod(np.array(counts, dtype=object)))
    if total > _MOST_JOINT:
        raise ValueError(
            f"the actions {several.space} have {total} combinations, too many for one discrete action: use ppo or a2c"
        )

    def decode(action: Any) -> Any:
        chosen, numbers = (action[0], _array(action[1])) if boxes else (action, None)
        digits = _digits(_whole(chosen), counts)
        values: dict[tuple[Any, ...], Any] = {}
        at = 0
        for (path, leaf), size in zip(discrete, sizes, strict=True):
            part = digits[at : at + len(size)]
            values[path] = part[0][()] if isinstance(leaf, spaces.Discrete) else _stack(part)
            at += len(size)
        at = 0
        for path, leaf in boxes:
            size = int(np.prod(leaf.shape))
            assert numbers is not None
            values[path] = _cast(numbers[..., at : at + size].reshape(*numbers.shape[:-1], *leaf.shape), leaf.dtype)
            at += size
        return several.decode(_packed(several.space, values, ()))

    one: spaces.Space[Any] = spaces.Discrete(total)
    if boxes:
        low = np.concatenate([leaf.low.reshape(-1) for _, leaf in boxes]).astype(np.float32)
        high = np.concatenate([leaf.high.reshape(-1) for _, leaf in boxes]).astype(np.float32)
        one = spaces.Tuple((one, spaces.Box(low, high, dtype=np.float32)))
    return ActionForm(one, decode)


def _packed(space: spaces.Space[Any], values: dict[tuple[Any, ...], Any], path: tuple[Any, ...]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _packed(part, values, (*path, key)) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_packed(part, values, (*path, i)) for i, part in enumerate(space.spaces))
    return values[path]
