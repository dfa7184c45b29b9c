"""What can be set: types and their checks, shared settings, names to which others can add."""
