"""PDO: primal-dual optimisation (Chow et al. 2017), in its plain Lagrangian form.

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       maximise E[ρ A], the ratio ρ = π(a|s) / π_old(a|s) left free

Only the stop on divergence, tested once per pass, holds the unclipped ratio back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from prudent.algorithms.entry import Entry
from prudent.algorithms.on_policy_presets import NORMALISED, on_policy_presets
from prudent.compute import on_policy, types
from prudent.configs import FirstOrderConfig, LagrangianConfig, OnPolicySchedule


@dataclass(frozen=True)
class PDOConfig(FirstOrderConfig, LagrangianConfig):
    pass


def pdo(config: PDOConfig, spec: types.Spec) -> types.Algorithm:
    return on_policy.on_policy(
        config,
        spec,
        dual=on_policy.adaptive(config),
        combine=on_policy.lagrangian,
        improve=on_policy.by_passes(config, clip=None),
    )


PDO = Entry(
    name="pdo",
    summary="primal-dual policy gradient, on-policy",
    build=pdo,
    config=PDOConfig,
    schedule=OnPolicySchedule,
    presets=partial(on_policy_presets, NORMALISED),
)
