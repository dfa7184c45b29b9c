"""How wrong a run's cost estimate is: its critics against episodes of its own policy."""
