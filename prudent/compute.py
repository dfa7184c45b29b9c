"""JAX and the pieces of mathematics, imported when they are first used.

An algorithm's file holds its settings and its equations together. The settings must be readable
without JAX, which takes seconds to import: the command line shows them, grids and reports compare
them. So these files take everything that needs JAX from here, and annotations stay unevaluated
(`from __future__ import annotations`). Python 3.15 has `lazy import` for this (PEP 810).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class Lazy:
    """Stands for a module until something of it is used."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


if TYPE_CHECKING:
    import jax as jax
    import jax.numpy as jnp
    import optax as optax

    from prudent.pieces import calibration as calibration
    from prudent.pieces import critics as critics
    from prudent.pieces import multipliers as multipliers
    from prudent.pieces import networks as networks
    from prudent.pieces import on_policy_actor_critic as on_policy
    from prudent.pieces import policies as policies
    from prudent.pieces import soft_actor_critic as soft
    from prudent.pieces import surrogates as surrogates
    from prudent.pieces import types as types
else:
    jax, jnp, optax = Lazy("jax"), Lazy("jax.numpy"), Lazy("optax")
    calibration = Lazy("prudent.pieces.calibration")
    critics, multipliers = Lazy("prudent.pieces.critics"), Lazy("prudent.pieces.multipliers")
    networks, policies = Lazy("prudent.pieces.networks"), Lazy("prudent.pieces.policies")
    on_policy = Lazy("prudent.pieces.on_policy_actor_critic")
    soft = Lazy("prudent.pieces.soft_actor_critic")
    surrogates, types = Lazy("prudent.pieces.surrogates"), Lazy("prudent.pieces.types")

__all__ = [
    "calibration",
    "critics",
    "jax",
    "jnp",
    "multipliers",
    "networks",
    "on_policy",
    "optax",
    "policies",
    "soft",
    "surrogates",
    "types",
]
