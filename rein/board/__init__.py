"""`rein board`: a local live page of runs.

`server` answers requests, read-only and on the loopback interface only; `shelf` finds runs and keeps what was read of them;
`curves`, `details`, `settings` and `evidence` make the answers; `page/` is what the browser shows.
"""

from rein.board.server import BoardServer
from rein.board.shelf import Shelf

__all__ = ["BoardServer", "Shelf"]
