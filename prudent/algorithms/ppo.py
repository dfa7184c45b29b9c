"""PPO: proximal policy optimisation (Schulman et al. 2017), the constraint ignored.

    policy   maximise E[min(ρ A_r, clip(ρ, 1 - ε, 1 + ε) A_r)],  ρ = π(a|s) / π_old(a|s)

The cost is estimated and reported all the same. ε is `clip`.
"""

from prudent.configs import OnPolicyConfig
from prudent.pieces.multipliers import fixed
from prudent.pieces.on_policy_actor_critic import by_passes, on_policy, reward_only
from prudent.pieces.types import Algorithm, Spec


def ppo(config: OnPolicyConfig, spec: Spec) -> Algorithm:
    improve = by_passes(config, config.clip)
    return on_policy(config, spec, dual=fixed(0.0), combine=reward_only, improve=improve)
