"""A pattern: one consumer of all topics whose names match, those included that do not exist yet.

Each sensor has a topic of its own, and the collector need not be told of a new one: brokers tell the client, and where
they do not, it looks every `pattern_auto_discovery_period` seconds. A subscription to a new topic begins where
`initial_position` says: with Earliest, it misses nothing of what was sent before the topic was noticed.
"""

import re

from where import fresh, service_url

import pulsar_actors as pulsar


def main() -> None:
    """Collect from two sensors, and from a third that is put in later."""
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
