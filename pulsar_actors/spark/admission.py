"""What a stream is told of limits, as far as this PySpark has names for it.

PySpark 4.1 asks how far a topic goes, and says neither where the batch would start nor how much it may take; it has no
names for these either. What stands in for them there is never used.
"""

from typing import TYPE_CHECKING

__all__ = ["IS_TOLD", "ReadAllAvailable", "ReadLimit", "ReadMaxBytes", "ReadMaxRows", "SupportsTriggerAvailableNow"]

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    IS_TOLD: bool
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:
        ReadAllAvailable = ReadLimit = ReadMaxBytes = ReadMaxRows = SupportsTriggerAvailableNow = object
        IS_TOLD = False
    else:
        IS_TOLD = True
