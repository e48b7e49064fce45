"""Models: keywords that are refused, files that are hostile, schedules, callbacks that stop."""

import inspect
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.algorithms.off_policy.sac_structures import SacActionState
from rein.compat.sb3 import A2C, DDPG, DQN, PPO, SAC, TD3
from rein.compat.sb3.common.callbacks import BaseCallback
from rein.compat.sb3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from rein.compat.sb3.keywords import Clock, NotSavedError, OfProgress
from rein.compat.sb3.networks import UnitActions
from rein.data_structures import TimeStep

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 8, "n_epochs": 1, "policy_kwargs": {"net_arch": [4]}, "seed": 0}


@pytest.mark.parametrize(
    ("model", "keywords", "message"),
    [
        (PPO, {"use_sde": True}, "PPO: use_sde=True"),
        (PPO, {"target_kl": 0.1}, "PPO: target_kl=0.1"),
        (PPO, {"clip_range_vf": 0.2}, "PPO: clip_range_vf=0.2"),
        (SAC, {"policy_kwargs": {"features_extractor_class": int}}, "features_extractor_class='int'"),
        (PPO, {"policy_kwargs": {"net_arch": [64, {"pi": [64]}]}}, "net_arch"),
        (PPO, {"policy_kwargs": {"activation_fn": torch.nn.PReLU}}, "activation_fn"),
        (PPO, {"learning_rate": "lin_3e-4"}, "learning_rate='lin_3e-4'"),
        (DQN, {"n_steps": 3}, "DQN: n_steps=3"),
        (DQN, {"train_freq": (1, "episode")}, "train_freq"),
        (DQN, {"replay_buffer_class": dict}, "replay_buffer_class"),
        (SAC, {"ent_coef": "often"}, "ent_coef='often'"),
        (SAC, {"action_noise": NormalActionNoise([0.0], [0.1])}, "action_noise"),
        (TD3, {"action_noise": OrnsteinUhlenbeckActionNoise([0.0], [0.1])}, "action_noise"),
        (TD3, {"action_noise": NormalActionNoise([0.5], [0.1])}, "its mean must be 0"),
        (DDPG, {"optimize_memory_usage": True}, "optimize_memory_usage=True"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_honoured_is_refused_in_one_line(model: Any, keywords: dict[str, Any], message: str) -> None:
    env = "CartPole-v1" if model in (PPO, A2C, DQN) else "Pendulum-v1"
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        model("MlpPolicy", env, **keywords)
    assert "\n" not in str(caught.value)


def test_an_unknown_policy_and_wrong_actions_are_refused() -> None:
    with pytest.raises(ValueError, match="policy='LstmPolicy'"):
        PPO("LstmPolicy", "CartPole-v1")
    with pytest.raises(ValueError, match="SAC needs continuous actions"):
        SAC("MlpPolicy", "CartPole-v1")
    with pytest.raises(ValueError, match="DQN needs one discrete action"):
        DQN("MlpPolicy", "Pendulum-v1")


def test_defaults_are_those_of_the_other_library() -> None:
    expected = {
        PPO: {"learning_rate": 3e-4, "n_steps": 2048, "batch_size": 64, "gae_lambda": 0.95, "max_grad_norm": 0.5},
        A2C: {"learning_rate": 7e-4, "n_steps": 5, "gae_lambda": 1.0, "rms_prop_eps": 1e-5},
        DQN: {"learning_rate": 1e-4, "batch_size": 32, "train_freq": 4, "target_update_interval": 10000},
        SAC: {"learning_rate": 3e-4, "batch_size": 256, "tau": 0.005, "ent_coef": "auto", "learning_starts": 100},
        TD3: {"learning_rate": 1e-3, "policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5},
        DDPG: {"learning_rate": 1e-3, "train_freq": 1, "buffer_size": 1_000_000},
    }
    for model, values in expected.items():
        parameters = inspect.signature(model).parameters
        assert {name: parameters[name].default for name in values} == values


def test_networks_have_the_sizes_that_were_asked_for() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", seed=0)
    shapes = [tuple(one.shape) for one in model.policy.parameters()]
    assert shapes.count((64, 4)) == 2
    assert shapes.count((64, 64)) == 2
    weight = next(one for one in model.policy.parameters() if one.shape == (64, 64))
    torch.testing.assert_close(weight @ weight.T, 2.0 * torch.eye(64), atol=1e-4, rtol=1e-4)


def test_functions_see_what_is_left_of_the_training() -> None:
    clock = Clock()
    rate = OfProgress(lambda remaining: 0.1 * remaining, clock)
    clock.total_timesteps = 200
    values = []
    for clock.num_timesteps in (0, 50, 200, 210):
        values.append(rate())
    assert values == pytest.approx([0.1, 0.075, 0.0, 0.0])
    assert rate.final_value() == 0.0


def test_exploration_falls_over_its_fraction() -> None:
    model = DQN("MlpPolicy", "CartPole-v1", exploration_fraction=0.5, policy_kwargs={"net_arch": [4]})
    assert [model.exploration_schedule(left) for left in (1.0, 0.75, 0.5, 0.0)] == pytest.approx(
        [1.0, 0.525, 0.05, 0.05]
    )


def test_a_function_is_not_saved_but_asked_for(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate=lambda left: 1e-3 * left, **SMALL)
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model")
    observation = np.zeros(4, np.float32)
    assert loaded.predict(observation, deterministic=True)[0] == model.predict(observation, deterministic=True)[0]
    with pytest.raises(ValueError, match="no environment"):
        loaded.learn(16)
    with pytest.raises(NotSavedError, match="learning_rate was a function"):
        PPO.load(tmp_path / "model", env="CartPole-v1").learn(16)
    PPO.load(tmp_path / "model", env="CartPole-v1", custom_objects={"learning_rate": 1e-3}).learn(16)


def test_a_model_is_loaded_by_its_own_class(tmp_path: Path) -> None:
    PPO("MlpPolicy", "CartPole-v1", **SMALL).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"PPO\.load"):
        A2C.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["../escaped.json", "/tmp/escaped.json", "a/../../escaped.json"])
def test_a_hostile_file_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        file.writestr("model.json", json.dumps({"format": 1, "class": "PPO"}))
        file.writestr(name, "{}")
    with pytest.raises(ValueError, match="damaged"):
        PPO.load(tmp_path / "model.zip")


def test_a_file_of_the_other_library_is_refused_unread(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        file.writestr("data", "{}")
        file.writestr("policy.pth", b"\x80\x04")
    with pytest.raises(ValueError, match="hold code that is run"):
        PPO.load(tmp_path / "model.zip")
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(ValueError, match="no saved model"):
        PPO.load(tmp_path / "text.zip")


class Failing(BaseCallback):
    def _on_step(self) -> bool:
        raise LookupError("from the callback")


def test_an_error_of_a_callback_arrives_as_it_is() -> None:
    model = A2C("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [4]})
    with pytest.raises(LookupError, match="from the callback"):
        model.learn(10, callback=Failing())
    assert not model.get_env().waiting  # type: ignore[union-attr]
    model.learn(10)


def test_the_same_seed_gives_the_same_model() -> None:
    def trained(seed: int) -> torch.Tensor:
        model = PPO("MlpPolicy", "CartPole-v1", **{**SMALL, "seed": seed})
        model.learn(64)
        return torch.cat([one.detach().reshape(-1) for one in model.policy.parameters()])

    assert torch.equal(trained(1), trained(1))
    assert not torch.equal(trained(1), trained(2))


def test_an_environment_of_another_shape_is_refused() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    with pytest.raises(ValueError, match="observation_space"):
        model.set_env("Acrobot-v1")


def test_keywords_and_noise_are_there_again_after_loading(tmp_path: Path) -> None:
    noise = NormalActionNoise(np.zeros(1), 0.3 * np.ones(1))
    given = {"action_noise": noise, "gamma": 0.9, "policy_kwargs": {"net_arch": [4], "activation_fn": torch.nn.ELU}}
    TD3("MlpPolicy", "Pendulum-v1", buffer_size=100, **given).save(tmp_path / "model")
    loaded = TD3.load(tmp_path / "model", gamma=0.8, lr_schedule=None)
    assert loaded.gamma == 0.8  # type: ignore[attr-defined]
    assert loaded.action_noise.sigma.tolist() == [0.3]  # type: ignore[attr-defined]
    assert loaded.policy_kwargs == {"net_arch": [4], "activation_fn": "ELU"}


class Plain(gym.Env[Any, Any]):
    """Takes no `render_mode`."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, False, True, {}


def test_a_world_by_id_need_not_take_a_render_mode() -> None:
    gym.register("CompatPlain-v0", entry_point=Plain)
    try:
        assert PPO("MlpPolicy", "CompatPlain-v0", **SMALL).learn(16).num_timesteps == 16
    finally:
        del gym.registry["CompatPlain-v0"]


def test_keywords_reach_the_algorithm() -> None:
    chosen = {"gamma": 0.5, "vf_coef": 0.7, "gae_lambda": 0.6, "ent_coef": 0.02}
    for clip_range in (0.3, lambda left: 0.3 * left):
        model = PPO("MlpPolicy", "CartPole-v1", clip_range=clip_range, **chosen)
        loss: Any = model.algorithm._loss
        assert loss.gamma.item() == pytest.approx(0.5)
        assert (loss._td_loss_weight, loss.td_lambda, loss._entropy_regularization()) == (0.7, 0.6, 0.02)
        assert loss._importance_ratio_clipping() == 0.3
    model.clock.num_timesteps, model.clock.total_timesteps = 1, 4
    assert loss._importance_ratio_clipping() == pytest.approx(0.225)
    sac: Any = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [17]}, tau=0.03, ent_coef=0.2).algorithm
    assert (17, 3) in [tuple(one.shape) for one in sac.parameters()]
    assert sac._log_alpha.item() == pytest.approx(np.log(0.2))
    # One temperature fewer to tune, and entropy as if the torque were in [-1, 1].
    assert len(sac.optimizers()) == 2
    assert sac._target_entropy.item() == -1.0
    dqn = DQN("MlpPolicy", "CartPole-v1", train_freq=4, gradient_steps=2, target_update_interval=100, buffer_size=500)
    assert dqn.algorithm.require_config().num_updates_per_train_iter == 2  # type: ignore[operator]
    assert dqn.algorithm._target_updater._period == 50  # type: ignore[union-attr]


@pytest.mark.parametrize("model_class", [SAC, TD3, DDPG])
def test_critics_see_actions_from_minus_one_to_one(model_class: Any) -> None:
    two = UnitActions(np.array([-2.0, 0.0]), np.array([2.0, 1.0]))
    torch.testing.assert_close(
        two(torch.tensor([[-2.0, 0.0], [2.0, 1.0], [0.0, 0.5], [1.0, 0.25]])),
        torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [0.5, -0.5]]),
    )
    model = model_class("MlpPolicy", "Pendulum-v1", seed=0, policy_kwargs={"net_arch": [8]})
    seen = []
    for name, module in model.algorithm.named_modules():
        if name.startswith("_critic_networks") and name.endswith("joint.layers.0"):
            module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.algorithm._critic_networks((torch.zeros(3, 3), torch.tensor([[-2.0], [1.0], [2.0]])), ())
    assert seen[0][..., 3].reshape(-1, 3)[0].tolist() == [-1.0, 0.5, 1.0]


def test_entropy_of_sac_is_that_of_actions_from_minus_one_to_one() -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", seed=0)
    algorithm: Any = model.algorithm
    inputs = TimeStep(observation=torch.randn(5, 3), step_type=torch.ones(5, dtype=torch.int32))
    policy = algorithm._policy(inputs, inputs.observation, SacActionState())
    normal = policy.distribution.base
    before = torch.atanh(policy.action.detach() / 2)
    density = torch.distributions.Normal(normal.loc, normal.scale).log_prob(before) - torch.log(1 - before.tanh() ** 2)
    torch.testing.assert_close(policy.log_pi, density, rtol=1e-3, atol=1e-3)
    assert algorithm._target_entropy.tolist() == [-1.0]


@pytest.mark.parametrize("model_class", [PPO, A2C])
def test_values_begin_as_large_as_those_of_the_other_library(model_class: Any) -> None:
    def last_layer(**policy_kwargs: Any) -> Any:
        model = model_class("MlpPolicy", "CartPole-v1", seed=0, policy_kwargs={"net_arch": [16], **policy_kwargs})
        return list(model.algorithm._value_network.trunk.layers.children())[-1]

    orthogonal, usual = last_layer(), last_layer(ortho_init=False)
    assert orthogonal.weight.norm().item() == pytest.approx(1.0)
    assert orthogonal.bias.tolist() == [0.0]
    assert 0.15 < usual.weight.abs().max() <= 0.25  # 1 / sqrt(16)
    assert usual.bias.item() != 0


def test_batches_may_hold_a_transition_twice_as_in_the_other_library() -> None:
    model = DQN(
        "MlpPolicy", "CartPole-v1", seed=0, buffer_size=100, learning_starts=100, policy_kwargs={"net_arch": [4]}
    )
    model.learn(60)
    buffer: Any = model.algorithm.learning.buffer  # type: ignore[union-attr]
    positions = buffer.get_batch(50, 2)[1].positions
    assert len(set(positions.tolist())) < 50
