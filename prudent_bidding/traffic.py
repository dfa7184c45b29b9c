"""When records arrive and who looks at them: the curve of a day, weekdays, user segments."""

from typing import NamedTuple

import numpy as np

from prudent_bidding.observation import HOURS
from prudent_bidding.schema import DAYS, USER_SIZE
from prudent_bidding.world import STRUCTURE, World, stream

# Shares of the weekdays, Monday to Sunday, in a public log of a large marketplace (BAT), times 7.
WEEKDAYS = np.array([0.154, 0.175, 0.147, 0.144, 0.137, 0.123, 0.120]) * DAYS
# log traffic at hour h = sum over n of a cos(2 pi n h / 24) + b sin(2 pi n h / 24): least at about
# 3:30, nine times as much in the late morning (after AuctionNet's ticks and BAT's hours).
CURVE = ((-0.713, -0.645), (0.100, -0.463), (0.084, -0.051))
TILT_SD = 0.15  # by which categories depart from it, per term
CELLS = 240  # of the day, in tables
USER_GRID = 32.0  # user embeddings are whole multiples of 1/32: in files that halves their size


class Traffic(NamedTuple):
    """By category (C) and segment (G)."""

    arrival: np.ndarray  # [C, CELLS + 1], hour by share of the day's records so far
    segment_law: np.ndarray  # [C, 24, G - 1], running shares of segments by hour
    segment_user: np.ndarray  # [G, USER_SIZE], where their users are


def draw_traffic(world: World, seed: int) -> Traffic:
    generator = stream(STRUCTURE, seed, block=1)
    tilt = TILT_SD * generator.standard_normal((world.categories, len(CURVE), 2))
    hour = (np.arange(CELLS) + 0.5) * HOURS / CELLS
    angle = 2.0 * np.pi * hour / HOURS * np.arange(1, len(CURVE) + 1)[:, None]  # [terms, CELLS]
    terms = np.array(CURVE) + tilt
    rate = np.exp(terms[..., 0] @ np.cos(angle) + terms[..., 1] @ np.sin(angle))
    return Traffic(
        arrival_table(rate),
        segment_table(world, generator),
        1.2 * generator.standard_normal((world.segments, USER_SIZE)),
    )


def arrival_table(rate: np.ndarray) -> np.ndarray:
    """The inverse of the share of traffic by hour: [C, CELLS] -> [C, CELLS + 1]."""
    share = np.concatenate([np.zeros((len(rate), 1)), np.cumsum(rate, axis=1)], axis=1)
    share /= share[:, -1:]
    hours = np.linspace(0.0, HOURS, CELLS + 1)
    levels = np.linspace(0.0, 1.0, CELLS + 1)
    return np.stack([np.interp(levels, of_category, hours) for of_category in share])


def segment_table(world: World, generator: np.random.Generator) -> np.ndarray:
    """Segments' running shares, for each category a mixture that turns with the hour."""
    shape = (world.categories, 1, world.segments)
    level, swing = 0.5 * generator.standard_normal((2, *shape))
    peak = generator.uniform(0.0, HOURS, shape)
    hour = np.arange(24)[None, :, None] + 0.5
    weight = np.exp(level + swing * np.cos(2.0 * np.pi * (hour - peak) / HOURS))
    running = np.cumsum(weight, axis=2)
    return (running / running[..., -1:])[..., :-1]


def day_volume(volume: np.ndarray, day: int, world: World) -> np.ndarray:
    """Planned records of each advertiser on this weekday."""
    planned = np.rint(volume * WEEKDAYS[day])
    return np.clip(planned, 1, world.most_volume).astype(np.int64)


def arrival_hours(traffic: Traffic, category: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The hour at which `share` of the day's records have come; in half precision."""
    place = share * CELLS
    cell = np.minimum(place.astype(np.int64), CELLS - 1)
    flat, at = traffic.arrival.ravel(), category * (CELLS + 1) + cell
    low = flat[at]
    return (low + (flat[at + 1] - low) * (place - cell)).astype(np.float16)


def draw_segments(
    traffic: Traffic, category: np.ndarray, hour: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
    clock = np.minimum(hour.astype(np.int64), 23)
    segment = np.zeros(len(hour), np.int64)
    for running in np.moveaxis(traffic.segment_law, 2, 0):  # [C, 24] each
        segment += uniform > running.ravel()[category * 24 + clock]
    return segment


def draw_users(traffic: Traffic, segment: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """[N, USER_SIZE] in half precision: near the place of their segment."""
    noise = generator.standard_normal((len(segment), USER_SIZE), dtype=np.float32)
    place = traffic.segment_user.astype(np.float32)[segment] + noise
    return (np.rint(place * np.float32(USER_GRID)) / np.float32(USER_GRID)).astype(np.float16)
