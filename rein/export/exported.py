"""An exported policy, loaded to act: numpy in, numpy out, with its states kept in between."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rein.export.files import read
from rein.export.signature import Port, Signature, leaf_at, pack


class ExportedPolicy:
    """What `rein export` wrote, acting as `AgentHandle.predict` does.

    Attributes:
        signature: what goes in and comes out.
    """

    def __init__(
        self, path: str | os.PathLike[str], trust: bool = False, seed: int = 0, format: str | None = None
    ) -> None:
        """Loads a file.

        Args:
            path: the file.
            trust: needed for the format torch, whose archives may hold code; see docs/security.md.
            seed: of the noise, if the policy takes any.
            format: "onnx" or "torch"; None goes by the name of the file.
        """
        self.signature: Signature
        self.signature, self._step = read(Path(path), trust, format)
        self._rng = np.random.default_rng(seed)
        self._states: list[NDArray[Any]] = []
        self._size = 0

    def act(self, observation: Any, episode_start: ArrayLike | None = None) -> Any:
        """The action for an observation, or a batch of actions for a batch.

        Args:
            observation: as the environment gives it, or with a batch dimension in front of every array.
            episode_start: whether an episode begins here, a bool or [B]; None is False but for the first call and wherever
                the batch size changes.
        """
        ports = self.signature.inputs_of("observation")
        arrays = [np.asarray(leaf_at(observation, port.path)).astype(port.dtype) for port in ports]
        is_batch = arrays[0].ndim == len(ports[0].shape) + 1
        if not is_batch:
            arrays = [array[None] for array in arrays]
        outputs = self.step(arrays, episode_start)
        action = outputs if is_batch else [array[0] for array in outputs]
        return pack(self.signature.action, action)

    def forget(self) -> None:
        """The next action begins an episode."""
        self._size = 0

    @property
    def states(self) -> list[NDArray[Any]]:
        """The states after the last action, [B, ...] each, in the order of the inputs."""
        return self._states

    def step(
        self,
        observation: list[NDArray[Any]],
        episode_start: ArrayLike | None = None,
        noise: list[NDArray[Any]] | None = None,
    ) -> list[NDArray[Any]]:
        """One step for a batch.

        Args:
            observation: [B, ...] for each observation among the inputs.
            episode_start: see `act`.
            noise: [B, ...] for each noise among the inputs; None draws it.

        Returns:
            The leaves of the action, [B, ...] each.
        """
        size = len(observation[0])
        if size != self._size:
            self._size = size
            self._states = [np.zeros((size, *port.shape), port.dtype) for port in self.signature.inputs_of("state")]
            episode_start = True if episode_start is None else episode_start
        first = np.broadcast_to(np.asarray(False if episode_start is None else episode_start, dtype=bool), (size,))
        if noise is None:
            noise = [self._draw(port, size) for port in self.signature.inputs_of("noise")]
        given = {"observation": observation, "is_first": [first.copy()], "state": self._states, "noise": noise}
        waiting = {kind: iter(arrays) for kind, arrays in given.items()}
        outputs = self._step([next(waiting[port.kind]) for port in self.signature.inputs])
        num_actions = len(outputs) - len(self._states)
        self._states = outputs[num_actions:]
        return outputs[:num_actions]

    def _draw(self, port: Port, size: int) -> NDArray[Any]:
        draw = self._rng.standard_normal if port.draw == "normal" else self._rng.random
        return draw((size, *port.shape)).astype(port.dtype)
