"""Where workers are."""

from rein.distributed.backends.base import Backend, Service, Task, WorkerFailedError, WorkerGoneError

__all__ = ["Backend", "Service", "Task", "WorkerFailedError", "WorkerGoneError"]
