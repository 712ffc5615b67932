"""What `bench.freshness` prints is true on a small world: for the same requests, less is stale than otherwise."""

from random import Random

from bench.freshness import Fixed, Ours, Proportional, heavy_tailed, simulate


def test_for_the_same_requests_less_is_stale_than_by_fixed_and_by_proportional_intervals() -> None:
    world, budget = heavy_tailed(Random(3), 80), 80.0

    fixed, proportional, ours = (simulate(world, kind(world, budget), budget) for kind in (Fixed, Proportional, Ours))

    assert max(spent for _, spent in (fixed, proportional, ours)) <= budget * 1.01
    assert ours[0] < 0.8 * fixed[0]
    assert ours[0] < 0.5 * proportional[0]
