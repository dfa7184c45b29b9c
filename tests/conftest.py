"""Strict JAX: no silent broadcasting. Tests spend their time compiling, so compile cheaply."""

import os

os.environ["XLA_FLAGS"] = (
    "--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=false "
    "intra_op_parallelism_threads=1"
)
os.environ["JAX_PLATFORMS"] = "cpu"
# One cache per worker: JAX does not write its entries atomically.
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(
    os.path.dirname(os.path.dirname(__file__)),
    f".pytest_cache/xla-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}",
)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import hypothesis
import jax
import pytest

from prudent.settings import registration

# The first example compiles, and failures must come again.
hypothesis.settings.register_profile("prudent", deadline=None, derandomize=True)
hypothesis.settings.load_profile("prudent")
jax.config.update("jax_numpy_rank_promotion", "raise")
INSTALLED = registration.offers_in


def ours(group):
    """Whatever else is installed here: tests know what this distribution offers."""
    offers = INSTALLED(group)
    return {name: each for name, each in offers.items() if each[0].package.startswith("prudent ")}


registration.offers_in = ours


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield
