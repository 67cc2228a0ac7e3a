from typing import Any

import pytest

from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ServerError

TYPES = CommandSubscribe.SubType
STICKY = {"key_shared_mode": KeySharedMode.STICKY, "hash_ranges": [(0, 5)]}


@pytest.mark.parametrize(
    ("there", "new", "complaint"),
    [
        ({"kind": TYPES.Shared}, {"kind": TYPES.Key_Shared}, "type of 'Shared' .* type 'Key_Shared'"),
        ({"kind": TYPES.Exclusive}, {"kind": TYPES.Failover}, "type of 'Exclusive' .* type 'Failover'"),
        (
            {"kind": TYPES.Key_Shared},
            {"kind": TYPES.Key_Shared, **STICKY},
            "key_shared mode of 'AUTO_SPLIT' .* key_shared mode 'STICKY'",
        ),
        (
            {"kind": TYPES.Key_Shared},
            {"kind": TYPES.Key_Shared, "allow_out_of_order": True},
            "does not allow out of order delivery while the connecting consumer allows it",
        ),
        (
            {"kind": TYPES.Key_Shared, "allow_out_of_order": True},
            {"kind": TYPES.Key_Shared},
            "allows out of order delivery while the connecting consumer does not allow it",
        ),
    ],
)
def test_consumers_of_different_kinds_do_not_mix(world: Any, there: Any, new: Any, complaint: str) -> None:
    first = world.consumer(**there)
    with pytest.raises(Refusal, match=f"^ConsumerBusy: Subscription is of different type.*{complaint}") as refusal:
        world.consumer(**new)
    assert refusal.value.code == ServerError.ConsumerBusy
    first.made.close()
    world.consumer(**new)
