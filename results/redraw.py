"""Every picture and table of docs/results anew, from the records kept here: `make figures`, or of
some pages: `python results/redraw.py gap claims`.

Runs the commands that stand on the pages, as they stand there, and puts the tables they write in
the place of those on the page. Equal records give equal pictures and tables, so afterwards
`git diff docs` shows what has changed; the sentences around it are for a person to read again.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"
# Only those that read records: pages also say how the runs were made and kept.
READS = re.compile(
    r"prudent (report|experiment .*--records|bidding compare) .*--out docs/results"
    r"|prudent claims |python benchmarks/(frozen_policy|batch_noise).py table "
)
PARTS = re.compile(
    r"^(?:## (?P<section>.+)|\*\*(?P<bold>[^*]+)\*\*.*|(?P<table>(?:\|.*\n)+))", re.MULTILINE
)


def commands_of(page: Path) -> list[str]:
    return [line for line in page.read_text().splitlines() if READS.match(line)]


def drawing_commands() -> list[str]:
    return [line for page in sorted(PAGES.glob("*.md")) for line in commands_of(page)]


def output_of(command: str) -> str:
    """What it prints, and the Markdown files that it says to have written."""
    scripts = Path(sys.executable).parent  # where the `prudent` of this interpreter is
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    # Bash, since the commands have its {a,b}; they are this repository's own lines.
    words = ["bash", "-c", command]
    done = subprocess.run(words, cwd=ROOT, env=environment, check=True, stdout=-1, text=True)
    written = [line for line in done.stdout.splitlines() if line.endswith(".md")]
    return "\n".join([done.stdout, *((ROOT / path).read_text() for path in written)])


class Table(NamedTuple):
    title: str  # above it: `## hopper-velocity` or `**hopper-velocity** (budget 82.7)`
    text: str
    start: int  # of its text

    @property
    def heading(self) -> str:
        return self.text.partition("\n")[0]


def tables_in(text: str) -> list[Table]:
    tables, title = [], ""
    for part in PARTS.finditer(text):
        if part["table"]:
            tables.append(Table(title, part["table"], part.start()))
        else:
            title = part["section"] or part["bold"]
    return tables


def with_tables(page: str, tables: Sequence[Table]) -> str:
    """The page with its tables of the same headings replaced: each by that of the same title, or
    by the next if it has none or one that is none of theirs.
    """
    titles = {table.title for table in tables if table.title}
    waiting, pieces, end = list(tables), [], 0
    for old in tables_in(page):
        alike = [new for new in waiting if new.heading == old.heading]
        own = [new for new in alike if new.title == old.title or old.title not in titles]
        new = own[0] if own else old
        if own:
            waiting.remove(new)
        pieces += [page[end : old.start], new.text]
        end = old.start + len(old.text)
    if waiting:
        raise ValueError(f"it has no place for a table of {waiting[0].title or waiting[0].heading}")
    return "".join([*pieces, page[end:]])


def main() -> None:
    pages = {page.stem: page for page in sorted(PAGES.glob("*.md"))}
    if strange := set(sys.argv[1:]) - set(pages):
        sys.exit(f"no page of docs/results: {', '.join(sorted(strange))}")
    for page in [pages[name] for name in sys.argv[1:]] or pages.values():
        tables: list[Table] = []
        for command in commands_of(page):
            print(command, flush=True)
            tables += tables_in(output_of(command) + "\n")
        try:
            page.write_text(with_tables(page.read_text(), tables))
        except ValueError as fault:
            sys.exit(f"{page.relative_to(ROOT)} is as it was: {fault}; make one by hand")


if __name__ == "__main__":
    main()
