"""`prudent export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prudent import api
from prudent.cli.options import RunFolder, Snapshot


@dataclass(frozen=True)
class ExportOptions:
    run: RunFolder
    file: Annotated[Path, tyro.conf.Positional]
    """Where to write the policy: FILE.safetensors, or FILE.onnx (extra `onnx`)."""
    step: Snapshot = None
    env: str | None = None
    """Write the policy only if it fits this environment (module:callable or a Gymnasium id)."""


def export(options: ExportOptions) -> None:
    about = api.export(options.run, options.file, step=options.step, env=options.env).about
    print(f"{options.file}: {about['algorithm']} on {about['task']}, step {about['step']}")
