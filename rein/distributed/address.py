"""Whether somebody is there, before anything starts."""

import socket

from rein.distributed.scheme import SchemeError

_CONNECT_SECONDS = 5.0


def check_address(address: str) -> None:
    """Raises `SchemeError` if nobody answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise SchemeError(f"address is {address!r}: give it as HOST:PORT, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise SchemeError(
            f"nobody answers at {address} ({error}): start a cluster there with `ray start --head --port {port}`"
        ) from error
