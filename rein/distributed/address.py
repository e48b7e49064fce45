"""Whether a Ray cluster is there, before anything starts."""

import os
import socket

from rein.distributed.scheme import SchemeError

_SECONDS = 4.0
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a client of HTTP/2, which Ray speaks, says first: the preface and a frame of settings."""


def check_address(address: str) -> None:
    """Raises `SchemeError` if no Ray cluster answers at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise SchemeError(f"address is {address!r}: give it as HOST:PORT, such as 10.0.0.1:6379")
    advice = f"start a cluster there with `ray start --head --port {port}`"
    try:
        with socket.create_connection((host, int(port)), timeout=_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.settimeout(_SECONDS)
            connection.sendall(_GREETING)
            # The fourth byte of a frame is its kind; 4 are settings.
            if connection.recv(9)[3:4] != b"\x04":
                raise SchemeError(f"what answers at {address} is no Ray cluster: {advice}")
    except OSError as error:
        raise SchemeError(f"nobody answers at {address} ({error}): {advice}") from error
