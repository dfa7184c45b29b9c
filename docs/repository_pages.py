"""For the site: files of the repository that pages link to become pages too.

A page links to `../prudent/algorithms/cal.py`, which works where the repository is read. The site
has only what lies in `docs/`, so every such file is added to it under `repository/`, and the links
are turned there. A link that leads to no file is left, and the strict build refuses it.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.DOTALL | re.MULTILINE)
IN_NAVIGATION = ("CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(?=[)#])")


def place_in_repository(page_uri: str) -> str:
    if page_uri.startswith("repository/"):
        return page_uri.removeprefix("repository/")
    return f"docs/{page_uri}"


def place_in_site(path: str) -> str:
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def target(page_uri: str, link: str) -> str:
    """Where a link leads, from the top of the repository."""
    return posixpath.normpath(
        posixpath.join(posixpath.dirname(place_in_repository(page_uri)), link)
    )


def content_of(path: str) -> str:
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    language = "python" if path.endswith(".py") else "text"
    return f"---\nsearch:\n  exclude: true\n---\n# `{path}`\n\n``````{language}\n{text}\n``````\n"


def outside(page_uri: str, markdown: str) -> set[str]:
    """Files beside `docs/` that a page links to."""
    found = {target(page_uri, link) for link in LINK.findall(FENCED.sub("", markdown))}
    return {path for path in found if not path.startswith("docs/") and (ROOT / path).is_file()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    wanted = set(IN_NAVIGATION)
    for file in files.documentation_pages():
        wanted |= outside(file.src_uri, file.content_string)
    added: set[str] = set()
    while wanted > added:
        for path in sorted(wanted - added):
            uri, content = place_in_site(path), content_of(path)
            files.append(File.generated(config, uri, content=content))
            added.add(path)
            if path.endswith(".md"):
                wanted |= outside(uri, content)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    if uri.startswith("repository/") and not (ROOT / place_in_repository(uri)).is_file():
        return markdown  # a source file, shown as it is

    def turned(match: re.Match[str]) -> str:
        path = target(uri, match[1])
        if uri.startswith("repository/") or outside(uri, f"]({match[1]})"):
            return posixpath.relpath(place_in_site(path), posixpath.dirname(uri))
        return match[1]

    return LINK.sub(turned, markdown)
