"""The mathematics that algorithms are made of: pure functions, and NamedTuples of them."""
