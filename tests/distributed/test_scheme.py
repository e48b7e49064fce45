"""What cannot be run is refused in one line, before anything starts."""

import argparse
import socket
import threading
from typing import Any

import pytest

from rein.cli.scheme import add_scheme_arguments, configure_scheme, configured_scheme
from rein.config import fresh_configs, get_config_value, pre_config
from rein.distributed import Scheme, SchemeError
from rein.distributed.address import check_address


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "sink"}, "choose one of sync, async"),
        ({"backend": "mpi"}, "choose one of inline, process, ray, ddp"),
        ({"kind": "ddppo", "backend": "ray"}, "leave out --backend ray"),
        ({"kind": "async", "backend": "ddp"}, "leave out async"),
        ({"fraction_workers": 0.0}, "at most 1"),
        ({"kind": "async", "fraction_workers": 0.5, "fraction_samples": 0.5}, "sync only"),
        ({"decentralised": True}, "--gradient-workers 2"),
        ({"decentralised": True, "gradient_workers": 2, "gradients": "async"}, "synchronous gradients"),
        ({"samples_per_insert": 2.0}, "shards=1"),
        ({"collectors": 0}, "at least 1"),
        ({"collectors": 2.5}, "whole number"),
        ({"address": "10.0.0.1:6379"}, "--backend ray"),
        ({"gradients": "async"}, "--gradient-workers 2"),
        ({"max_lag": -1}, "max_lag"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemeError, match=message) as error:
        Scheme(**settings)
    assert "\n" not in str(error.value)


def test_no_ray_names_the_extra(monkeypatch: Any) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SchemeError, match=r"rein-rl\[ray\]"):
        Scheme(backend="ray")


@pytest.mark.parametrize("backend", ["process", "ray", "ddp"])
def test_more_workers_than_cores_get_a_hint(monkeypatch: Any, caplog: Any, backend: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: "found")
    monkeypatch.setattr("rein.distributed.scheme.usable_cores", lambda: 2)
    Scheme(collectors=3, backend=backend)
    assert "3 workers on 2 cores" in caplog.text


def test_algorithms_that_cannot_be_split_say_why(build: Any, monkeypatch: Any) -> None:
    algorithm = build("ppo")
    with pytest.raises(SchemeError, match="mini_batch_size is 16"):
        Scheme(gradient_workers=3).check_algorithm(algorithm)
    with monkeypatch.context() as patch:
        patch.setattr(type(algorithm), "on_policy", property(lambda self: True))
        with pytest.raises(SchemeError, match="differentiates through its own rollout"):
            Scheme(collectors=2).check_algorithm(algorithm)
        Scheme().check_algorithm(algorithm)
    algorithm.require_config().async_unroll = True
    with pytest.raises(SchemeError, match="async_unroll"):
        Scheme(collectors=2).check_algorithm(algorithm)


def test_presets_say_what_an_algorithm_lacks(build: Any) -> None:
    with pytest.raises(SchemeError, match="--algorithm impala"):
        Scheme("impala", collectors=2).check_algorithm(build("ppo"))
    with pytest.raises(SchemeError, match="no rate of exploration"):
        Scheme("apex", collectors=2).check_algorithm(build("sac", "Pendulum-v1"))
    with pytest.raises(SchemeError, match="priority_replay=True"):
        Scheme("apex", collectors=2).check_algorithm(build("dqn"))


def test_collectors_of_apex_explore_to_different_degrees() -> None:
    rates = [Scheme("apex", collectors=3).exploration_rate(index) for index in range(3)]
    assert rates == pytest.approx([0.4, 0.4**4.5, 0.4**8])
    assert Scheme("apex").exploration_rate(0) == pytest.approx(0.4)
    assert Scheme("async").exploration_rate(0) is None


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_scheme_arguments(parser)
    return parser.parse_args(words)


def test_options_become_settings_beside_others() -> None:
    with fresh_configs():
        configure_scheme(parse("--scheme", "async", "--collectors", "2", "--gradient-workers", "2"))
        pre_config({"Scheme.max_lag": 3})
        scheme = configured_scheme()
        assert (scheme.kind, scheme.collectors, scheme.gradient_workers, scheme.max_lag) == ("async", 2, 2, 3)
    with fresh_configs():
        configure_scheme(parse())
        assert configured_scheme().is_central
        assert get_config_value("Scheme.collectors") in (None, 1)


def test_an_address_where_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address, message in ((f"127.0.0.1:{port}", f"nobody answers at 127.0.0.1:{port}"), ("somewhere", "HOST:PORT")):
        with fresh_configs():
            configure_scheme(parse("--backend", "ray", "--address", address))
            with pytest.raises(SchemeError, match=message):
                configured_scheme()


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request", b""])
def test_an_address_of_something_else(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(SchemeError, match="is no Ray cluster"):
            check_address(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
