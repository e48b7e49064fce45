import pytest

from rein.config import fresh_configs, set_name_resolver


@pytest.fixture(autouse=True)
def nothing_configured():
    with fresh_configs() as configs:
        yield configs
    set_name_resolver(None)


@pytest.fixture
def write_conf(tmp_path):
    """Writes a conf file; returns its path."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write
