"""A consumer of a topic pattern: it receives from all topics whose names match, also from those created later.

Each sensor has a topic of its own, and the collector needs no list of them. Brokers tell the client about new topics,
and otherwise the client asks every `pattern_auto_discovery_period` seconds. `initial_position` says where the
subscription to a new topic begins: with Earliest, no message from before the discovery is missed.
"""

import re

from where import fresh, service_url

import pulsar_actors as pulsar


def main() -> None:
    """Collect from two sensors, and from a third that starts later."""
    with service_url(__doc__) as url, pulsar.Client(url) as client:
        house = fresh("house")
        collector = client.subscribe(
            re.compile(f"persistent://public/default/{house}-sensor-.*"),
            "collector",
            initial_position=pulsar.InitialPosition.Earliest,
            pattern_auto_discovery_period=1,
        )
        for room in ("kitchen", "cellar", "attic"):
            sensor = client.create_producer(f"{house}-sensor-{room}")
            sensor.send(b"19.5")
            reading = collector.receive(30_000)
            collector.acknowledge(reading)
            print(f"{reading.topic_name().removeprefix(f'persistent://public/default/{house}-sensor-')}: 19.5")
        collector.unsubscribe()


if __name__ == "__main__":
    main()
