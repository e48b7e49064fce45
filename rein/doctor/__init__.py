"""What a machine and an installation have, what they lack, and how to mend it."""

from rein.doctor.examination import examine
from rein.doctor.finding import Finding, Status

__all__ = ["Finding", "Status", "examine"]
