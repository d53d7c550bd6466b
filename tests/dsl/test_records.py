"""The example of every intrinsic compiles for both devices, holds its instruction, and gives the same on both.

An example is the statements of a kernel in which `i` is the thread's number, over 64 threads in one block and the
buffers of `PARAMETERS`; what it computes, it leaves in `out`, `wide` or `counts`.
"""

from __future__ import annotations

import functools
import re
import textwrap

import numpy as np
import pytest

import kaio
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.reference import records
from tests.dsl.from_text import kernel
from tests.dsl.programs import PARAMETERS

COUNT = 64

RECORDS = {name: record for name, record in records().items() if isinstance(record, Intrinsic)}
SHOWN = [pytest.param(record, id=name) for name, record in RECORDS.items()]
ON_GPU = [shown for shown in SHOWN if shown.id != "breakpoint"]  # which a GPU does not have


@functools.cache
def example(record: Intrinsic) -> kaio.Kernel:
    """The example as a kernel: one for all tests, as it is compiled once for each machine and way of checking."""
    return kernel(f"@kernel\ndef k({PARAMETERS}):\n    i = kaio.grid(1)\n" + textwrap.indent(record.example, "    "))


def results(record: Intrinsic, device: kaio.Device) -> list[np.ndarray]:
    """What the example leaves in its buffers."""
    rng = np.random.default_rng(0)
    given = [rng.uniform(0.1, 1, COUNT).astype(dtype) for dtype in (np.float32, np.float32, np.float64)]
    given += [np.arange(COUNT, dtype=np.int32), *(np.zeros(COUNT, dtype) for dtype in (np.float32, float, np.int32))]
    buffers = [device.alloc_from(array) for array in given]
    made = example(record)
    counts = {array.name: COUNT for array in made.compile("cpu").dynamic}
    made.over(COUNT).block(COUNT).shared(**counts).launch(*buffers).wait()
    return [buffer.to_host() for buffer in buffers[-3:]]


@functools.cache
def on_the_cpu(name: str) -> list[np.ndarray]:
    """What it leaves on the CPU device."""
    return results(RECORDS[name], kaio.Device("cpu"))


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_has_a_doc_a_signature_an_example_and_an_instruction(name):
    record = RECORDS[name]
    wanted = ("doc", "signature", "example", *(() if name == "breakpoint" else ("ptx",)))
    missing = [part for part in wanted if not getattr(record, part)]
    assert not missing, f"the record of `{name}` has no {', '.join(missing)}"
    assert record.call_line, f"the example of `{name}` does not call it"


@pytest.mark.parametrize("name", RECORDS)
def test_the_example_computes_something_on_the_cpu_device(name):
    assert any(np.any(array) for array in on_the_cpu(name))


@pytest.mark.parametrize("record", ON_GPU)
def test_the_example_compiles_to_its_instruction(record):
    target = max("sm_90", record.since, key=lambda name: int(re.sub(r"\D", "", name) or 0))
    assert record.ptx in example(record).ptx(target)


@pytest.mark.gpu
@pytest.mark.parametrize("record", ON_GPU)
def test_the_example_gives_the_same_on_both_devices(record):
    for cpu, gpu in zip(results(record, kaio.Device("cpu")), results(record, kaio.Device("cuda:0")), strict=True):
        if record.same_bits:
            np.testing.assert_array_equal(cpu, gpu)
        else:
            np.testing.assert_allclose(cpu, gpu, rtol=1e-5)
