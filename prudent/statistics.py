"""Student's interval of a mean, for evaluations and for reports."""

import numpy as np
from scipy import stats


def mean_interval(values: np.ndarray) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean, which one value alone does not have."""
    if len(values) < 2:
        return None
    half = float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))
    mean = float(np.mean(values))
    return mean - half, mean + half
