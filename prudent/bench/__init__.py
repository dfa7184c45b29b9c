"""How fast this machine learns: updates, on-policy epochs, environments, single actions."""

from prudent.bench.command import main

__all__ = ["main"]
