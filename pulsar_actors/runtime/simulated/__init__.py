"""A world without sockets, clocks or threads of its own, in which the runtime runs as it would outside.

Everything that can happen is one of a few kinds of step: a task of a loop, a timer, something that arrives on a
connection, a caller that goes on. A step runs to its end before the next one begins. Which of those that are ready goes
next is drawn with seeded dice, and when none is ready the clock jumps to the next one that is due. So an hour takes as
long as what happens in it, a race is an order of steps, and the same seed gives the same order again.

    dice.py        numbers that depend on the seed and on nothing else
    agenda.py      what is ready, what is due later, what goes next
    history.py     what happened
    weather.py     how quick the network is, and how often it fails
    connection.py  two ends, and a pipe in each direction
    network.py     who listens where, and how a connection comes to be
    faults.py      what goes wrong, by itself or on request
    simulated_loop.py  `Loop` on the agenda and the network
    caller.py      code that blocks, in a thread of its own that runs only when it is its turn
    world.py       puts these together and makes the steps
    engine.py      `Engine` in a world; worker.py: its workers; switch.py: its locks and checkpoints
    log.py         what the package logs, for the history
    explore.py     one scenario, many seeds; a failing one runs alone with one command
    errors.py      how a run can fail
"""
