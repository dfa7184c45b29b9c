"""PDO: primal-dual optimisation (Chow et al. 2017), in its plain Lagrangian form.

    multiplier   ascend λ (J_C - d), once per epoch
    advantage    A = (A_r - λ A_c) / (1 + λ)
    policy       maximise E[ρ A], the ratio ρ = π(a|s) / π_old(a|s) left free

Only the stop on divergence, tested once per pass, holds the unclipped ratio back.
"""

from prudent.configs import OnPolicyConfig
from prudent.pieces.on_policy_actor_critic import adaptive, by_passes, lagrangian, on_policy
from prudent.pieces.types import Algorithm, Spec


def pdo(config: OnPolicyConfig, spec: Spec) -> Algorithm:
    improve = by_passes(config, clip=None)
    return on_policy(config, spec, dual=adaptive(config), combine=lagrangian, improve=improve)
