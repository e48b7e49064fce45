"""Algorithms made of algorithms."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework.algorithm import Algorithm
from rein.framework.rl_algorithm import RLAlgorithm
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import Network
from rein.specs import TensorSpec

StepFunction = Callable[[Algorithm, str, Nest, Nest], AlgStep]


def sum_losses(losses: Mapping[str, LossInfo]) -> LossInfo:
    """Adds losses up by name: `loss` and `scalar_loss` are summed, `extra` is a dict.

    Args:
        losses: `loss` is [T, B]; parts that are `()` count nothing. At most one may have a priority [B].
    """

    def total(parts: list[Any]) -> Any:
        tensors = [part for part in parts if isinstance(part, Tensor)]
        return sum(tensors[1:], start=tensors[0]) if tensors else ()

    priorities = [loss.priority for loss in losses.values() if isinstance(loss.priority, Tensor)]
    if len(priorities) > 1:
        raise ValueError(f"several of {list(losses)} give a priority: at most one can")
    return LossInfo(
        loss=total([loss.loss for loss in losses.values()]),
        scalar_loss=total([loss.scalar_loss for loss in losses.values()]),
        extra={name: loss.extra for name, loss in losses.items() if not nest.is_empty(loss.extra)},
        priority=priorities[0] if priorities else (),
    )


class AlgorithmContainer(Algorithm):
    """Several algorithms side by side, whose infos are kept in a dict by their names."""

    def __init__(
        self,
        algs: Mapping[str, Algorithm],
        train_state_spec: Nest,
        rollout_state_spec: Nest | None,
        predict_state_spec: Nest | None,
        is_on_policy: bool | None,
        debug_summaries: bool,
        name: str,
    ) -> None:
        """Makes the container.

        Args:
            algs: the algorithms by name.
            train_state_spec: specs of the recurrent state of `train_step`.
            rollout_state_spec: specs of the recurrent state of `rollout_step`; None is `train_state_spec`.
            predict_state_spec: specs of the recurrent state of `predict_step`; None is `rollout_state_spec`.
            is_on_policy: whether to train on-policy; None leaves it to the algorithms, or to the parent.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(
            train_state_spec=train_state_spec,
            rollout_state_spec=rollout_state_spec,
            predict_state_spec=predict_state_spec,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._algs = dict(algs)
        for key, alg in self._algs.items():
            self.add_module(f"_alg_{key}", alg)
        if is_on_policy is None:
            decided = {alg.on_policy for alg in self._algs.values() if alg.on_policy is not None}
            if len(decided) > 1:
                kinds = {key: alg.on_policy for key, alg in self._algs.items()}
                raise ValueError(f"{name} mixes on-policy and off-policy algorithms: {kinds}")
            is_on_policy = decided.pop() if decided else None
        if is_on_policy is not None:
            self.set_on_policy(is_on_policy)

    def set_on_policy(self, is_on_policy: bool) -> None:
        """Decides for all algorithms."""
        super().set_on_policy(is_on_policy)
        for alg in self._algs.values():
            alg.set_on_policy(is_on_policy)

    def set_path(self, path: str) -> None:
        """Tells every algorithm its path."""
        super().set_path(path)
        for key, alg in self._algs.items():
            alg.set_path(f"{path}.{key}" if path else key)

    def calc_loss(self, info: dict[str, Nest]) -> LossInfo:
        """The sum of the losses [T, B] of the algorithms that have an info."""
        return sum_losses({key: alg.calc_loss(info[key]) for key, alg in self._with_info(info)})

    def calc_loss_offline(self, info: dict[str, Nest], pre_train: bool = False) -> LossInfo:
        """Like `calc_loss`, for offline data."""
        return sum_losses({key: alg.calc_loss_offline(info[key], pre_train) for key, alg in self._with_info(info)})

    def _with_info(self, info: dict[str, Nest]) -> list[tuple[str, Algorithm]]:
        return [(key, alg) for key, alg in self._algs.items() if not nest.is_empty(info.get(key, ()))]

    def preprocess_experience(
        self, root_inputs: Nest, rollout_info: dict[str, Nest], batch_info: BatchInfo
    ) -> tuple[Nest, Nest]:
        """Calls every algorithm in turn."""
        processed = dict(rollout_info)
        for key, alg in self._algs.items():
            if key in processed:
                root_inputs, processed[key] = alg.preprocess_experience(root_inputs, processed[key], batch_info)
        return root_inputs, processed

    def after_update(self, root_inputs: Nest, info: dict[str, Nest]) -> None:
        """Calls every algorithm."""
        for key, alg in self._algs.items():
            alg.after_update(root_inputs, info.get(key, ()))

    def after_train_iter(self, root_inputs: Nest | None, rollout_info: dict[str, Nest] | None) -> None:
        """Calls every algorithm."""
        for key, alg in self._algs.items():
            alg.after_train_iter(root_inputs, None if rollout_info is None else rollout_info.get(key, ()))


class _Element(NamedTuple):
    key: str
    is_named: bool
    path: Nest
    module: Any


class SequentialAlg(AlgorithmContainer):
    """Algorithms, networks and functions computed one after the other.

    Each takes the output of the one before it, or what its path says: ``(path, module)`` takes
    ``nest.get_nested_field(results, path)``, where ``results["input"]`` is the input, ``results[name]`` the output of a
    named module, and ``results["info"][name]`` and ``results["state"][name]`` its info and state.

        alg = SequentialAlg(
            predicted=predictor,
            delayed=networks.Delay(),
            error=(("delayed", "input"), lambda pair: (pair[0] - pair[1]) ** 2),
            loss=Loss(),
            output="predicted",
        )
    """

    def __init__(
        self,
        *modules: Any,
        output: Nest = "",
        is_on_policy: bool | None = None,
        name: str = "SequentialAlg",
        **named_modules: Any,
    ) -> None:
        """Makes the sequence.

        Args:
            *modules: algorithms, networks, modules, functions, or (path, one of these).
            output: nest of paths of what to return; "" is the output of the last module.
            is_on_policy: whether to train on-policy; None supports both.
            name: name in summaries.
            **named_modules: like `modules`, after them; their results can be referred to by name.
        """
        reserved = {"input", "info", "state"} & set(named_modules)
        if reserved:
            raise ValueError(f"{sorted(reserved)} cannot name a module: the word has a meaning in paths")
        elements = [_element(f"_{number}", False, module) for number, module in enumerate(modules)]
        elements += [_element(key, True, module) for key, module in named_modules.items()]
        if not elements:
            raise ValueError(f"{name} has no module: give at least one")
        algs = {element.key: element.module for element in elements if isinstance(element.module, Algorithm)}

        def state_spec(attribute: str) -> dict[str, Nest]:
            return {e.key: _state_spec(e.module, attribute) for e in elements}

        super().__init__(
            algs,
            train_state_spec=state_spec("train_state_spec"),
            rollout_state_spec=state_spec("rollout_state_spec"),
            predict_state_spec=state_spec("predict_state_spec"),
            is_on_policy=is_on_policy,
            debug_summaries=False,
            name=name,
        )
        self._elements = elements
        self._output = output
        for element in elements:
            if isinstance(element.module, nn.Module) and not isinstance(element.module, Algorithm):
                self.add_module(f"_module_{element.key}", element.module)

    def predict_step(self, inputs: Nest, state: dict[str, Nest]) -> AlgStep:
        """Computes all modules, algorithms by `predict_step`."""
        return self._compute(inputs, state, lambda alg, key, x, s: alg.predict_step(x, s))

    def rollout_step(self, inputs: Nest, state: dict[str, Nest]) -> AlgStep:
        """Computes all modules, algorithms by `rollout_step`."""
        return self._compute(inputs, state, lambda alg, key, x, s: alg.rollout_step(x, s))

    def train_step(self, inputs: Nest, state: dict[str, Nest], rollout_info: dict[str, Nest]) -> AlgStep:
        """Computes all modules, algorithms by `train_step`."""
        return self._compute(inputs, state, lambda alg, key, x, s: alg.train_step(x, s, rollout_info.get(key, ())))

    def train_step_offline(
        self, inputs: Nest, state: dict[str, Nest], rollout_info: dict[str, Nest], pre_train: bool = False
    ) -> AlgStep:
        """Computes all modules, algorithms by `train_step_offline`."""
        return self._compute(
            inputs, state, lambda alg, key, x, s: alg.train_step_offline(x, s, rollout_info.get(key, ()), pre_train)
        )

    def _compute(self, inputs: Nest, state: dict[str, Nest], step_function: StepFunction) -> AlgStep:
        infos: dict[str, Nest] = {}
        states: dict[str, Nest] = {}
        results: dict[str, Nest] = {"input": inputs, "info": infos, "state": states}
        value = inputs
        for key, is_named, path, module in self._elements:
            argument = value if path is None else nest.get_nested_field(results, path)
            states[key] = ()
            if isinstance(module, Algorithm):
                value, states[key], infos[key] = step_function(module, key, argument, state[key])
            elif isinstance(module, Network):
                value, states[key] = module(argument, state[key])
            else:
                value = module(argument)
            if is_named:
                results[key] = value
        output = value if self._output == "" else nest.get_nested_field(results, self._output)
        return AlgStep(output=output, state=states, info=infos)


def _element(key: str, is_named: bool, module: Any) -> _Element:
    path = None
    if isinstance(module, tuple) and not nest.is_namedtuple(module):
        if len(module) != 2:
            raise ValueError(f"module {key!r} is a tuple of {len(module)}: give (path, module)")
        path, module = module
    if not callable(module):
        raise TypeError(f"module {key!r} is {module!r}: give an algorithm, a network, a module or a function")
    return _Element(key, is_named, path, module)


def _state_spec(module: Any, attribute: str) -> Nest:
    if isinstance(module, Algorithm):
        return getattr(module, attribute)
    return module.state_spec if isinstance(module, Network) else ()


class _Delegating(Algorithm):
    """Passes the hooks around an update on to `self._alg`."""

    _alg: Algorithm

    def set_on_policy(self, is_on_policy: bool) -> None:
        """Decides for the wrapped algorithm too."""
        super().set_on_policy(is_on_policy)
        self._alg.set_on_policy(is_on_policy)

    def set_path(self, path: str) -> None:
        """Tells the wrapped algorithm, whose info is this one's."""
        super().set_path(path)
        self._alg.set_path(path)

    def calc_loss(self, info: Nest) -> LossInfo:
        """The loss of the wrapped algorithm."""
        return self._alg.calc_loss(info)

    def calc_loss_offline(self, info: Nest, pre_train: bool = False) -> LossInfo:
        """The loss of the wrapped algorithm for offline data."""
        return self._alg.calc_loss_offline(info, pre_train)

    def preprocess_experience(self, root_inputs: Nest, rollout_info: Nest, batch_info: BatchInfo) -> tuple[Nest, Nest]:
        """As the wrapped algorithm does."""
        return self._alg.preprocess_experience(root_inputs, rollout_info, batch_info)

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """As the wrapped algorithm does."""
        self._alg.after_update(root_inputs, info)

    def after_train_iter(self, root_inputs: Nest | None, rollout_info: Nest | None) -> None:
        """As the wrapped algorithm does."""
        self._alg.after_train_iter(root_inputs, rollout_info)


class EchoAlg(_Delegating):
    """Feeds part of the output of an algorithm back as part of its next input.

    The algorithm takes ``{"input": ..., "echo": ...}`` and returns ``{"output": ..., "echo": ...}``.
    """

    def __init__(self, alg: Algorithm, echo_spec: Nest, name: str = "EchoAlg") -> None:
        """Makes the loop.

        Args:
            alg: the algorithm that computes.
            echo_spec: specs of the echo; it is zero at first.
            name: name in summaries.
        """
        super().__init__(
            train_state_spec={"alg": alg.train_state_spec, "echo": echo_spec},
            rollout_state_spec={"alg": alg.rollout_state_spec, "echo": echo_spec},
            predict_state_spec={"alg": alg.predict_state_spec, "echo": echo_spec},
            name=name,
        )
        self._alg = alg
        if alg.on_policy is not None:
            self.set_on_policy(alg.on_policy)

    def predict_step(self, inputs: Nest, state: dict[str, Nest]) -> AlgStep:
        """One step of the algorithm, with the echo of the step before."""
        return self._echoed(self._alg.predict_step({"input": inputs, "echo": state["echo"]}, state["alg"]))

    def rollout_step(self, inputs: Nest, state: dict[str, Nest]) -> AlgStep:
        """One step of the algorithm, with the echo of the step before."""
        return self._echoed(self._alg.rollout_step({"input": inputs, "echo": state["echo"]}, state["alg"]))

    def train_step(self, inputs: Nest, state: dict[str, Nest], rollout_info: Nest) -> AlgStep:
        """One step of the algorithm, with the echo of the step before."""
        echo_input = {"input": inputs, "echo": state["echo"]}
        return self._echoed(self._alg.train_step(echo_input, state["alg"], rollout_info))

    def train_step_offline(
        self, inputs: Nest, state: dict[str, Nest], rollout_info: Nest, pre_train: bool = False
    ) -> AlgStep:
        """One step of the algorithm on offline data, with the echo of the step before."""
        echo_input = {"input": inputs, "echo": state["echo"]}
        return self._echoed(self._alg.train_step_offline(echo_input, state["alg"], rollout_info, pre_train))

    def _echoed(self, step: AlgStep) -> AlgStep:
        state = {"alg": step.state, "echo": step.output["echo"]}
        return AlgStep(output=step.output["output"], state=state, info=step.info)


@configurable
class RLAlgWrapper(_Delegating, RLAlgorithm):
    """An algorithm that takes a `TimeStep` and outputs an action, as an RL algorithm that can be trained."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        algorithm: Algorithm,
        env: Environment | None = None,
        reward_spec: TensorSpec = TensorSpec(()),
        config: TrainerConfig | None = None,
        optimizer: Any | None = None,
        debug_summaries: bool = False,
        name: str = "RLAlgWrapper",
    ) -> None:
        """Wraps an algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            algorithm: takes a `TimeStep`, outputs an action.
            env: batched environment; for the root algorithm only.
            reward_spec: a scalar, or a vector for several rewards.
            config: settings of the run; for the root algorithm only.
            optimizer: default optimizer.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=algorithm.train_state_spec,
            rollout_state_spec=algorithm.rollout_state_spec,
            predict_state_spec=algorithm.predict_state_spec,
            reward_spec=reward_spec,
            env=env,
            config=config,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._alg = algorithm
        if algorithm.on_policy is not None:
            self.set_on_policy(algorithm.on_policy)

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """One step of the algorithm."""
        return self._alg.predict_step(inputs, state)

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """One step of the algorithm."""
        return self._alg.rollout_step(inputs, state)

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: Nest) -> AlgStep:
        """One step of the algorithm."""
        return self._alg.train_step(inputs, state, rollout_info)

    def train_step_offline(self, inputs: TimeStep, state: Nest, rollout_info: Nest, pre_train: bool = False) -> AlgStep:
        """One step of the algorithm on offline data."""
        return self._alg.train_step_offline(inputs, state, rollout_info, pre_train)
