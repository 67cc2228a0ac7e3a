"""The limits of a stream's batches in PySpark 4.2, with substitutes for PySpark 4.1.

PySpark 4.1 asks a stream for the end of its topics without a start or a limit, and has no classes for limits. There the
substitutes are empty classes.
"""

from typing import TYPE_CHECKING

__all__ = [
    "HAS_ADMISSION_CONTROL",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]


if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_ADMISSION_CONTROL: bool
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:
        ReadAllAvailable = ReadLimit = ReadMaxBytes = ReadMaxRows = ReadMinRows = object
        SupportsTriggerAvailableNow = object
        HAS_ADMISSION_CONTROL = False
    else:
        HAS_ADMISSION_CONTROL = True
