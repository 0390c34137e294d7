"""Hooks of mkdocs: pages that are made in the build, and links that lead out of docs.

README becomes the first page, every file of ``examples`` a tutorial with its outputs, and the public names of the
packages pages of reference. A file of the repository that a page links to is laid beside the pages, under ``files``.
"""

import posixpath
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from site_tools import notebooks, reference

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_AT_ONCE = 2


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages that are made in the build, and the files of the repository that any page links to."""
    made = {"index.md": (ROOT / "README.md").read_text(encoding="utf-8"), **reference.pages()}
    examples = sorted((ROOT / "examples").glob("*.py"))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for path, (page, images) in zip(
            examples, pool.map(notebooks.executed, examples), strict=True
        ):
            made[f"examples/{path.stem}.md"] = page
            for name, content in images.items():
                files.append(File.generated(config, f"examples/{name}", content=content))
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    outside = {target for file in files.documentation_pages() for target in _outside(file, made)}
    for target in sorted(outside):
        files.append(File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Let links that lead out of docs lead to the copies of their files."""
    return _redirected(markdown, page.file.src_uri)


def _outside(file: File, made: dict[str, str]) -> Iterator[str]:
    """The files of the repository, by their places in it, that a page links to and that lie outside of docs."""
    text = made.get(file.src_uri) or file.content_string
    for _, target, _ in _links(_redirected(text, file.src_uri)):
        place = posixpath.normpath(posixpath.join(posixpath.dirname(file.src_uri), target))
        if place.startswith("files/"):
            yield place.removeprefix("files/")


def _links(text: str) -> Iterator[tuple[str, str, str]]:
    for place, part in enumerate(_CODE.split(text)):
        if place % 2 == 0:
            yield from _LINK.findall(part)


def _redirected(text: str, uri: str) -> str:
    """The page at ``uri`` of the site, with links that hold there; README's links begin at the repository's root."""
    start = ROOT if uri == "index.md" else (ROOT / "docs" / uri).parent

    def changed(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        place = Path(posixpath.normpath((start / target).as_posix()))
        if not place.is_relative_to(ROOT):
            raise PluginError(f"{uri} links to {target}, which lies outside of the repository")
        inside = place.relative_to(ROOT).as_posix()
        if inside == "README.md":
            goal = "index.md"
        elif inside == "examples":
            goal = "examples/01_predictions.md"
        elif inside.startswith("docs/"):
            goal = inside.removeprefix("docs/")
        elif not place.is_file():
            raise PluginError(f"{uri} links to {target}, which is no file of the repository")
        else:
            goal = f"files/{inside}"
        return before + posixpath.relpath(goal, posixpath.dirname(uri) or ".") + after

    return "".join(
        part if place % 2 else _LINK.sub(changed, part)
        for place, part in enumerate(_CODE.split(text))
    )
