"""Colours and markers."""

from made import found_below, write_run

from prudent.algorithms import OURS
from prudent.report.looks import ALGORITHM_COLOURS, looks_of


def test_an_algorithm_has_one_colour_and_its_settings_are_shades(tmp_path):
    for k in (10, 2):
        write_run(tmp_path / f"k{k}", 0, config={"k": k})
    write_run(tmp_path / "ppo", 0, "ppo")
    write_run(tmp_path / "mine", 0, "mine")
    write_run(tmp_path / "other", 0, "ppo", task="other")
    tasks, _ = found_below(tmp_path)
    looks = looks_of(tasks["orbit"], ["mine", "another"])
    # Shades by value, not by letter: 2 before 10.
    assert list(looks) == [
        "cal (default, k=2)", "cal (default, k=10)", "ppo (default)", "mine (default)",
    ]  # fmt: skip
    assert looks["ppo (default)"].colour == looks_of(tasks["other"])["ppo (default)"].colour
    assert len({look.colour for look in looks.values()}) == 4
    assert len(OURS) == len(ALGORITHM_COLOURS) == len(set(ALGORITHM_COLOURS))
    blue = [int(ALGORITHM_COLOURS[0][at : at + 2], 16) for at in (1, 3, 5)]
    # 40 % of the way to white, and to black.
    light = "#" + "".join(f"{round(part + 0.4 * (255 - part)):02x}" for part in blue)
    dark = "#" + "".join(f"{round(0.6 * part):02x}" for part in blue)
    assert [looks[f"cal (default, k={k})"].colour for k in (2, 10)] == [light, dark]
