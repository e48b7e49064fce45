import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rein.envs import create_environment
from rein.envs.action_forms import UNBOUNDED, action_form

BOX = spaces.Box(-1, 1, (2,), np.float32)
DISCRETE = spaces.Discrete(3)


def offered(space, form="several"):
    found = action_form(space, form)
    return space if found is None else found.space


@pytest.mark.parametrize(
    "space",
    [DISCRETE, spaces.MultiDiscrete([2, 3]), BOX, spaces.Dict(a=DISCRETE, b=BOX), spaces.Tuple((BOX, BOX))],
    ids=str,
)
def test_what_fits_is_left_alone(space):
    assert action_form(space, "any") is None
    assert action_form(space, "several") is None


@pytest.mark.parametrize(
    ("space", "action", "expected"),
    [
        (spaces.Discrete(3, start=5), 2, 7),
        (spaces.MultiDiscrete([3, 2], start=[1, -2]), [2, 1], [3, -1]),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), [1, 2, 3, 4], [[1, 2], [3, 4]]),
        (spaces.MultiBinary(3), [1, 0, 1], [1, 0, 1]),
        (spaces.MultiBinary([2, 2]), [1, 0, 1, 1], [[1, 0], [1, 1]]),
        (spaces.Box(-2, 2, (2,), np.int32), [0, 4], [-2, 2]),
        (spaces.Box(3, 5, (), np.int64), 1, 4),
        (spaces.Box(-1, 1, (), np.float32), [0.5], 0.5),
    ],
    ids=str,
)
def test_actions_are_counted_from_zero_and_given_back_as_the_world_wants_them(space, action, expected):
    form = action_form(space, "several")
    given = form.decode(np.asarray(action))
    assert space.contains(given)
    np.testing.assert_array_equal(given, expected)
    batch = form.decode(np.asarray([action, action]))
    np.testing.assert_array_equal(batch, [expected, expected])


def test_boxes_without_bounds_get_some():
    form = action_form(spaces.Dict(a=spaces.Box(-np.inf, np.inf, (2,)), b=spaces.Box(3, np.inf, (1,))), "several")
    assert form.unbounded == ("a", "b")
    np.testing.assert_array_equal(form.space["a"].high, [UNBOUNDED] * 2)
    np.testing.assert_array_equal([form.space["b"].low[0], form.space["b"].high[0]], [3, 3 + UNBOUNDED])


def test_discrete_parts_become_one_in_the_order_of_the_last_counting_fastest():
    space = spaces.Tuple((DISCRETE, spaces.Discrete(2, start=4)))
    for name in ("one discrete", "discrete first"):
        form = action_form(space, name)
        assert form.space == spaces.Discrete(6)
        assert [tuple(int(x) for x in form.decode(i)) for i in range(6)] == [
            (0, 4),
            (0, 5),
            (1, 4),
            (1, 5),
            (2, 4),
            (2, 5),
        ]


def test_mixed_parts_become_the_pair_of_one_discrete_and_one_box():
    space = spaces.Dict(
        c=spaces.Tuple((BOX, spaces.Box(-1, 1, (1, 2), np.float32))), m=spaces.MultiBinary(2), z=DISCRETE
    )
    form = action_form(space, "discrete first")
    assert form.space[0] == spaces.Discrete(12)
    assert form.space[1].shape == (4,)
    action = form.decode((np.int64(7), np.array([0.1, 0.2, 0.3, 0.4], np.float32)))
    assert space.contains(action)
    assert (action["m"].tolist(), int(action["z"])) == ([1, 0], 1)
    np.testing.assert_allclose(action["c"][1], [[0.3, 0.4]], rtol=1e-6)
    assert offered(space, "one discrete") == offered(space)


def test_every_choice_is_met_once():
    space = spaces.Dict(a=spaces.MultiDiscrete([2, 3]), b=spaces.MultiBinary(2))
    form = action_form(space, "one discrete")
    met = {tuple(np.concatenate([form.decode(i)["a"], form.decode(i)["b"]]).tolist()) for i in range(24)}
    assert form.space == spaces.Discrete(24)
    assert len(met) == 24


@pytest.mark.parametrize(
    ("space", "form", "message"),
    [
        (spaces.MultiDiscrete([100, 100]), "one discrete", "10000 combinations.*use ppo"),
        (spaces.Box(-(10**6), 10**6, (2,), np.int64), "several", "use a Box of floats"),
        (DISCRETE, "odd", "choose one of"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(space, form, message):
    with pytest.raises(ValueError, match=message) as caught:
        action_form(space, form)
    assert "\n" not in str(caught.value)


class _Count(gym.Env):
    def __init__(self, action_space, mask=None):
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = action_space
        self.mask = mask

    def _info(self):
        return {} if self.mask is None else {"action_mask": np.array(self.mask, np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), self._info()

    def step(self, action):
        assert self.action_space.contains(action), action
        return np.zeros(2, np.float32), 0.0, False, False, self._info()


@pytest.mark.parametrize("backend", ["sync", "thread"])
def test_a_batch_offers_the_form_and_gives_worlds_their_own(backend):
    space = spaces.Dict(b=spaces.MultiBinary(2), s=spaces.Discrete(2, start=3))
    with create_environment(lambda: _Count(space), 2, backend, 0, action_form="several") as env:
        assert env.fitted_from == (space, "several")
        env.reset()
        env.step({key: spec.sample((2,)) for key, spec in env.action_spec.items()})
        assert not env.faults


def test_boxes_without_bounds_are_told(caplog):
    with create_environment(lambda: _Count(spaces.Box(-np.inf, np.inf, (2,))), seed=0, action_form="several"):
        assert "has no bounds, so the agent acts within 10" in caplog.text


def test_masks_are_observed_by_those_who_take_them_and_told_to_the_others(caplog):
    def masked():
        return _Count(DISCRETE, [1, 0, 1])

    with create_environment(masked, seed=0, action_form="several", action_masks=True) as env:
        assert env.reset().observation["valid_action_mask"].tolist() == [[True, False, True]]
    assert not caplog.text
    with create_environment(masked, seed=0, action_form="several") as env:
        assert env.reset().observation.shape == (1, 2)
    assert "is ignored: the algorithm takes none" in caplog.text


def test_by_default_nothing_is_changed_or_tried():
    space = spaces.MultiBinary(2)
    with create_environment(lambda: _Count(space, [1, 0]), seed=0) as env:
        assert env.fitted_from is None
        assert env.action_spec.dtype.is_signed
        assert tuple(env.reset().observation.shape) == (1, 2)
