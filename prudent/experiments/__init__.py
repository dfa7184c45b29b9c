"""Many runs at once: grids of them as data, and what runs them."""
