"""How fast this machine learns: updates, on-policy epochs, environments, single actions."""
