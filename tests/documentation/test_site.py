"""The site: every page is in its navigation, its links lead somewhere, and what is generated is complete."""

import re
from pathlib import Path

import pytest
import yaml

from tools.docs.api_pages import api_pages
from tools.docs.doctest_fences import with_fences
from tools.docs.gallery import RESULTS, gallery_page
from tools.docs.links import faults_of
from tools.docs.pages import DOCS, ROOT, all_pages, blocks_of

MADE = {"gallery.md", "contributing.md", "changelog.md"}
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class _Loader(yaml.SafeLoader):
    """Reads `!!python/name:` tags of extensions as texts."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, suffix, node: suffix)
NAV = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)["nav"]


def _pages(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [page for page in _pages(NAV) if page != "api"]
    assert len(listed) == len(set(listed))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    missing = there - set(listed)
    assert not missing, f"add to `nav` in mkdocs.yml: {sorted(missing)}"
    assert set(listed) - there == MADE


def test_the_readme_lists_every_guide() -> None:
    text = (ROOT / "README.md").read_text()
    missing = [path.name for path in sorted(DOCS.glob("*.md")) if f"docs/{path.name})" not in text]
    assert not missing, f"link from README.md: {missing}"


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in _LINK.findall(re.sub(r"`[^`]*`", "", text)):
        path = link.partition("#")[0]
        if "://" not in link and path and not (path.endswith(("api/index.md", "gallery.md"))):
            assert (page.parent / path).exists(), f"{page.name}: {link}"


def test_pages_open_no_fence_that_they_do_not_close() -> None:
    for page in all_pages():
        fences = len(re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert fences == 2 * len(blocks_of(page)), page.name


def test_the_reference_has_what_packages_export() -> None:
    pages = {page.module: page.names for page in api_pages()}
    assert "make" in pages["rein.api"]
    assert "SacAlgorithm" in pages["rein.algorithms.off_policy"]
    import rein.networks

    assert pages["rein.networks"] == list(rein.networks.__all__)
    assert "::: rein.networks.Network\n" in {page.module: page.text() for page in api_pages()}["rein.networks"]


def test_examples_of_docstrings_are_fenced() -> None:
    assert with_fences("Adds.\n\n>>> 1 + 1\n2\n\nMore.\n") == "Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.\n"
    assert with_fences("Adds.") == "Adds."


def test_the_gallery_shows_every_record_and_says_what_missed_its_bar(tmp_path: Path) -> None:
    page = gallery_page()
    names = [path.stem for path in RESULTS.glob("*.json")]
    assert all(f"results/{name}.svg" in page for name in names)
    assert page.count('class="strip"') == len(names)
    (tmp_path / "a.json").write_text(
        '{"name": "a", "algorithm": "A", "env": "E", "env_steps": 10, "bar": 5, "score": 2.5, "met": false,'
        ' "seeds": [{"seed": 0, "mean_return": 1.0}, {"seed": 1, "mean_return": 4.0}]}'
    )
    missed = gallery_page(tmp_path)
    assert "bar 5: not met" in missed
    places = [float(x) for x in re.findall(r'cx="([\d.]+)"', missed)]
    bar = float(re.findall(r'class="bar" x1="([\d.]+)"', missed)[0])
    assert places[0] < places[1] < bar


def test_dead_links_anchors_and_foreign_resources_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>')
    (tmp_path / "b.html").write_text(
        '<h1 id="there"></h1><script src="https://cdn.example/x.js"></script><img src="a.html">'
    )
    (tmp_path / "site.css").write_text("a { background: url(https://cdn.example/x.png) }")
    assert faults_of(tmp_path.resolve()) == [
        "a.html: dead link b.html#gone",
        "a.html: dead link c.html",
        "b.html: fetches https://cdn.example/x.js",
        "site.css: fetches from elsewhere",
    ]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = pytest.importorskip("mkdocs.commands.build")
    from mkdocs.config import load_config

    monkeypatch.chdir(ROOT)
    build.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True))
    assert faults_of((tmp_path / "site").resolve()) == []
