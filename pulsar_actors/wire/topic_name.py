"""Topic names and their parts.

    persistent://tenant/namespace/topic             the complete name
    persistent://tenant/cluster/namespace/topic     the older form, V1, which brokers still serve
    tenant/namespace/topic                          short for persistent://tenant/namespace/topic
    topic                                           short for persistent://public/default/topic

The domain is `persistent` or `non-persistent`. Only a V1 name can have slashes in its last part, so three parts are a
V2 name and four or more a V1 name. Tenant, cluster and namespace consist of ASCII letters, digits and ``_-=:.``; the
topic may be anything that is not blank.

`.` and `..` are path segments with a meaning of their own in HTTP, also when written as `%2E`. No tenant, cluster or
namespace can have such a name, since those are created over HTTP. A topic can, since its name need not appear in a URL,
and a broker may list it; such a name is valid, but has no `rest_path`.

A partition of a topic is itself a topic, named `topic-partition-N`. N is written as Java prints an `int`:
`-partition-01`, `-partition-x` and `-partition-3000000000` are ordinary endings of ordinary names.

The Java and C++ clients differ in rare cases: Java accepts `/topic` and `PERSISTENT://…`, C++ accepts a blank topic. A
name that is valid here is one that both of them accept, with the same meaning.
"""

import re

from pulsar_actors.exceptions import InvalidTopicName
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import excerpt

_DOMAINS = ("persistent", "non-persistent")
_MIN_OWNERS, _MAX_OWNERS = 2, 3  # tenant and namespace; in V1 the cluster between them
_NAMED_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,9})", re.DOTALL)
_MAX_PARTITION = 2**31 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_DOTS = {".", ".."}
_FORMS = "topic, tenant/namespace/topic, or {persistent,non-persistent}://tenant/[cluster/]namespace/topic"


class TopicName(NamedTuple):
    """The parts of a topic name; `str()` joins them. Create one with `parse`, which checks them."""

    domain: str
    tenant: str
    cluster: str | None
    namespace: str
    local_name: str

    @classmethod
    def parse(cls, text: str) -> "TopicName":
        """Read a name in any of the forms above."""
        try:
            domain, separator, rest = text.partition("://")
        except (AttributeError, TypeError) as fault:
            raise _invalid(text, f"it is of type {type(text).__name__}") from fault
        if not separator:
            domain, rest = "persistent", text if "/" in text else f"public/default/{text}"
        elif domain not in _DOMAINS:
            raise _invalid(text, f"its domain is {excerpt(domain)}")
        *owners, local_name = rest.split("/", _MAX_OWNERS)
        if len(owners) < _MIN_OWNERS or (len(owners) == _MAX_OWNERS and not separator):
            raise _invalid(text, f"it has {rest.count('/') + 1} parts")
        for owner in owners:
            if not _NAMED_ENTITY.fullmatch(owner) or owner in _DOTS:
                raise _invalid(
                    text, f"{excerpt(owner)} is not made of ASCII letters, digits and '_-=:.', or is all dots"
                )
        if not local_name.strip():
            raise _invalid(text, "its last part is blank")
        if _SURROGATE.search(local_name):
            raise _invalid(text, "half of a surrogate pair has no UTF-8 form")
        cluster = owners[1] if len(owners) == _MAX_OWNERS else None
        return cls(domain, owners[0], cluster, owners[-1], local_name)

    @property
    def is_persistent(self) -> bool:
        """True if the broker stores the topic's messages."""
        return self.domain == "persistent"

    @property
    def namespace_name(self) -> str:
        """`tenant/namespace`, or `tenant/cluster/namespace` for a V1 name."""
        if self.cluster is None:
            return f"{self.tenant}/{self.namespace}"
        return f"{self.tenant}/{self.cluster}/{self.namespace}"

    @property
    def encoded_local_name(self) -> str:
        """The last part as one segment of a URL's path; InvalidTopicName if it cannot be one."""
        if not _DOTS.isdisjoint(self.local_name.split("/")):
            raise InvalidTopicName(
                f"{excerpt(str(self))} has no HTTP address, for '.' and '..' mean something else there"
            )
        from urllib.parse import quote  # noqa: PLC0415 - few programs look up over HTTP

        return quote(self.local_name, safe="")

    @property
    def rest_path(self) -> str:
        """The common part of the HTTP paths for lookups and partition counts. It begins with the domain.

        InvalidTopicName for a topic that has no HTTP path: see `encoded_local_name`.
        """
        return f"{self.domain}/{self.namespace_name}/{self.encoded_local_name}"

    @property
    def partition_index(self) -> int:
        """The N of `-partition-N`, or -1."""
        match = _PARTITION.fullmatch(self.local_name)
        if match is None or not match[1].strip() or int(match[2]) > _MAX_PARTITION:
            return -1
        return int(match[2])

    @property
    def base(self) -> "TopicName":
        """The partitioned topic of a partition; any other topic is its own base."""
        index = self.partition_index
        if index == -1:
            return self
        return self._replace(local_name=self.local_name.removesuffix(f"-partition-{index}"))

    def partition(self, index: int) -> "TopicName":
        """Name the partition `index` of this topic."""
        if type(index) is not int or not 0 <= index <= _MAX_PARTITION:
            raise InvalidTopicName(f"a partition is numbered from 0 to {_MAX_PARTITION}, not {excerpt(index)}")
        if self.partition_index != -1:
            raise InvalidTopicName(f"{excerpt(str(self))} is a partition already, and has none of its own")
        return self._replace(local_name=f"{self.local_name}-partition-{index}")

    def __str__(self) -> str:
        return f"{self.domain}://{self.namespace_name}/{self.local_name}"


def _invalid(text: object, reason: str) -> InvalidTopicName:
    return InvalidTopicName(f"{excerpt(text)} is not the name of a topic, for {reason}; write {_FORMS}")
