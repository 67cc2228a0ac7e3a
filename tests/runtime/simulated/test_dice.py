from pulsar_actors.runtime.simulated.dice import Dice

FIRST = [0.7583787869903306, 0.7901987061759167, 0.2960774267984526]  # as Python 3.10 gives them


def test_a_seed_and_a_use_give_the_same_numbers_on_every_python() -> None:
    dice = Dice(17, "network")
    assert [dice.chance() for _ in range(3)] == FIRST
    assert [Dice(17, "network").below(100) for _ in range(2)] == [int(FIRST[0] * 100)] * 2


def test_another_seed_or_another_use_gives_other_numbers() -> None:
    assert len({Dice(seed, use).chance() for seed in range(10) for use in ("order", "network")}) == 20


def test_numbers_below_a_bound_take_every_value() -> None:
    dice = Dice(1, "any")
    assert {dice.below(5) for _ in range(200)} == set(range(5))


def test_what_is_impossible_never_happens_and_costs_no_draw_and_what_is_certain_always_does() -> None:
    dice, same = Dice(2, "any"), Dice(2, "any")
    assert not any(dice.happens(0.0) for _ in range(100))
    assert dice.chance() == same.chance()
    assert all(dice.happens(1.0) for _ in range(100))
