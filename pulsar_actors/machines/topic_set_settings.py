"""What a topic set is told when it is made."""

from typing import NamedTuple


class TopicSetSettings(NamedTuple):
    """What a set is told when it is made.

    `what` names it in errors. `topics` are those named, each with the number of its partitions where that is known;
    a pattern finds others beside them. `first` is the partition whose member is made first and gives its name to
    the others; None: all are made at once. `look_again` is in seconds, 0 for never. `lazy` sets make no others before
    they are wanted. With `watches` a broker is to say when topics come or go.
    """

    what: str
    topics: dict[str, int | None]
    has_pattern: bool = False
    look_again: float = 0.0
    first: int | None = None
    lazy: bool = False
    watches: bool = False
