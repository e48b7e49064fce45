"""A replay buffer: steps of many environments, sampled as sequences."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import BatchInfo, StepType
from rein.nest import Nest
from rein.replay.episode_index import EpisodeIndex, find_special_fields, hidden_specs
from rein.replay.errors import MissingStepsError
from rein.replay.frame_stacks import find_stacks
from rein.replay.priorities import Priorities
from rein.replay.ring_buffer import RingBuffer
from rein.replay.uniform import UniformStarts, recent_share

__all__ = ["BatchInfo", "ReplayBuffer"]

_BATCH_LENGTH = 1  # index into the shared scalars; 0 belongs to RingBuffer


@configurable
class ReplayBuffer(RingBuffer):
    """A ring of steps per environment from which sequences are sampled.

    Sampling draws from torch's global generator, so a run is repeated by its seed and resumed with its state.
    """

    def __init__(
        self,
        data_spec: Nest,
        num_environments: int,
        max_length: int = 1024,
        num_earliest_frames_ignored: int = 0,
        prioritized_sampling: bool = False,
        initial_priority: float = 1.0,
        recent_data_steps: int = 1,
        recent_data_ratio: float = 0.0,
        with_replacement: bool = False,
        device: torch.device | str = "cpu",
        allow_multiprocess: bool = False,
        keep_episodic_info: bool | None = None,
        record_episodic_return: bool = False,
        default_return: float = -1000.0,
        gamma: float = 0.99,
        reward_clip: tuple[float, float] | None = None,
        enable_checkpoint: bool = False,
        name: str = "ReplayBuffer",
        storage: Literal["memory", "mmap"] = "memory",
        storage_dir: str | None = None,
        stacked_fields: Mapping[str, int] | None = None,
        stack_padding: Literal["repeat", "zero"] = "repeat",
        generator: torch.Generator | None = None,
    ) -> None:
        """An empty buffer.

        Args:
            data_spec: nest of specs of one step, such as an `Experience` or a `TimeStep`.
            num_environments: number of environments.
            max_length: steps kept per environment.
            num_earliest_frames_ignored: oldest steps per environment at which no sampled sequence starts, because
                transforms such as FrameStacker look back so far.
            prioritized_sampling: sample in proportion to the priorities given by `update_priority`.
            initial_priority: priority of new steps, or the largest of all priorities if that is more.
            recent_data_steps: newest steps per environment that count as recent.
            recent_data_ratio: share of each batch that is sampled from recent data.
            with_replacement: whether a batch may hold a sequence twice. If False, uniform sampling repeats a start
                only where there are fewer than asked for, and prioritized sampling draws one from each of `batch_size`
                equal parts of the total priority.
            device: where the data lives.
            allow_multiprocess: let processes that the buffer is passed to when they start share it.
            keep_episodic_info: index where episodes begin and end; needs `step_type` in `data_spec`. None means
                wherever another argument needs it.
            record_episodic_return: store the discounted return of each step once a discount of 0 has come after it in
                its episode, at the end or before.
            default_return: the return of steps after which none has come yet, or none before a time limit.
            gamma: discount per step of the recorded returns.
            reward_clip: bounds of the rewards in the recorded returns.
            enable_checkpoint: has no effect: checkpoints of a run always hold the buffer that it learns from.
            name: for messages.
            storage: "memory", or "mmap" to keep the data in files for buffers larger than memory.
            storage_dir: directory of those files; they need `memory_bytes` of space and vanish with the buffer.
            stacked_fields: path to stack axis (without batch dimension) of fields that hold the newest frame last and
                the ones before it in front. Only the newest is stored; reading rebuilds the stack.
            stack_padding: what such stacks show before the first step of an episode: that step again, or zeros.
            generator: source of randomness in place of torch's global one, on the device of the buffer.
        """
        self._stack_padding = stack_padding
        self._stacks = find_stacks(data_spec, stacked_fields or {}, stack_padding)
        look_back = max((stack.size - 1 for stack in self._stacks.values()), default=0)
        self._num_ignored = max(int(num_earliest_frames_ignored), look_back)
        needs_episodes = self._num_ignored > 0 or record_episodic_return
        if keep_episodic_info is None:
            keep_episodic_info = needs_episodes
        elif not keep_episodic_info and (self._stacks or record_episodic_return):
            raise ValueError("stacked_fields and record_episodic_return need keep_episodic_info")
        self._keep_episodic_info = bool(keep_episodic_info)
        self._record_episodic_return = bool(record_episodic_return)
        _check_numbers(num_earliest_frames_ignored, initial_priority, recent_data_steps, recent_data_ratio)
        self._special = find_special_fields(data_spec, keep_episodic_info, record_episodic_return)
        self._setup(
            data_spec,
            num_environments,
            max_length,
            torch.device(device),
            allow_multiprocess,
            name,
            storage,
            storage_dir,
            {stack.path: stack.frame_spec for stack in self._stacks.values()},
            hidden_specs(self._record_episodic_return) if keep_episodic_info else (),
        )
        self._recent_data_steps = int(recent_data_steps)
        self._recent_data_ratio = float(recent_data_ratio)
        self._with_replacement = bool(with_replacement)
        self._default_return = float(default_return)
        self._gamma = float(gamma)
        clip = reward_clip or (float("-inf"), float("inf"))
        self._reward_clip = (float(clip[0]), float(clip[1]))
        self._generator = generator
        self._starts = self._make_starts()
        ring = (self._current_pos, self._current_size)
        self._episodes: EpisodeIndex | None = None
        if keep_episodic_info:
            state = self._make_state(3 * self._num_envs)
            self._episodes = EpisodeIndex(self._storage, *ring, state)
        self._priorities: Priorities | None = None
        if prioritized_sampling:
            length = self._scalars[_BATCH_LENGTH]
            ignored, initial = self._num_ignored, float(initial_priority)
            self._priorities = Priorities(self._max_length, *ring, length, ignored, initial, name)

    def _bind(self) -> None:
        super()._bind()
        self._resolved: dict[str, tuple[list[int], Any]] = {}
        self._constants: dict[tuple[int, float], Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        if self._generator is not None:
            raise TypeError(f"{self._name} has its own generator, which one process must keep")
        made_by_bind = ("_resolved", "_constants", "_starts")
        return {k: v for k, v in super().__getstate__().items() if k not in made_by_bind}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._starts = self._make_starts()

    def _make_starts(self) -> UniformStarts:
        ring = (self._current_pos, self._current_size)
        return UniformStarts(*ring, self._num_ignored, self._with_replacement, self._generator)

    # -- what is there ------------------------------------------------------------------------------------------------

    @property
    def keep_episodic_info(self) -> bool:
        """Whether the buffer knows where episodes begin and end."""
        return self._keep_episodic_info

    @property
    def num_earliest_frames_ignored(self) -> int:
        """Oldest steps per environment at which no sampled sequence starts."""
        return self._num_ignored

    @property
    def has_step_type(self) -> bool:
        """Whether steps tell where in their episode they stand."""
        return "step_type" in self._special

    def storage_options(self) -> dict[str, Any]:
        """The constructor arguments, besides spec and sizes, that a buffer needs to load this one's `state_dict`."""
        return {
            "prioritized_sampling": self.prioritized_sampling,
            "keep_episodic_info": self._keep_episodic_info,
            "record_episodic_return": self._record_episodic_return,
            "num_earliest_frames_ignored": self._num_ignored,
            "stacked_fields": {stack.path: stack.axis for stack in self._stacks.values()},
            "stack_padding": self._stack_padding,
        }

    @property
    def prioritized_sampling(self) -> bool:
        """Whether sequences are sampled by priority."""
        return self._priorities is not None

    def priority_total(self) -> tuple[float, int]:
        """All priorities added up, and how many are not 0."""
        tree = self._require_priorities().tree
        return float(tree.summary()), int(tree.nnz)

    @property
    def initial_priority(self) -> float:
        """The priority that new steps get: large, so that each is used soon."""
        return self._require_priorities().initial

    @property
    def memory_bytes(self) -> int:
        """Bytes that the data, and the priorities if there are any, take when the buffer is full."""
        tree = self._priorities.tree.values if self._priorities is not None else None
        return super().memory_bytes + (0 if tree is None else tree.numel() * tree.itemsize)

    # -- adding -------------------------------------------------------------------------------------------------------

    @property
    def _adds_rows_only(self) -> bool:
        return not self._stacks and self._episodes is None and self._priorities is None

    def _add(self, leaves: Sequence[Tensor], env_ids: Tensor, num: int) -> None:
        if self._stacks:
            leaves = list(leaves)
            for index, stack in self._stacks.items():
                leaves[index] = stack.newest(leaves[index])
        episodes = self._episodes
        if episodes is None:
            self._storage.write(leaves, env_ids, num)
        else:
            step_type = leaves[self._special["step_type"]]
            discount = self._constant(num, 1.0)
            if "discount" in self._special:
                discount = leaves[self._special["discount"]]
            episodes.add(step_type, discount, env_ids)
            if self._record_episodic_return:
                leaves = [*leaves, self._constant(num, self._default_return)]
            self._storage.write(leaves, env_ids, num)
            if self._record_episodic_return and bool((discount == 0).any()):
                fields = (self._special["reward"], self._special["discount"])
                episodes.backfill_returns(discount, env_ids, fields, self._gamma, self._reward_clip)
        if self._priorities is not None:
            self._priorities.add(env_ids)

    def _remove(self, env_ids: Tensor, n: int) -> None:
        if self._episodes is not None:
            self._episodes.remove(env_ids, n)
        if self._priorities is not None:
            self._priorities.remove(env_ids, n)
        super()._remove(env_ids, n)

    @torch.no_grad()
    def end_open_episodes(self, env_ids: Tensor | None = None) -> None:
        """Makes the newest step of each unfinished episode a LAST one, as a time limit does.

        For a run that goes on with environments that begin anew, so that nothing is learned across the gap.
        """
        if not self.has_step_type:
            raise ValueError(f"{self._name} stores no step_type, so it knows no episodes")
        ids = self._check_env_ids(env_ids)
        with self._lock:
            ids = ids[self._current_size[ids] > 0]
            slots = (self._current_pos[ids] - 1) % self._max_length
            self._storage.view(self._special["step_type"])[ids, slots] = StepType.LAST
            if self._episodes is not None:
                self._episodes.close(ids)

    # -- sampling -----------------------------------------------------------------------------------------------------

    def get_batch(self, batch_size: int, batch_length: int) -> tuple[Nest, BatchInfo]:
        """Samples `batch_size` sequences of `batch_length` consecutive steps of one environment each.

        Every step with `batch_length - 1` steps after it, and not among the ignored earliest ones, can be the start of
        a sequence. Sequences may cross the ends of episodes. They come ordered by environment.

        Args:
            batch_size: number of sequences, B.
            batch_length: steps per sequence, T.

        Returns:
            Nest of tensors [B, T, ...], and a `BatchInfo` of tensors [B]: `env_ids`, `positions` of the first steps,
            `importance_weights` (the priority divided by the average of all non-zero priorities) if sampling is
            prioritized, and `discounted_return` [B, T] if returns are recorded.

        Raises:
            ValueError: if no environment has enough steps.
        """
        if batch_size < 1 or batch_length < 1:
            raise ValueError(f"cannot sample {batch_size} sequences of {batch_length} steps")
        with self._lock:
            env_ids, positions, weights = self._sample(batch_size, batch_length)
            result = self._read_all(env_ids, positions, batch_length)
            returns: Any = ()
            if self._record_episodic_return:
                at = (len(self._paths),)
                returns = self._storage.read(at, env_ids, positions, batch_length)[0]
        result, info = self._to_default_device((result, (env_ids, positions, weights, returns)))
        return result, BatchInfo(info[0], info[1], info[2], self, info[3])

    def _sample(self, num: int, length: int) -> tuple[Tensor, Tensor, Any]:
        starts = self._starts
        total = starts.count(length)
        if total == 0:
            raise ValueError(self._too_few(length))
        num_recent = recent_share(num, self._recent_data_ratio, self._recent_data_steps, total / self._num_envs)
        if self._priorities is not None:
            return self._sample_by_priority(num, length, starts, num_recent)
        return *starts.sample(num, total, length, num_recent, self._recent_data_steps), ()

    def _sample_by_priority(
        self, num: int, length: int, starts: UniformStarts, num_recent: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        priorities = self._require_priorities()
        priorities.set_length(length)
        pieces = []
        if num_recent:
            draws = starts.draw_recent(num_recent, self._recent_data_steps)
            env_ids, positions = starts.locate(draws, length)
            pieces.append(env_ids * self._max_length + positions % self._max_length)
        if num > num_recent:
            is_stratified = not self._with_replacement
            leaves = priorities.sample(num - num_recent, is_stratified, self._generator)
            if leaves is None:
                raise ValueError(f"all priorities of {self._name} are 0: nothing can be sampled")
            pieces.append(leaves)
        if len(pieces) == 1:
            return priorities.locate(pieces[0])
        return priorities.locate(torch.cat(pieces).sort().values)

    def _too_few(self, length: int) -> str:
        ignored = f", not counting the {self._num_ignored} earliest" if self._num_ignored else ""
        return (
            f"no environment of {self._name} has {length} steps{ignored}: they have "
            f"{self._current_size.tolist()}; add more before sampling"
        )

    def update_priority(self, env_ids: Tensor, positions: Tensor, priorities: Tensor) -> None:
        """Sets the priorities of sampled sequences.

        Steps that have been overwritten since they were sampled are passed over. If a step comes twice, the last
        priority counts.

        Args:
            env_ids: int64 [B], from `BatchInfo`.
            positions: int64 [B], from `BatchInfo`.
            priorities: float [B], finite and not negative.
        """
        kept = self._require_priorities()
        ids = self._as_index("env_ids", env_ids)
        steps = self._as_index("positions", positions)
        new = priorities.detach()
        if not (new.is_cpu and new.dtype is torch.float32 and new.is_contiguous() and self._is_cpu):
            new = new.to(self._device, torch.float32).contiguous()
        if ids.shape != steps.shape or ids.shape != new.shape or ids.ndim != 1:
            raise ValueError(
                f"env_ids, positions and priorities have shapes {tuple(ids.shape)}, "
                f"{tuple(steps.shape)} and {tuple(new.shape)}: give one dimension of one size"
            )
        with self._lock:
            kept.update(ids, steps, new)

    # -- reading ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def get_field(self, field_name: Nest, env_ids: Tensor, positions: Tensor) -> Nest:
        """Reads stored steps, without changing anything.

        Args:
            field_name: dotted path of a field or of a nest of fields, or a nest of such paths.
            env_ids: int64, any shape.
            positions: int64, of a shape that broadcasts with that of `env_ids`; each must be stored.

        Returns:
            For each path, a tensor or nest of tensors [*shape, ...], of the broadcast shape.

        Raises:
            ValueError: if a position is not, or no longer, stored.
        """
        with self._lock:
            ids, steps, shape = self._check_steps(env_ids, positions)
            result = nest.map_structure(lambda n: self._read_named(n, ids, steps, shape), field_name)
        return self._to_default_device(result)

    @torch.no_grad()
    def gather_all(
        self, ignore_earliest_frames: bool = False, convert_to_default_device: bool = True
    ) -> tuple[Nest, BatchInfo]:
        """Reads all steps of all environments, which must have stored equally many.

        Args:
            ignore_earliest_frames: leave out the `num_earliest_frames_ignored` oldest steps of each environment.
            convert_to_default_device: bring the result to torch's default device.

        Returns:
            Nest of tensors [num_environments, T, ...] from the oldest to the newest step, and a `BatchInfo` with
            `env_ids` and the `positions` of the oldest steps, [num_environments].

        Raises:
            MissingStepsError: if the environments have different numbers of steps, or none that counts.
        """
        with self._lock:
            sizes = self._current_size.tolist()
            skipped = self._num_ignored if ignore_earliest_frames else 0
            if min(sizes) != max(sizes):
                raise MissingStepsError(f"environments of {self._name} have different sizes: {sizes}")
            if sizes[0] <= skipped:
                raise MissingStepsError(
                    f"{self._name} has {sizes[0]} steps per environment, of which {skipped} are ignored"
                )
            starts = self._current_pos - self._current_size + skipped
            result = self._read_all(self._all_env_ids, starts, sizes[0] - skipped)
            info = BatchInfo(env_ids=self._all_env_ids.clone(), positions=starts)
        if convert_to_default_device:
            result, info = self._to_default_device((result, info))
        return result, info._replace(replay_buffer=self)

    @torch.no_grad()
    def steps_to_episode_end(self, pos: Tensor, env_ids: Tensor) -> Tensor:
        """Number of steps from stored steps to the last step so far of their episodes.

        Args:
            pos: int64 positions.
            env_ids: int64, of a shape that broadcasts with that of `pos`.

        Returns:
            int64 of the broadcast shape; 0 at the last step.
        """
        episodes = self._require_episodes()
        with self._lock:
            ids, steps, shape = self._check_steps(env_ids, pos)
            return self._to_default_device((episodes.end(ids, steps) - steps).reshape(shape))

    @torch.no_grad()
    def get_episode_begin_position(self, pos: Tensor, env_ids: Tensor) -> Tensor:
        """Position of the first step of the episodes of stored steps; it may itself be overwritten already.

        Args:
            pos: int64 positions.
            env_ids: int64, of a shape that broadcasts with that of `pos`.

        Returns:
            int64 of the broadcast shape.
        """
        episodes = self._require_episodes()
        with self._lock:
            ids, steps, shape = self._check_steps(env_ids, pos)
            return self._to_default_device(episodes.begin(ids, steps).reshape(shape))

    @torch.no_grad()
    def get_disc_0_begin_position(self, pos: Tensor, env_ids: Tensor) -> Tensor:
        """Position of the last step, up to each stored step, whose discount was 0.

        That step may be overwritten already. Where there was none, it is the first step that was ever recorded, or
        recorded since the environment was cleared.

        Args:
            pos: int64 positions.
            env_ids: int64, of a shape that broadcasts with that of `pos`.

        Returns:
            int64 of the broadcast shape.
        """
        episodes = self._require_episodes()
        if "discount" not in self._special:
            raise ValueError(f"{self._name} stores no discount")
        with self._lock:
            ids, steps, shape = self._check_steps(env_ids, pos)
            return self._to_default_device(episodes.disc_0_begin(ids, steps).reshape(shape))

    def _read_named(self, name: str, env_ids: Tensor, steps: Tensor, shape: torch.Size) -> Nest:
        known = self._resolved.get(name)
        if known is None:
            part = nest.get_field(self._structure.unflatten(self._all_fields), name)
            known = self._resolved[name] = (nest.flatten(part), nest.structure_of(part))
        indices, structure = known
        leaves = self._read_fields(indices, env_ids, steps, None)
        if len(shape) != 1:
            leaves = [leaf.reshape(*shape, *leaf.shape[1:]) for leaf in leaves]
        return structure.unflatten(leaves)

    def _read_fields(
        self, indices: Sequence[int], env_ids: Tensor, positions: Tensor, length: int | None
    ) -> list[Tensor]:
        if not self._stacks:
            return super()._read_fields(indices, env_ids, positions, length)
        plain = [index for index in indices if index not in self._stacks]
        read = dict(zip(plain, super()._read_fields(plain, env_ids, positions, length), strict=True))
        episodes = self._require_episodes()
        for index in indices:
            if index in self._stacks:
                stack = self._stacks[index]
                read[index] = stack.read(self._storage, episodes, env_ids, positions, length)
        return [read[index] for index in indices]

    # -- saving -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """A copy of all that is stored, as tensors, numbers and strings; empty slots are left out."""
        with self._lock:
            state = super().state_dict()
            if self._episodes is not None:
                state["episodes"] = self._episodes.state.clone()
            state.update(self.priority_state())
            if self._generator is not None:
                state["generator"] = self._generator.get_state()
            return state

    def priority_state(self) -> dict[str, Any]:
        """The part of `state_dict` that learning changes: the priorities of all that is stored; empty without them."""
        if self._priorities is None:
            return {}
        rows = self._storage.filled_rows(self._current_pos, self._current_size)
        return {"priorities": self._priorities.tree.leaves[rows], "batch_length": self._priorities.length}

    def load_priority_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `priority_state` gave of a buffer with the same data."""
        if state:
            rows = self._storage.filled_rows(self._current_pos, self._current_size)
            self._require_priorities().load(rows, state["priorities"], int(state["batch_length"]))

    def _state_keys(self) -> list[str]:
        keys = super()._state_keys()
        keys += ["episodes"] if self._episodes is not None else []
        keys += ["priorities", "batch_length"] if self._priorities is not None else []
        return keys + (["generator"] if self._generator is not None else [])

    def _check_layout(self, state: Mapping[str, Any]) -> None:
        super()._check_layout(state)
        total = int(state["current_size"].sum())
        if self._episodes is not None and state["episodes"].shape != (3 * self._num_envs,):
            raise ValueError(f"the state for {self._name} is damaged: episodes of wrong shape")
        if self._priorities is not None and state["priorities"].shape != (total,):
            raise ValueError(f"the state for {self._name} is damaged: priorities of wrong shape")

    def _load_extras(self, state: Mapping[str, Any], rows: Tensor) -> None:
        if self._episodes is not None:
            self._episodes.state.copy_(state["episodes"])
        if self._priorities is not None:
            self._priorities.load(rows, state["priorities"], int(state["batch_length"]))
        if self._generator is not None:
            self._generator.set_state(state["generator"])

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_steps(self, env_ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, torch.Size]:
        """Flat env ids and positions of stored steps, and the shape that they broadcast to."""
        ids = self._as_index("env_ids", env_ids)
        steps = self._as_index("positions", positions)
        if ids.shape != steps.shape:
            ids, steps = torch.broadcast_tensors(ids, steps)  # type: ignore[no-untyped-call]
        shape = ids.shape
        ids, steps = ids.reshape(-1).contiguous(), steps.reshape(-1).contiguous()
        if self._loops is not None:
            bad = self._loops.find_invalid(
                ids.data_ptr(),
                steps.data_ptr(),
                ids.shape[0],
                self._num_envs,
                self._current_pos.data_ptr(),
                self._current_size.data_ptr(),
            )
        else:
            known = (ids >= 0) & (ids < self._num_envs)
            safe = ids.clamp(0, self._num_envs - 1)
            end = self._current_pos[safe]
            known &= (steps < end) & (steps >= end - self._current_size[safe])
            bad = -1 if bool(known.all()) else int((~known).to(torch.int8).argmax())
        if bad >= 0:
            self._refuse_step(int(ids[bad]), int(steps[bad]))
        return ids, steps, shape

    def _refuse_step(self, env_id: int, position: int) -> None:
        if not 0 <= env_id < self._num_envs:
            raise ValueError(f"{self._name} has no environment {env_id}: it has {self._num_envs}")
        end, size = int(self._current_pos[env_id]), int(self._current_size[env_id])
        there = f"positions {end - size} to {end - 1}" if size else "nothing"
        raise ValueError(f"position {position} of environment {env_id} is not in {self._name}, which has {there} of it")

    def _require_episodes(self) -> EpisodeIndex:
        if self._episodes is None:
            raise ValueError(f"{self._name} knows no episodes: make it with keep_episodic_info=True")
        return self._episodes

    def _require_priorities(self) -> Priorities:
        if self._priorities is None:
            raise ValueError(f"{self._name} has no priorities: make it with prioritized_sampling=True")
        return self._priorities

    def _constant(self, size: int, value: float) -> Tensor:
        constant = self._constants.get((size, value))
        if constant is None:
            constant = torch.full((size,), value, device=self._device)
            self._constants[size, value] = constant
        return constant


def _check_numbers(num_ignored: int, initial: float, steps: int, ratio: float) -> None:
    if num_ignored < 0:
        raise ValueError(f"num_earliest_frames_ignored is {num_ignored}: give at least 0")
    if not 0 < initial < float("inf"):
        raise ValueError(f"initial_priority is {initial}: give a finite number above 0")
    if steps < 1 or not 0 <= ratio <= 1:
        raise ValueError(
            f"recent_data_steps is {steps} and recent_data_ratio {ratio}: give at least 1, and a share from 0 to 1"
        )
