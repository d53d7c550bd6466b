"""Fences: their instructions, and that they hold nobody up."""

from __future__ import annotations

import pytest

import kaio
from kaio import In, Out, UnsupportedFeatureError, f32
from tests.dsl.from_text import kernel, message


@kaio.kernel
def fenced(x: In[f32], y: Out[f32]):
    i = kaio.grid(1)
    if i % 2 == 0:
        kaio.fence("block")
    y[i] = x[i]
    kaio.fence()
    kaio.fence("system")


def test_each_scope_is_its_instruction():
    ptx = fenced.ptx("sm_75")
    assert [ptx.count(f"fence.sc.{scope};") for scope in ("cta", "gpu", "sys")] == [1, 1, 1]
    assert fenced.compile("sm_75").cubin


def test_the_threads_do_not_wait_for_each_other(device):
    x, y = device.alloc_from([1.0, 2.0, 3.0]).astype(f32), device.alloc_zeros(3, f32)
    fenced.grid(1).block(3).launch(x, y).wait()
    assert y.to_host().tolist() == [1, 2, 3]


def test_clusters_are_there_from_hopper_on():
    made = kernel('@kernel\ndef k(y: Out[f32]):\n    y[0] = 1.0\n    fence("cluster")\n')
    assert "fence.sc.cluster;" in made.compile("sm_90").ptx
    with pytest.raises(UnsupportedFeatureError, match=r'`fence\("cluster"\)` needs sm_90 or later'):
        made.ptx("sm_80")


def test_a_scope_that_is_none_is_refused_with_the_one_meant():
    source = "@kernel\ndef k(y: Out[f32]):\n    y[0] = 1.0\n    fence({})\n"
    assert message(source.format('"devise"')).endswith('help: did you mean "device"?')
    assert message(source.format("3")).endswith("help: it is one of 'block', 'cluster', 'device', 'system'")
