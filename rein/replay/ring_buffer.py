"""A ring of steps for each of several environments."""

import multiprocessing
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.nest import Nest
from rein.replay.batch_check import BatchCheck
from rein.replay.errors import MissingStepsError
from rein.replay.kernels import compiled
from rein.replay.storage import RowStorage
from rein.specs import TensorSpec

__all__ = ["RingBuffer"]

_STOPPED, NUM_SHARED_SCALARS = 0, 2
_POLL_SECONDS = 0.2


@configurable
class RingBuffer:
    """A queue of steps per environment; the oldest step gives way to the newest when a queue is full.

    A step is known by its environment and its *position*, which counts all steps ever added and never repeats. It lies
    at index ``position % max_length``. Threads, and with `allow_multiprocess` processes, may use one buffer together.
    """

    def __init__(
        self,
        data_spec: Nest,
        num_environments: int,
        max_length: int = 1024,
        device: torch.device | str = "cpu",
        allow_multiprocess: bool = False,
        name: str = "RingBuffer",
        storage: Literal["memory", "mmap"] = "memory",
        storage_dir: str | None = None,
    ) -> None:
        """An empty buffer.

        Args:
            data_spec: nest of specs of one step.
            num_environments: number of environments.
            max_length: steps kept per environment.
            device: where the data lives.
            allow_multiprocess: keep the data in shared memory, so that processes that the buffer is passed to when
                they start see it: one that writes, many that read.
            name: for messages.
            storage: "memory", or "mmap" to keep the data in files for buffers larger than memory.
            storage_dir: directory of those files; they need `memory_bytes` of space and vanish with the buffer.
        """
        self._setup(
            data_spec,
            num_environments,
            max_length,
            torch.device(device),
            allow_multiprocess,
            name,
            storage,
            storage_dir,
        )

    def _setup(
        self,
        data_spec: Nest,
        num_environments: int,
        max_length: int,
        device: torch.device,
        allow_multiprocess: bool,
        name: str,
        storage: str,
        storage_dir: str | None,
        stored_specs: Mapping[str, TensorSpec] | None = None,
        hidden_specs: Sequence[tuple[str, TensorSpec]] = (),
    ) -> None:
        """Makes the storage.

        Args:
            data_spec: as given by the user.
            num_environments: number of environments.
            max_length: steps kept per environment.
            device: where the data lives.
            allow_multiprocess: whether other processes see the data.
            name: for messages.
            storage: "memory" or "mmap".
            storage_dir: for "mmap".
            stored_specs: by path, specs of fields that are stored differently from how they are given.
            hidden_specs: further fields of each row for the subclass.
        """
        _check_arguments(num_environments, max_length, device, allow_multiprocess, storage, storage_dir)
        self._name = name
        self._data_spec = data_spec
        self._num_envs = int(num_environments)
        self._max_length = int(max_length)
        self._device = device
        self._allow_multiprocess = bool(allow_multiprocess)
        named = nest.flatten_with_paths(data_spec)
        if not named:
            raise ValueError(f"data_spec of {name} has no tensors")
        for path, spec in named:
            if not isinstance(spec, TensorSpec):
                raise TypeError(f"data_spec of {name} has {spec!r} at {path!r}: give a TensorSpec")
        self._paths = [path for path, _ in named]
        self._specs = [spec for _, spec in named]
        stored = [(path, (stored_specs or {}).get(path, spec)) for path, spec in named]
        self._storage = self._make_storage([*stored, *hidden_specs], storage_dir if storage == "mmap" else None)
        self._current_pos = self._make_state(self._num_envs)
        self._current_size = self._make_state(self._num_envs)
        self._scalars = self._make_state(NUM_SHARED_SCALARS, torch.device("cpu"))
        self._all_env_ids = torch.arange(self._num_envs, device=device)
        if self._allow_multiprocess:
            context = multiprocessing.get_context("spawn")
            self._lock: Any = context.RLock()
            self._changed: Any = context.Condition(self._lock)
        else:
            self._lock = threading.RLock()
            self._changed = threading.Condition(self._lock)
        self._num_waiting = 0
        self._bind()

    # -- what is there ------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the buffer."""
        return self._name

    @property
    def device(self) -> torch.device:
        """Where the data lives."""
        return self._device

    @property
    def data_spec(self) -> Nest:
        """Nest of specs of one step."""
        return self._data_spec

    @property
    def num_environments(self) -> int:
        """Number of environments."""
        return self._num_envs

    @property
    def max_length(self) -> int:
        """Steps kept per environment."""
        return self._max_length

    @property
    def current_pos(self) -> Tensor:
        """int64 [num_environments]: the position that the next step of each environment gets."""
        return self._current_pos.clone()

    @property
    def current_size(self) -> Tensor:
        """int64 [num_environments]: the number of steps stored of each environment."""
        return self._current_size.clone()

    @property
    def total_size(self) -> int:
        """Number of steps stored of all environments together."""
        return int(self._current_size.numpy().sum())

    @property
    def memory_bytes(self) -> int:
        """Bytes that the data takes when the buffer is full."""
        return self._storage.num_bytes

    @property
    def buffer(self) -> Nest:
        """The stored data itself, tensors [num_environments, max_length, ...] by index, not by position.

        They are views on packed rows; fields that are stored as single frames appear as such.
        """
        return self._structure.unflatten(self._storage.view(index) for index in range(len(self._paths)))

    def circular(self, positions: Tensor) -> Tensor:
        """The indices at which positions are stored."""
        return positions % self._max_length

    def get_earliest_position(self, env_ids: Tensor | None = None) -> Tensor:
        """int64 [B]: the position of the oldest stored step of each environment."""
        ids = self._check_env_ids(env_ids)
        return self._current_pos[ids] - self._current_size[ids]

    def has_space(self, env_ids: Tensor | None = None) -> bool:
        """Whether a step can be added to each of the environments without losing one."""
        ids = self._check_env_ids(env_ids)
        return bool((self._current_size[ids] < self._max_length).all())

    def has_data(self, env_ids: Tensor | None = None, n: int = 1) -> bool:
        """Whether each of the environments has at least `n` steps."""
        ids = self._check_env_ids(env_ids)
        return bool((self._current_size[ids] >= n).all())

    # -- adding and removing ------------------------------------------------------------------------------------------

    def add_batch(self, batch: Nest, env_ids: Tensor | None = None, blocking: bool = False) -> bool:
        """Adds one step to each of B environments.

        Args:
            batch: nest of tensors [B, ...] that match `data_spec`.
            env_ids: int64 [B], distinct: `batch[i]` comes from environment `env_ids[i]`. None if B is all of them.
            blocking: wait until each has a free slot, instead of overwriting the oldest step.

        Returns:
            True, or False if `stop` ended the waiting.
        """
        if env_ids is None:
            ids, num = self._all_env_ids, self._num_envs
        else:
            ids = self._check_env_ids(env_ids)
            num = ids.shape[0]
        leaves = self._batches.check(batch, num)
        with self._lock:
            if blocking and not self._wait(lambda: self.has_space(ids)):
                return False
            self._add(leaves, ids, num)
            if self._num_waiting or self._allow_multiprocess:
                self._changed.notify_all()
        return True

    enqueue = add_batch

    def add_rollout(self, rollout: Nest, env_ids: Tensor | None = None) -> None:
        """Adds T steps to each of B environments, as T calls of `add_batch` do.

        Args:
            rollout: nest of tensors [T, B, ...] that match `data_spec`.
            env_ids: int64 [B], distinct; None if B is all of them.
        """
        ids = self._all_env_ids if env_ids is None else self._check_env_ids(env_ids)
        leaves, num = self._batches.flatten(rollout), ids.shape[0]
        length = len(leaves[0])
        with self._lock:
            if self._adds_rows_only and self._storage.is_compiled and self._batches.are_rows(leaves, length, num):
                # Numpy's function costs a fifth of torch's.
                each = torch.from_numpy(np.tile(ids.numpy(), length))
                self._storage.write(leaves, each, length * num)
            else:
                for step in range(length):
                    self._add(self._batches.check_leaves([leaf[step] for leaf in leaves], num), ids, num)
            if self._num_waiting or self._allow_multiprocess:
                self._changed.notify_all()

    @torch.no_grad()
    def dequeue(self, env_ids: Tensor | None = None, n: int = 1, blocking: bool = False) -> Nest | None:
        """Removes the `n` oldest steps of each of B environments and returns them.

        Args:
            env_ids: int64 [B], distinct; None for all environments.
            n: number of steps.
            blocking: wait until each has `n` steps.

        Returns:
            Nest of tensors [B, n, ...], or None if `stop` ended the waiting.

        Raises:
            MissingStepsError: if an environment has fewer steps and is not waited for.
        """
        ids = self._check_env_ids(env_ids)
        if not 1 <= n <= self._max_length:
            raise MissingStepsError(f"n is {n}: {self._name} keeps {self._max_length} steps per environment")
        with self._lock:
            if blocking and not self._wait(lambda: self.has_data(ids, n)):
                return None
            self._require_steps(ids, n)
            starts = self._current_pos[ids] - self._current_size[ids]
            result = self._read_all(ids, starts, n)
            self._remove(ids, n)
            self._changed.notify_all()
        return self._to_default_device(result)

    @torch.no_grad()
    def remove_up_to(self, n: int, env_ids: Tensor | None = None) -> None:
        """Removes the `n` oldest steps of each of the environments, or all if there are fewer."""
        if n < 0:
            raise ValueError(f"n is {n}: give at least 0")
        ids = self._check_env_ids(env_ids)
        with self._lock:
            self._remove(ids, n)
            self._changed.notify_all()

    def clear(self, env_ids: Tensor | None = None) -> None:
        """Removes all steps of the environments; positions go on growing."""
        self.remove_up_to(self._max_length, env_ids)

    def stop(self) -> None:
        """Ends all waiting calls; later blocking calls return at once until `revive`."""
        with self._lock:
            self._scalars[_STOPPED] = 1
            self._changed.notify_all()

    def revive(self) -> None:
        """Lets blocking calls wait again after `stop`."""
        with self._lock:
            self._scalars[_STOPPED] = 0

    # -- saving -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """A copy of all that is stored, as tensors, numbers and strings; empty slots are left out."""
        with self._lock:
            rows = self._storage.filled_rows(self._current_pos, self._current_size)
            state: dict[str, Any] = {
                "layout": self._describe_layout(),
                "num_environments": self._num_envs,
                "max_length": self._max_length,
                "current_pos": self._current_pos.clone(),
                "current_size": self._current_size.clone(),
            }
            for group, stored in enumerate(self._storage.rows):
                state[f"rows_{group}"] = stored.index_select(0, rows)
            return state

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replaces all that is stored by a `state_dict` of a buffer of the same layout.

        Raises:
            ValueError: if the state comes from a buffer of other size or spec, or lacks something.
        """
        self._check_layout(state)
        with self._lock:
            self._current_pos.copy_(state["current_pos"])
            self._current_size.copy_(state["current_size"])
            rows = self._storage.filled_rows(self._current_pos, self._current_size)
            for group, stored in enumerate(self._storage.rows):
                stored.index_copy_(0, rows, state[f"rows_{group}"].to(self._device))
            self._load_extras(state, rows)

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def _make_storage(self, specs: Sequence[tuple[str, TensorSpec]], storage_dir: str | None) -> RowStorage:
        """What holds the fields of `specs`, in files of `storage_dir` if that is given."""
        return RowStorage(specs, self._num_envs, self._max_length, self._device, self._allow_multiprocess, storage_dir)

    @property
    def _adds_rows_only(self) -> bool:
        """Whether `_add` does nothing but write rows."""
        return True

    def _add(self, leaves: Sequence[Tensor], env_ids: Tensor, num: int) -> None:
        self._storage.write(leaves, env_ids, num)

    def _remove(self, env_ids: Tensor, n: int) -> None:
        self._current_size[env_ids] = (self._current_size[env_ids] - n).clamp(min=0)

    def _read_all(self, env_ids: Tensor, positions: Tensor, length: int) -> Nest:
        leaves = self._read_fields(self._all_fields, env_ids, positions, length)
        return self._structure.unflatten(leaves)

    def _read_fields(
        self, indices: Sequence[int], env_ids: Tensor, positions: Tensor, length: int | None
    ) -> list[Tensor]:
        return self._storage.read(indices, env_ids, positions, length)

    def _state_keys(self) -> list[str]:
        rows = [f"rows_{group}" for group in range(len(self._storage.rows))]
        return ["layout", "num_environments", "max_length", "current_pos", "current_size", *rows]

    def _load_extras(self, state: Mapping[str, Any], rows: Tensor) -> None:
        """Restores what a subclass keeps besides rows."""

    def _make_state(self, size: int, device: torch.device | None = None) -> Tensor:
        """int64 zeros [size] that all processes see if they share the buffer; by default on its device."""
        state = torch.zeros(size, dtype=torch.int64, device=device or self._device)
        return state.share_memory_() if self._allow_multiprocess else state  # type: ignore[no-untyped-call]

    def _bind(self) -> None:
        """Makes what is cheap to make and cannot be sent to another process."""
        self._storage.attach(self._current_pos, self._current_size)
        self._structure = nest.structure_of(self._data_spec)
        self._all_fields = tuple(range(len(self._paths)))
        self._loops = compiled(self._device)
        self._is_cpu = self._device.type == "cpu"
        self._marks = torch.zeros(self._num_envs, dtype=torch.int64, device="cpu")
        self._batches = BatchCheck(self._data_spec, self._device, self._name)

    def __getstate__(self) -> dict[str, Any]:
        if not self._allow_multiprocess:
            raise TypeError(f"{self._name} cannot be sent to another process: make it with allow_multiprocess=True")
        state = dict(self.__dict__)
        for name in ("_structure", "_loops", "_marks", "_batches"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(name={self._name!r}, num_environments={self._num_envs}, "
            f"max_length={self._max_length}, total_size={self.total_size})"
        )

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_env_ids(self, env_ids: Tensor | None) -> Tensor:
        if env_ids is None or env_ids is self._all_env_ids:
            return self._all_env_ids
        ids = self._as_index("env_ids", env_ids)
        if ids.ndim != 1:
            raise ValueError(f"env_ids have shape {tuple(ids.shape)}: give one dimension")
        if self._loops is not None:
            at = (ids.data_ptr(), ids.shape[0], self._num_envs, self._marks.data_ptr())
            is_bad = self._loops.find_bad_env(*at) != self._loops.OK
        else:
            outside = (ids < 0) | (ids >= self._num_envs)
            is_bad = bool(outside.any()) or len(torch.unique(ids)) < len(ids)
        if is_bad:
            raise ValueError(f"env_ids are {ids.tolist()}: give distinct numbers from 0 to {self._num_envs - 1}")
        return ids

    def _as_index(self, what: str, value: Any) -> Tensor:
        """`value` as a contiguous int64 tensor on the device of the buffer."""
        index = value if isinstance(value, Tensor) else torch.as_tensor(value)
        if index.dtype is not torch.int64:
            if index.dtype.is_floating_point or index.dtype is torch.bool:
                raise TypeError(f"{what} are {index.dtype}: give int64")
            index = index.to(torch.int64)
        if not (index.is_cpu and self._is_cpu):
            index = index.to(self._device)
        return index if index.is_contiguous() else index.contiguous()

    def _require_steps(self, env_ids: Tensor, n: int) -> None:
        sizes = self._current_size[env_ids]
        if len(sizes) and int(sizes.min()) < n:
            raise MissingStepsError(
                f"{self._name} was asked for {n} steps of each environment, but environments "
                f"{env_ids.tolist()} have {sizes.tolist()}"
            )

    def _wait(self, is_ready: Callable[[], bool]) -> bool:
        """Waits, holding the lock, until ready; False once stopped."""
        while not is_ready():
            if int(self._scalars[_STOPPED]):
                return False
            self._num_waiting += 1
            try:
                self._changed.wait(_POLL_SECONDS)
            finally:
                self._num_waiting -= 1
        return True

    def _to_default_device(self, data: Nest) -> Nest:
        device = torch.empty(0).device  # three times as quick as asking for the default device
        return data if device.type == self._device.type else nest.convert_device(data, device)

    def _describe_layout(self) -> str:
        fields = [f"{f.path}: {tuple(f.shape)} {f.dtype}" for f in self._storage.fields]
        return f"{self._num_envs} environments x {self._max_length} steps of {'; '.join(fields)}"

    def _check_layout(self, state: Mapping[str, Any]) -> None:
        missing = [key for key in self._state_keys() if key not in state]
        if missing:
            raise ValueError(f"the state for {self._name} lacks {', '.join(missing)}")
        if state["layout"] != self._describe_layout():
            raise ValueError(
                f"the state does not fit {self._name}: it holds {state['layout']}, the buffer {self._describe_layout()}"
            )
        pos, size = torch.as_tensor(state["current_pos"]), torch.as_tensor(state["current_size"])
        if pos.shape != self._current_pos.shape or size.shape != self._current_pos.shape:
            raise ValueError(f"the state for {self._name} is damaged: positions of wrong shape")
        if bool(((size < 0) | (size > self._max_length) | (size > pos)).any()):
            raise ValueError(f"the state for {self._name} is damaged: sizes {size.tolist()}")
        for group, row_size in enumerate(self._storage.row_sizes):
            found = tuple(state[f"rows_{group}"].shape)
            if found != (int(size.sum()), row_size):
                raise ValueError(
                    f"the state for {self._name} is damaged: rows_{group} has shape {found}, not "
                    f"{(int(size.sum()), row_size)}"
                )


def _check_arguments(
    num_environments: int,
    max_length: int,
    device: torch.device,
    allow_multiprocess: bool,
    storage: str,
    storage_dir: str | None,
) -> None:
    if num_environments < 1 or max_length < 1:
        raise ValueError(f"num_environments is {num_environments} and max_length {max_length}: give at least 1")
    if storage not in ("memory", "mmap"):
        raise ValueError(f"storage is {storage!r}: give 'memory' or 'mmap'")
    if (storage == "mmap") != (storage_dir is not None):
        raise ValueError("storage='mmap' and storage_dir belong together: give both or none")
    if device.type != "cpu" and (allow_multiprocess or storage == "mmap"):
        raise ValueError(f"shared and mapped storage need device 'cpu', not {str(device)!r}")
