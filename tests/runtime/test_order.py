"""Random programs on several streams give what they give in order: no wait is missing, no memory goes early."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples.saxpy import saxpy
from kaio import f32

BUFFERS, STREAMS, SIZE = 4, 3, 1 << 10

places = st.integers(0, BUFFERS - 1)
views = st.sampled_from(
    [slice(None), slice(SIZE // 2), slice(SIZE // 2, None), slice(SIZE // 4, -SIZE // 4), slice(1, SIZE // 2 + 1)]
)
steps = st.one_of(
    st.tuples(st.just("set"), places, views, st.integers(1, 100)),
    st.tuples(st.just("copy"), places, views, places, views),
    st.tuples(st.just("launch"), places, views, places, views, st.sampled_from([1, -1])),
    st.tuples(st.just("renew"), places),
    st.tuples(st.just("read"), places),
    st.tuples(st.just("hold")),
)
programs = st.lists(st.tuples(st.integers(0, STREAMS - 1), steps), min_size=1, max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs)
def test_streams_give_what_one_after_the_other_gives(device: Any, make_latch: Any, program: Any) -> None:
    streams = [device.stream() for _ in range(STREAMS)]
    buffers = [device.alloc_zeros(SIZE, f32) for _ in range(BUFFERS)]
    expected = [np.zeros(SIZE, np.float32) for _ in range(BUFFERS)]
    latch = make_latch()
    latch.hold(streams[0])  # so that what the others do wrongly without waiting is done first
    for number, step in program:
        stream = streams[number]
        match step:
            case ("hold",):
                latch.hold(stream)
            case ("set", place, view, value):
                stream.set(buffers[place][view], np.float32(value).tobytes())
                expected[place][view] = value
            case ("copy", to, to_view, source, view):
                target, origin = buffers[to][to_view], buffers[source][view]
                if target.size == origin.size and to != source:
                    stream.copy(target, origin)
                    expected[to][to_view] = expected[source][view]
            case ("launch", to, to_view, source, view, factor):
                target, origin = buffers[to][to_view], buffers[source][view]
                if target.size == origin.size and to != source:
                    saxpy.over(target.size).on(stream).launch(origin, target, factor)
                    expected[to][to_view] += np.float32(factor) * expected[source][view]
            case ("renew", place):
                # The old memory is dropped while work on it may still be held.
                buffers[place], expected[place] = device.alloc_zeros(SIZE, f32), np.zeros(SIZE, np.float32)
            case ("read", place):
                latch.release()
                np.testing.assert_array_equal(buffers[place].to_host(), expected[place])
                latch = make_latch()
                latch.hold(streams[0])
    device.alloc_zeros(1, f32).fill(1).wait()
    latch.release()
    for buffer, numbers in zip(buffers, expected, strict=True):
        np.testing.assert_array_equal(buffer.to_host(), numbers)
