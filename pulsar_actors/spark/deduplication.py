"""Whether a broker removes duplicates on a topic: what idempotent writing rests on."""

from contextlib import closing

from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.spark.cluster import Cluster
from pulsar_actors.spark.statistics import Statistics
from pulsar_actors.spark.topics import TopicChoice
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["refuse_without_deduplication"]


def refuse_without_deduplication(cluster: Cluster, topic: TopicName | None) -> None:
    """Ask for each partition of the topic; refuse what cannot be asked, or does not."""
    if topic is None:
        raise InvalidConfiguration("idempotent=true needs the option topic: of topics by row nobody knows beforehand")
    if cluster.admin_url is None:
        raise InvalidConfiguration(
            "idempotent=true needs admin.url, such as http://host:8080: it rests on the broker's deduplication, and "
            "whether that is on can only be asked there"
        )
    with cluster.client() as client:
        partitions = TopicChoice((topic,), None, waits=False).partitions(client)
    if not partitions:
        raise InvalidConfiguration(f"idempotent=true rests on deduplication, and there is no topic {topic}: make it")
    with closing(Statistics(cluster)) as statistics:
        for partition in partitions:
            if not statistics.deduplicates(partition):
                raise InvalidConfiguration(
                    f"idempotent=true rests on deduplication, which {partition} has not: turn it on for the topic, its "
                    "namespace, or the broker"
                )
