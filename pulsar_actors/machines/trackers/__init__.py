"""What machines count, order and remember: plain classes, each testable alone, that know of no chart."""
