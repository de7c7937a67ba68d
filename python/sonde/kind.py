"""What a quantity is about; filters and views group by it."""

from enum import IntEnum


class Kind(IntEnum):
    """As enum sonde_kind of sonde.h."""

    CUSTOM = 0
    TIME = 1
    THROUGHPUT = 2
    MEMORY = 3
    COUNTER = 4
    RATIO = 5
    PERCENTAGE = 6
