import pytest

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.session.directory import Directory, LookupResult, Node
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.topic_name import TopicName

TOPIC = TopicName.parse("t")


class Owners:
    def __init__(self, owner: str | None) -> None:
        self.owner = owner

    def owner_of(self, name: TopicName, /) -> str | None:
        return self.owner


def cluster(owner: str | None) -> tuple[Directory, dict[str, Node]]:
    directory = Directory(Owners(owner))
    for name in ("leader", "second", "third"):
        directory.add(Node(name))
    return directory, {node.name: node for node in directory.nodes}


@pytest.mark.parametrize("asked", ["leader", "second", "third"])
def test_what_nobody_was_given_is_served_wherever_it_is_asked_for(asked: str) -> None:
    directory, nodes = cluster(None)
    here = nodes[asked]
    for authoritative in (False, True):
        result = directory.lookup(TOPIC, here, authoritative=authoritative)
        assert result == LookupResult(here, redirect=False, authoritative=True)
    assert directory.serves(here, TOPIC)


WALKS = [
    # owner     asked at   the result
    ("leader", "leader", ["leader"]),
    ("second", "leader", ["leader", "second"]),
    ("leader", "second", ["second", "leader"]),
    ("second", "second", ["second"]),
    ("third", "second", ["second", "leader", "third"]),
]


@pytest.mark.parametrize(("owner", "asked", "walk"), WALKS)
def test_a_walk_of_redirects_leads_to_the_owner_in_two_steps_at_most(owner: str, asked: str, walk: list[str]) -> None:
    directory, nodes = cluster(owner)
    at, authoritative, walked = nodes[asked], False, [asked]
    while True:
        result = directory.lookup(TOPIC, at, authoritative=authoritative)
        if not result.redirect:
            break
        at, authoritative = result.node, result.authoritative
        walked.append(at.name)
    assert walked == walk
    assert result == LookupResult(nodes[owner], redirect=False, authoritative=True)


def test_a_broker_that_is_asked_last_names_the_owner_itself() -> None:
    directory, nodes = cluster("third")
    result = directory.lookup(TOPIC, nodes["second"], authoritative=True)
    assert result == LookupResult(nodes["third"], redirect=False, authoritative=True)


def test_a_topic_that_was_given_to_nobody_that_is_there_is_not_ready() -> None:
    directory, nodes = cluster("fourth")
    with pytest.raises(Refusal, match="fourth is no broker of this cluster") as refused:
        directory.lookup(TOPIC, nodes["leader"], authoritative=False)
    assert refused.value.code == ServerError.ServiceNotReady
