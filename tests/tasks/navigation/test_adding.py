"""A course becomes tasks by being named, and a name that leads nowhere is refused."""

import gymnasium
import pytest

from prudent.tasks.navigation.courses import COURSES
from prudent.tasks.navigation.goal import GOAL1
from prudent.tasks.navigation.tasks import navigation_task


def test_a_course_without_a_stock_variant_has_two_tasks(monkeypatch):
    monkeypatch.setitem(COURSES, "race3", {"paper": GOAL1})
    tasks = [navigation_task("point", "race3", form) for form in ("", "-random")]
    assert [task.name for task in tasks] == ["point-race3", "point-race3-random"]
    assert [task.summary for task in tasks] == [
        "reach the goal; fixed layout",
        "reach the goal; random layout of the same things",
    ]
    assert {task.family for task in tasks} == {"navigation"}
    assert {task.variant_of for task in tasks} == {"point-race3"}
    with pytest.raises(ValueError, match="point-race3-stock"):
        navigation_task("point", "race3", "-stock")
    with pytest.raises(ValueError, match="variant must be one of 'paper', not 'stock'"):
        gymnasium.make("Prudent/PointGoal1-v0", course="race3", variant="stock")


def test_a_pair_without_a_course_is_named():
    with pytest.raises(ValueError, match="car-goal9"):
        navigation_task("car", "goal9", "")
