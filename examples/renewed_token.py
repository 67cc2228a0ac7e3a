"""A token that ends soon, and is renewed in its file: the client reads it again whenever a broker wants one.

Something beside the program renews it: a sidecar, a cron job, a secrets manager. The broker asks for another token
when one is over, and the connection goes on; whoever opens a new connection reads the file too. Nothing has to be
restarted, and no message waits. A callable does the same for tokens that come from elsewhere:
`AuthenticationToken(lambda: vault.read("pulsar"))`.
"""

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from where import addresses, fresh

import pulsar_actors as pulsar
from pulsar_actors.broker.tokens import Tokens

LIFETIME = 1.0  # in seconds: a real one has hours
TOKENS = Tokens(b"the key of whoever issues tokens, which the broker checks them by")


def renew(file: Path, is_over: threading.Event) -> None:
    """Put a new token into the file long before the one in it is over: the part of the sidecar."""
    while not is_over.wait(LIFETIME / 4):
        put(file)


def put(file: Path) -> None:
    """Replace the file as a whole, so that nobody ever reads half a token."""
    new = file.with_suffix(".new")
    new.write_text(TOKENS.issue("greenhouse", lifetime_seconds=LIFETIME))
    new.replace(file)


def main() -> None:
    """Send for as long as three tokens last."""
    with TemporaryDirectory() as folder, addresses(__doc__, TOKENS) as (url, _):
        file, is_over = Path(folder) / "token", threading.Event()
        put(file)
        renewing = threading.Thread(target=renew, args=(file, is_over))
        renewing.start()
        try:
            with pulsar.Client(url, authentication=pulsar.Authentication("token", file.as_uri())) as client:
                producer = client.create_producer(fresh("greenhouse"))
                for _ in range(30):
                    producer.send(b"22.5")
                    is_over.wait(LIFETIME / 10)
                stats = producer.stats()
                print(f"{stats.sent} messages sent, {stats.reconnects} times reconnected")
        finally:
            is_over.set()
            renewing.join()


if __name__ == "__main__":
    main()
