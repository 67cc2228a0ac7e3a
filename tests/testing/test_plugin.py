"""The plugin of pytest, in the tests of a program that uses it."""

import subprocess
import sys

import pytest

import pytest_pulsar_actors

pytest_plugins = ["pytester"]

SEND = """
import pulsar_actors as pulsar

def test_sends(pulsar_broker, pulsar_client, pulsar_topic):
    producer = pulsar_client.create_producer(pulsar_topic)
    producer.send(b"x")
    assert pulsar_client.create_reader(pulsar_topic, pulsar.MessageId.earliest).read_next().data() == b"x"
"""


@pytest.fixture
def ran(pytester: pytest.Pytester) -> "Ran":
    pytester.makeini("[pytest]\naddopts = -p no:randomly\n")
    return Ran(pytester)


class Ran:
    """Runs pytest on a file of tests."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester

    def __call__(self, tests: str, *arguments: str, **outcomes: int) -> str:
        self._pytester.makepyfile(tests)
        result = self._pytester.runpytest_subprocess(*arguments)
        result.assert_outcomes(**outcomes)
        return str(result.stdout)


def test_a_broker_a_client_and_a_topic_are_there_without_a_line_of_setting_up(ran: Ran) -> None:
    ran(SEND, passed=1)


def test_tests_run_in_parallel_and_do_not_meet(ran: Ran) -> None:
    repeated = "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_sends(n, "
    ran(SEND.replace("def test_sends(", repeated), "-n", "2", passed=6)


def test_each_test_has_a_broker_of_its_own_unless_the_option_says_otherwise(
    ran: Ran, pytester: pytest.Pytester
) -> None:
    tests = """
        urls = set()
        def test_one(pulsar_broker): urls.add(pulsar_broker.service_url)
        def test_two(pulsar_broker): urls.add(pulsar_broker.service_url)
        def test_number(): print("brokers:", len(urls))
    """
    assert "brokers: 2" in ran(tests, "-s", passed=3)
    pytester.makeini("[pytest]\npulsar_scope = session\naddopts = -p no:randomly\n")
    assert "brokers: 1" in ran(tests, "-s", passed=3)


def test_a_scope_that_there_is_not_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npulsar_scope = always\n")
    result = pytester.runpytest_subprocess()
    result.stderr.fnmatch_lines(["*pulsar_scope is one of function, *, session, not 'always'"])


def test_the_options_of_the_broker_can_be_overridden(ran: Ran, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest
        from pulsar_actors.broker import Settings

        @pytest.fixture
        def pulsar_broker_options():
            return {"settings": Settings(deduplication=True)}
    """)
    ran(
        """
        import pytest
        import pulsar_actors as pulsar

        @pytest.mark.pulsar_fault("receipt", "close_connection")
        def test_once(pulsar_client, pulsar_topic):
            pulsar_client.create_producer(pulsar_topic).send(b"x")
            reader = pulsar_client.create_reader(pulsar_topic, pulsar.MessageId.earliest)
            reader.read_next()
            assert not reader.has_message_available()
        """,
        passed=1,
    )


def test_a_mark_sets_a_fault_for_its_test_alone(ran: Ran, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npulsar_scope = session\naddopts = -p no:randomly\n")
    ran(
        """
        import pytest

        @pytest.mark.pulsar_fault("send", "close_connection")
        @pytest.mark.pulsar_fault("send", "delay", 0.01, nth=2)
        def test_with(pulsar_client, pulsar_topic, pulsar_faults):
            producer = pulsar_client.create_producer(pulsar_topic)
            producer.send(b"x")
            producer.send(b"y")
            assert producer.stats().reconnects == 1
            assert [fault.happened for fault in pulsar_faults] == [1, 1]
            assert ["close_connection" in repr(fault) for fault in pulsar_faults] == [True, False]

        @pytest.mark.pulsar_fault("send", "drop", times=None)
        class TestOfAClass:
            def test_marks(self, pulsar_client, pulsar_topic):
                producer = pulsar_client.create_producer(pulsar_topic, send_timeout_millis=200)
                with pytest.raises(__import__("pulsar_actors").Timeout):
                    producer.send(b"x")

        def test_without(pulsar_client, pulsar_topic):
            producer = pulsar_client.create_producer(pulsar_topic)
            producer.send(b"x")
            assert producer.stats().reconnects == 0
        """,
        passed=3,
    )


def test_a_mark_sets_an_answer_and_a_sender_by_plain_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import pulsar_actors as pulsar

        FAILED = ("lookup_response", {"response": "Failed", "error": "TopicNotFound"})

        @pytest.mark.pulsar_fault("lookup", "answer", FAILED)
        @pytest.mark.pulsar_fault("connected", "delay", 0.01, sent_by="broker", when=lambda connected: True)
        def test_there_is_none(pulsar_simulation):
            with pytest.raises(pulsar.TopicNotFound):
                pulsar_simulation.client().create_producer("t")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_mark_with_a_simulation_is_for_the_broker_in_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.pulsar_fault("send", "close_connection")
        def test_sent_again(pulsar_simulation):
            producer = pulsar_simulation.client().create_producer("t")
            producer.send(b"x")
            assert producer.stats().reconnects == 1
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_fault_that_has_not_happened_is_no_further_error_of_a_test_that_failed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.pulsar_fault("send", "close_connection")
        def test_failing(pulsar_client):
            assert False
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ('"send", "close_connection"', "a fault of the test has not happened: <Fault on('send'"),
        ('"send", "explode"', "the action is one of answer, close_connection, *, not 'explode'"),
        ('"sent", "drop"', "*'sent'*"),
        ('"send"', "pulsar_fault('send',): the action is one of *, not ''"),
        ('"send", "refuse"', "pulsar_fault('send', 'refuse'): refuse takes error, text, not ()"),
        ('"send", "delay"', "pulsar_fault('send', 'delay'): delay takes seconds, not ()"),
        ('"send", "drop", 3', "pulsar_fault('send', 'drop', 3): drop takes nothing, not (3,)"),
        ('["send", "ack"], "drop"', "*a command is given by its name, such as 'send', not ['send', 'ack']"),
        (
            '"lookup", "answer", ("lookup_response", {"response": "No"})',
            "*is one of Redirect, Connect, Failed, not 'No'*",
        ),
        ('"send", "drop", nth="first"', "*nth counts from 1*"),
    ],
)
def test_a_fault_that_does_not_happen_or_cannot_be_is_an_error(
    mark: str, says: str, ran: Ran, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.pulsar_fault({mark})
        def test_nothing(pulsar_client):
            pass
    """)
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"*{says.replace('[', '?')}*"])
    assert "pytest_pulsar_actors" not in str(result.stdout)  # no line of the plugin


def test_seeds_that_are_not_said_are_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.pulsar_seeds
        def test_nothing(pulsar_simulation):
            pass
    """)
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*pulsar_seeds takes a number of seeds, or a list of them*test_nothing*"])


def test_the_client_of_asyncio_is_for_the_loop_of_the_test(ran: Ran) -> None:
    ran(
        """
        import asyncio

        def test_sends(pulsar_async_client, pulsar_topic):
            async def run():
                producer = await pulsar_async_client.create_producer(pulsar_topic)
                await producer.send(b"x")
            asyncio.run(run())

        def test_needs_no_loop(pulsar_async_client):
            pass
        """,
        passed=2,
    )


def test_the_asyncio_client_works_in_tests_that_anyio_runs(ran: Ran) -> None:
    ran(
        """
        import pytest
        import pulsar_actors as pulsar

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.fixture
        async def producer(pulsar_async_client, pulsar_topic):
            producer = await pulsar_async_client.create_producer(pulsar_topic)
            yield producer
            await producer.close()

        @pytest.mark.anyio
        async def test_sends(producer, pulsar_async_client, pulsar_topic):
            await producer.send(b"x")
            reader = await pulsar_async_client.create_reader(pulsar_topic, pulsar.MessageId.earliest)
            assert (await reader.read_next()).data() == b"x"

        @pytest.mark.anyio
        async def test_has_a_client_of_its_own(pulsar_async_client, pulsar_topic):
            await (await pulsar_async_client.subscribe(pulsar_topic, "s")).close()
        """,
        passed=2,
    )


def test_the_asyncio_client_works_in_tests_that_pytest_asyncio_runs(ran: Ran) -> None:
    ran(
        """
        import pytest
        import pytest_asyncio
        import pulsar_actors as pulsar

        @pytest_asyncio.fixture
        async def producer(pulsar_async_client, pulsar_topic):
            async with await pulsar_async_client.create_producer(pulsar_topic) as producer:
                yield producer

        @pytest.mark.asyncio
        async def test_sends(producer, pulsar_async_client, pulsar_topic):
            await producer.send(b"x")
            reader = await pulsar_async_client.create_reader(pulsar_topic, pulsar.MessageId.earliest)
            assert (await reader.read_next()).data() == b"x"

        @pytest.mark.asyncio
        async def test_has_a_client_of_its_own(pulsar_async_client, pulsar_topic):
            await (await pulsar_async_client.subscribe(pulsar_topic, "s")).close()
        """,
        passed=2,
    )


def test_a_simulation_is_played_with_as_many_seeds_as_its_mark_says(ran: Ran) -> None:
    said = ran(
        """
        import time
        import pytest

        def test_once(pulsar_simulation):
            pulsar_simulation.sleep(1800)
            assert time.monotonic() == 1800

        @pytest.mark.pulsar_seeds(3)
        def test_often(pulsar_simulation, pulsar_seed):
            print("played", pulsar_seed)

        @pytest.mark.pulsar_seeds([7, 12])
        def test_some(pulsar_simulation):
            pass
        """,
        "-sv",
        passed=6,
    )
    assert all(f"played {seed}" in said for seed in range(3))
    assert "test_some[seed 7]" in said


def test_until_a_fixture_is_used_nothing_of_the_package_is_imported() -> None:
    program = (
        "import sys, pytest_pulsar_actors; print([name for name in sys.modules if name.startswith('pulsar_actors')])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    assert ran.stdout == "[]\n"


def test_the_text_names_every_fixture_and_mark() -> None:
    fixtures = {name for name in vars(pytest_pulsar_actors) if name.startswith("pulsar_")} - {
        "pulsar_faults",
        "pulsar_seed",
    }
    text = pytest_pulsar_actors.__doc__ or ""
    assert len(fixtures) == 6
    assert {name for name in fixtures if f"    {name} " not in text} == set()


def test_faults_that_a_test_has_left_are_removed_and_those_of_wider_fixtures_are_not(
    ran: Ran, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\npulsar_scope = session\naddopts = -p no:randomly\n")
    ran(
        """
        import pytest

        @pytest.fixture(scope="module")
        def slow_flows(pulsar_broker):
            fault = pulsar_broker.faults.on("flow", times=None).delay(0.001)
            yield fault
            fault.remove()

        @pytest.fixture
        def no_producers(pulsar_broker):
            pulsar_broker.faults.on("producer", times=None).drop()

        def test_failing(slow_flows, no_producers, pulsar_broker):
            pulsar_broker.faults.on("send", times=None).drop()
            pulsar_broker.faults.on("subscribe", times=None).stall()
            pulsar_broker.faults.control(lambda seen: None)
            pulsar_broker.faults.on_accept(times=None).hang_up()
            assert False

        def test_next(slow_flows, pulsar_broker, pulsar_client, pulsar_topic):
            consumer = pulsar_client.subscribe(pulsar_topic, "s")
            pulsar_client.create_producer(pulsar_topic, send_timeout_millis=5000).send(b"x")
            assert consumer.receive(5000).data() == b"x"
            assert slow_flows.happened > 0
            assert pulsar_broker.faults.present() == (slow_flows,)
        """,
        passed=1,
        failed=1,
    )


@pytest.mark.parametrize("given", ["1.5", "'ab'", "0", "-1", "[]", "[1.5]", "True", "None", "seeds=3", "2, 3"])
def test_seeds_that_are_none_are_refused_before_any_test_runs(pytester: pytest.Pytester, given: str) -> None:
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.pulsar_seeds({given})
        def test_something(pulsar_simulation):
            pass
    """)
    result = pytester.runpytest_inprocess()
    text = "\n".join(result.outlines + result.errlines)
    assert "pulsar_seeds takes a number of seeds, or a list of them" in text
    assert "test_something" in text
    assert "Traceback" not in text


def test_seeds_of_a_class_are_for_its_simulations(ran: Ran) -> None:
    ran(
        """
        import pytest

        @pytest.mark.pulsar_seeds(3)
        class TestOfAClass:
            def test_without(self): pass
            def test_with(self, pulsar_simulation): pass
        """,
        passed=4,
    )


def test_seeds_of_a_test_without_a_simulation_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.pulsar_seeds(3)
        def test_something():
            pass
    """)
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(["*pulsar_seeds is for a test with pulsar_simulation*test_something*"])
