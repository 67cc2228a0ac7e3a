"""Decisions: state charts, and the small ledgers they decide with. Events in, effects out, `now` is an argument."""
