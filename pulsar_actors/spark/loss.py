"""What becomes of the news that messages are lost."""

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.runtime.log import LOG

__all__ = ["lose"]


def lose(what: str, *, fails: bool) -> None:
    """Fail, or log it and go on, as `failOnDataLoss` says."""
    if fails:
        raise PulsarException(f"{what}. To go on with what there is, set failOnDataLoss to false")
    LOG.warning("%s", what)
