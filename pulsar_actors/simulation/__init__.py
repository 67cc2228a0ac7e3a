"""A simulation of clients and brokers: the runtime on a virtual clock and an in-memory network, without real threads.

A run consists of steps: a task of a loop, a timer, bytes that arrive, a caller that continues. A step runs to its end
before the next one begins. A seeded random number selects the next of the ready steps. When none is ready, the clock
jumps to the step that is due next. So a virtual hour takes only as long as its steps, a race is an order of steps, and
the same seed gives the same order again.

    world.py       the world: makes the steps, for loops and callers of any number
    scheduler.py   the ready steps, the timers and the clock; the seeded numbers, the history and the errors of a run
    caller.py      blocking code, in a thread that runs only during its own turn
    network.py     listeners, connects, and faults on request
    connection.py  a connection, and the speed and reliability of the network
    engine.py      `Engine` in a world, with its workers, locks and checkpoints
    explore.py     one scenario under many seeds; a failing seed runs alone with one command
"""
