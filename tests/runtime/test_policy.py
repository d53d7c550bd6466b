"""How a device is told which completions, streams and ordering it has; both devices."""

from __future__ import annotations

from typing import Any

import pytest

import kaio
from kaio.errors import KaioError
from kaio.runtime.policy import _VALUES, USUAL_POLICY, Policy, read_policy

THERE = [(name, value) for name, values in _VALUES.items() for value in values]
ALL_THERE = [pytest.param(*pair, id="-".join(pair)) for pair in THERE]


@pytest.mark.parametrize(("name", "value"), ALL_THERE)
def test_a_policy_is_part_of_what_a_device_is(device: Any, name: str, value: str) -> None:
    which, is_usual = str(device), getattr(USUAL_POLICY, name) == value
    options: Any = {name: value}
    found = kaio.Device(which, **options)
    assert found is kaio.Device(which, **options)
    assert (found is device) is is_usual
    assert getattr(found.policy, name) == value
    assert repr(found) == (f"Device({which!r})" if is_usual else f"Device({which!r}, {name}={value!r})")


@pytest.mark.parametrize(("name", "value"), [pair for pair in ALL_THERE if pair.values[0] != "streams"])
def test_a_stream_may_have_a_policy_of_its_own(device: Any, name: str, value: str) -> None:
    options: Any = {name: value}
    assert device.stream(**options).policy == device.policy._replace(**options)
    assert device.stream().policy == device.policy


def test_a_wrong_policy_of_a_stream_is_named(device: Any) -> None:
    with pytest.raises(KaioError) as caught:
        device.stream(ordering="none")
    assert str(caught.value) == '`ordering` is "managed" or "manual" (got \'none\')'
    with pytest.raises(TypeError) as unknown:
        device.stream(streams="pool")
    assert str(unknown.value) == (
        "stream has no argument `streams`: write `priority=…`, `completion=…`, `ordering=…` or `foreign=…`"
    )


def test_a_pool_needs_the_order_to_be_kept() -> None:
    with pytest.raises(KaioError) as caught:
        kaio.Device("cpu", streams="pool", ordering="manual")
    assert str(caught.value) == (
        '`streams="pool"` with `ordering="manual"` would leave work in no order at all\n'
        '  help: leave `ordering` out, or put work on streams that you name: `ordering="manual"` alone'
    )
    by_hand = kaio.Device("cpu", streams="pool").stream(ordering="manual")
    assert by_hand.policy.ordering == "manual"


def test_what_is_not_given_is_as_before() -> None:
    base = Policy(streams="pool", ordering="manual")
    assert read_policy({"completion": None, "ordering": "managed"}, base) == Policy(streams="pool")
