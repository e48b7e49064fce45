import rein
from rein.config import configurable, fresh_configs


@configurable
def greet_of_callable_module(name: str = "nobody") -> str:
    return name


def test_rein_config_can_be_called_and_imported_from() -> None:
    with fresh_configs():
        rein.config("greet_of_callable_module", name="somebody")  # type: ignore[operator]
        assert greet_of_callable_module() == "somebody"
    assert rein.config.config is not None
