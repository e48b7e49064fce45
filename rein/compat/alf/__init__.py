"""Names of ALF over ours: confs written for it run unchanged by `rein train --alf CONF`. See docs/from_alf.md."""

from rein.compat.alf.importing import alf_names

__all__ = ["alf_names"]
