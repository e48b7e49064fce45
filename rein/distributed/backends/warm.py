"""What every worker would do at its first call of a compiled kernel; the fork server loads this module last, to do it once.

Loading the signatures of all functions that numba knows takes half a second of a processor.
"""

import sys

if "numba" in sys.modules:
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
