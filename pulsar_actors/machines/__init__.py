"""The state machines, which make every decision of the client. Events in, effects out; `now` is an argument."""
