import pytest

from rein.config import fresh_configs
from rein.config.names import NAMES


@pytest.fixture(autouse=True)
def nothing_configured(request, monkeypatch):
    """Starts each test with nothing configured and no names but those of its own file."""
    monkeypatch.setattr(NAMES, "_resolver", None)
    monkeypatch.setattr(NAMES, "_resolvable", ())
    with fresh_configs() as configs:
        everything = list(NAMES)
        NAMES.replace_all(one for one in everything if one.target.__module__ == request.module.__name__)
        yield configs
        imported = [one for one in NAMES if one.target.__module__.startswith("rein.")]
    with fresh_configs():
        NAMES.replace_all([*everything, *imported])  # a module is imported, and its names are entered, only once


@pytest.fixture
def write_conf(tmp_path):
    """Writes a conf file; returns its path."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write
