"""Play the scenarios in turn, one seed each, until one fails: `python -m tests.planted.rounds SEEDS [spark]`.

Its last line says which did, as JSON; the exit status is 1 then.
"""

import json
import resource
import sys
from collections.abc import Callable

from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.simulation.connection import CALM, NetworkConditions
from pulsar_actors.simulation.world import World
from tests.scenarios.scene import CHANGEABLE, Scene
from tests.scenarios.test_asking import asking
from tests.scenarios.test_chunks import chunking
from tests.scenarios.test_closing import closing, closing_in_a_transfer
from tests.scenarios.test_consuming import consuming
from tests.scenarios.test_dead_letters import refusing
from tests.scenarios.test_delays import delaying
from tests.scenarios.test_everything import everything
from tests.scenarios.test_growing import growing
from tests.scenarios.test_idle_connections import idling
from tests.scenarios.test_interrupted_chunks import interrupting, overloading, resting
from tests.scenarios.test_key_sharing import sharing
from tests.scenarios.test_message_options import posting
from tests.scenarios.test_mixed_sends import mixing, mixing_in_calm
from tests.scenarios.test_non_persistent import unkept
from tests.scenarios.test_patterns import gathering
from tests.scenarios.test_pausing import pausing
from tests.scenarios.test_priorities import taking_over
from tests.scenarios.test_readers import reading_with_options
from tests.scenarios.test_reading import reading
from tests.scenarios.test_receipts import confirming
from tests.scenarios.test_repeated_chunks import reloading, repeating
from tests.scenarios.test_resuming import doubting, resuming
from tests.scenarios.test_retries import procrastinating
from tests.scenarios.test_routing import routing
from tests.scenarios.test_schema_changes import changing
from tests.scenarios.test_schemas import knowing
from tests.scenarios.test_seeking import seeking
from tests.scenarios.test_sending import sending
from tests.scenarios.test_slow_links import SLOW, crawling
from tests.scenarios.test_table_views import viewing
from tests.scenarios.test_transactions import racing, transactions
from tests.scenarios.test_unanswered_acks import unanswered_acks
from tests.scenarios.test_unanswered_sends import unanswered_sends
from tests.scenarios.test_waiting_in_line import waiting_in_line

MOST_MEMORY = 3 << 30

Scenario = tuple[str, Callable[[Scene], object], NetworkConditions]

SCENARIOS: tuple[Scenario, ...] = (
    ("everything", everything, CHANGEABLE),
    ("everything, in calm", lambda scene: everything(scene, troubled=False), CALM),
    ("consuming", lambda scene: consuming(scene, ConsumerType.Shared), CHANGEABLE),
    ("transactions", lambda scene: transactions(scene, ConsumerType.Shared), CHANGEABLE),
    ("ends that race", racing, CALM),
    ("sending", sending, CHANGEABLE),
    ("sending without an answer", unanswered_sends, CALM),
    ("seeking", seeking, CHANGEABLE),
    ("consuming in order", lambda scene: consuming(scene, ConsumerType.Failover), CHANGEABLE),
    ("consuming by key", lambda scene: consuming(scene, ConsumerType.KeyShared), CHANGEABLE),
    ("reading", reading, CHANGEABLE),
    ("what is not kept", lambda scene: unkept(scene, ConsumerType.Exclusive), CHANGEABLE),
    ("closing", closing, CHANGEABLE),
    ("asking", asking, CHANGEABLE),
    ("confirming", confirming, CHANGEABLE),
    ("confirming without an answer", unanswered_acks, CALM),
    ("growing", growing, CHANGEABLE),
    ("gathering", gathering, CHANGEABLE),
    ("procrastinating", procrastinating, CHANGEABLE),
    ("repeated chunks", repeating, CALM),
    ("interrupted chunks", interrupting, CALM),
    ("chunks of a key that moves", lambda scene: interrupting(scene, ConsumerType.KeyShared), CALM),
    ("chunks at a program that rests", resting, CALM),
    ("chunks in a backlog", overloading, CALM),
    ("routing", routing, CHANGEABLE),
    ("resuming", resuming, CHANGEABLE),
    ("idling", idling, CHANGEABLE),
    ("posting", posting, CHANGEABLE),
    ("delaying", delaying, CHANGEABLE),
    ("pausing", pausing, CHANGEABLE),
    ("sharing", sharing, CHANGEABLE),
    ("taking over", taking_over, CHANGEABLE),
    ("chunking", chunking, CHANGEABLE),
    ("refusing", refusing, CHANGEABLE),
    ("knowing schemas", knowing, CHANGEABLE),
    ("changing schemas", changing, CHANGEABLE),
    ("viewing", viewing, CHANGEABLE),
    ("reading with options", reading_with_options, CHANGEABLE),
    ("sending lines once more", doubting, CALM),
    ("mixing", mixing, CHANGEABLE),
    ("mixing in calm", mixing_in_calm, CALM),
    ("reloaded chunks", reloading, CALM),
    ("crawling", crawling, SLOW),
    ("closing in a transfer", closing_in_a_transfer, CALM),
    ("waiting in line", waiting_in_line, CALM),
)


def scenarios_of_spark() -> tuple[Scenario, ...]:
    """Return the scenarios for which PySpark must be there."""
    from tests.spark.test_simulated_batches import batches  # noqa: PLC0415
    from tests.spark.test_simulated_streams import streams  # noqa: PLC0415

    return ("batches", batches, CHANGEABLE), ("streams", streams, CHANGEABLE)


def play(number: int, scenarios: tuple[Scenario, ...]) -> tuple[str, str]:
    """Play one seed, and return the scenario, and how it failed, if it did."""
    name, scenario, conditions = scenarios[number % len(scenarios)]
    round_ = number // len(scenarios)
    try:
        with World(number, conditions) as world:
            scenario(Scene(world, deduplication=name != "sending" or round_ % 2 == 0))
    except Exception as error:  # noqa: BLE001 - any failure will do
        return name, f"{type(error).__name__}: {str(error).splitlines()[-1] if str(error) else ''}"
    return name, ""


def main(seeds: int, *, of_spark: bool) -> int:
    """Play so many seeds at most. One that takes all memory fails, too."""
    scenarios = scenarios_of_spark() if of_spark else SCENARIOS
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for number in range(seeds):
        scenario, how = play(number, scenarios)
        if how:
            print(json.dumps({"seeds": number + 1, "scenario": scenario, "how": how}))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), of_spark="spark" in sys.argv[2:]))
