"""What acting depends on, as a flat list of tensors, and which of them acting itself changes.

Two copies of an algorithm exchange this: one learns and one acts. Parameters are changed by learning only. Buffers are
changed by either: the normalizers of an intrinsic reward by acting, those of a data transformer that follows replayed data
by learning. What acting changes belongs to the copy that acts.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from rein.framework.rl_algorithm import RLAlgorithm

_Place = tuple[dict[str, Any], str]
"""Where a module keeps a tensor; it may put another one there."""


class ActingState:
    """Parameters and buffers of an algorithm, its data transformer included, each once, in an order that copies share.

    Attributes:
        changed_by_acting: indices of the buffers that this copy was seen to change.
    """

    def __init__(self, algorithm: "RLAlgorithm") -> None:
        """Finds the tensors.

        Args:
            algorithm: the root algorithm.
        """
        self._modules = list(dict.fromkeys(algorithm.modules()))
        self._parameters = _distinct((one._parameters, name) for one in self._modules for name in one._parameters)
        self._buffers = _distinct((one._buffers, name) for one in self._modules for name in one._buffers)
        self._marks = self._marks_now()
        self.changed_by_acting: set[int] = set()

    def tensors(self) -> list[Tensor]:
        """Parameters, then buffers, as they are now."""
        return [*(place[name].detach() for place, name in self._parameters), *self.buffers()]

    def load(self, tensors: Sequence[Tensor]) -> None:
        """Copies what `tensors` of another copy gave, except for the buffers in `changed_by_acting`."""
        self.notice_changes()
        count = len(self._parameters)
        _copy(self._parameters, enumerate(tensors[:count]))
        self.load_buffers({i: one for i, one in enumerate(tensors[count:]) if i not in self.changed_by_acting})

    def buffers(self) -> list[Tensor]:
        """The buffers as they are now."""
        return [place[name].detach() for place, name in self._buffers]

    def load_buffers(self, buffers: dict[int, Tensor]) -> None:
        """Copies some buffers of another copy, by their index."""
        _copy(self._buffers, buffers.items())
        self._marks = self._marks_now()

    def notice_changes(self) -> bool:
        """Whether buffers were changed since the last call other than by loading; adds them to `changed_by_acting`."""
        before, self._marks = self._marks, self._marks_now()
        changed = [i for i, (old, new) in enumerate(zip(before, self._marks, strict=True)) if old != new]
        self.changed_by_acting.update(changed)
        return bool(changed)

    def _marks_now(self) -> list[tuple[int, int]]:
        return [(id(place[name]), place[name]._version) for place, name in self._buffers]

    def extra_states(self) -> dict[int, Any]:
        """What modules keep beside tensors (`get_extra_state`), by the number of the module."""
        own = nn.Module.get_extra_state
        return {i: one.get_extra_state() for i, one in enumerate(self._modules) if type(one).get_extra_state is not own}

    def load_extra_states(self, states: dict[int, Any]) -> None:
        """Restores what `extra_states` of another copy gave."""
        for index, state in states.items():
            self._modules[index].set_extra_state(state)


def _distinct(places: Iterable[_Place]) -> list[_Place]:
    """The places without those that hold nothing, or a tensor that another place holds."""
    found: dict[int, _Place] = {}
    for place, name in places:
        if place[name] is not None:
            found.setdefault(id(place[name]), (place, name))
    return list(found.values())


@torch.no_grad()
def _copy(places: Sequence[_Place], tensors: Iterable[tuple[int, Tensor]]) -> None:
    for index, tensor in tensors:
        place, name = places[index]
        place[name].copy_(tensor)
