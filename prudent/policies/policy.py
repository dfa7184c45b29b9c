"""A trained policy, read back from a run's folder."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from prudent.algorithms import build_for
from prudent.pieces.types import CostEstimate, PolicyNetwork, Spec
from prudent.policies.exported import (
    ACTIVATIONS,
    HEADS,
    make_actor,
    plain_forward,
    rescaled,
    unit_actor,
)
from prudent.policies.spaces import read_spaces
from prudent.runs.checkpoint import fill, load_newest
from prudent.runs.folder import RunFolder
from prudent.runs.snapshot import read_snapshot
from prudent.settings.run import Run
from prudent.statistics import cost_interval, mean_interval
from prudent.tasks.adapter import open_several
from prudent.tasks.episodes import (
    EVALUATION_SEED,
    Act,
    Episodes,
    accounting_of,
    check_finite,
    episode_seed,
    run_in_turns,
)
from prudent.tasks.task import Task, step_range

TOGETHER = 10  # environments that are stepped together


class Recorded(NamedTuple):
    """What a run's folder says of its environment, so that loading needs none."""

    spec: Spec  # what the algorithm knew of it
    spaces: dict[str, Any] | None  # see `prudent.policies.spaces`


class Policy:
    """Call it with an observation (or several, stacked) to get the greedy action(s).

    Observations and actions are as the environment's spaces have them. `sample` explores as
    training did. `unit_action` and `unit_sample` are for flat observations that need no check, and
    actions in [-1, 1].
    """

    def __init__(self, algorithm: Any, state: Any, recorded: Recorded, step: int) -> None:
        spec, self.recorded = recorded.spec, recorded
        self.step, self.state = step, state
        self._algorithm = algorithm
        self.spaces = read_spaces(recorded.spaces, spec.observation_size, spec.action_size)
        self._greedy = jax.jit(algorithm.act_greedily)
        self._sample = jax.jit(lambda s, o, t: algorithm.act(s, o, jax.random.key(t)))
        self.scale, self.centre = np.array(spec.action_scale), np.array(spec.action_centre)
        self._act: Callable[[Any], np.ndarray] | None = None  # made when it is first needed
        self._seeds = np.random.default_rng(0)  # of `predict`, whose callers name none

    def __repr__(self) -> str:
        sizes = f"{self.recorded.spec.observation_size} -> {self.recorded.spec.action_size}"
        return f"<Policy {sizes}, of step {self.step}>"

    def __call__(self, observation: Any) -> np.ndarray:
        if self._act is None:
            self._act = self._quick_actor()
        return self._act(observation)

    def _quick_actor(self) -> Callable[[Any], np.ndarray]:
        """In NumPy, since a dispatch to JAX costs more than most of these networks; if NumPy does
        what the algorithm says.
        """
        on_device = rescaled(self.unit_action, self.scale, self.centre)
        if self._algorithm.network is None or not is_plain(self.network()):
            return make_actor(on_device, self.spaces, inside=False)
        network, arrays = self.network(), self.plain_arrays()
        forward = plain_forward(arrays, network.activation, network.head)
        trials = np.random.default_rng(0).normal(size=(8, len(arrays["layers/0/weight"])))
        trials = trials.astype(np.float32)
        if not np.allclose(forward(trials.copy()), self.unit_action(trials), atol=1e-4):
            return make_actor(on_device, self.spaces, inside=False)
        return unit_actor(forward, self.scale, self.centre, self.spaces)

    def sample(self, observation: Any, seed: int) -> np.ndarray:
        return self._in_space(self.unit_sample(self.spaces.flat(observation), seed))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """As Stable-Baselines3 calls a policy. The state is not used and handed back."""
        if deterministic:
            return self(observation), state
        return self.sample(observation, int(self._seeds.integers(2**31))), state

    def cost_value(self, observation: Any, action: Any) -> CostEstimate:
        """What the critics believe that the action, and the policy after it, will cost: discounted,
        one number per observation.
        """
        if self._algorithm.cost_estimate is None:
            raise ValueError("the algorithm has no critic of what an action costs")
        seen = np.asarray(self.spaces.flat(observation), np.float32)
        flat = np.asarray(action, np.float32).reshape(*seen.shape[:-1], self.scale.size)
        unit = (flat - self.centre) / self.scale
        together = np.atleast_2d(seen), np.atleast_2d(unit).astype(np.float32)
        found = self._algorithm.cost_estimate(self.state, *together)
        parts: Any = (np.asarray(part).reshape(seen.shape[:-1]) for part in found)
        return CostEstimate(*parts)

    def unit_action(self, observation: np.ndarray) -> np.ndarray:
        return np.asarray(self._greedy(self.state, np.asarray(observation, np.float32)))

    def network(self) -> PolicyNetwork:
        """What acts greedily, as plain layers."""
        if self._algorithm.network is None:
            raise ValueError(
                "the algorithm does not say what its policy is as plain layers (network is None), "
                "so that it cannot be exported or named by a checksum"
            )
        found: PolicyNetwork = self._algorithm.network(self.state)
        return found

    def plain_arrays(self) -> dict[str, np.ndarray]:
        """The numbers that decide an action, named as `prudent.policies.exported` names them."""
        network = self.network()
        arrays = {"action/scale": self.scale, "action/centre": self.centre}
        if network.scaling is not None:
            arrays |= {f"observation/{name}": x for name, x in network.scaling._asdict().items()}
        if network.log_std is not None:
            arrays["action/log_std"] = network.log_std
        for index, layer in enumerate(network.layers):
            arrays |= {f"layers/{index}/{name}": array for name, array in layer.items()}
        return {name: np.asarray(array, np.float32) for name, array in arrays.items()}

    def unit_sample(self, observation: np.ndarray, seed: int) -> np.ndarray:
        return np.asarray(self._sample(self.state, np.asarray(observation, np.float32), seed))

    def _in_space(self, unit_action: np.ndarray) -> np.ndarray:
        return self.spaces.shaped(self.scale * unit_action + self.centre)


def is_plain(network: PolicyNetwork) -> bool:
    """Whether it can act outside JAX."""
    return network.activation in ACTIVATIONS and network.head in HEADS


def read_environment(record: dict[str, Any]) -> Recorded:
    """From what `run.json` holds."""
    fields = record["spec"]
    bounds = {name: tuple(fields[name]) for name in ("action_scale", "action_centre")}
    return Recorded(Spec(**{**fields, **bounds}), record.get("spaces"))


def complain(text: str) -> None:
    """Where it does not mix with results."""
    print(text, file=sys.stderr)


def load_policy(folder: RunFolder, step: int | None) -> Policy:
    """Of the newest checkpoint, or of the snapshot of that step."""
    recorded = read_environment(folder.content)
    algorithm = build_for(folder.run, recorded.spec)
    template = jax.eval_shape(algorithm.init, jax.random.key(0))
    if step is not None:
        return Policy(algorithm, read_snapshot(folder, step, template), recorded, step)
    found = load_newest(folder.path, folder.identity, complain, with_replay=False)
    if found is None:
        raise ValueError(f"{folder.path}: no checkpoint yet; the run has not finished its warm-up")
    state = fill(template, found.arrays, prefix="state/")
    return Policy(algorithm, state, recorded, found.facts["step"])


def evaluate_policy(
    policy: Policy, run: Run, task: Task, episodes: int, seed: int | None
) -> dict[str, Any]:
    """By default on the starts that training evaluated on, and further ones of their kind."""
    accounting = accounting_of(run)
    base = EVALUATION_SEED if seed is None else seed
    environments = open_several(task, min(TOGETHER, episodes))

    seeds = [episode_seed(base, index) for index in range(episodes)]

    def play(act: Act, count: int) -> Episodes:
        found = run_in_turns(act, environments, seeds[:count], accounting)
        check_finite(task.name, found, seeds[:count])
        return found

    try:
        greedy = play(
            lambda o, t: policy.unit_action(o), 1 if task.deterministic_reset else episodes
        )
        results = {
            "step": policy.step,
            "budget": run.budget,
            "evaluation": summary_of(greedy, run, task),
        }
        if task.deterministic_reset:
            sampled = play(policy.unit_sample, episodes)
            results["sampled_evaluation"] = summary_of(sampled, run, task)
        if task.shared or len(environments) < min(TOGETHER, episodes):
            results["environments"] = 1  # which ran all episodes, one after the other
    finally:
        for environment in environments:
            environment.close()
    return results


def summary_of(episodes: Episodes, run: Run, task: Task) -> dict[str, Any]:
    least, _ = step_range(task)
    can_be_negative = least < 0.0 or run.budget < 0.0
    return {
        **episodes.summary(run.budget),
        "return_interval": mean_interval(episodes.returns),
        "cost_interval": cost_interval(episodes.costs, can_be_negative),
    }
