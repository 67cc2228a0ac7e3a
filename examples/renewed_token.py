"""A token that expires soon and is renewed in its file: the client reads the file whenever a broker asks for a token.

Another program renews the token: a sidecar, a cron job, a secrets manager. The broker asks for a new token when the old
one expires, and the connection stays. The client also reads the file for each new connection. Nothing is restarted, and
no message waits. For tokens from elsewhere, use a callable: `AuthenticationToken(lambda: vault.read("pulsar"))`.
"""

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from where import addresses, fresh

import pulsar_actors as pulsar
from pulsar_actors.broker.tokens import Tokens

LIFETIME = 4.0  # seconds; a real token lasts for hours
TOKENS = Tokens(b"the key of whoever issues tokens, which the broker checks them by")


def renew(file: Path, is_over: threading.Event) -> None:
    """Write a new token to the file long before the old one expires, as a sidecar would."""
    while not is_over.wait(LIFETIME / 4):
        put(file)


def put(file: Path) -> None:
    """Replace the whole file at once, so that no reader sees half a token."""
    new = file.with_suffix(".new")
    new.write_text(TOKENS.issue("greenhouse", lifetime_seconds=LIFETIME))
    new.replace(file)


def main() -> None:
    """Send messages for longer than a token lives."""
    with TemporaryDirectory() as folder, addresses(__doc__, TOKENS) as (url, _):
        file, is_over = Path(folder) / "token", threading.Event()
        put(file)
        renewing = threading.Thread(target=renew, args=(file, is_over))
        renewing.start()
        try:
            with pulsar.Client(url, authentication=pulsar.Authentication("token", file.as_uri())) as client:
                producer = client.create_producer(fresh("greenhouse"))
                for _ in range(15):
                    producer.send(b"22.5")
                    is_over.wait(LIFETIME / 10)
                stats = producer.stats()
                print(f"{stats.sent} messages sent, {stats.reconnects} times reconnected")
        finally:
            is_over.set()
            renewing.join()


if __name__ == "__main__":
    main()
