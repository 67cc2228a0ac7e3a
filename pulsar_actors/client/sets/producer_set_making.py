"""How the producer of a partitioned topic is put together: options into a machine, a crew, and their parts."""

from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.client.producing.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.client.sets.message_router import router_of
from pulsar_actors.client.sets.producer_crew import ProducerCrew
from pulsar_actors.client.sets.producer_set_parts import ProducerSetParts
from pulsar_actors.client.sets.switchboard import Switchboard
from pulsar_actors.client.sets.topic_set_making import begin_topic_set
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.machines.topic_set_settings import TopicSetSettings
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.topic_set_actor import Search
from pulsar_actors.wire.topic_name import TopicName


def begin_producer_set(
    workshop: Workshop, options: ProducerOptions, partitions: int, initial_subscription: str = ""
) -> SlimFuture[ProducerSetParts]:
    """Begin to make the producer of a topic with so many partitions."""
    engine, topic = workshop.engine, str(TopicName.parse(options.topic))
    route = router_of(options, engine.loops[0].chance, engine.now, topic)
    is_lazy = options.lazy_start_partitioned_producers and options.access_mode is ProducerAccessMode.Shared
    crew, reports = ProducerCrew(workshop, options, initial_subscription), Reports(topic, -1)
    parts = ProducerSetParts(engine, crew, Switchboard(crew, route), reports)
    parts.interceptors = ProducerInterceptors.of(options.interceptors, reports, topic, engine.workers[0])
    crew.interceptors = parts.interceptors
    first = None
    if is_lazy or not options.producer_name:  # the others get the name that a broker chooses for the first
        first = 0 if options.message_router is not None else route(b"", None, partitions)
    settings = TopicSetSettings(
        what=f"the producer on {topic}",
        topics={topic: partitions},
        look_again=workshop.partitions_update_interval,
        first=first,
        lazy=is_lazy,
    )
    return begin_topic_set(workshop, parts, settings, crew, Search())
