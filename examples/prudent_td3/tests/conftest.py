import pytest
from prudent_td3.pump import PUMP
from prudent_td3.td3_lag import TD3_LAG

import prudent


@pytest.fixture(autouse=True)
def known():
    """Where the package is not installed, what it has is registered for the time of a test."""
    registries = ((prudent.ALGORITHMS, TD3_LAG), (prudent.TASKS, PUMP))
    for registry, thing in registries:
        if thing.name not in registry:
            registry.register(thing)
    yield
    for registry, thing in registries:
        registry.forget(thing.name)
