"""Per-task values: the only place that has them.

`paper` follows the paper's text, its gaps filled from the first public code; `head` follows the
official repository's current code and README, which re-tuned nearly everything; `default` is for an
environment of one's own. Walker2d and Swimmer are not in the paper and take Hopper's values.

The other algorithms have `paper`, the settings of the paper's own runs of them, and `matched`: the
same networks and rates, but CAL's `head` schedule, for comparisons at equal work (CVPO on velocity
tasks keeps its blocks of one episode).
"""

from dataclasses import fields, replace
from typing import Any

from prudent.algorithms import ALGORITHMS, ON_POLICY
from prudent.configs import AlgorithmConfig, OnPolicySchedule, Schedule

PRESETS = ("paper", "head", "default")
BASELINE_PRESETS = ("paper", "matched", "default")
ON_POLICY_PRESETS = ("paper", "default")

# What makes CAL's file another algorithm.
VARIANTS: dict[str, dict[str, Any]] = {
    "cal": {},
    "ucb": {"convexity": 0.0},
    "sac-lag": {"cost_critics": 1, "conservatism": 0.0, "convexity": 0.0, "random_targets": 0},
    "sac": {
        "cost_critics": 1,
        "conservatism": 0.0,
        "convexity": 0.0,
        "random_targets": 0,
        "multiplier": "fixed",
        "initial_multiplier": 0.0,
    },
}

# The on-policy algorithms as the public code has them that the paper took them from: the same for
# every task, so that `paper` and `default` are one.
NORMALISED: dict[str, Any] = {"normalise_reward": True, "normalise_cost": True}
SECOND_ORDER: dict[str, Any] = {
    "passes": 10,
    "batch_size": 128,
    "max_divergence": 0.01,
    "critic_learning_rate": 1e-3,
}
VARIANTS |= {
    "ppo": {},
    "ppo-lag": {},
    "cppo-pid": {},
    "pdo": NORMALISED,
    "ipo": {**NORMALISED, "passes": 10},
    "rcpo": SECOND_ORDER,
    "crpo": SECOND_ORDER,
    "cup": {
        "epoch_steps": 2048,
        "cost_window": None,
        "passes": 10,
        "divergence": "from_new",
        "max_critic_gradient_norm": None,
        "rate_decay": "all",
        "standardise_cost": True,
        "multiplier": "projected_sgd",
        "multiplier_learning_rate": 0.01,
        "initial_multiplier": 0.0,
        "largest_multiplier": 2.0,
        "initial_weights": "tanh-uniform-small",
        "initial_log_std": -0.5,
        "timeout_is_terminal": True,
    },
}

PAPER: dict[str, Any] = {
    "cost_network": "relu-xavier",
    "cost_loss": "sum",  # each member has an optimiser of its own
    "cost_learning_rate": 5e-4,
    "updates_per_step": 20,
}
HEAD: dict[str, Any] = {}  # the defaults of the dataclasses
VELOCITY: dict[str, Any] = {"timeout_is_terminal": True, "steps": 300_000}
NAVIGATION: dict[str, Any] = {"steps": 200_000}

FAMILIES: dict[str, dict[str, Any]] = {"velocity": VELOCITY, "navigation": NAVIGATION, "other": {}}

PAPER_TASKS: dict[str, dict[str, Any]] = {
    "hopper-velocity": {},
    "walker2d-velocity": {},
    "swimmer-velocity": {},
    "halfcheetah-velocity": {"convexity": 1000.0, "updates_per_step": 40},
    "ant-velocity": {"convexity": 100.0},
    "humanoid-velocity": {"convexity": 1000.0, "updates_per_step": 10},
    "point-push1": {"conservatism": 0.8},
}
HEAD_TASKS: dict[str, dict[str, Any]] = {
    "hopper-velocity": {},
    "walker2d-velocity": {},
    "swimmer-velocity": {},
    "halfcheetah-velocity": {"convexity": 1000.0, "updates_per_step": 20, "cost_critics": 8},
    "ant-velocity": {"convexity": 100.0, "cost_critics": 8},
    "humanoid-velocity": {"convexity": 1000.0, "conservatism": 0.0, "random_targets": 4},
}
# The paper's runs of its baselines, as far as it and their code say.
BY_EPISODE: dict[str, Any] = {"update_unit": "episodes", "updates_cap": None}
BASELINES: dict[str, dict[str, Any]] = {
    "sac-pid": {
        **BY_EPISODE,
        "warmup_steps": 0,
        "updates_per_step": 0.13325,  # 1066 for 20 navigation episodes of 400 steps
        "update_every": 20,
        "batch_size": 300,
        "replay_capacity": 20_000,
    },
    "wcsac": {
        "warmup_steps": 500,
        "updates_per_step": 1,
        "update_every": 100,
        "updates_cap": None,
        "batch_size": 256,
    },
    "cvpo": {
        **BY_EPISODE,
        "warmup_steps": 0,
        "updates_per_step": 0.13325,
        "update_every": 20,
        "batch_size": 300,
        "replay_capacity": 80_000,
    },
}
# CVPO's MuJoCo version: another code base, which the paper ran with changes of its own.
CVPO_VELOCITY: dict[str, Any] = {
    "hidden": (128, 128),
    "policy_learning_rate": 5e-4,
    "target_rate": 0.05,
    "reward_critics": 1,
    "covariance": "diagonal",
    "samples": 16,
    "selection_critics": "online",
    "selection_divergence": 0.02,
    "dual_solver": "adam",
    "initial_selection_temperature": 1.0,
    "initial_multiplier": 0.0,
    "largest_dual": 20.0,
    "old_policy": "copy",
    "policy_iterations": 1,
    "mean_divergence": 0.005,
    "spread_divergence": 0.005,
    "trust_optimiser": "adam",
    "mean_trust_rate": 0.1,
    "spread_trust_rate": 0.1,
    "mean_trust_max": 0.5,
    "spread_trust_max": 0.5,
    "max_gradient_norm": None,
    "target_steps": 3,
    # Its trust region is around the policy of the last block: anchored anew after every step, it
    # holds nothing, and the spread of the actions vanishes (docs/results/hopper.md).
    **BY_EPISODE,
    "update_every": 1,
}
CVPO_VELOCITY_SCHEDULE: dict[str, Any] = {
    "updates_per_step": 0.5,
    "batch_size": 256,
    "replay_capacity": 200_000,
}
BASELINE_TASKS: dict[tuple[str, str], dict[str, Any]] = {
    ("sac-pid", "point-button2"): {"updates_per_step": 20},
    ("cvpo", "ant-velocity"): {"samples": 32},
    ("cvpo", "humanoid-velocity"): {"samples": 64},
}

# The tutorial is meant to be quick: small networks, a short warm-up, a short memory (its best
# behaviour is the same at every discount). The critics see costs of about 1, hence the convexity.
ORBIT: dict[str, Any] = {
    "hidden": (64, 64),
    "discount": 0.95,
    "cost_discount": 0.95,
    "target_rate": 0.01,
    "convexity": 100.0,
    "conservatism": 2.0,
    "steps": 10_000,
    "warmup_steps": 1_000,
    "replay_capacity": 4_000,  # so that the violation is measured on what the policy does now
    "evaluate_every": 400,
    "snapshot_every": 2_000,
}
ORBIT_ON_POLICY: dict[str, Any] = {
    "discount": 0.95,
    "cost_discount": 0.95,
    "steps": 200_000,
    "epoch_steps": 4_000,
    "evaluate_every": 20_000,
    "checkpoint_every": 4_000,
    "snapshot_every": 50_000,
}


def family(task: str) -> str:
    """The paper treats its two families of tasks differently; others are a user's own."""
    if task.endswith("-velocity"):
        return "velocity"
    if task.startswith(("point-", "car-")):
        return "navigation"
    return "other"


def default_preset(algorithm: str, task: str) -> str:
    if family(task) == "other":
        return "default"
    return "paper" if algorithm in BASELINES or algorithm in ON_POLICY else "head"


def base_of(task: str) -> str:
    return task.removesuffix("-random").removesuffix("-stock")


def check_preset(preset: str, known: tuple[str, ...], task: str) -> None:
    usable = ("default",) if family(task) == "other" else known
    if preset not in usable:
        raise ValueError(f"no preset {preset!r} for task {task}; there is: {', '.join(usable)}")


def baseline_values(algorithm: str, preset: str, task: str) -> dict[str, Any]:
    check_preset(preset, BASELINE_PRESETS, task)
    entry = ALGORITHMS[algorithm]
    in_config = {field.name for field in fields(entry.config)}
    if preset == "default":
        values = preset_values(preset, task)
    else:
        on_mujoco = algorithm == "cvpo" and family(task) == "velocity"
        version = CVPO_VELOCITY if on_mujoco else {}
        for_task = BASELINE_TASKS.get((algorithm, base_of(task)), {})
        if preset == "paper":
            schedule = {**FAMILIES[family(task)], **BASELINES[algorithm]}
            schedule |= CVPO_VELOCITY_SCHEDULE if on_mujoco else {}
            values = {**schedule, **version, **for_task}
        else:
            of_config = {name: value for name, value in for_task.items() if name in in_config}
            values = {**version, **of_config, **preset_values("head", task)}
    own = in_config | {field.name for field in fields(entry.schedule)}
    return {name: value for name, value in values.items() if name in own}


def preset_values(preset: str, task: str) -> dict[str, Any]:
    kind = family(task)
    check_preset(preset, PRESETS, task)
    if preset == "default":
        return ORBIT if task == "orbit" else {}
    base = base_of(task)
    if preset == "head":
        return {**HEAD, **FAMILIES[kind], **HEAD_TASKS.get(base, {})}
    ensemble = {"cost_critics": 6 if kind == "navigation" else 4}
    return {**PAPER, **ensemble, **FAMILIES[kind], **PAPER_TASKS.get(base, {})}


def settings(algorithm: str, preset: str, task: str) -> tuple[AlgorithmConfig, Schedule]:
    """The algorithm's configuration and schedule for a task, before the user's own values."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"no algorithm {algorithm!r}; there is: {', '.join(ALGORITHMS)}")
    entry = ALGORITHMS[algorithm]
    if algorithm in BASELINES:
        values = baseline_values(algorithm, preset, task)
    elif entry.schedule is OnPolicySchedule:
        check_preset(preset, ON_POLICY_PRESETS, task)
        values = {**VARIANTS[algorithm], **(ORBIT_ON_POLICY if task == "orbit" else {})}
    else:
        values = {**preset_values(preset, task), **VARIANTS[algorithm]}
    return with_values(entry.config(), entry.schedule(), values)


def with_values(
    config: AlgorithmConfig, schedule: Schedule, values: dict[str, Any]
) -> tuple[AlgorithmConfig, Schedule]:
    """Each value in the dataclass that has a field of its name."""
    in_config = {field.name for field in fields(config)}
    in_schedule = {field.name for field in fields(schedule)}
    unknown = sorted(values.keys() - in_config - in_schedule)
    if unknown:
        known = ", ".join(sorted(in_config | in_schedule))
        raise ValueError(f"no setting named {', '.join(unknown)}; there is: {known}")
    return (
        replace(config, **{k: v for k, v in values.items() if k in in_config}),
        replace(schedule, **{k: v for k, v in values.items() if k in in_schedule}),
    )
