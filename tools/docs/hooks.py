"""Hooks of MkDocs: pages that are made when the site is built, and links out of `docs/` that lead somewhere on the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tools.docs.api_pages import FOLDER, api_pages
from tools.docs.gallery import gallery_page

ROOT = Path(__file__).parents[2]
COPIED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the repository's front that are also on the site."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts a page for each package into the navigation."""
    packages: list[Any] = [f"{FOLDER}/index.md", *({page.module: page.path} for page in api_pages())]
    for section in config.nav or []:
        for pages in section.values():
            pages[:] = [{"API": packages} if page == {"API": FOLDER} else page for page in pages]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages that are made."""
    made = {"gallery.md": gallery_page(), f"{FOLDER}/index.md": _index()}
    made |= {page.path: page.text() for page in api_pages()}
    made |= {to: _on_site((ROOT / front).read_text(encoding="utf-8")) for front, to in COPIED.items()}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def _index() -> str:
    rows = "".join(
        f"| [`{page.module}`]({Path(page.path).name}) | {', '.join(f'`{name}`' for name in page.names)} |\n"
        for page in api_pages()
    )
    return (
        "# API\n\nWhat each package exports, from its docstrings. Names of one page may be imported from the package "
        f"in its title.\n\n| package | names |\n|---|---|\n{rows}"
    )


def _on_site(text: str) -> str:
    """Links of a page at the front of the repository, from where the page is on the site."""
    text = re.sub(r"\]\(docs/", "](", text)
    for front, to in COPIED.items():
        text = text.replace(f"]({front})", f"]({to})")
    return text.replace("](README.md)", "](index.md)")
