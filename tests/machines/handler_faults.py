"""Faults in the rows that producers and consumers share. The models of both must notice each.

A rule that only one of the two models has is left out in the other.
"""

from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.connection_handler import HandlerStates
from pulsar_actors.machines.connection_handler_events import (
    BrokerClosed,
    Close,
    CloseAnswered,
    CloseTimedOut,
    Detached,
    EndAtOnce,
    FirstCreationTimedOut,
    LookedUp,
    LookupAttemptFailed,
    LookupFailed,
    Open,
    RequestRefused,
    RequestTimedOut,
    RetryDue,
    TopicMigrated,
    WrongAnswer,
)
from tests.machines.mutants import Fault, fault

UNASKED = "waits for nothing|does not end"
UNSAID = "against what was said"
TWO_BINDINGS = "subscribed while a close was owed|another is unanswered|a close is unanswered"
UNANSWERED = "a creation without an answer|the first subscribe did not end"
LOOKUP_FAILS = ("answer_lookup", "question_fails", "flush")
REQUEST_FAILS = ("broker_answers_create", "question_fails", "flush")
NO_ANSWER = ("broker_answers_create", "nobody_answers")
CLOSE_ANSWERED = ("broker_answers_close", "go_on")
CLOSE_UNANSWERED = ("broker_answers_close", "nobody_answers")


def handler_faults(s: HandlerStates, *, without_answer: str) -> list[Fault]:
    """Return the faults that both charts have. `without_answer` is what is done when a close has no answer."""
    creating, late = s.creating[0], {"dest": s.waiting, "does": "release_and_back_off"}
    # fmt: off
    return [
        fault(Open, s.idle, "start", {"does": None}, f"{UNASKED}|{UNANSWERED}", "go_on"),
        fault(LookedUp, s.looking_up, "attach_looked_up", {"does": None}, UNASKED, "go_on"),
        fault(LookupAttemptFailed, s.looking_up, "note_failure", {"does": None},
              "not told what went wrong last", "lookup_stumbles", "time_passes", "go_on"),
        fault(LookupFailed, s.looking_up, "end_refused", {"does": None}, UNSAID, *LOOKUP_FAILS),
        fault(LookupFailed, s.looking_up, "back_off", {"does": None}, UNASKED, *LOOKUP_FAILS),
        fault(RetryDue, s.waiting, "look_up_again", {"does": None}, UNASKED, "lose_connection", "go_on"),
        fault(RequestRefused, creating, "end_refused", {"does": None}, UNSAID, *REQUEST_FAILS, guard="is_final"),
        fault(RequestRefused, creating, "release_after_refusal", {"does": None}, UNASKED, *REQUEST_FAILS),
        fault(Detached, creating, "back_off", {"does": None}, UNASKED, "lose_connection"),
        fault(Detached, s.ready, "back_off", {"does": None}, UNASKED, "lose_connection"),

        # What was given up is closed before the next request.
        fault(RequestTimedOut, creating, "close_first", late, TWO_BINDINGS, *NO_ANSWER, "go_on"),
        fault(BrokerClosed, creating, "close_first_then_move", late, TWO_BINDINGS, "broker_closes", "go_on"),
        fault(TopicMigrated, creating, "close_first_then_migrate", late, TWO_BINDINGS, "topic_migrates", "go_on"),
        fault(CloseAnswered, s.close_pending, "attach_assigned", {"does": None},
              UNASKED, "broker_closes", *CLOSE_ANSWERED),
        fault(CloseAnswered, s.close_pending, "release_and_back_off", {"does": None},
              UNASKED, "broker_closes", *CLOSE_ANSWERED),
        fault(CloseTimedOut, s.close_pending, "drop_unanswering", {"does": "release_and_back_off"},
              TWO_BINDINGS, "broker_closes", *CLOSE_UNANSWERED, "go_on"),

        # Bound.
        fault(BrokerClosed, s.ready, "move", {"does": None}, UNASKED, "broker_closes"),
        fault(BrokerClosed, s.ready, "release_after_close", {"dest": creating}, UNASKED, "broker_closes"),
        fault(BrokerClosed, s.ready, "release_after_close", {"dest": INTERNAL, "does": None},
              "without a binding", "publish", "redeliver", "broker_closes"),
        fault(TopicMigrated, s.ready, "migrate", {"does": None}, UNASKED, "topic_migrates"),
        fault(WrongAnswer, s.ready, "drop_after_wrong_answer", {"does": None},
              "mixes answers up|mixes things up", "broker_mixes_up"),

        # A creation that takes too long.
        fault(FirstCreationTimedOut, s.looking_up, "stop_trying", {"does": None}, UNSAID, "time_passes"),
        fault(FirstCreationTimedOut, creating, "give_up_asking", {"does": "give_up_waiting"}, UNASKED, "time_passes"),
        fault(FirstCreationTimedOut, s.close_pending, "give_up_waiting", {"dest": s.closed},
              UNSAID, "time_passes", "broker_closes", *CLOSE_ANSWERED),

        # The end.
        fault(Close, s.waiting, "end_unbound", {"does": None}, UNSAID, "lose_connection"),
        fault(Close, creating, "close_while_creating", {"dest": s.closed}, UNSAID, "flush", "close"),
        fault(Close, s.close_pending, "await_close", {"dest": s.closed}, UNSAID, "broker_closes", "close"),
        fault(Close, s.ready, "close_bound", {"dest": s.closed}, UNSAID, "flush", "close"),
        fault(CloseAnswered, s.closing, "end_closed", {"does": None},
              UNSAID, "publish", "close", "time_passes", *CLOSE_ANSWERED),
        fault(CloseTimedOut, s.closing, without_answer, {"does": None},
              UNSAID, "publish", "close", *CLOSE_UNANSWERED),
        fault(Detached, s.closing, "end_closed", {"does": None},
              UNSAID, "publish", "close", "lose_connection", "time_passes"),
        fault(EndAtOnce, s.ready, "end_immediately", {"does": None}, UNSAID, "publish", "end_at_once"),
    ]
    # fmt: on
