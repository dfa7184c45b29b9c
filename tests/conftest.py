"""Strict JAX: no silent broadcasting. Tests spend their time compiling, so compile cheaply."""

import os
from pathlib import Path

os.environ["XLA_FLAGS"] = (
    "--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=false "
    "intra_op_parallelism_threads=1"
)
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parent.parent / ".pytest_cache/xla")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield
