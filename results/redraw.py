"""Every picture below docs/results anew, from the records kept here: `make figures`.

Runs the drawing commands that stand on the pages, as they stand there. Equal records give equal
pictures, so afterwards `git status docs` shows what has changed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Only those that draw: pages also say how the runs were made and kept.
DRAWS = re.compile(r"prudent (report|experiment .*--records|bidding compare) .*--out docs/results")


def drawing_commands() -> list[str]:
    pages = sorted((ROOT / "docs" / "results").glob("*.md"))
    return [line for page in pages for line in page.read_text().splitlines() if DRAWS.match(line)]


def main() -> None:
    scripts = Path(sys.executable).parent  # where the `prudent` of this interpreter is
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for command in drawing_commands():
        print(command, flush=True)
        # Bash, since the commands have its {a,b}; they are this repository's own lines.
        words = ["bash", "-c", command]
        subprocess.run(words, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
