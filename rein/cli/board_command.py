"""Shows runs on a live page in the browser: curves, settings side by side, agents, videos, logs, the zoo's evidence.

The page is served to this machine only and changes nothing. Runs that begin later appear by themselves. Ctrl-C ends it.

Example:
  rein board
  rein board runs sweeps/grid --port 8123
"""

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from rein.cli.command import BadInputError, Outcome, Session

if TYPE_CHECKING:
    from rein.board import BoardServer, Shelf

_DEFAULT_FOLDER, _DEFAULT_PORT = "runs", 7300


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("folders", nargs="*", metavar="DIR", help="runs, or folders with runs in them (default: runs)")
    parser.add_argument(
        "--port",
        type=int,
        help=f"of the page; 0 takes any free one (default: {_DEFAULT_PORT}, or another if that is taken)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Serves until it is stopped."""
    if not arguments.folders and not Path(_DEFAULT_FOLDER).is_dir():
        raise BadInputError("there is no folder runs here: name a folder with runs in it, `rein board DIR`")
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise BadInputError(f"--port {arguments.port} is no port: give 0 to 65535")

    from rein.board import Shelf

    shelf = Shelf(arguments.folders or [_DEFAULT_FOLDER])
    server = _bind(shelf, arguments.port)
    session.start_working()
    server.warm_up()
    found = len(shelf.runs())
    where = ", ".join(map(str, shelf.folders))
    runs = "1 run" if found == 1 else f"{found} runs"
    print(f"{server.url} shows {runs} of {where}; Ctrl-C ends it", file=session.stream, flush=True)
    if arguments.open:
        import webbrowser

        webbrowser.open(server.url)
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return Outcome({"url": server.url, "folders": [str(folder) for folder in shelf.folders], "runs": found})


def _bind(shelf: "Shelf", port: int | None) -> "BoardServer":
    from rein.board import BoardServer

    try:
        return BoardServer(shelf, _DEFAULT_PORT if port is None else port)
    except OSError as error:
        if port is None:
            return BoardServer(shelf, 0)
        reason = error.strerror or error
        raise BadInputError(
            f"port {port} cannot be used ({reason}): choose another, or --port 0 for a free one"
        ) from error
