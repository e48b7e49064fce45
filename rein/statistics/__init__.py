"""Statistics that follow the data: averagers, normalizers, and the updater of target networks.

They are modules whose state is in buffers, so that they are saved, restored and moved with the algorithm that holds them.
"""

from rein.statistics.averagers import (
    AdaptiveAverager,
    Averager,
    EMAverager,
    ScalarAdaptiveAverager,
    ScalarEMAverager,
    ScalarWindowAverager,
    WindowAverager,
)
from rein.statistics.frozen import are_statistics_frozen, frozen_statistics
from rein.statistics.normalizers import (
    AdaptiveNormalizer,
    EMNormalizer,
    Normalizer,
    ScalarAdaptiveNormalizer,
    ScalarEMNormalizer,
    ScalarWindowNormalizer,
    WindowNormalizer,
)
from rein.statistics.target_updater import TargetUpdater

__all__ = [
    "AdaptiveAverager",
    "AdaptiveNormalizer",
    "Averager",
    "EMAverager",
    "EMNormalizer",
    "Normalizer",
    "ScalarAdaptiveAverager",
    "ScalarAdaptiveNormalizer",
    "ScalarEMAverager",
    "ScalarEMNormalizer",
    "ScalarWindowAverager",
    "ScalarWindowNormalizer",
    "TargetUpdater",
    "WindowAverager",
    "WindowNormalizer",
    "are_statistics_frozen",
    "frozen_statistics",
]
