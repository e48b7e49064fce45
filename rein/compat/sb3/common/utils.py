"""See `rein.compat.sb3.schedules` and `rein.compat.sb3.worlds`."""

from rein.compat.sb3.schedules import constant_fn, get_linear_fn, get_schedule_fn
from rein.compat.sb3.worlds import set_random_seed

__all__ = ["constant_fn", "get_linear_fn", "get_schedule_fn", "set_random_seed"]
