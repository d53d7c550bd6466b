"""What does not hold yet: cases whose bug is not reported, and twins (`twin of …`) that are not silent or not right.

Each is expected to fail, and to be taken out here as soon as it does not.
"""

PENDING: frozenset[str] = frozenset(
    {
        "one_reading_lane_not_waited_for_0",
        "one_reading_lane_not_waited_for_3",
        "one_reading_lane_not_waited_for_7",
        "one_reading_warp_not_waited_for_1",
        "one_reading_warp_not_waited_for_2",
        "one_updating_warp_not_waited_for_1",
    }
)
