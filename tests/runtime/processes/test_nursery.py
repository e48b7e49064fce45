"""Workers that fork from a nursery: who may ask, what they have loaded, and that nothing stays."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

from rein.runtime.processes import nursery
from rein.runtime.processes.nursery import Errand
from rein.runtime.processes.sending import pack, unpack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a nursery needs names of Linux")

LOADED = "wave"
"""A module that nothing else loads."""


def tell(connection: Connection) -> None:
    """Answers with the task, the question, what came with it, and where it is."""
    import os
    import sys

    from rein.runtime.processes.sending import pack, unpack

    task, stop = connection.recv_bytes(), -1
    while True:
        kind, *content = unpack(connection.recv_bytes())
        if kind == "stop":
            stop = content[0]
        elif content[0] == b"fail":
            connection.send_bytes(pack((False, "no such thing")))
        else:
            place = (os.getpid(), os.getppid(), "wave" in sys.modules, "torch" in sys.modules)
            connection.send_bytes(pack((True, (task, *content, stop, place))))


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def soon(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def test_workers_share_what_was_loaded_and_nothing_stays() -> None:
    name = secrets.token_hex(8)
    errands = [Errand(name, [LOADED, "no_such_module"], pack(tell), task) for task in (b"one", b"two")]
    answers: list[Any] = [errand.serve(b"q", [1.5], 7) for errand in errands]
    assert [answer[:5] for answer in answers] == [(b"one", b"q", [1.5], 7, -1), (b"two", b"q", [1.5], 7, -1)]
    (first, nursery_pid, has_module, has_torch), (second, same, *_) = (answer[5] for answer in answers)
    assert nursery_pid == same
    assert first != second
    assert has_module
    assert not has_torch
    # Weights that the worker has do not travel again.
    assert errands[0].serve(b"q", [1.5], 7)[2] is None
    assert errands[0].serve(b"q", [2.5], 8)[2] == [2.5]
    errands[0].stop_early(12)
    assert errands[0].serve(b"q", [2.5], 8)[4] == 12
    with pytest.raises(RuntimeError, match="no such thing"):
        errands[0].serve(b"fail", None, 8)
    for errand in errands:
        errand._connection.close()
    assert soon(lambda: not any(is_there(pid) for pid in (first, second, nursery_pid)))
    # The next one who asks starts another.
    again = Errand(name, [], pack(tell), b"three")
    assert unpack(pack(again.serve(b"q", None, 0)))[0] == b"three"
    again._connection.close()


def test_who_asks_for_a_worker_that_dies_dies_too_and_a_worker_whose_asker_dies() -> None:
    def die(connection: Connection) -> None:
        import os

        connection.recv_bytes()
        connection.recv_bytes()
        os._exit(3)

    script = (
        "import sys; from rein.runtime.processes.nursery import Errand; "
        "Errand(sys.argv[1], [], bytes.fromhex(sys.argv[2]), b'').serve(b'', None, 0)"
    )
    name = secrets.token_hex(8)
    asker = subprocess.run([sys.executable, "-c", script, name, pack(die).hex()], check=False)
    assert asker.returncode == 1

    def hang(connection: Connection) -> None:
        import os
        import time

        connection.recv_bytes()
        connection.recv_bytes()
        connection.send_bytes(pack((True, os.getpid())))
        time.sleep(600)

    script = script.replace("Errand(", "print(Errand(").replace("None, 0)", "None, 0), flush=True); input()")
    command = [sys.executable, "-c", script, name, pack(hang).hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        worker = int(waiting.stdout.readline())
        assert is_there(worker)
        waiting.kill()
    assert soon(lambda: not is_there(worker))


def test_other_users_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert nursery._check_user(one) == os.getpid()
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
        with pytest.raises(PermissionError, match=f"user {user} is at the other end"):
            nursery._check_user(one)
