"""Checks a built site: every link and anchor leads to something in it, and no page fetches anything from elsewhere.

python -m tools.docs.links site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_FETCHED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("video", "src"), ("iframe", "src")}
_NOT_FETCHED_LINKS = {"canonical", "next", "prev", "alternate", "edit"}


class Page(HTMLParser):
    """What a page links to, what it fetches, and where it can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes links, anchors and what the browser would fetch."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "link" and given.get("rel") in _NOT_FETCHED_LINKS:
            return
        for name, value in given.items():
            if (tag, name) in _FETCHED:
                self.fetched.append(value)
            if name in ("href", "src"):
                self.links.append(value)


def faults_of(site: Path) -> list[str]:
    """Each dead link, dead anchor and foreign resource of a built site, in words."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    faults = []
    for path, page in pages.items():
        where = path.relative_to(site)
        faults += [f"{where}: fetches {url}" for url in page.fetched if urlsplit(url).netloc]
        if path.name != "404.html":  # its links start at the root of a server
            faults += [f"{where}: dead link {url}" for url in page.links if not _leads_somewhere(url, path, pages)]
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        faults += [
            f"{path.relative_to(site)}: fetches from elsewhere" for mark in ("url(http", "url(//") if mark in text
        ]
    return faults


def _leads_somewhere(url: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    page = pages.get(path if target == path.resolve() else target)
    return not parts.fragment or page is None or unquote(parts.fragment) in page.anchors


def main(folder: str) -> int:
    """Prints the faults; 1 if there are any."""
    site = Path(folder).resolve()
    faults = faults_of(site)
    print(
        "\n".join(faults)
        if faults
        else f"{len(list(site.rglob('*.html')))} pages, 0 dead links, nothing fetched from elsewhere"
    )
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
