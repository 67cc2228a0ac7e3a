"""Table views of asyncio."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors import asyncio as aio
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.schema import BYTES, Schema, StringSchema
from pulsar_actors.client.table_view import TableView as SyncTableView
from pulsar_actors.exceptions import AlreadyClosed, InvalidArgument
from tests.support.life import SOON
from tests.support.loops import Run, happens


async def put(client: aio.Client, topic: str, *pairs: tuple[str, Any], schema: Schema = BYTES) -> None:
    async with await client.create_producer(topic, schema=schema) as producer:
        await asyncio.gather(*(producer.send(value, partition_key=key) for key, value in pairs))


def test_values_that_are_slow_to_come_are_all_waited_for(
    broker: EmbeddedBroker, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_called = threading.Event()

    def give_slowly(_: object, callback: Callable[[str, bytes], object]) -> None:
        callback("a", b"1")
        assert was_called.wait(SOON)
        callback("b", b"2")

    monkeypatch.setattr(SyncTableView, "for_each_and_listen", give_slowly)
    found: dict[str, bytes] = {}

    async def see(key: str, value: bytes) -> None:
        await asyncio.sleep(0)
        found[key] = value
        was_called.set()

    async def main() -> None:
        async with aio.Client(broker.service_url) as client, await client.create_table_view(topic) as view:
            await view.for_each_and_listen(see)
            assert found == {"a": b"1", "b": b"2"}

    run(main)


def test_it_reads_like_a_dict_and_follows_the_topic(broker: EmbeddedBroker, any_topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await put(client, any_topic, ("a", "1"), ("b", "2"), ("a", "3"), schema=StringSchema())
            async with await client.create_table_view(any_topic, schema=StringSchema()) as view:
                assert dict(view.items()) == {"a": "3", "b": "2"}
                assert (view["a"], view.get("b"), view.get("c", 7), "c" in view, len(view)) == ("3", "2", 7, False, 2)
                assert (sorted(view), sorted(view.keys()), sorted(view.values())) == (
                    ["a", "b"],
                    ["a", "b"],
                    ["2", "3"],
                )
                await put(client, any_topic, ("a", None), ("c", "4"), schema=StringSchema())
                await view.refresh()
                assert dict(view.items()) == {"b": "2", "c": "4"}
                assert view.is_open
                assert view.is_connected()
            assert not view.is_open
            assert view["b"] == "2"
            with pytest.raises(AlreadyClosed):
                await view.refresh()

    run(main)


def test_listeners_may_be_coroutine_functions_and_miss_nothing(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await put(client, topic, *((f"k{number}", b"0") for number in range(50)))
            view = await client.create_table_view(topic)
            updating = asyncio.ensure_future(put(client, topic, *((f"k{n % 50}", b"%d" % n) for n in range(1, 500))))
            found: dict[str, bytes] = {}
            calls = 0

            async def see(key: str, value: bytes) -> None:
                nonlocal calls
                await asyncio.sleep(0)
                assert int(found.get(key, b"-1")) < int(value)  # in order, and none twice
                found[key], calls = value, calls + 1

            await view.for_each_and_listen(see)
            assert len(found) == 50
            updates: list[tuple[str, bytes]] = []
            await updating
            await happens(lambda: found["k49"] == b"499")  # the view has seen all of them
            await view.listen(lambda *update: updates.append(update))
            await put(client, topic, ("last", b"1000"))
            await happens(lambda: "last" in found and updates)
            assert updates == [("last", b"1000")]
            each: list[str] = []

            async def note(key: str, _: bytes) -> None:
                each.append(key)

            await view.for_each(note)
            assert sorted(each) == sorted(view)
            await view.close()

    run(main)


def test_an_error_in_the_first_calls_is_raised_and_a_later_one_logged(
    broker: EmbeddedBroker, topic: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await put(client, topic, ("a", b"1"))
            view = await client.create_table_view(topic)
            calls: list[str] = []

            async def fail(key: str, _: bytes) -> None:
                calls.append(key)
                raise ValueError(f"of the listener, for {key}")

            with pytest.raises(ValueError, match="of the listener"):
                await view.for_each_and_listen(fail)
            await view.listen(fail)
            await put(client, topic, ("b", b"1"), ("c", b"1"))
            await happens(lambda: calls == ["a", "b", "c"])
            with pytest.raises(InvalidArgument, match="callback"):
                await view.listen(7)  # type: ignore[arg-type]

    run(main)
    assert "for c" in caplog.text


def test_a_listener_whose_own_code_is_cancelled_does_not_hold_up_the_caller(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await put(client, topic, ("a", b"1"))
            view = await client.create_table_view(topic)

            async def cancel_own_task(_: str, __: bytes) -> None:
                task = asyncio.ensure_future(asyncio.sleep(SOON))
                task.cancel()
                await task

            calling = asyncio.ensure_future(view.for_each_and_listen(cancel_own_task))
            await asyncio.wait({calling}, timeout=SOON)
            assert calling.cancelled()
            found: list[str] = []
            await view.for_each_and_listen(lambda key, _: found.append(key))
            assert found == ["a"]

    run(main)


def test_a_caller_that_is_cancelled_leaves_no_error_of_its_listener(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        async with aio.Client(broker.service_url) as client:
            await put(client, topic, ("a", b"1"))
            view = await client.create_table_view(topic)
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def fail_later(_: str, __: bytes) -> None:
                begun.set()
                await go_on.wait()
                raise ValueError("of the listener")

            calling = asyncio.ensure_future(view.for_each_and_listen(fail_later))
            await begun.wait()
            calling.cancel()
            await asyncio.wait({calling}, timeout=SOON)
            go_on.set()
            await view.close()
            del view, calling
        gc.collect()
        assert reported == []

    run(main)


def test_listeners_that_fail_in_the_first_calls_are_not_kept(broker: EmbeddedBroker, topic: str, run: Run) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            await put(client, topic, ("a", b"1"))
            view = await client.create_table_view(topic)
            failed: list[weakref.ref[Any]] = []

            async def listen_in_vain() -> None:
                def fail(_: str, __: bytes) -> None:
                    raise ValueError("of the listener")

                failed.append(weakref.ref(fail))
                with pytest.raises(ValueError, match="of the listener"):
                    await view.for_each_and_listen(fail)

            def all_are_gone() -> bool:
                gc.collect()
                return all(one() is None for one in failed)

            for _ in range(3):
                await listen_in_vain()
            await put(client, topic, ("b", b"1"))
            await view.refresh()
            await happens(all_are_gone)

    run(main)


def test_a_listener_may_close_its_view_and_the_client_ends_the_others(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with aio.Client(broker.service_url) as client:
            view, other = [await client.create_table_view(topic) for _ in range(2)]
            ended = asyncio.Event()

            async def close(_: str, __: bytes) -> None:
                await view.close()
                ended.set()

            await view.listen(close)
            await other.listen(print)
            await put(client, topic, ("a", b"1"))
            await ended.wait()
            assert not view.is_open
        assert not other.is_open

    run(main)
