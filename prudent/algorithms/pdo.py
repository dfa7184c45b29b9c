"""PDO: primal-dual optimisation (Chow et al. 2017), in its plain Lagrangian form.

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       maximise E[ρ A], the ratio ρ = π(a|s) / π_old(a|s) left free

Only the stop on divergence, tested once per pass, holds the unclipped ratio back.
"""

from dataclasses import dataclass

from prudent.algorithms.on_policy_presets import NORMALISED, on_policy_entry
from prudent.pieces.improvement import by_passes
from prudent.pieces.on_policy import adaptive, lagrangian, on_policy
from prudent.pieces.types import Algorithm, Spec
from prudent.settings.configs import FirstOrderConfig, LagrangianConfig


@dataclass(frozen=True)
class PDOConfig(FirstOrderConfig, LagrangianConfig):
    pass


def pdo(config: PDOConfig, spec: Spec) -> Algorithm:
    dual, improve = adaptive(config), by_passes(config, clip=None)
    return on_policy(config, spec, dual, lagrangian, improve)


PDO = on_policy_entry("pdo", "primal-dual policy gradient, on-policy", pdo, PDOConfig, NORMALISED)
