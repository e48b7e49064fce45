"""Answers of the board: one static page, JSON, and media of runs. It only reads, and only this machine can ask.

A page of another origin could reach a server on the loopback interface by giving its own name that address (DNS rebinding);
therefore requests that do not name the loopback interface as their host are refused.
"""

import gc
import hashlib
import json
import logging
import math
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import IO, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from rein.board.curves import MOST_POINTS, CurveRequest, draw, list_metrics
from rein.board.details import describe, find_media, summarize
from rein.board.evidence import list_evidence, read_evidence
from rein.board.settings import compare
from rein.board.shelf import ODD, Shelf, ShelvedRun, UnknownRunError
from rein.runtime.cores import usable_cores
from rein.runtime.scalar_helpers import Helper, HelperError
from rein.training.statistics_of_runs import TRAINING_RETURN
from rein.version import __version__

logger = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_PAGE_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_DATA_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Of everything that comes from runs: opened by itself it runs nothing, whatever it is."""
_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})")
_BLOCK = 2**16
_MOST_COMPARED = 12
_MOST_HELPERS = 4
_BYTES_PER_HELPER = 8 * 2**20
"""Less is read sooner than a process starts."""


class _Answer(NamedTuple):
    status: HTTPStatus
    type: str
    body: bytes
    policy: str = _DATA_POLICY


class _NotFoundError(LookupError):
    """There is nothing at an address."""


class BoardServer(ThreadingHTTPServer):
    """Serves the board until `shutdown`.

    Attributes:
        shelf: the runs.
        url: of the page.
    """

    daemon_threads = True

    def __init__(self, shelf: Shelf, port: int = 0) -> None:
        """Binds to the loopback interface.

        Args:
            shelf: the runs.
            port: 0 takes any free one.

        Raises:
            OSError: the port is taken.
        """
        self.shelf = shelf
        super().__init__((ADDRESS, port), _Handler)
        self.url = f"http://{ADDRESS}:{self.server_port}/"
        self.hosts = {f"{host}:{self.server_port}" for host in _HOSTS} | (
            set(_HOSTS) if self.server_port == 80 else set()
        )

    def warm_up(self) -> threading.Thread:
        """Reads all runs in the background, so that they are there when the page asks for them; returns who does it."""
        # Parsing makes many short-lived objects; without this the collector looks through all of torch for each few of them.
        gc.freeze()
        thread = threading.Thread(target=self._read_all, daemon=True)
        thread.start()
        return thread

    def _read_all(self) -> None:
        """Reads all runs, much of it in as many processes as there are processors."""
        left = deque(self.shelf.runs())
        unread = sum(run.bytes_unread for run in left)
        helpers = min(_MOST_HELPERS, unread // _BYTES_PER_HELPER, usable_cores() - 1)
        threads = [threading.Thread(target=_read_by_helper, args=(left,), daemon=True) for _ in range(helpers)]
        for thread in threads:
            thread.start()
        while (run := _next(left)) is not None:
            run.series()
        for thread in threads:
            thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has left is no error."""


def _next(left: deque[ShelvedRun]) -> ShelvedRun | None:
    try:
        return left.popleft()
    except IndexError:
        return None


def _read_by_helper(left: deque[ShelvedRun]) -> None:
    """Has another process read runs, from the other end; what it cannot read is read when it is asked for."""
    try:
        with Helper() as helper:
            while left:
                left.pop().read_by(helper)
    except (HelperError, OSError, IndexError) as error:
        logger.debug("a helper has ended: %r", error)


class _Handler(BaseHTTPRequestHandler):
    server: BoardServer
    protocol_version = "HTTP/1.1"
    server_version = "rein"
    sys_version = ""
    timeout = 60
    disable_nagle_algorithm = True  # A head and a body are two packets, and the second would wait for an answer.

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._refuse_method
        raise AttributeError(name)

    def _refuse_method(self) -> None:
        self.close_connection = True  # What may follow as its body is not read.
        self._send(_error(HTTPStatus.METHOD_NOT_ALLOWED, "the board only reads: use GET"))

    def _answer(self) -> None:
        if self.headers.get("Host", "").lower() not in self.server.hosts or len(self.headers.get_all("Host", [])) != 1:
            self.close_connection = True
            self._send(_error(HTTPStatus.FORBIDDEN, f"this is not {self.headers.get('Host')}: open {self.server.url}"))
            return
        try:
            address = urlsplit(self.path)
            parts = [unquote(part, errors="strict") for part in address.path.split("/")[1:]]
            query = parse_qs(address.query, errors="strict")
            if parts[0] == "files" and len(parts) == 4:
                self._send_media(parts[1], parts[2], parts[3])
                return
            answer = _page(parts) if parts[0] != "api" else _json(_api(self.server.shelf, parts[1:], query))
        except (_NotFoundError, UnknownRunError, KeyError):
            answer = _error(HTTPStatus.NOT_FOUND, "there is nothing here")
        except (ValueError, TypeError, OSError) as error:
            answer = _error(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:  # One run in an unforeseen state must not take the page down.
            logger.warning("%s cannot be answered: %r", self.path, error)
            answer = _error(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
        self._send(answer)

    def _send(self, answer: _Answer) -> None:
        tag = f'"{hashlib.sha256(answer.body).hexdigest()[:20]}"'
        if answer.status is HTTPStatus.OK and self.headers.get("If-None-Match") == tag:
            self._send_head(HTTPStatus.NOT_MODIFIED, answer.type, answer.policy, {"ETag": tag})
            return
        self._send_head(
            answer.status, answer.type, answer.policy, {"ETag": tag, "Content-Length": str(len(answer.body))}
        )
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _send_head(self, status: HTTPStatus, kind: str, policy: str, more: dict[str, str]) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8" if kind.startswith(("text/", "application/json")) else kind,
            "Content-Security-Policy": policy,
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            **more,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_media(self, id_: str, folder: str, name: str) -> None:
        """Sends a video or picture, or the part of it that is asked for."""
        media = find_media(self.server.shelf.run(id_), folder, name)
        if media is None:
            raise _NotFoundError(name)
        with media.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start, end = _range(self.headers.get("Range", ""), size)
            is_part = (start, end) != (0, size)
            headers = {"Accept-Ranges": "bytes", "Content-Length": str(end - start)}
            if is_part:
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
            status = HTTPStatus.PARTIAL_CONTENT if is_part else HTTPStatus.OK
            self._send_head(status, media.type, _DATA_POLICY, headers)
            if self.command != "HEAD":
                for block in _blocks(file, start, end):
                    self.wfile.write(block)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the terminal is for people."""


def _blocks(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    file.seek(start)
    while start < end and (block := file.read(min(_BLOCK, end - start))):
        start += len(block)
        yield block


def _range(header: str, size: int) -> tuple[int, int]:
    """First byte, and the one after the last, of what a Range header asks for; all of it for any other header."""
    found = _RANGE.fullmatch(header)
    if found is None:
        return 0, size
    first, last = found[1], found[2]
    if not first:
        return max(0, size - int(last or size)), size
    start, end = int(first), min(size, int(last) + 1 if last else size)
    return (start, end) if start < end else (0, size)


def _page(parts: list[str]) -> _Answer:
    """A file of the page."""
    name = "index.html" if parts == [""] else parts[1] if parts[0] == "page" and len(parts) == 2 else ""
    kind = _PAGE_TYPES.get(os.path.splitext(name)[1])
    if kind is None or name not in _page_files():
        raise _NotFoundError(name)
    return _Answer(HTTPStatus.OK, kind, _page_files()[name].read_bytes(), _PAGE_POLICY)


def _page_files() -> dict[str, Any]:
    return {file.name: file for file in (resources.files("rein.board") / "page").iterdir()}


def _api(shelf: Shelf, parts: list[str], query: dict[str, list[str]]) -> Any:
    """What an address below /api/ stands for."""

    def one(name: str, default: str = "") -> str:
        return query.get(name, [default])[-1]

    def chosen() -> list[ShelvedRun]:
        return shelf.chosen([id_ for id_ in one("runs").split(",") if id_])

    routes: dict[str, Callable[[], Any]] = {
        "runs": lambda: {
            "version": __version__,
            "folders": [str(folder) for folder in shelf.folders],
            "runs": [summarize(run) for run in shelf.runs()],
        },
        "metrics": lambda: list_metrics(chosen()),
        "curves": lambda: draw(chosen(), _curve_request(one)),
        "compare": lambda: compare(chosen()[:_MOST_COMPARED]),
        "zoo": list_evidence,
    }
    if len(parts) == 1 and parts[0] in routes:
        return routes[parts[0]]()
    if len(parts) == 2 and parts[0] == "run":
        try:
            return describe(shelf.run(parts[1]))
        except UnknownRunError:
            raise
        except ODD as error:
            return {**summarize(shelf.run(parts[1])), "error": str(error)}
    if len(parts) == 2 and parts[0] == "zoo":
        return read_evidence(parts[1])
    raise _NotFoundError("/".join(parts))


def _curve_request(one: Callable[..., str]) -> CurveRequest:
    window, points = int(one("smooth", "1")), int(one("points", str(MOST_POINTS)))
    if not 1 <= window <= 10_000:
        raise ValueError(f"smooth is {window}: give 1 to 10,000 points")
    metric, x_axis = one("metric", TRAINING_RETURN), one("x", "env_steps")
    return CurveRequest(metric, x_axis, window, points, one("group", "1") != "0")


def _json(content: Any) -> _Answer:
    return _Answer(HTTPStatus.OK, "application/json", json.dumps(_finite(content), separators=(",", ":")).encode())


def _finite(content: Any) -> Any:
    """The content without numbers that JSON has no words for."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return content


def _error(status: HTTPStatus, message: str) -> _Answer:
    return _Answer(status, "application/json", json.dumps({"error": message}).encode())
