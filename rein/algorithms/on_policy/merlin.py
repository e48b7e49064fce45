"""MERLIN (Wayne et al. 2018, arXiv:1803.10760): a predictor with a memory, and an actor that reads it.

The predictor encodes each observation given what it remembers, and writes the codes into its memory. The actor acts on
codes and on what it reads. Both learn from each rollout once; the gradient of the actor flows into the codes, but no
gradient flows through the memory, so that what happened long ago is found again however short the rollouts are.

Deviations from the paper: actions are neither encoded by a network nor decoded, what was written is not rewritten with
what came later, and there are no action values.
"""

from typing import Any, NamedTuple

from torch import Tensor

from rein import nest
from rein.algorithms.losses import ActorCriticLoss
from rein.algorithms.on_policy.merlin_actor import MemoryBasedActor
from rein.algorithms.on_policy.merlin_predictor import MBPState, MemoryBasedPredictor
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework import Algorithm, OnPolicyAlgorithm, TrainerConfig
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.nest import Nest
from rein.networks import Network
from rein.specs import TensorSpec


class MerlinState(NamedTuple):
    """Recurrent states; all zeros at the start of an episode, so that memory never outlives it."""

    mbp_state: Nest = ()
    """`MBPState`."""
    mba_state: Nest = ()


class MerlinInfo(NamedTuple):
    """What the losses need of a step."""

    mbp_info: Nest = ()
    mba_info: Nest = ()


class MerlinLossInfo(NamedTuple):
    """Parts of the loss."""

    mba: Nest = ()
    mbp: Nest = ()


@configurable
class MerlinAlgorithm(OnPolicyAlgorithm):
    """Acts by what it remembers of the episode."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        encoders: Nest,
        decoders: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        latent_dim: int = 200,
        lstm_size: tuple[int, ...] = (256, 256),
        memory_size: int = 1350,
        rl_loss: ActorCriticLoss | None = None,
        optimizer: Any | None = None,
        debug_summaries: bool = False,
        name: str = "Merlin",
    ) -> None:
        """Makes predictor and actor.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            encoders: nest like the observation of networks from a leaf to a vector, or of constructors called as
                `ctor(spec of the leaf)`; one constructor is used for all leaves.
            decoders: nest like the observation of algorithms such as `DecodingAlgorithm`, or of constructors called as
                `ctor(spec of the code, spec of the leaf)`; one constructor is used for all leaves.
            reward_spec: a scalar, or a vector for several rewards.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            latent_dim: size of a code, and of a slot of the memory.
            lstm_size: sizes of the LSTM layers, in predictor and actor.
            memory_size: number of slots; with fewer than an episode has steps, the least used are overwritten.
            rl_loss: the loss of the actor; None makes an `ActorCriticLoss`.
            optimizer: of everything.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        code_spec = TensorSpec((latent_dim,))
        code_specs = nest.map_structure(lambda _: code_spec, observation_spec)
        mbp = MemoryBasedPredictor(
            action_spec,
            _made_for(f"{name}: encoders", encoders, Network, observation_spec),
            _made_for(f"{name}: decoders", decoders, Algorithm, code_specs, observation_spec),
            lstm_size=lstm_size,
            latent_dim=latent_dim,
            memory_size=memory_size,
        )
        mba = MemoryBasedActor(
            code_spec,
            action_spec,
            mbp.memory,
            reward_spec,
            epsilon_greedy=default_epsilon_greedy(None, config),
            lstm_size=lstm_size,
            latent_dim=latent_dim,
            loss=rl_loss,
            debug_summaries=debug_summaries,
        )
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=MerlinState(mbp.train_state_spec, mba.train_state_spec),
            env=env,
            config=config,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._mbp = mbp
        self._mba = mba

    def set_path(self, path: str) -> None:
        """Tells the parts where their infos stand."""
        super().set_path(path)
        for part, field in ((self._mbp, "mbp_info"), (self._mba, "mba_info")):
            part.set_path(f"{path}.{field}" if path else field)

    @property
    def reward_weights(self) -> Tensor | None:
        """Weights of a vector reward, [D]; None for a scalar reward."""
        return self._mba.reward_weights

    def set_reward_weights(self, reward_weights: Tensor) -> None:
        """Changes the weights of a vector reward, [D]."""
        self._mba.set_reward_weights(reward_weights)

    def predict_step(self, time_step: TimeStep, state: MerlinState) -> AlgStep:
        """Acts for evaluation."""
        seen = self._mbp.predict_step((time_step.observation, time_step.prev_action), state.mbp_state)
        acted = self._mba.predict_step(time_step._replace(observation=seen.output), state.mba_state, _memory(seen))
        return AlgStep(acted.output, MerlinState(seen.state, acted.state), MerlinInfo(mba_info=acted.info))

    def rollout_step(self, time_step: TimeStep, state: MerlinState) -> AlgStep:
        """Acts to collect data, and computes all that the losses need."""
        seen = self._mbp.rollout_step((time_step.observation, time_step.prev_action), state.mbp_state)
        acted = self._mba.rollout_step(time_step._replace(observation=seen.output), state.mba_state, _memory(seen))
        return AlgStep(acted.output, MerlinState(seen.state, acted.state), MerlinInfo(seen.info, acted.info))

    def calc_loss(self, info: MerlinInfo) -> LossInfo:
        """The sum of the losses of predictor and actor, [T, B]."""
        mbp, mba = self._mbp.calc_loss(info.mbp_info), self._mba.calc_loss(info.mba_info)
        return LossInfo(loss=mba.loss + mbp.loss, extra=MerlinLossInfo(mba.extra, mbp.extra))


def _memory(step: AlgStep) -> Any:
    """The memory after the predictor has written."""
    state: MBPState = step.state
    return state.memory


def _made_for(where: str, ctors: Nest, cls: type, *specs: Nest) -> Nest:
    """A nest like the observation of objects of `cls`, where constructors of such are called with the specs of their leaf.

    Args:
        where: for messages.
        ctors: nest of objects or constructors, or one constructor for all leaves.
        cls: class of the objects.
        *specs: nests of specs like the observation.
    """

    def make(ctor: Any, *leaf: Any) -> Any:
        return ctor(*leaf) if callable(ctor) and not isinstance(ctor, cls) else ctor

    if callable(ctors) and not isinstance(ctors, cls):
        return nest.map_structure(lambda *leaf: make(ctors, *leaf), *specs)
    try:
        nest.assert_same_structure(ctors, specs[0])
    except ValueError as error:
        raise ValueError(f"{where} must be a nest like the observation: {error}") from None
    return nest.map_structure(make, ctors, *specs)
