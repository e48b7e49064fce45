"""`SchemeRollout`: the rollout of an algorithm whose environments are stepped by collectors."""

import math
from collections import deque
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, TimeStep
from rein.distributed.backends import Backend
from rein.distributed.collector import CollectJob
from rein.distributed.counters import counters_now
from rein.distributed.fragments import Fragment, after, beside, cut_short, padded, steps, with_distributions
from rein.distributed.metrics import GroupedMetrics
from rein.distributed.scheme import Scheme
from rein.distributed.team import Team
from rein.distributed.weights import Weights
from rein.distributions import distributions_to_params, extract_spec, index_distributions, map_params
from rein.envs import Environment
from rein.framework import RLAlgorithm
from rein.framework.acting.rollout import Rollout
from rein.runtime import summary
from rein.runtime.run import current_run
from rein.runtime.timers import timer
from rein.runtime.watching import current_watcher


class SchemeRollout(Rollout):
    """Takes what collectors have collected, as if it had been collected here.

    What goes to a replay buffer comes in fragments that are longer than what an iteration takes: they are in stock until
    their turn comes, so that updates and steps keep their ratio. The last step of a fragment waits for the step after it;
    should its collector die, it becomes the end of an episode.
    """

    def __init__(self, algorithm: RLAlgorithm, env: Environment, scheme: Scheme, team: Team, backend: Backend) -> None:
        """Collects nothing yet.

        Args:
            algorithm: the root algorithm.
            env: shows what environments are like; it is not stepped.
            scheme: how to collect.
            team: the collectors.
            backend: of the team; it is closed with the rollout.
        """
        super().__init__(algorithm, env)
        self._scheme, self._team, self._backend = scheme, team, backend
        self._num_envs = env.batch_size
        self.envs_per_iteration = env.batch_size
        if algorithm.require_config().trains_on_fresh_rollouts:
            # What a replay buffer gets is cut to what an iteration of one collector takes: see `collect_for_replay`.
            self.envs_per_iteration *= len(team) if scheme.collecting == "sync" else scheme.fragments_per_update
        self.env = _ManyEnvironments(env, len(team) * env.batch_size)  # type: ignore[assignment]
        self._weights = Weights(algorithm)
        self._metrics = GroupedMetrics(algorithm.metrics.window, len(team))
        algorithm._metrics = self._metrics
        self._numbers = 0
        self.version = 0
        """Of the weights that were published last."""
        self.dropped = 0
        """Fragments that were too old to learn from."""
        self.delivered = 0
        """Fragments that were learnt from or stored."""
        self._newest: dict[int, int] = {}
        self._ahead = 0
        self._stock: deque[tuple[Experience, Any]] = deque()
        self._open_ends: dict[int, Experience] = {}

    # Fragments.

    def _gather(self, length: int) -> list[Fragment]:
        """New fragments: of all collectors with the same weights, or the first that comes."""
        self.version += 1
        with timer("publish"):
            self._backend.publish(self._weights.flat(), self.version)
        with timer("collect"):
            if self._scheme.collecting == "sync":
                fragments = self._all_fragments(length)
            else:
                fragments = [self._first_fragment(length) for _ in range(self._scheme.fragments_per_update)]
        for fragment in fragments:
            self._take(fragment)
        watcher = current_watcher()
        if watcher is not None:
            watcher.saw_steps(beside([self._seen(fragment) for fragment in fragments]))
        self._summarize(fragments)
        return fragments

    def _seen(self, fragment: Fragment) -> TimeStep:
        """What the environments of a collector gave, [T, B, ...]; observations as the policy saw them."""
        count = len(fragment.episodes.step_type)
        time_step: TimeStep = steps(self._own_ids(fragment).time_step, 0, count)
        episodes = fragment.episodes
        return time_step._replace(step_type=episodes.step_type, reward=episodes.reward, env_info=episodes.env_info)

    def _all_fragments(self, length: int) -> list[Fragment]:
        self._ask(range(len(self._team)), length)
        answers: dict[int, Fragment] = {}
        enough = math.ceil(self._scheme.fraction_workers * len(self._team))
        while len(answers) < len(self._team):
            index, fragment = self._team.next_answer()
            answers[index] = fragment
            if self._scheme.preempts and len(answers) == enough:
                self._backend.stop_early(self._numbers)
        return [answers[index] for index in range(len(self._team))]

    def _first_fragment(self, length: int) -> Fragment:
        while True:
            idle = [index for index in range(len(self._team)) if index not in self._team.waiting_for]
            self._ask(idle, length)
            index, fragment = self._team.next_answer()
            # It goes on at once, with the weights of now, while its fragment is learnt from.
            self._ask([index], length)
            if self.version - fragment.version <= self._scheme.max_lag:
                return fragment
            self.dropped += 1
            self._skip(index)

    def _skip(self, index: int) -> None:
        """Notes that a fragment is missing: what comes next does not follow what came before."""
        self._team.lost.add(index)

    def _ask(self, indices: Any, length: int) -> None:
        counters = counters_now()
        least = math.ceil(length * self._scheme.fraction_samples) if self._scheme.preempts else length
        for index in indices:
            self._numbers += 1
            job = CollectJob(self._numbers, length, least, counters, self._weights.state.extra_states())
            self._team.ask(index, "collect", job)

    def _take(self, fragment: Fragment) -> None:
        # A collector has one job at a time, and numbers only grow.
        if fragment.number <= self._newest.get(fragment.collector, 0) or not 0 <= fragment.version <= self.version:
            raise RuntimeError(f"fragment {fragment.number} of version {fragment.version} came twice or from nowhere")
        self._newest[fragment.collector] = fragment.number
        self.delivered += 1
        if fragment.collector in self._team.lost:
            self._metrics.forget_group(fragment.collector)
        self._metrics.update_group(fragment.collector, fragment.episodes)
        if fragment.buffers:
            self._weights.state.load_buffers(fragment.buffers)

    def _summarize(self, fragments: list[Fragment]) -> None:
        if summary.should_record_summaries():
            summary.scalar("Scheme/policy_lag", float(max(self.version - one.version for one in fragments)))
            summary.scalar("Scheme/version", float(self.version))
            summary.scalar("Scheme/dropped_fragments", float(self.dropped))
            summary.scalar("Scheme/replaced_workers", float(self._team.replaced))

    # For learning from rollouts.

    def collect(self, length: int, with_grad: bool) -> Experience:
        """Takes `length` steps and looks at one more; see `Rollout.collect`. Collectors stand beside each other."""
        fragments = self._gather(length)
        self._team.lost.clear()
        spec = fragments[0].info_spec
        parts = [self._own_ids(fragment) for fragment in fragments]
        longest = max(len(part.step_type) for part in parts)
        experience = beside([padded(part, longest) for part in parts])
        self._algorithm[0].learning.rollout_info_spec = spec
        return with_distributions(experience, spec)

    def _own_ids(self, fragment: Fragment) -> Experience:
        """The experience with environments counted over all collectors."""
        experience, offset = fragment.experience, fragment.collector * self._num_envs
        time_step = experience.time_step
        if not isinstance(time_step.env_id, Tensor):
            return experience
        return experience._replace(time_step=time_step._replace(env_id=time_step.env_id + offset))

    # For a replay buffer.

    def collect_for_replay(self, length: int, with_grad: bool) -> Experience | None:
        """Stores `length` steps in the algorithm's replay buffer; see `Rollout.collect_for_replay`."""
        last = None
        algorithm = self._algorithm[0]
        # As many steps as without workers, so that each is followed by as many updates: collectors have their turns.
        wanted = length * self.envs_per_iteration - self._ahead
        while wanted > 0:
            if not self._stock:
                self._fill_stock()
            experience, spec = self._stock.popleft()
            count, envs = experience.time_step.step_type.shape[:2]
            if count > max(1, wanted // envs):
                count = max(1, wanted // envs)
                self._stock.appendleft((steps(experience, count, None), spec))
                experience = steps(experience, 0, count)
            wanted -= count * envs
            with timer("store"):
                whole = with_distributions(experience, spec)
                algorithm.observe_rollout_for_replay(whole)
            last = index_distributions(whole, -1)
        self._ahead = -wanted
        return last

    def _fill_stock(self) -> None:
        least = -(-self._scheme.fragment_steps // self._num_envs)
        length = max(2, least, int(self._algorithm[0].require_config().unroll_length))
        fragments = self._gather(length)
        parts = [self._with_open_end(fragment) for fragment in fragments]
        distinct = len({fragment.collector for fragment in fragments}) == len(fragments)
        if distinct and len({len(part.time_step.step_type) for part in parts}) == 1:
            self._stock.append((beside(parts), fragments[0].info_spec))
        else:
            self._stock.extend((part, fragments[0].info_spec) for part in parts)

    def _with_open_end(self, fragment: Fragment) -> Experience:
        """The fragment after the step that waited for it, without its own last step, which waits now."""
        index, experience = fragment.collector, self._own_ids(fragment)
        waited = self._open_ends.pop(index, None)
        if waited is not None and index in self._team.lost:
            waited = cut_short(waited)
        self._team.lost.discard(index)
        self._open_ends[index] = map_params(torch.clone, steps(experience, -1, None))
        ready: Experience = steps(experience, 0, -1)
        return ready if waited is None else after([waited, ready])

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Where the collectors stand and what is in stock; with "sync", going on from here is exact.

        Nobody waits for collectors that are at work: in the run that goes on from here they begin anew.
        """
        at_work = bool(self._team.waiting_for)
        ends = {str(index): nest.flatten(part) for index, part in self._open_ends.items()}
        return {
            "collectors": [None] * len(self._team) if at_work else self._team.ask_all("save"),
            "stock": [nest.flatten(part) for part, _ in self._stock],
            "open_ends": ends,
            "skipped": list(range(len(self._team))) if at_work else sorted(self._team.lost),
            "version": self.version,
            "numbers": self._numbers,
            "fraction": self._fraction,
            "ahead": self._ahead,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken."""
        if "collectors" not in state or len(state["collectors"]) != len(self._team):
            raise ValueError(
                f"the run was saved with {len(state.get('collectors', [0]))} collectors: resume it with as many, not with "
                f"{len(self._team)}"
            )
        seeds = current_run().spawn_seeds(len(self._team), f"collectors after {state['numbers']} fragments")
        for index, collector in enumerate(state["collectors"]):
            self._team.ask(index, "restore", collector, seeds[index])
        while self._team.waiting_for:
            self._team.next_answer()
        example = distributions_to_params(map_params(lambda tensor: tensor.unsqueeze(0), self.peek()))
        spec = extract_spec(self.peek().rollout_info)

        def part(leaves: list[Tensor]) -> Experience:
            packed: Experience = nest.pack_sequence_as(example, leaves)
            return packed

        self._stock = deque((part(leaves), spec) for leaves in state["stock"])
        self._open_ends = {int(index): part(leaves) for index, leaves in state["open_ends"].items()}
        self._team.lost.update(state["skipped"])
        self.version, self._numbers, self._fraction = state["version"], state["numbers"], state["fraction"]
        self._ahead = state.get("ahead", 0)

    def close(self) -> None:
        """Ends the collectors."""
        self._backend.close()


class _ManyEnvironments:
    """The environments of all collectors, as far as the updater asks about them: their number, and what one shows."""

    def __init__(self, env: Environment, batch_size: int) -> None:
        self._env, self.batch_size = env, batch_size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)
