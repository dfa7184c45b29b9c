"""The Gymnasium environment that plays any course with any robot."""

import math
from typing import Any

import gymnasium
import mujoco
import numpy as np

from prudent.tasks.navigation.cost import cost_sources
from prudent.tasks.navigation.course import Aim, Moment
from prudent.tasks.navigation.courses import COURSES
from prudent.tasks.navigation.layout import Layout, sample_layout
from prudent.tasks.navigation.rendering import Renderer, task_markers
from prudent.tasks.navigation.reward import GOAL_BONUS
from prudent.tasks.navigation.robots import ROBOTS
from prudent.tasks.navigation.scene import arrange, build_model
from prudent.tasks.navigation.sensors import observation_blocks
from prudent.tasks.navigation.simulation import SUBSTEPS, stepper, viewer

Array = np.ndarray[Any, np.dtype[np.float64]]

LAYOUTS = ("fixed", "random")
FIXED_LAYOUT_SEED = 0
QUIET_STEPS = 10  # after a press, so that the robot can leave the button
LARGEST_REWARD = 10.0
PHYSICS_STATE = mujoco.mjtState.mjSTATE_INTEGRATION  # with controls, leaders and warm start


class NavigationEnv(gymnasium.Env[Array, Array]):
    """A robot in an arena: go where the goal is, keep clear of what costs.

    Args:
        robot: "point" or "car".
        course: a name in `courses.COURSES`, such as "button1".
        layout: "fixed" starts every episode from the same state, whatever the seed, as the paper
            does; "random" draws a new layout at every reset.
        variant: "paper" has the counts, sizes and time steps of Safety-Gym as modified for CVPO;
            "stock" those of Safety-Gym as released.
        render_mode: None or "rgb_array".
        width: of the pictures, in pixels.
        height: of the pictures, in pixels.
        camera: "far" or "near".

    Nothing terminates an episode. `info` holds the cost (0 or 1), an indicator for each of its
    sources, `goal_met`, and the two masks: a met goal ends the return a reward critic looks forward
    to, though the episode goes on; a cost critic never stops looking.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 17}  # noqa: RUF012

    def __init__(
        self,
        robot: str = "point",
        course: str = "button1",
        layout: str = "fixed",
        variant: str = "paper",
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        camera: str = "far",
    ) -> None:
        _check_choice("robot", robot, tuple(ROBOTS))
        _check_choice("course", course, tuple(COURSES))
        _check_choice("layout", layout, LAYOUTS)
        _check_choice("variant", variant, tuple(COURSES[course]))
        _check_choice("render_mode", render_mode, (None, "rgb_array"))
        self.fixed = layout == "fixed"
        self.course = COURSES[course][variant]
        if not self.fixed:
            self.course = self.course.scattered()
        time_step = ROBOTS[robot].time_steps[variant]
        self.model = build_model(ROBOTS[robot], self.course, time_step)
        self.data = mujoco.MjData(self.model)
        self.frame_skip = SUBSTEPS
        self.metadata = {**self.metadata, "render_fps": round(1.0 / (time_step * SUBSTEPS))}
        self.render_mode = render_mode
        self._renderer = Renderer(self.model, width, height, camera)

        self._advance = stepper(ROBOTS[robot], self.course, self.model, self.data)
        self._look = viewer(self.course, self.model, self.data)
        self._controls = self.data.ctrl
        self._action_shape = self.data.ctrl.shape
        self._blocks = observation_blocks(self.course, self.model, self.data)
        self._see = tuple(self._blocks.values())
        self._cost_sources = tuple(cost_sources(self.course).items())
        self._aim: Aim
        self._distance: float  # to the goal, at the last step or since the goal is new
        self._cost: float  # of the last step, for pictures
        self._random = np.random.RandomState(FIXED_LAYOUT_SEED)
        self._use(sample_layout(self.course, self._random))
        self._random_after_layout = self._random.get_state()
        observation = self._begin_episode()
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, observation.shape, np.float64
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.model.nu,), np.float64)

    @property
    def observation_layout(self) -> dict[str, slice]:
        """Where each block of the observation lies."""
        now, start, parts = self._look(self._layout.positions), 0, {}
        for name, see in self._blocks.items():
            stop = start + len(see(now, self._aim))
            parts[name] = slice(start, stop)
            start = stop
        return parts

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        if self.fixed:
            self._random.set_state(self._random_after_layout)
        else:
            self._random = np.random.RandomState(self.np_random.integers(2**32))
            self._use(sample_layout(self.course, self._random))
        return self._begin_episode(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._controls[:] = _checked(action, self._action_shape)
        # Safety-Gym draws a number of substeps that is always ten; the draw decides later goals.
        self._random.random_sample()
        self._advance()

        now = self._look(self._layout.positions)
        goal, aim = self.course.goal, self._aim
        distance = goal.distance(now, aim)
        reward = self._distance - distance
        if abs(reward) > LARGEST_REWARD:
            reward = math.copysign(LARGEST_REWARD, reward)
        goal_met = goal.met(now, aim)
        cost = 0.0
        info = {
            "cost": 0.0,
            "goal_met": goal_met,
            "reward_continues": 0.0 if goal_met else 1.0,
            "cost_continues": 1.0,
        }
        for source, active in self._cost_sources:
            info[source] = 0.0
            if active(now, aim):
                info[source] = info["cost"] = cost = 1.0

        if aim.quiet_steps:
            aim = aim._replace(quiet_steps=aim.quiet_steps - 1)
        no_room_for_goal = False
        if goal_met:
            reward += GOAL_BONUS
            new_aim = self._draw_aim(now)
            # Then the episode is cut, as in Safety-Gym; the task has nothing more to ask.
            no_room_for_goal = new_aim is None
            aim = (new_aim or aim)._replace(quiet_steps=QUIET_STEPS)
            distance = goal.distance(now, aim)
        self._aim, self._distance, self._cost = aim, distance, cost
        return self._observe(now), reward, False, no_room_for_goal, info

    def render(self) -> Any:
        """The present moment as an array of shape (height, width, 3), or None without a mode."""
        if self.render_mode is None:
            return None
        now = self._look(self._layout.positions)
        lidars = {
            name.removesuffix("_lidar"): see(now, self._aim)
            for name, see in self._blocks.items()
            if name.endswith("_lidar")
        }
        return self._renderer.picture(self.data, task_markers(now, self._aim, lidars, self._cost))

    def close(self) -> None:
        self._renderer.close()

    def get_state(self) -> dict[str, Any]:
        """Everything the future depends on, as plain numbers and lists that JSON keeps exactly."""
        physics = np.empty(mujoco.mj_stateSize(self.model, PHYSICS_STATE))
        mujoco.mj_getState(self.model, self.data, physics, PHYSICS_STATE)
        name, words, *rest = self._random.get_state()
        return {
            "physics": physics.tolist(),
            "positions": self._layout.positions,
            "yaws": self._layout.yaws,
            "aim": list(self._aim),
            "distance": self._distance,
            "cost": self._cost,
            "random": [name, np.asarray(words).tolist(), *rest],
            "layout_seeds": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> Array:
        """Go on from a saved state; returns the observation made there."""
        positions = {
            group: [(x, y) for x, y in points] for group, points in state["positions"].items()
        }
        layout = Layout(positions, state["yaws"])
        if layout != self._layout:
            self._use(layout)
        physics = np.asarray(state["physics"], np.float64)
        mujoco.mj_setState(self.model, self.data, physics, PHYSICS_STATE)
        mujoco.mj_forward(self.model, self.data)
        self._aim = Aim(*state["aim"])
        self._distance, self._cost = state["distance"], state["cost"]
        self._random.set_state(tuple(state["random"]))
        self.np_random.bit_generator.state = state["layout_seeds"]
        return self._observe(self._look(positions))

    def _use(self, layout: Layout) -> None:
        self._layout = layout
        arrange(self.model, self.course, layout)

    def _begin_episode(self) -> Array:
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_forward(self.model, self.data)
        positions = self._layout.positions
        now = self._look(positions)
        aim = self.course.goal.draw(self.course, positions, self._random)
        # The layout has room for a goal, should no other place be found.
        self._aim = aim or Aim(*positions["goal"][0])
        self._distance = self.course.goal.distance(now, self._aim)
        self._cost = 0.0
        return self._observe(now)

    def _observe(self, now: Moment) -> Array:
        values: list[float] = []
        aim = self._aim
        for see in self._see:
            values += see(now, aim)
        return np.fromiter(values, np.float64, len(values))

    def _draw_aim(self, now: Moment) -> Aim | None:
        """A new goal, clear of where things are by now; gremlins count where they circle."""
        positions = dict(self._layout.positions)
        positions["robot"] = [(now.frame.x, now.frame.y)]
        for group in ("box", "vases"):
            if group in positions:
                positions[group] = now.positions[group]
        return self.course.goal.draw(self.course, positions, self._random)


def _check_choice(name: str, value: str | None, choices: tuple[str | None, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def _checked(action: Any, shape: tuple[int, ...]) -> Array:
    """The action as controls; values out of bounds are clipped, nonsense is refused."""
    controls = np.asarray(action, np.float64)
    if controls.shape != shape:
        raise ValueError(f"an action must have shape {shape}, not {controls.shape}")
    for value in controls.tolist():
        if not -1.0 <= value <= 1.0:
            if not np.isfinite(controls).all():
                raise ValueError(f"an action must be finite, not {controls.tolist()}")
            return controls.clip(-1.0, 1.0)
    return controls
