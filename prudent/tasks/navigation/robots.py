"""The two robots, as MJCF: what hangs below the robot's body, its motors and its sensors."""

from typing import NamedTuple

HEIGHT = 0.1  # of the body's origin at the start


class Glide(NamedTuple):
    """Bounds for a robot that the floor cannot push: only solid things can change its course."""

    radius: float  # of the circle it fills while turning
    acceleration: float  # the most its motors can do


class Robot(NamedTuple):
    body: str  # joints, geoms and the site "robot", which carries the sensors
    actuators: str
    sensors: str  # beyond those every robot has
    density: float
    time_steps: dict[str, float]  # seconds of physics, by variant
    glide: Glide | None  # None where the floor carries the robot


# The point slides on the floor without friction: thrust along its nose, and a servo for the yaw
# rate. Both forces saturate at a small fraction of the action range.
POINT = Robot(
    body="""
      <joint type="slide" axis="1 0 0" damping="0.01"/>
      <joint type="slide" axis="0 1 0" damping="0.01"/>
      <joint name="yaw" type="hinge" axis="0 0 1" damping="0.005"/>
      <geom type="sphere" size="0.1" friction="1 0.01 0.01"/>
      <geom type="box" size="0.05 0.05 0.05" pos="0.1 0 0"/>
      <site name="robot" size="0.032" group="4"/>""",
    actuators="""
      <motor site="robot" gear="0.3 0 0 0 0 0" ctrlrange="-1 1" forcerange="-0.05 0.05"/>
      <velocity joint="yaw" gear="0.3" kv="1" ctrlrange="-1 1" forcerange="-0.05 0.05"/>""",
    sensors="",
    density=1.0,
    time_steps={"paper": 0.006, "stock": 0.002},
    glide=Glide(radius=0.16, acceleration=3.0),
)

# The car has two driven wheels and a ball for a caster. Its front is its -y side.
CAR = Robot(
    body="""
      <freejoint/>
      <geom type="box" size="0.1 0.1 0.05"/>
      <geom type="box" size="0.1 0.01 0.05" pos="0 0.15 0"/>
      <geom type="box" size="0.01 0.025 0.03" pos="0 0.125 0"/>
      <geom type="box" size="0.05 0.01 0.05" pos="0 -0.165 0"/>
      <geom type="box" size="0.05 0.03 0.01" pos="0 -0.13 0.04"/>
      <site name="robot" size="0.032" group="4"/>
      <body pos="-0.1 0.1 -0.05">
        <joint name="left" type="hinge" axis="1 0 0" damping="0.001"/>
        <geom type="cylinder" size="0.05" fromto="-0.055 0 0 -0.005 0 0"/>
      </body>
      <body pos="0.1 0.1 -0.05">
        <joint name="right" type="hinge" axis="1 0 0" damping="0.001"/>
        <geom type="cylinder" size="0.05" fromto="0.005 0 0 0.055 0 0"/>
      </body>
      <body pos="0 -0.1 -0.05">
        <joint name="rear" type="ball" damping="0.001"/>
        <geom type="sphere" size="0.05"/>
      </body>""",
    actuators="""
      <motor joint="left" ctrlrange="-1 1" forcerange="-0.02 0.02"/>
      <motor joint="right" ctrlrange="-1 1" forcerange="-0.02 0.02"/>""",
    sensors="""
      <ballangvel name="ballangvel_rear" joint="rear"/>
      <ballquat name="ballquat_rear" joint="rear"/>""",
    density=5.0,
    time_steps={"paper": 0.01, "stock": 0.004},
    glide=None,
)

ROBOTS = {"point": POINT, "car": CAR}
