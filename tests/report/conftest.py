"""What several tests of reports are given."""

import matplotlib.pyplot as plt
import pytest
from made import write_folder


@pytest.fixture
def records(tmp_path):
    return [write_folder(tmp_path / "a", 0), write_folder(tmp_path / "b", 2, steps=(0, 10))]


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)
