"""What is said of a failure to whoever has waited in vain: that time is up tells least of all that went wrong."""

from pulsar_actors.exceptions import PulsarException


def after(failure: PulsarException | None) -> str:
    """Give the end of a sentence that names it; nothing, if nothing has failed."""
    return "" if failure is None else f"; the last failure was: {failure}"
