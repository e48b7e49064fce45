"""What an environment is: a batch of worlds that takes a batch of actions and gives a batched `TimeStep`."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein import nest
from rein.data_structures import TimeStep, time_step_spec
from rein.envs.faults import Fault, FaultLog, FaultPolicy
from rein.envs.shared_block import BatchSpaces, BlockLayout, Slot, private_block
from rein.nest import Nest
from rein.specs import TensorSpec, check_matches, spec_from_space

__all__ = ["BufferedEnvironment", "Environment"]

logger = logging.getLogger("rein.envs")


class Environment(ABC):
    """B worlds that are stepped together.

    A world resets itself on the step after its LAST one: the action given then is ignored, and the step is FIRST, with
    reward 0, discount 1 and a previous action of zeros.
    """

    recipe: Callable[[], "Environment"] | None = None
    """Makes the same worlds anew, in another process too; None where `create_environment` did not make these."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Number of worlds, B."""

    @property
    @abstractmethod
    def observation_spec(self) -> Nest:
        """Specs of the observation of one world."""

    @property
    @abstractmethod
    def action_spec(self) -> Nest:
        """Specs of the action of one world."""

    @property
    def reward_spec(self) -> TensorSpec:
        """Spec of the reward of one world: a scalar, or a vector for several objectives."""
        return TensorSpec(())

    @property
    def env_info_spec(self) -> Nest:
        """Specs of the further numbers that each step reports; `()` if there are none."""
        return ()

    @property
    def num_tasks(self) -> int | None:
        """Number of tasks that the worlds switch between; None if they have no tasks."""
        return None

    @property
    def task_names(self) -> tuple[str, ...] | None:
        """Names of the tasks; None if they have none."""
        return None

    @property
    def fitted_from(self) -> tuple[Any, str] | None:
        """The action space of the worlds and the form its actions were brought into; None if they are as they are."""
        return None

    def time_step_spec(self) -> TimeStep:
        """Specs of the `TimeStep` of one world."""
        return time_step_spec(self.observation_spec, self.action_spec, self.reward_spec, self.env_info_spec)

    @abstractmethod
    def reset(self) -> TimeStep:
        """Resets all worlds; gives their FIRST steps."""

    @abstractmethod
    def step(self, action: Nest) -> TimeStep:
        """Takes one action in each world.

        Args:
            action: nest of tensors [B, ...] that matches `action_spec`.

        Returns:
            Where the actions led.
        """

    @abstractmethod
    def current_time_step(self) -> TimeStep:
        """What `reset` or `step` gave last; resets the worlds if they never were."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Seeds all worlds, each differently, from their next `reset()` on."""

    @abstractmethod
    def render(self) -> NDArray[np.uint8]:
        """One frame [H, W, 3] of each world, stacked: [N, H, W, 3], with N = B, or fewer where not all can render."""

    @abstractmethod
    def close(self) -> None:
        """Releases what the worlds hold; may be called again."""

    def get_state(self) -> dict[str, Any]:
        """The state of all worlds as plain values and arrays, from which `set_state` goes on exactly."""
        raise NotImplementedError(f"{type(self).__name__} cannot save its state")

    def set_state(self, state: dict[str, Any]) -> TimeStep:
        """Goes on from a saved state.

        Worlds that cannot be restored begin a new episode; where that cuts one, its current step becomes LAST with
        discount 1 (a truncation), and a warning says so.

        Returns:
            The current step.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot restore a state")

    @property
    def fault_counts(self) -> NDArray[np.int64]:
        """[B] how many faults each world has had."""
        return np.zeros(self.batch_size, dtype=np.int64)

    @property
    def faults(self) -> list[Fault]:
        """The most recent faults, oldest first."""
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BufferedEnvironment(Environment):
    """An environment whose steps are views of preallocated memory.

    Steps are written alternately into `num_slots` buffers, and the tensors of a `TimeStep` are views of one of them:
    a `TimeStep` is valid until `num_slots - 1` further steps were taken, with the default of 2 until the step after next
    begins. Whoever keeps it for longer must copy it, as replay buffers and rollouts do.
    """

    def __init__(
        self,
        batch_spaces: BatchSpaces,
        batch_size: int,
        block: NDArray[np.uint8] | None = None,
        num_slots: int = 2,
        fault_policy: FaultPolicy | None = None,
    ) -> None:
        """Lays out the buffers.

        Args:
            batch_spaces: what each world takes and gives.
            batch_size: number of worlds.
            block: memory for the buffers; None for memory of this process.
            num_slots: number of buffers, at least 2.
            fault_policy: what to endure; None for the default.
        """
        self._layout = BlockLayout(batch_spaces, batch_size, num_slots)
        self._slots = self._layout.slots(private_block(self._layout.nbytes) if block is None else block)
        self._batch_spaces = batch_spaces
        self._batch_size = batch_size
        self._closed = False
        self._started = False
        self._index = 0
        self._log = FaultLog(fault_policy or FaultPolicy(), batch_size)
        self._build_specs()
        self._time_steps = [self._time_step_of(slot) for slot in self._slots]
        plain = len(self._layout.action) == 1 and self._layout.action[0].keys == ()
        self._action_shape = (batch_size, *self._layout.action[0].shape) if plain else None
        self._action_dtype = nest.flatten(self._action_spec)[0].dtype if plain else None

    def _build_specs(self) -> None:
        spaces = self._batch_spaces
        self._observation_spec = spec_from_space(spaces.observation)
        self._action_spec = spec_from_space(spaces.action)
        dim = spaces.reward_dim
        self._reward_spec = TensorSpec(() if dim is None else (dim,))
        self._env_info_spec = () if spaces.env_info is None else spec_from_space(spaces.env_info)

    def _time_step_of(self, slot: Slot) -> TimeStep:
        return TimeStep(
            step_type=torch.from_numpy(slot.step_type),
            reward=torch.from_numpy(slot.reward),
            discount=torch.from_numpy(slot.discount),
            observation=_packed(self._observation_spec, slot.observation),
            prev_action=_packed(self._action_spec, slot.action),
            env_id=torch.arange(self._batch_size),
            env_info=_packed(self._env_info_spec, slot.env_info),
        )

    @property
    def batch_size(self) -> int:
        """Number of worlds, B."""
        return self._batch_size

    @property
    def observation_spec(self) -> Nest:
        """Specs of the observation of one world."""
        return self._observation_spec

    @property
    def action_spec(self) -> Nest:
        """Specs of the action of one world."""
        return self._action_spec

    @property
    def reward_spec(self) -> TensorSpec:
        """Spec of the reward of one world."""
        return self._reward_spec

    @property
    def env_info_spec(self) -> Nest:
        """Specs of the further numbers that each step reports."""
        return self._env_info_spec

    @property
    def num_tasks(self) -> int | None:
        """Number of tasks that the worlds switch between."""
        return self._batch_spaces.num_tasks

    @property
    def task_names(self) -> tuple[str, ...] | None:
        """Names of the tasks."""
        return self._batch_spaces.task_names

    @property
    def fitted_from(self) -> tuple[Any, str] | None:
        """The action space of the worlds and the form its actions were brought into; None if they are as they are."""
        return self._batch_spaces.fitted_from

    @property
    def fault_counts(self) -> NDArray[np.int64]:
        """[B] how many faults each world has had."""
        return self._log.counts

    @property
    def faults(self) -> list[Fault]:
        """The most recent faults, oldest first."""
        return list(self._log.recent)

    def reset(self) -> TimeStep:
        """Resets all worlds; gives their FIRST steps."""
        self._require_open()
        index = self._next_index()
        self._reset_into(index)
        self._index = index
        self._started = True
        return self._time_steps[index]

    def step(self, action: Nest) -> TimeStep:
        """Takes one action in each world; gives where it led."""
        if not self._started:
            self._require_open()
            raise RuntimeError("step() needs a reset() first, also after a step that was interrupted or failed")
        index = self._next_index()
        self._write_action(action, self._slots[index])
        try:
            self._step_into(index)
        except BaseException:
            self._started = False  # Some worlds may have moved on: only a reset gives a defined state again.
            raise
        self._index = index
        return self._time_steps[index]

    def current_time_step(self) -> TimeStep:
        """What `reset` or `step` gave last; resets the worlds if they never were."""
        return self._time_steps[self._index] if self._started else self.reset()

    def get_state(self) -> dict[str, Any]:
        """The state of all worlds as plain values and arrays, from which `set_state` goes on exactly."""
        self._require_open()
        if not self._started:
            return {"version": 1, "started": False}
        arrays = [array.copy() for array in self._slots[self._index].arrays()]
        worlds = self._get_worlds()
        return {"version": 1, "started": True, "time_step": arrays, "form": self._form, "worlds": worlds}

    def set_state(self, state: dict[str, Any]) -> TimeStep:
        """Goes on from a saved state; episodes of worlds that cannot be restored are cut, and a warning says so."""
        self._require_open()
        if state.get("version") != 1:
            raise ValueError(f"the saved state has version {state.get('version')!r}; this is version 1")
        if not state["started"]:
            return self.reset()
        arrays = self._slots[self._index].arrays()
        shapes, saved = [a.shape for a in arrays], [np.shape(a) for a in state["time_step"]]
        if shapes != saved:
            raise ValueError(f"the saved state has arrays of shapes {saved}; this environment has {shapes}")
        for array, values in zip(arrays, state["time_step"], strict=True):
            array[...] = values
        self._started = True
        if state["form"] == self._form:
            cut = self._set_worlds(state["worlds"])
        else:
            cut = self._cut_worlds(f"they were saved as {state['form']!r}, and this backend saves as {self._form!r}")
        if cut:
            rows = ", ".join(str(row) for row in sorted(cut))
            logger.warning(
                "Not resumed exactly: the episodes of environments %s are cut here and count as truncated, because %s.",
                rows,
                "; ".join(sorted(set(cut.values()))),
            )
        return self._time_steps[self._index]

    def cut(self) -> None:
        """Ends all episodes where they are, as truncated; the next step begins new ones."""
        self._require_open()
        if self._started:
            self._cut_worlds("they were asked to")

    @property
    def _form(self) -> str:
        """Which backends understand what `_get_worlds` gives: those with the same form."""
        return type(self).__name__

    def _get_worlds(self) -> Any:
        """The state of the worlds; None if this backend cannot save them."""
        return None

    @abstractmethod
    def _set_worlds(self, worlds: Any) -> dict[int, str]:
        """Restores the worlds for the current slot; gives the reason for each row that had to be cut."""

    @abstractmethod
    def _cut_worlds(self, reason: str) -> dict[int, str]:
        """Ends the episodes of the current slot, since the worlds cannot be restored.

        Steps that are MID become LAST with discount 1, and FIRST ones begin anew, where rows can be reset singly.

        Returns:
            `reason` for each row that was cut.
        """

    @abstractmethod
    def _reset_into(self, index: int) -> None:
        """Resets all worlds into slot `index`."""

    @abstractmethod
    def _step_into(self, index: int) -> None:
        """Takes the actions in slot `index` and fills the rest of it."""

    def _next_index(self) -> int:
        return (self._index + 1) % len(self._slots)

    def _write_action(self, action: Nest, slot: Slot) -> None:
        if action.__class__ is Tensor and action.shape == self._action_shape and action.dtype == self._action_dtype:
            slot.action[0][...] = (
                action.numpy() if not action.requires_grad and action.is_cpu else action.detach().cpu()
            )
            return
        leaves = nest.flatten(action)
        tensors = [leaf if isinstance(leaf, Tensor) else torch.as_tensor(leaf) for leaf in leaves]
        check_matches(_repacked(action, tensors), self._action_spec, 1, "action")
        for tensor, array in zip(tensors, slot.action, strict=True):
            if len(tensor) != self._batch_size:
                raise ValueError(f"action has batch size {len(tensor)}; this environment has {self._batch_size} worlds")
            array[...] = tensor.detach().cpu().numpy()

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("this environment is closed: create a new one")

    def close(self) -> None:
        """Releases what the worlds hold; may be called again."""
        if not self._closed:
            self._closed = True
            self._started = False
            self._close()

    def _close(self) -> None:
        """Releases what this backend holds; called once."""

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


def _packed(spec: Nest, arrays: list[NDArray]) -> Nest:
    return nest.pack_sequence_as(spec, [torch.from_numpy(array) for array in arrays])


def _repacked(structure: Nest, leaves: list[Any]) -> Nest:
    return nest.pack_sequence_as(structure, leaves)


def stacked_frames(frames: list[Any], what: str) -> NDArray[np.uint8]:
    """Frames of several worlds as one array [N, H, W, 3]."""
    usable = [frame for frame in frames if isinstance(frame, np.ndarray)]
    if not usable:
        raise ValueError(f"{what} gives no frames: create the environment with render_mode='rgb_array'")
    return np.stack(usable).astype(np.uint8, copy=False)
