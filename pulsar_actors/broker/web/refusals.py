"""A request that is refused: the HTTP status that says so, and why in words.

Whoever finds a reason to refuse raises it, from the first byte of the request to the last look into the model. It
becomes the answer in `server.py`, or in `connection.py` where there is no whole request to be answered.
"""

__all__ = ["HttpRefusal"]


class HttpRefusal(Exception):
    """Ends the handling of a request with this status and this reason."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        self.headers = headers
