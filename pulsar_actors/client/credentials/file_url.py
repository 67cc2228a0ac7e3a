"""Files by URL: `file:///a/path`, `file:/a/path` and `file:a/path`, as Pulsar's configuration files have them."""

from urllib.parse import unquote, urlsplit

from pulsar_actors.client.credentials.secret_arguments import secret_path

__all__ = ["path_of"]


def path_of(url: str) -> str:
    """Give the path, with what is written as %20 and the like as it is."""
    return secret_path("file:", unquote(urlsplit(url).path))
