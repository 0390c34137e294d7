"""``python -m site_tools.check FOLDER``: no page of a built site asks the network for anything.

Links that a reader may follow are no requests; scripts, styles, pictures, fonts and frames are.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

_LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src",
          "embed": "src", "object": "data"}  # fmt: skip
_LINKS = (
    "stylesheet",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "icon",
    "modulepreload",
    "manifest",
)
_IN_STYLE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")
_OUTSIDE = re.compile(r"^(?:https?:)?//")


class _Requests(HTMLParser):
    """Collects the addresses on other machines that a browser would ask for by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        address = given.get(_LOADS.get(tag, ""), "")
        if tag == "link" and set(given.get("rel", "").split()) & set(_LINKS):
            address = given.get("href", "")
        if _OUTSIDE.match(address):
            self.found.append(address)
        self.found += _IN_STYLE.findall(given.get("style", ""))


def requests(folder: Path) -> list[str]:
    """What pages and styles under a folder would ask other machines for, each with its file."""
    found: list[str] = []
    for path in sorted(folder.rglob("*.html")):
        page = _Requests()
        text = path.read_text(encoding="utf-8")
        page.feed(text)
        styles = [
            style
            for block in re.findall(r"<style.*?</style>", text, re.DOTALL)
            for style in _IN_STYLE.findall(block)
        ]
        found += [f"{path.relative_to(folder)}: {address}" for address in (*page.found, *styles)]
    for path in sorted(folder.rglob("*.css")):
        found += [
            f"{path.relative_to(folder)}: {address}"
            for address in _IN_STYLE.findall(path.read_text(encoding="utf-8"))
        ]
    return found


if __name__ == "__main__":
    pages = Path(sys.argv[1])
    asked = requests(pages)
    if asked or not (pages / "index.html").is_file():
        sys.exit("\n".join(asked) or f"{pages} holds no index.html: build the site first")
    print(f"{len(list(pages.rglob('*.html')))} pages ask the network for nothing")
