from typing import Any

import pytest

from pulsar_actors import exceptions
from pulsar_actors.machines import lookup_events
from pulsar_actors.machines.connection_events import SendRequest
from pulsar_actors.machines.lookup_events import MIGRATED, AcquireLookupPermit, LookupTarget
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.runtime import lookup_actor
from pulsar_actors.runtime.actor import ActorDied, tell
from pulsar_actors.runtime.connection_actor import ServiceAccess
from pulsar_actors.runtime.connection_pool import Service
from pulsar_actors.runtime.handle_link import ClientCounters
from pulsar_actors.runtime.http_client import HttpClient, HttpRequest, HttpResponse
from pulsar_actors.runtime.messages import BrokerFound, FindBroker, LookupRetrying, ReplyTo, RequestAnswered
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.service_url import ServiceUrl
from tests.support.manual_loop import ActorBench, actor_of, effects_of

SETTINGS = lookup_actor.LookupSettings(
    timeout=30.0, listener_name=None, at_once=2, new_backoff=lambda loop: Backoff(loop.chance)
)
TOPIC = "persistent://public/default/t"
SERVICE_URL = LookupTarget(None, None)
NO_CONTEXT: Any = None
HTTP = HttpClient(NO_CONTEXT)
ENTRANCE = ServiceAccess(lambda _: ("token", b"secret"), NO_CONTEXT, HTTP)
SERVICE = Service(ServiceUrl.parse("pulsar://a:6650"), ENTRANCE)
HOW_MANY = pb.CommandPartitionedTopicMetadata(topic="t", request_id=0)
LOST = exceptions.ConnectionLost("reset")


CONNECT, REDIRECT = pb.CommandLookupTopicResponse.Connect, pb.CommandLookupTopicResponse.Redirect


def found(url: str = "pulsar://b:6650", **more: Any) -> pb.CommandLookupTopicResponse:
    return pb.CommandLookupTopicResponse(**{"request_id": 1, "brokerServiceUrl": url, "response": CONNECT, **more})


class Bench(ActorBench):
    def __init__(self, settings: lookup_actor.LookupSettings = SETTINGS, service: Service = SERVICE) -> None:
        super().__init__()
        self.asker, self.connection = self.actors.make(), self.actors.make()
        self.counters = ClientCounters()
        self.actor = lookup_actor.LookupActor.start(self.loop, self.guardian, settings, service, self.counters)
        self.answers: list[Any] = []
        self._asked = 0

    def find(self, topic: str = TOPIC, cluster: str | None = None) -> None:
        self._asked += 1
        self.tell(FindBroker(topic, cluster, ReplyTo(self.asker, self._asked)))

    def ask(self) -> None:
        self.tell(lookup_actor.BrokerQuery(HOW_MANY, self.answers.append))

    def reaches(self) -> list[Any]:
        """What it wants connections to."""
        return self.actors.heard(self.guardian)

    def connect(self) -> list[Any]:
        """Give a connection to everybody who wants one, and tell what is asked there."""
        for reach in self.reaches():
            self.tell(lookup_actor.ConnectionFound(reach.reply_to.request, self.connection))
        return self.asked()

    def asked(self) -> list[Any]:
        return self.actors.heard(self.connection)

    def reply(self, ask: SendRequest, answer: Any) -> None:
        assert isinstance(ask.token, ReplyTo)
        self.tell(RequestAnswered(ask.token.request, answer))

    def told(self) -> list[Any]:
        return self.actors.heard(self.asker)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_every_effect_of_the_chart_is_performed(bench: Bench) -> None:
    effects = effects_of(lookup_events) - {LookupTarget}
    assert StartTimer not in effects
    samples: dict[str, Any] = {
        "target": SERVICE_URL, "command": HOW_MANY, "timeout": 1.0, "answer_within": 1.0, "error": LOST,
    }  # fmt: skip
    actor: Any = actor_of(bench.actor)
    # The permit last: the lookups before have all there are, so nobody is told to run twice.
    for kind in sorted(effects, key=lambda kind: (kind is AcquireLookupPermit, kind.__name__)):
        fields: tuple[str, ...] = getattr(kind, "_fields")  # noqa: B009 - of any named tuple
        bench.ask()
        question = max(actor._pending)
        actor._pending[question].connection = bench.connection
        actor._perform(question, actor._pending[question], kind(*(samples[name] for name in fields)))


def test_an_effect_that_nobody_performs_is_a_bug(bench: Bench) -> None:
    bench.ask()
    actor: Any = actor_of(bench.actor)
    with pytest.raises(exceptions.InternalError, match="nobody performs 'something'"):
        actor._perform(1, actor._pending[1], "something")


def test_who_serves_a_topic_is_asked_where_the_service_url_leads(bench: Bench) -> None:
    bench.find()
    (reach,) = bench.reaches()
    assert (reach.target, reach.cluster_url) == (SERVICE_URL, None)
    bench.tell(lookup_actor.ConnectionFound(reach.reply_to.request, bench.connection))
    (asked,) = bench.asked()
    assert asked.command == pb.CommandLookupTopic(
        topic="persistent://public/default/t", request_id=0, authoritative=False
    )
    assert asked.timeout == 30.0
    bench.reply(asked, found())
    assert bench.told() == [BrokerFound(1, LookupTarget("pulsar://b:6650", "pulsar://b:6650"))]


def test_a_listener_name_is_said_if_there_is_one() -> None:
    bench = Bench(SETTINGS._replace(listener_name="outside"))
    bench.find()
    assert bench.connect()[0].command.advertised_listener_name == "outside"


def test_a_cluster_is_passed_on(bench: Bench) -> None:
    bench.find(cluster="pulsar://other:6650")
    assert bench.reaches()[0].cluster_url == "pulsar://other:6650"


def test_a_try_after_another_names_the_connection_to_the_service_url_that_the_one_before_had(bench: Bench) -> None:
    other = bench.actors.make()
    bench.find()
    (reach,) = bench.reaches()
    assert reach.instead_of is None
    bench.tell(lookup_actor.ConnectionFound(reach.reply_to.request, bench.connection))
    bench.reply(bench.asked()[0], found("pulsar://c:6650", response=REDIRECT))
    (reach,) = bench.reaches()
    assert reach.instead_of is None, "a redirect leads to one broker"
    bench.tell(lookup_actor.ConnectionFound(reach.reply_to.request, other))
    (asked,) = bench.actors.heard(other)
    bench.reply(asked, LOST)
    bench.loop.pass_time(1.0)
    (reach,) = bench.reaches()
    assert reach.instead_of is bench.connection


@pytest.mark.parametrize(("cluster", "seconds"), [(None, 15.0), ("pulsar://x", 30.0), ("pulsar://x,y", 15.0)])
def test_with_several_hosts_an_answer_may_take_half_of_the_time(cluster: str | None, seconds: float) -> None:
    bench = Bench(service=SERVICE._replace(url=ServiceUrl.parse("pulsar://a,b,c")))
    bench.find(cluster=cluster)
    (asked,) = bench.connect()
    assert (asked.timeout, asked.answer_within) == (30.0, seconds)


def test_a_redirect_is_followed(bench: Bench) -> None:
    bench.find()
    bench.reply(bench.connect()[0], found("pulsar://c:6650", response=REDIRECT, authoritative=True))
    (reach,) = bench.reaches()
    assert reach.target == LookupTarget("pulsar://c:6650", "pulsar://c:6650")
    bench.tell(lookup_actor.ConnectionFound(reach.reply_to.request, bench.connection))
    assert bench.asked()[0].command.authoritative


def test_a_caller_gets_the_brokers_answer_or_its_refusal(bench: Bench) -> None:
    bench.ask()
    answer = pb.CommandPartitionedTopicMetadataResponse(
        partitions=3, request_id=1, response=pb.CommandPartitionedTopicMetadataResponse.Success
    )
    bench.reply(bench.connect()[0], answer)
    assert bench.answers == [answer]
    bench.find()
    refusal = exceptions.TopicNotFound("TopicNotFound", "no")
    bench.reply(bench.connect()[0], refusal)
    assert bench.told() == [BrokerFound(1, refusal)]


def test_what_may_pass_is_asked_again_after_a_pause(bench: Bench) -> None:
    bench.find()
    bench.reply(bench.connect()[0], LOST)
    assert bench.reaches() == []
    assert bench.told() == [LookupRetrying(1, LOST)]
    bench.loop.pass_time(1.0)
    (reach,) = bench.reaches()
    nobody = exceptions.ConnectError("nobody listens")
    bench.tell(lookup_actor.ConnectionFound(reach.reply_to.request, nobody))
    assert bench.told() == [LookupRetrying(1, nobody)]
    bench.loop.pass_time(1.0)
    bench.reply(bench.connect()[0], found())
    assert isinstance(bench.told()[0].outcome, LookupTarget)


def test_nobody_waits_longer_than_the_operation_timeout(bench: Bench) -> None:
    bench.find()
    bench.loop.pass_time(30.1)
    ((told),) = bench.told()
    assert isinstance(told.outcome, exceptions.Timeout)


def test_what_comes_after_the_end_of_a_question_is_nobodys(bench: Bench) -> None:
    bench.find()
    (reach,) = bench.reaches()
    bench.loop.pass_time(30.1)
    bench.told()
    question = reach.reply_to.request
    bench.tell(
        lookup_actor.ConnectionFound(question, bench.connection),
        lookup_actor.ConnectionFound(question, LOST),
        RequestAnswered(question, found()),
    )
    assert bench.told() == []
    assert bench.asked() == []


def test_only_so_many_are_on_their_way_and_the_others_wait_in_their_order(bench: Bench) -> None:
    for number in range(4):
        bench.find(f"topic {number}")
    asked = bench.connect()
    assert [ask.command.topic for ask in asked] == ["topic 0", "topic 1"]
    bench.reply(asked[1], found())
    assert [ask.command.topic for ask in bench.connect()] == ["topic 2"]
    bench.reply(asked[0], found())
    assert [ask.command.topic for ask in bench.connect()] == ["topic 3"]


def test_a_turn_goes_past_those_who_have_given_up_in_line() -> None:
    bench = Bench(SETTINGS._replace(at_once=1))
    bench.find("first")
    (first,) = bench.connect()
    bench.find("gives up")
    bench.loop.pass_time(29.0)
    bench.find("goes on")
    bench.loop.pass_time(1.1)
    assert [type(told.outcome) for told in bench.told()] == [exceptions.Timeout, exceptions.Timeout]
    assert [ask.command.topic for ask in bench.connect()] == ["goes on"]
    bench.reply(first, found())


def test_when_all_in_line_have_given_up_the_turn_is_free_again() -> None:
    bench = Bench(SETTINGS._replace(at_once=1))
    bench.find("first")
    bench.find("second")
    bench.loop.pass_time(30.1)
    bench.told()
    bench.reaches()
    bench.find("third")
    assert [ask.command.topic for ask in bench.connect()] == ["third"]


def test_when_the_line_is_too_long_the_rest_is_turned_away_at_once(bench: Bench) -> None:
    actor: Any = actor_of(bench.actor)
    actor._limiter = type(actor._limiter)(1, 1)
    bench.find()
    bench.find()
    ((told),) = bench.told()
    assert "too many lookups are waiting" in str(told.outcome)


def test_at_the_end_of_the_client_everybody_is_answered(bench: Bench) -> None:
    for _ in range(4):
        bench.find()
    bench.ask()
    bench.tell(lookup_actor.EndLookups())
    assert [type(told.outcome) for told in bench.told()] == [exceptions.AlreadyClosed] * 4
    assert isinstance(bench.answers[0], exceptions.AlreadyClosed)
    assert not bench.actor.is_alive()


@pytest.mark.parametrize("is_over_http", [False, True])
def test_at_the_end_of_the_client_none_of_those_in_line_has_its_turn(*, is_over_http: bool) -> None:
    url = "http://a:8080" if is_over_http else "pulsar://a:6650"
    bench = Bench(SETTINGS._replace(at_once=1), Service(ServiceUrl.parse(url), ENTRANCE))
    for _ in range(4):
        bench.find()
    requests = len(bench.loop.blocking_calls) if is_over_http else len(bench.reaches())
    assert requests == 1
    bench.tell(lookup_actor.EndLookups())
    assert [type(told.outcome) for told in bench.told()] == [exceptions.AlreadyClosed] * 4
    assert len(bench.loop.blocking_calls) == is_over_http
    assert bench.reaches() == []


def test_a_bug_answers_everybody_with_its_name() -> None:
    bench = Bench(SETTINGS._replace(at_once=5))
    bench.find()
    bench.ask()
    bench.tell(lookup_actor.BrokerQuery("no command", bench.answers.append))  # type: ignore[arg-type]
    for reach in bench.reaches():
        bench.tell(lookup_actor.ConnectionFound(reach.reply_to.request, bench.connection))
    bench.ask()
    assert [type(told.outcome) for told in bench.told()] == [exceptions.InternalError]
    assert isinstance(bench.answers[0], exceptions.InternalError)
    assert [type(one) for one in bench.reaches()] == [ActorDied]


def test_a_question_that_comes_after_the_end_is_answered(bench: Bench) -> None:
    bench.tell(lookup_actor.EndLookups())
    bench.find()
    bench.ask()
    bench.tell(RequestAnswered(lookup_actor.LookupStep(1, 1), found()))
    ((told),) = bench.told()
    assert (told.request, type(told.outcome)) == (1, exceptions.AlreadyClosed)
    assert isinstance(bench.answers[0], exceptions.AlreadyClosed)


def test_a_question_that_comes_after_a_bug_is_answered_with_its_name(bench: Bench) -> None:
    tell(bench.actor, lookup_actor.BrokerQuery("no command", bench.answers.append))  # type: ignore[arg-type]
    bench.connect()
    bench.ask()
    assert [type(answer) for answer in bench.answers] == [exceptions.InternalError, exceptions.InternalError]


def test_questions_on_their_way_are_counted(bench: Bench) -> None:
    bench.find()
    bench.ask()
    assert bench.counters.lookups == 2
    bench.reply(bench.connect()[0], found())
    assert bench.counters.lookups == 1
    bench.tell(lookup_actor.BrokerQuery("no command", bench.answers.append))  # type: ignore[arg-type]
    bench.connect()
    assert bench.counters.lookups == 0


# Over HTTP.

ELSEWHERE = "http://c:8080/lookup/v2/topic/persistent/public/default/t?authoritative=true"


class Web(HttpClient):
    """Answers what it is told to, and remembers the questions."""

    def __init__(self, *answers: HttpResponse | Exception) -> None:
        super().__init__(NO_CONTEXT)
        self.answers = list(answers)
        self.asked: list[str] = []

    def send(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request.url)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def over_http(
    *answers: HttpResponse | Exception,
    url: str = "http://a:8080,b:8081",
    settings: lookup_actor.LookupSettings = SETTINGS,
) -> tuple[Bench, Web]:
    web = Web(*answers)
    return Bench(settings, Service(ServiceUrl.parse(url), ENTRANCE._replace(http=web))), web


FOUND = HttpResponse(200, {}, b'{"brokerUrl": "pulsar://b:6650"}')


def test_over_http_no_connection_is_asked_for_and_each_question_begins_with_another_host() -> None:
    bench, web = over_http(FOUND, FOUND)
    for _ in range(2):
        bench.find()
        bench.loop.run_blocking_calls()
    assert bench.reaches() == []
    assert [each.outcome for each in bench.told()] == [LookupTarget("pulsar://b:6650", "pulsar://b:6650")] * 2
    assert [url.split("/")[2] for url in web.asked] == ["b:8081", "a:8080"]


def test_a_redirect_over_http_is_followed_to_its_address() -> None:
    bench, web = over_http(HttpResponse(307, {"location": ELSEWHERE}, b""), FOUND)
    bench.find()
    bench.loop.run_blocking_calls()
    bench.loop.run_blocking_calls()
    assert web.asked[1] == ELSEWHERE
    assert isinstance(bench.told()[0].outcome, LookupTarget)


def test_an_answer_over_http_that_is_none_fails_the_question() -> None:
    bench, _ = over_http(HttpResponse(200, {}, b"<html>"))
    bench.find()
    bench.loop.run_blocking_calls()
    assert isinstance(bench.told()[0].outcome, exceptions.Misdirected)


def test_a_topic_that_has_moved_to_another_cluster_is_asked_for_at_its_broker() -> None:
    bench, _ = over_http()
    bench.find(cluster="pulsar://other:6650")
    assert bench.reaches()[0].cluster_url == "pulsar://other:6650"


def test_time_that_runs_out_on_the_helpers_thread_may_be_better_spent_later() -> None:
    bench, _ = over_http()
    bench.find()
    ((_, done, _),) = bench.loop.blocking_calls
    done(TimeoutError("slow"))
    bench.loop.run()
    assert [str(told.error) for told in bench.told()] == ["no host has answered over HTTP: slow"]
    bench.loop.pass_time(30.1)
    assert "slow" in str(bench.told()[0].outcome)


def test_a_few_questions_are_sent_at_once_and_the_others_in_their_turn() -> None:
    bench, web = over_http(*[FOUND] * 12, settings=SETTINGS._replace(at_once=12))
    for _ in range(12):
        bench.find()
    assert len(bench.loop.blocking_calls) == 8
    bench.loop.run_blocking_calls()
    assert len(bench.told()) == 8
    assert len(bench.loop.blocking_calls) == 4
    bench.loop.run_blocking_calls()
    assert len(bench.told()) == 4
    assert len(web.asked) == 12


def test_a_question_has_the_time_that_is_left_when_it_is_sent() -> None:
    bench, _ = over_http(*[FOUND] * 9, settings=SETTINGS._replace(at_once=9))
    for _ in range(9):
        bench.find()
    bench.loop.pass_time(10.0)
    bench.loop.run_blocking_calls()
    ((_, _, timeout),) = bench.loop.blocking_calls
    assert timeout == pytest.approx(20.0)


@pytest.mark.parametrize("given_up", ["timed out", "cancelled"])
def test_a_question_that_is_given_up_before_its_turn_is_not_sent(given_up: str) -> None:
    bench, web = over_http(*[FOUND] * 9, settings=SETTINGS._replace(at_once=9))
    for _ in range(9):
        bench.ask()
    if given_up == "timed out":
        bench.loop.pass_time(30.1)
    else:
        bench.tell(lookup_actor.EndQueries())
    assert len(bench.answers) == 9
    bench.loop.run_blocking_calls()
    assert len(web.asked) == 8
    bench.find()
    bench.loop.run_blocking_calls()
    assert len(web.asked) == 9
    assert isinstance(bench.told()[0].outcome, LookupTarget)


def test_questions_that_were_sent_do_not_hold_up_those_at_another_place() -> None:
    bench, web = over_http(*[FOUND] * 17, url="http://a:8080", settings=SETTINGS._replace(at_once=9))
    for _ in range(9):
        bench.find()
    service = Service(ServiceUrl.parse("http://n:8080"), ENTRANCE._replace(http=web), 1)
    bench.tell(lookup_actor.ChangeService(service))
    bench.loop.run_blocking_calls()
    bench.loop.run_blocking_calls()
    assert [url.split("/")[2] for url in web.asked] == ["a:8080"] * 8 + ["n:8080"] * 9
    assert [told.outcome.service for told in bench.told()] == [1] * 9


SILENCE = exceptions.ConnectTimeout("no connection to a:8080 within 10 s")
REFUSED = HttpResponse(404, {}, b"")


def test_hosts_over_http_that_have_never_answered_and_are_silent_end_a_question() -> None:
    bench, _ = over_http(SILENCE, url="http://a:8080")
    bench.find()
    bench.loop.run_blocking_calls()
    assert isinstance(bench.told()[0].outcome, exceptions.ConnectTimeout)


@pytest.mark.parametrize("answer", [FOUND, REFUSED])
def test_hosts_over_http_that_have_answered_before_may_be_silent_for_a_while(answer: HttpResponse) -> None:
    bench, _ = over_http(answer, SILENCE, url="http://a:8080")
    for _ in range(2):
        bench.find()
        bench.loop.run_blocking_calls()
    assert isinstance(bench.told()[1], LookupRetrying)


def test_a_client_that_can_go_elsewhere_waits_for_hosts_over_http_that_are_silent() -> None:
    bench, _ = over_http(SILENCE, url="http://a:8080", settings=SETTINGS._replace(service_can_change=True))
    bench.find()
    bench.loop.run_blocking_calls()
    assert isinstance(bench.told()[0], LookupRetrying)


# When the client goes elsewhere.


def moved(url: str, number: int = 1) -> lookup_actor.ChangeService:
    return lookup_actor.ChangeService(Service(ServiceUrl.parse(url), ENTRANCE, number))


@pytest.mark.parametrize(
    ("url", "cluster", "home"), [("pulsar://n", "pulsar://other:6650", MIGRATED), ("pulsar+ssl://n", None, 0)]
)
def test_a_topic_that_has_migrated_is_looked_up_at_the_new_place_if_the_address_of_its_cluster_is_of_another_kind(
    bench: Bench, url: str, cluster: str | None, home: int
) -> None:
    bench.find(cluster="pulsar://other:6650")
    bench.connect()
    bench.tell(moved(url))
    (reach,) = bench.reaches()
    assert reach.cluster_url == cluster
    bench.tell(lookup_actor.ConnectionFound(reach.reply_to.request, bench.connection))
    bench.reply(bench.asked()[0], found("pulsar://b:6650", brokerServiceUrlTls="pulsar+ssl://b:6651"))
    ((told),) = bench.told()
    assert (told.outcome.cluster, told.outcome.home) == (cluster, home)


def test_a_question_on_its_way_is_asked_again_at_the_new_place_and_the_old_answer_is_nobodys(bench: Bench) -> None:
    bench.find()
    (old,) = bench.connect()
    bench.tell(moved("pulsar+ssl://n:6651"))
    (new,) = bench.connect()
    bench.reply(old, found("pulsar://old:6650"))
    assert bench.told() == []
    bench.reply(new, found("pulsar://new:6650", brokerServiceUrlTls="pulsar+ssl://new:6651"))
    there = "pulsar+ssl://new:6651"
    assert bench.told()[0].outcome == LookupTarget(there, there, service=1, tls=True)


def test_a_redirect_after_that_names_the_new_place(bench: Bench) -> None:
    bench.tell(moved("pulsar://n:6650"))
    bench.find()
    bench.reply(bench.connect()[0], found("pulsar://c:6650", response=REDIRECT))
    assert bench.reaches()[0].target == LookupTarget("pulsar://c:6650", "pulsar://c:6650", service=1)


def test_a_question_can_change_from_one_protocol_to_the_other() -> None:
    bench, web = over_http(FOUND)
    bench.find()
    bench.tell(moved("pulsar://n:6650"))
    bench.loop.run_blocking_calls()
    assert web.asked  # nobody can take it back, and nobody hears of it
    bench.reply(bench.connect()[0], found("pulsar://new:6650"))
    assert [each.outcome.logical for each in bench.told()] == ["pulsar://new:6650"]
