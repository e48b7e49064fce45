"""Worlds that each step in a process of their own."""

import multiprocessing as mp
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.compat.sb3.row import Row, attribute_of, is_wrapped, set_attribute
from rein.compat.sb3.vec_env import Indices, Observations, StepReturn, VecEnv, stacked
from rein.runtime.processes.sending import pack, unpack


class SubprocVecEnv(VecEnv):
    """A batch of one process for each world."""

    can_wait = True

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env[Any, Any]]], start_method: str | None = None) -> None:
        """Starts the processes.

        Args:
            env_fns: functions that each make one world.
            start_method: "forkserver", "spawn" or "fork"; None is the first that there is.
        """
        methods = mp.get_all_start_methods()
        context = mp.get_context(start_method or next(one for one in ("forkserver", "spawn") if one in methods))
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        self._is_closed = False
        for make in env_fns:
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, pack(make, "a world")), daemon=True)  # type: ignore[attr-defined]
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)
        observation_space, action_space, metadata, render_mode = self._ask([0], "describe")[0]
        super().__init__(len(env_fns), observation_space, action_space)
        self.metadata, self.render_mode = metadata, render_mode

    def _ask(self, rows: Sequence[int], command: str, *arguments: Any, **named: Any) -> list[Any]:
        for row in rows:
            self._pipes[row].send_bytes(pack((command, arguments, named)))
        return [self._answer(row) for row in rows]

    def _answer(self, row: int) -> Any:
        try:
            is_fine, answer = unpack(self._pipes[row].recv_bytes())
        except EOFError:
            raise RuntimeError(f"the process of world {row} has ended: see above for what it printed") from None
        if not is_fine:
            raise answer
        return answer

    def reset(self) -> Observations:
        """See `VecEnv`."""
        self.calls += 1
        for row, pipe in enumerate(self._pipes):
            pipe.send_bytes(pack(("reset", (), self._take_reset_arguments(row))))
        answers = [self._answer(row) for row in range(self.num_envs)]
        self.reset_infos = [info for _, info in answers]
        return stacked([observation for observation, _ in answers], self.observation_space)

    def step_async(self, actions: NDArray[Any]) -> None:
        """See `VecEnv`."""
        for pipe, action in zip(self._pipes, actions, strict=True):
            pipe.send_bytes(pack(("step", (action, self._waiting), {})))

    def step_wait(self) -> StepReturn:
        """See `VecEnv`."""
        self.calls += 1
        answers = [self._answer(row) for row in range(self.num_envs)]
        steps, self.reset_infos = [step for step, _ in answers], [info for _, info in answers]
        observations, rewards, dones, infos = zip(*steps, strict=True)
        return (
            stacked(observations, self.observation_space),
            np.array(rewards, dtype=np.float32),
            np.array(dones, dtype=bool),
            list(infos),
        )

    def close(self) -> None:
        """See `VecEnv`."""
        if self._is_closed:
            return
        self._is_closed = True
        for pipe in self._pipes:
            try:
                pipe.send_bytes(pack(("close", (), {})))
            except OSError:
                continue
        for process, pipe in zip(self._processes, self._pipes, strict=True):
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
            pipe.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """See `VecEnv`."""
        return self._ask(self._rows(indices), "get", attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """See `VecEnv`."""
        self._ask(self._rows(indices), "set", attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """See `VecEnv`."""
        return self._ask(self._rows(indices), "call", method_name, *method_args, **method_kwargs)

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """See `VecEnv`."""
        return self._ask(self._rows(indices), "is_wrapped", wrapper_class)


def _serve(pipe: Connection, packed: bytes) -> None:
    """What runs in the process of a world."""
    row: Row | None = None
    fault: Exception = RuntimeError("the world was not made")
    try:
        row = Row(unpack(packed)())
    except Exception as error:
        fault = error
    while True:
        try:
            command, arguments, named = unpack(pipe.recv_bytes())
        except (EOFError, KeyboardInterrupt):
            return
        if command == "close":
            if row is not None:
                row.env.close()
            pipe.close()
            return
        try:
            if row is None:
                raise fault
            pipe.send_bytes(pack((True, _do(row, command, arguments, named))))
        except Exception as error:
            pipe.send_bytes(pack((False, error)))


def _do(row: Row, command: str, arguments: Any, named: Any) -> Any:
    env = row.env
    if command == "step":
        return row.step(*arguments), row.reset_info
    if command == "reset":
        return row.reset(**named), row.reset_info
    if command == "describe":
        return env.observation_space, env.action_space, env.metadata, env.render_mode
    if command == "get":
        return attribute_of(env, arguments[0])
    if command == "set":
        return set_attribute(env, *arguments)
    if command == "call":
        return attribute_of(env, arguments[0])(*arguments[1:], **named)
    return is_wrapped(env, arguments[0])
