import threading
import time

import pytest
import torch

from rein import nest
from rein.data_structures import BatchInfo, Experience, StepType, TimeStep
from rein.replay import MissingStepsError, ReplayBuffer, RingBuffer, plain_torch
from rein.specs import TensorSpec

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST
SPEC = TimeStep(
    step_type=TensorSpec((), torch.int32),
    reward=TensorSpec(()),
    discount=TensorSpec(()),
    observation=TensorSpec((2,)),
)


def step(kinds: list[int], numbers: list[float], discounts: list[float] | None = None) -> TimeStep:
    values = torch.tensor(numbers, dtype=torch.float32)
    return TimeStep(
        step_type=torch.tensor(kinds, dtype=torch.int32),
        reward=values,
        discount=torch.tensor(discounts or [1.0] * len(kinds)),
        observation=torch.stack([values, -values], dim=1),
    )


def make(num_envs: int = 1, max_length: int = 4, **options: object) -> ReplayBuffer:
    return ReplayBuffer(SPEC, num_envs, max_length, **options)


def fill(buffer: ReplayBuffer, count: int) -> None:
    for number in range(count):
        buffer.add_batch(step([M] * buffer.num_environments, [float(number)] * buffer.num_environments))


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def path(request: pytest.FixtureRequest) -> object:
    """Runs every test on both ways of doing the work."""
    if request.param == "compiled":
        yield
    else:
        with plain_torch():
            yield


def test_positions_grow_and_indices_wrap() -> None:
    buffer = make(num_envs=2, max_length=3)
    fill(buffer, 5)
    assert buffer.current_pos.tolist() == [5, 5]
    assert buffer.current_size.tolist() == [3, 3]
    assert buffer.total_size == 6
    assert buffer.get_earliest_position().tolist() == [2, 2]
    assert buffer.circular(torch.tensor([2, 3, 4])).tolist() == [2, 0, 1]
    assert buffer.buffer.reward.shape == (2, 3)
    assert buffer.buffer.reward.tolist() == [[3, 4, 2]] * 2
    assert buffer.buffer.observation.shape == (2, 3, 2)


def test_environments_progress_unevenly() -> None:
    buffer = make(num_envs=3)
    buffer.add_batch(step([F, F], [1, 2]), torch.tensor([2, 0]))
    buffer.add_batch(step([M], [3]), torch.tensor([2]))
    assert buffer.current_pos.tolist() == [1, 0, 2]
    reward = buffer.get_field("reward", torch.tensor([0, 2, 2]), torch.tensor([0, 0, 1]))
    assert reward.tolist() == [2, 1, 3]
    batch, info = buffer.get_batch(3, 1)
    assert info.env_ids.tolist() == [0, 2, 2]
    assert batch.reward.tolist() == [[2], [1], [3]]


def test_batch_is_a_sequence_of_one_environment_across_the_seam() -> None:
    buffer = make(num_envs=2, max_length=5)
    for number in range(8):
        buffer.add_batch(step([M, M], [float(number), 100.0 + number]))
    batch, info = buffer.get_batch(6, 3)
    assert batch.observation.shape == (6, 3, 2)
    assert info.env_ids.tolist() == [0, 0, 0, 1, 1, 1]
    assert info.positions.tolist() == [3, 4, 5, 3, 4, 5]
    assert batch.reward[0].tolist() == [3, 4, 5]
    assert batch.reward[5].tolist() == [105, 106, 107]
    assert info.replay_buffer is buffer
    assert info.importance_weights == ()


def test_sampling_more_than_there_is_repeats_evenly() -> None:
    buffer = make(max_length=4)
    fill(buffer, 4)
    _, info = buffer.get_batch(10, 2)
    counts = torch.bincount(info.positions, minlength=3)
    assert int(counts.sum()) == 10
    assert sorted(counts.tolist()) == [3, 3, 4]


def test_sampling_without_replacement_never_repeats() -> None:
    buffer = make(num_envs=3, max_length=40)
    fill(buffer, 40)
    for _ in range(200):
        _, info = buffer.get_batch(50, 1)
        keys = info.env_ids * 1000 + info.positions
        assert len(torch.unique(keys)) == 50
        assert keys.tolist() == sorted(keys.tolist())


def test_same_seed_gives_the_same_batches() -> None:
    buffer = make(num_envs=2, max_length=100)
    fill(buffer, 100)
    torch.manual_seed(3)
    first = buffer.get_batch(16, 2)[1].positions
    torch.manual_seed(3)
    assert torch.equal(first, buffer.get_batch(16, 2)[1].positions)


def test_own_generator_leaves_the_global_one_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    buffer = make(num_envs=2, max_length=100, generator=generator)
    fill(buffer, 100)
    state = torch.get_rng_state()
    first = buffer.get_batch(16, 2)[1].positions
    assert torch.equal(state, torch.get_rng_state())
    generator.manual_seed(0)
    assert torch.equal(first, buffer.get_batch(16, 2)[1].positions)


def test_recent_data_ratio() -> None:
    buffer = make(num_envs=2, max_length=1000, recent_data_steps=5, recent_data_ratio=0.5)
    fill(buffer, 1000)
    _, info = buffer.get_batch(20, 1)
    assert int((info.positions >= 995).sum()) >= 10
    assert info.env_ids.tolist() == sorted(info.env_ids.tolist())
    buffer = make(max_length=1000, recent_data_steps=600, recent_data_ratio=0.5, with_replacement=True)
    fill(buffer, 1000)
    shares = [float((buffer.get_batch(100, 1)[1].positions >= 400).float().mean()) for _ in range(50)]
    assert sum(shares) / 50 == pytest.approx(0.6, abs=0.05), "uniform sampling gives more than half anyway"


def test_all_recent() -> None:
    buffer = make(max_length=100, recent_data_steps=3, recent_data_ratio=1.0)
    fill(buffer, 100)
    assert buffer.get_batch(3, 2)[1].positions.tolist() == [96, 97, 98]


def test_earliest_frames_are_not_sampled() -> None:
    for prioritized in (False, True):
        buffer = make(max_length=6, num_earliest_frames_ignored=2, prioritized_sampling=prioritized)
        assert buffer.keep_episodic_info
        fill(buffer, 9)
        positions = torch.cat([buffer.get_batch(4, 2)[1].positions for _ in range(20)])
        assert sorted(set(positions.tolist())) == [5, 6, 7]


def test_priorities_by_hand() -> None:
    buffer = make(num_envs=2, max_length=4, prioritized_sampling=True, initial_priority=2.0)
    fill(buffer, 3)
    assert buffer.initial_priority == 2
    env_ids, positions = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 0, 1])
    buffer.update_priority(env_ids, positions, torch.tensor([0.0, 0.0, 6.0, 0.0, 0.0]))
    assert buffer.initial_priority == 6
    _, info = buffer.get_batch(4, 1)
    assert set(zip(info.env_ids.tolist(), info.positions.tolist(), strict=True)) == {(0, 2), (1, 2)}
    weights = dict(zip(info.env_ids.tolist(), info.importance_weights.tolist(), strict=True))
    assert weights == {0: 6 / 4, 1: 2 / 4}
    fill(buffer, 1)
    assert float(buffer._priorities.tree.summary()) == 6 + 2 + 6 + 6


def test_overwritten_steps_keep_their_new_priority() -> None:
    buffer = make(max_length=3, prioritized_sampling=True)
    fill(buffer, 4)
    buffer.update_priority(torch.tensor([0]), torch.tensor([0]), torch.tensor([50.0]))
    assert buffer.initial_priority == 1


@pytest.mark.parametrize("bad", [float("nan"), -1.0, float("inf")])
def test_bad_priorities_are_refused_and_change_nothing(bad: float) -> None:
    buffer = make(max_length=3, prioritized_sampling=True)
    fill(buffer, 3)
    with pytest.raises(ValueError, match="priority 1 for ReplayBuffer"):
        buffer.update_priority(torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([5.0, bad]))
    assert float(buffer._priorities.tree.summary()) == 3


def test_bad_steps_in_update_priority() -> None:
    buffer = make(max_length=3, prioritized_sampling=True)
    fill(buffer, 3)
    one = torch.tensor([1.0])
    with pytest.raises(ValueError, match="never stored position 3"):
        buffer.update_priority(torch.tensor([0]), torch.tensor([3]), one)
    with pytest.raises(ValueError, match="environment 7"):
        buffer.update_priority(torch.tensor([7]), torch.tensor([0]), one)
    with pytest.raises(ValueError, match="shapes"):
        buffer.update_priority(torch.tensor([0, 0]), torch.tensor([0, 1]), one)
    with pytest.raises(ValueError, match="prioritized_sampling=True"):
        make().update_priority(torch.tensor([0]), torch.tensor([0]), one)


def test_changing_the_batch_length_keeps_starts_right() -> None:
    buffer = make(max_length=6, prioritized_sampling=True)
    fill(buffer, 6)
    assert set(buffer.get_batch(30, 4)[1].positions.tolist()) == {0, 1, 2}
    assert set(buffer.get_batch(60, 1)[1].positions.tolist()) == {0, 1, 2, 3, 4, 5}
    fill(buffer, 1)
    assert set(buffer.get_batch(30, 5)[1].positions.tolist()) == {1, 2}


def test_episodes_by_hand() -> None:
    buffer = make(max_length=6, keep_episodic_info=True)
    kinds = [F, M, L, F, M, M, L, F, M]
    discounts = [1, 1, 0, 1, 1, 1, 1, 1, 1]
    for number, (kind, discount) in enumerate(zip(kinds, discounts, strict=True)):
        buffer.add_batch(step([kind], [float(number)], [float(discount)]))
    positions = torch.arange(3, 9)
    env_ids = torch.zeros(6, dtype=torch.int64)
    assert buffer.get_episode_begin_position(positions, env_ids).tolist() == [3, 3, 3, 3, 7, 7]
    assert buffer.steps_to_episode_end(positions, env_ids).tolist() == [3, 2, 1, 0, 1, 0]
    assert buffer.get_disc_0_begin_position(positions, env_ids).tolist() == [2] * 6
    buffer.add_batch(step([M], [9.0]))
    positions = torch.tensor([[4, 5], [6, 9]])
    assert buffer.get_episode_begin_position(positions, torch.tensor([0])).tolist() == [[3, 3], [3, 7]]
    assert buffer.steps_to_episode_end(positions, torch.tensor(0)).tolist() == [[2, 1], [0, 0]]


def test_episode_longer_than_the_buffer() -> None:
    buffer = make(max_length=3, keep_episodic_info=True)
    for number in range(10):
        buffer.add_batch(step([F if number == 0 else M], [float(number)]))
    env_ids, positions = torch.zeros(3, dtype=torch.int64), torch.arange(7, 10)
    assert buffer.get_episode_begin_position(positions, env_ids).tolist() == [0, 0, 0]
    assert buffer.steps_to_episode_end(positions, env_ids).tolist() == [2, 1, 0]
    buffer.add_batch(step([L], [10.0]))
    buffer.add_batch(step([F], [11.0]))
    assert buffer.steps_to_episode_end(torch.arange(9, 12), env_ids).tolist() == [1, 0, 0]


def test_episodes_need_to_be_kept() -> None:
    with pytest.raises(ValueError, match="keep_episodic_info=True"):
        make().steps_to_episode_end(torch.tensor([0]), torch.tensor([0]))
    with pytest.raises(ValueError, match="step_type"):
        ReplayBuffer(TensorSpec(()), 1, keep_episodic_info=True)
    with pytest.raises(ValueError, match="need keep_episodic_info"):
        make(keep_episodic_info=False, record_episodic_return=True)


def test_returns_by_hand() -> None:
    buffer = make(num_envs=2, max_length=8, record_episodic_return=True, gamma=0.5, default_return=-9.0)
    terminated = [(F, 0.0, 1.0), (M, 1.0, 1.0), (M, 2.0, 1.0), (L, 4.0, 0.0)]
    timed_out = [(F, 0.0, 1.0), (M, 1.0, 1.0), (M, 2.0, 1.0), (L, 4.0, 1.0)]
    for (k1, r1, d1), (k2, r2, d2) in zip(terminated, timed_out, strict=True):
        buffer.add_batch(step([k1, k2], [r1, r2], [d1, d2]))
    _, info = buffer.get_batch(2, 4)
    assert info.discounted_return.tolist() == [[3.0, 4.0, 4.0, -9.0], [-9.0] * 4]


def test_returns_are_known_as_soon_as_a_discount_of_zero_comes() -> None:
    buffer = make(num_envs=1, max_length=8, record_episodic_return=True, gamma=0.5, default_return=-9.0)
    for kind, reward, discount in [(F, 0.0, 1.0), (M, 1.0, 1.0), (M, 2.0, 0.0), (M, 8.0, 1.0)]:
        buffer.add_batch(step([kind], [reward], [discount]))
    assert buffer.get_batch(1, 4)[1].discounted_return.tolist() == [[2.0, 2.0, -9.0, -9.0]]
    buffer.add_batch(step([M], [4.0], [0.0]))
    buffer.add_batch(step([L], [1.0], [1.0]))
    assert buffer.get_batch(1, 6)[1].discounted_return.tolist() == [[2.0, 2.0, 10.0, 4.0, -9.0, -9.0]]


@pytest.mark.parametrize("kind", [ValueError, AssertionError])
def test_steps_that_are_not_there_are_both_kinds_of_error(kind: type[Exception]) -> None:
    buffer = make(num_envs=2, max_length=4)
    with pytest.raises(kind, match="was asked for 1 steps"):
        buffer.dequeue()
    with pytest.raises(kind, match="n is 5"):
        buffer.dequeue(n=5)
    with pytest.raises(kind, match="0 steps per environment"):
        buffer.gather_all()
    buffer.add_batch(step([F], [0.0]), torch.tensor([1]))
    with pytest.raises(MissingStepsError, match=r"different sizes: \[0, 1\]"):
        buffer.gather_all()


def test_returns_with_clipped_rewards() -> None:
    buffer = make(max_length=8, record_episodic_return=True, gamma=1.0, reward_clip=(-1.0, 1.0))
    for kind, reward, discount in [(F, 0.0, 1.0), (M, 5.0, 1.0), (L, -7.0, 0.0)]:
        buffer.add_batch(step([kind], [reward], [discount]))
    _, info = buffer.get_batch(1, 3)
    assert info.discounted_return.tolist() == [[0.0, -1.0, -1000.0]]


def test_get_field_broadcasts_and_takes_nests_of_names() -> None:
    spec = Experience(time_step=SPEC, action={"a": TensorSpec((), torch.int64), "b": TensorSpec((2,))})
    buffer = ReplayBuffer(spec, 2, 4)
    for number in range(3):
        actions = {"a": torch.tensor([number, 10 + number]), "b": torch.full((2, 2), float(number))}
        buffer.add_batch(Experience(time_step=step([M, M], [float(number), 10.0 + number]), action=actions))
    names = {"x": "time_step.reward", "y": ("action.a", "action")}
    fields = buffer.get_field(names, torch.tensor([[0], [1]]), torch.tensor([[0, 2]]))
    assert fields["x"].tolist() == [[0, 2], [10, 12]]
    assert fields["y"][0].tolist() == [[0, 2], [10, 12]]
    assert fields["y"][1]["b"].shape == (2, 2, 2)
    with pytest.raises(ValueError, match=r"no field 'action\.c'"):
        buffer.get_field("action.c", torch.tensor([0]), torch.tensor([0]))


def test_get_field_says_what_is_there() -> None:
    buffer = make(max_length=3)
    fill(buffer, 5)
    for position in (1, 5):
        with pytest.raises(ValueError, match="positions 2 to 4"):
            buffer.get_field("reward", torch.tensor([0]), torch.tensor([position]))
    with pytest.raises(ValueError, match="no environment 1"):
        buffer.get_field("reward", torch.tensor([1]), torch.tensor([3]))
    with pytest.raises(TypeError, match="int64"):
        buffer.get_field("reward", torch.tensor([0.0]), torch.tensor([3]))


def test_results_are_copies() -> None:
    buffer = make(max_length=3)
    fill(buffer, 3)
    batch, _ = buffer.get_batch(2, 1)
    batch.reward.fill_(77)
    buffer.get_field("reward", torch.tensor([0]), torch.tensor([1])).fill_(88)
    assert buffer.gather_all()[0].reward.tolist() == [[0, 1, 2]]


def test_gather_all() -> None:
    buffer = make(num_envs=2, max_length=4, num_earliest_frames_ignored=1)
    for number in range(6):
        buffer.add_batch(step([M, M], [float(number), 10.0 + number]))
    batch, info = buffer.gather_all()
    assert batch.reward.tolist() == [[2, 3, 4, 5], [12, 13, 14, 15]]
    assert info.env_ids.tolist() == [0, 1]
    assert info.positions.tolist() == [2, 2]
    batch, info = buffer.gather_all(ignore_earliest_frames=True)
    assert batch.reward.tolist() == [[3, 4, 5], [13, 14, 15]]
    assert info.positions.tolist() == [3, 3]
    buffer.clear(torch.tensor([1]))
    with pytest.raises(ValueError, match=r"different sizes: \[4, 0\]"):
        buffer.gather_all()
    buffer.clear()
    with pytest.raises(ValueError, match="0 steps"):
        buffer.gather_all()


def test_clear_keeps_positions_growing() -> None:
    buffer = make(max_length=4, prioritized_sampling=True, keep_episodic_info=True)
    fill(buffer, 3)
    buffer.clear()
    assert buffer.total_size == 0
    with pytest.raises(ValueError, match=r"they have \[0\]"):
        buffer.get_batch(1, 1)
    fill(buffer, 1)
    assert buffer.get_batch(2, 1)[1].positions.tolist() == [3, 3]


def test_dequeue_by_hand() -> None:
    buffer = make(num_envs=2, max_length=4)
    fill(buffer, 5)
    first = buffer.dequeue(n=3)
    assert first.reward.tolist() == [[1, 2, 3]] * 2
    assert buffer.current_size.tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"asked for 2 steps .* have \[1, 1\]"):
        buffer.dequeue(n=2)
    assert buffer.dequeue(torch.tensor([1])).reward.tolist() == [[4]]
    assert buffer.current_size.tolist() == [1, 0]


def test_end_open_episodes() -> None:
    buffer = make(num_envs=2, max_length=4, keep_episodic_info=True)
    buffer.add_batch(step([F, F], [0.0, 0.0]))
    buffer.add_batch(step([M, L], [1.0, 1.0], [1.0, 0.0]))
    buffer.end_open_episodes()
    assert buffer.gather_all()[0].step_type.tolist() == [[F, L], [F, L]]
    buffer.add_batch(step([M, F], [2.0, 2.0]))
    begins = buffer.get_episode_begin_position(torch.tensor([2, 2]), torch.tensor([0, 1]))
    assert begins.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (lambda: step([M], [1.0]), "should hold 2 steps"),
        (lambda: step([M, M], [1.0, 2.0])._replace(reward=torch.zeros(2, 3)), "reward"),
        (lambda: step([M, M], [1.0, 2.0])._replace(reward=torch.zeros(2, dtype=torch.float64)), "float64"),
        (lambda: step([M, M], [1.0, 2.0])._replace(reward=()), "reward"),
        (lambda: step([M, M], [1.0, 2.0])._replace(observation={"x": torch.zeros(2, 2)}), "observation"),
        (lambda: (torch.zeros(2),), "differ in structure"),
    ],
)
def test_bad_batches_name_what_is_wrong(batch: object, message: str) -> None:
    buffer = make(num_envs=2)
    with pytest.raises((ValueError, TypeError), match=message):
        buffer.add_batch(batch())
    assert buffer.total_size == 0


def test_bad_batch_types() -> None:
    with pytest.raises(TypeError, match="float at 'reward'"):
        make().add_batch(step([M], [1.0])._replace(reward=1.0))


@pytest.mark.parametrize("env_ids", [[0, 2], [-1, 0], [1, 1]])
def test_bad_env_ids(env_ids: list[int]) -> None:
    buffer = make(num_envs=2)
    with pytest.raises(ValueError, match="distinct numbers from 0 to 1"):
        buffer.add_batch(step([M, M], [1.0, 2.0]), torch.tensor(env_ids))


def test_bad_arguments() -> None:
    for options in (
        {"num_environments": 0},
        {"max_length": 0},
        {"initial_priority": 0.0},
        {"recent_data_ratio": 1.5},
        {"recent_data_steps": 0},
        {"num_earliest_frames_ignored": -1},
        {"storage": "disk"},
        {"storage": "mmap"},
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            ReplayBuffer(**{"data_spec": SPEC, "num_environments": 1, **options})
    with pytest.raises(ValueError, match="no tensors"):
        ReplayBuffer((), 1)
    with pytest.raises(TypeError, match="TensorSpec"):
        ReplayBuffer({"a": 3}, 1)
    with pytest.raises(ValueError, match="0 sequences"):
        make().get_batch(0, 1)


def test_non_contiguous_and_differentiable_inputs() -> None:
    buffer = make(num_envs=2)
    observation = torch.arange(4.0).reshape(2, 2).T.requires_grad_()
    buffer.add_batch(step([M, M], [1.0, 2.0])._replace(observation=observation))
    stored, _ = buffer.gather_all()
    assert stored.observation[:, 0].tolist() == [[0, 2], [1, 3]]
    assert not stored.observation.requires_grad


def test_fields_of_many_dtypes_survive() -> None:
    dtypes = [torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.float64, torch.complex64]
    spec = [TensorSpec((3,), dtype) for dtype in dtypes] + [TensorSpec((0,)), TensorSpec((40, 40))]
    buffer = ReplayBuffer(spec, 2, 3)
    batch = [torch.tensor([[0, 1, 0], [1, 1, 0]]).to(dtype) for dtype in dtypes]
    batch += [torch.zeros(2, 0), torch.rand(2, 40, 40)]
    for _ in range(4):
        buffer.add_batch(batch)
    read, _ = buffer.gather_all()
    for given, got in zip(batch, read, strict=True):
        assert torch.equal(given, got[:, -1])
        assert got.is_contiguous()


def test_memory_stays_close_to_the_raw_data() -> None:
    spec = Experience(
        time_step=TimeStep(
            step_type=TensorSpec((), torch.int32),
            reward=TensorSpec(()),
            discount=TensorSpec(()),
            observation=TensorSpec((17,)),
            prev_action=TensorSpec((6,)),
            env_id=TensorSpec((), torch.int64),
        ),
        action=TensorSpec((6,)),
    )
    raw = sum(leaf.numel * leaf.dtype.itemsize for leaf in nest.flatten(spec)) * 8 * 1000
    assert ReplayBuffer(spec, 8, 1000).memory_bytes <= 1.05 * raw
    assert ReplayBuffer(spec, 8, 1000, prioritized_sampling=True).memory_bytes <= 1.05 * raw


def test_state_dict_restores_exactly() -> None:
    options = {"prioritized_sampling": True, "record_episodic_return": True}
    buffer, copy = make(2, 5, **options), make(2, 5, **options)
    for number in range(13):
        kinds = [F if number % 5 == 0 else L if number % 5 == 4 else M] * 2
        buffer.add_batch(step(kinds, [float(number)] * 2, [float(number % 5 < 4)] * 2))
        if number == 7:
            buffer.remove_up_to(2, torch.tensor([1]))
    info = buffer.get_batch(4, 2)[1]
    buffer.update_priority(info.env_ids, info.positions, torch.tensor([0.5, 3.0, 2.0, 1.0]))
    copy.load_state_dict(buffer.state_dict())
    for _ in range(3):
        state = torch.get_rng_state()
        first = buffer.get_batch(6, 2)
        torch.set_rng_state(state)
        second = copy.get_batch(6, 2)
        for a, b in zip(nest.flatten(drop(first)), nest.flatten(drop(second)), strict=True):
            assert torch.equal(a, b)
        for each in (buffer, copy):
            each.add_batch(step([M, M], [50.0, 51.0]))


def drop(sample: tuple[TimeStep, BatchInfo]) -> tuple[TimeStep, BatchInfo]:
    return sample[0], sample[1]._replace(replay_buffer=())


def test_state_dict_holds_only_what_is_stored() -> None:
    buffer = make(num_envs=2, max_length=1000)
    fill(buffer, 3)
    state = buffer.state_dict()
    assert state["rows_0"].shape[0] == 6


def test_state_of_another_buffer_is_refused() -> None:
    state = make(max_length=4).state_dict()
    for other in (make(max_length=5), make(num_envs=2), ReplayBuffer(TensorSpec(()), 1, 4)):
        with pytest.raises(ValueError, match="does not fit"):
            other.load_state_dict(state)
    with pytest.raises(ValueError, match="lacks priorities"):
        make(max_length=4, prioritized_sampling=True).load_state_dict(state)
    del state["rows_0"]
    with pytest.raises(ValueError, match="lacks rows_0"):
        make(max_length=4).load_state_dict(state)


def test_damaged_state_is_refused_and_changes_nothing() -> None:
    buffer = make(max_length=4)
    fill(buffer, 3)
    for key, value in (
        ("rows_0", torch.zeros(1, 1, dtype=torch.uint8)),
        ("current_size", torch.tensor([9])),
        ("current_pos", torch.tensor([1, 2])),
    ):
        with pytest.raises(ValueError, match="damaged"):
            buffer.load_state_dict({**buffer.state_dict(), key: value})
        assert buffer.gather_all()[0].reward.tolist() == [[0, 1, 2]]


def test_blocking_add_waits_for_space_and_dequeue_for_data() -> None:
    buffer = RingBuffer(TensorSpec(()), 1, 2)
    received: list[float] = []

    def consume() -> None:
        while (item := buffer.dequeue(blocking=True)) is not None:
            received.append(float(item))

    thread = threading.Thread(target=consume)
    thread.start()
    for number in range(50):
        assert buffer.add_batch(torch.tensor([float(number)]), blocking=True)
    while len(received) < 50:
        time.sleep(0.001)
    buffer.stop()
    thread.join(10)
    assert received == [float(number) for number in range(50)]
    assert not thread.is_alive()


def test_stopped_buffer_does_not_wait_until_revived() -> None:
    buffer = RingBuffer(TensorSpec(()), 1, 1)
    one = torch.tensor([1.0])
    assert buffer.add_batch(one, blocking=True)
    buffer.stop()
    assert not buffer.add_batch(one, blocking=True)
    buffer.clear()
    assert buffer.dequeue(blocking=True) is None
    buffer.revive()
    assert buffer.add_batch(one, blocking=True)
    assert buffer.dequeue(blocking=True).tolist() == [[1.0]]


def test_ring_buffer_questions() -> None:
    buffer = RingBuffer(TensorSpec(()), 2, 2)
    assert buffer.has_space()
    assert not buffer.has_data()
    buffer.enqueue(torch.tensor([1.0]), torch.tensor([1]))
    buffer.enqueue(torch.tensor([2.0]), torch.tensor([1]))
    assert buffer.has_data(torch.tensor([1]), 2)
    assert not buffer.has_space()
    assert buffer.has_space(torch.tensor([0]))
    buffer.remove_up_to(1, torch.tensor([1]))
    assert buffer.current_size.tolist() == [0, 1]
    assert "total_size=1" in repr(buffer)
    with pytest.raises(ValueError, match="keeps 2 steps"):
        buffer.dequeue(n=3)
