"""For all tests: nothing depends on how fast the machine is at the moment."""

import os

from hypothesis import HealthCheck, settings

# Before torch is imported. A number that is given is kept by runs, so that two runs of one seed are equal to the bit.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What compiles by itself when a run takes long would make results depend on the speed of the machine.
os.environ.setdefault("REIN_AUTO_COMPILE", "0")

settings.register_profile("any_speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_speed")
