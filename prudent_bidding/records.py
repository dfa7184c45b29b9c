"""Plans and results as JSON files."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from prudent.files import remove_leftovers, to_json, write_atomically
from prudent.runs.lock import LOCK
from prudent.settings.checks import checked

Settings = TypeVar("Settings")


def read_settings(path: Path, kind: type[Settings]) -> Settings:
    try:
        return checked(kind(**json.loads(path.read_bytes())))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a plan this version reads ({error})") from None


def read_json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}); restore it or begin anew") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no JSON object; restore it or begin anew")
    return found


def write_plan(path: Path, plan: Any, advice: str = "") -> None:
    """Into a new folder, or one that has this very plan."""
    folder = path.parent
    if path.exists():
        if read_settings(path, type(plan)) != plan:
            raise ValueError(f"{folder} holds files of another plan; {advice}")
        return
    remove_leftovers(folder)
    others = sorted(p.name for p in folder.iterdir() if p.name != LOCK)
    if others:
        raise ValueError(f"{folder} is not empty ({others[0]}); choose another folder with --out")
    write_atomically(path, (to_json(asdict(plan), indent=2) + "\n").encode())
