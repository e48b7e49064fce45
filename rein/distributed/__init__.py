"""One algorithm, many workers: collectors and gradient workers, in this process, on this machine, or on a Ray cluster."""

from rein.distributed.attach import attach
from rein.distributed.backends import WorkerFailedError, WorkerGoneError
from rein.distributed.scheme import Scheme, SchemeError

__all__ = ["Scheme", "SchemeError", "WorkerFailedError", "WorkerGoneError", "attach"]
