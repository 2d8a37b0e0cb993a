"""Calls with pyopencl's arrays: where they are, in their queues, without waiting."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.opencl_device import opencl_device
from tests.support.bounds import as_tuple, assert_within
from tests.support.build import refusal_of
from tests.support.opencl import on_pocl
from tests.support.pipeline import timeless
from tests.support.processes import ended_well, run_python, told
from tests.support.programs import CASES, Case
from tests.support.threads import run_at_once
from tests.test_programs import copies, expected_and_bounds, fresh

MM = "def mm(float(N,K) A, float(K,M) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TWICE = "def twice(float(N,M) a) -> (o) { o(i,j) = 2 * a(i,j) }"
PARTS = "def f(float(N) x, float s) -> (y) { t +=! x(i)  y(i) = s * t * x(i) }"
GATHER = "def f(float(N) a, int32(M) p) -> (o) { o(i) = a(p(i)) }"
PLAIN = tc.Options.preset("naive")
NAME = "OpenCL device {}"


def library() -> Any:
    return opencl_device().library


def arrays() -> Any:
    import pyopencl.array

    return pyopencl.array


def queue(*, context: Any = None, in_order: bool = True) -> Any:
    cl, device = library(), opencl_device()
    flags = cl.command_queue_properties
    properties = 0 if in_order else flags.OUT_OF_ORDER_EXEC_MODE_ENABLE
    return cl.CommandQueue(context or device.context, device.device, properties=properties)


def put(values: Any, where: Any) -> Any:
    return arrays().to_device(where, np.array(values))


def whole(seed: int, *shape: int) -> Any:
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


@contextlib.contextmanager
def counted() -> Iterator[Counter[str]]:
    """What of pyopencl is called."""
    cl, calls = library(), Counter[str]()

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("enqueue_copy", "enqueue_barrier", "enqueue_marker", "enqueue_fill_buffer",
                     "enqueue_nd_range_kernel", "wait_for_events"):  # fmt: skip
            patch.setattr(cl, name, counting(name, getattr(cl, name)))
        for kind, name in ((cl.CommandQueue, "finish"), (cl.Event, "wait")):
            patch.setattr(kind, name, counting(name, getattr(kind, name)))
        yield calls


@pytest.mark.drawn(6)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@on_pocl
def test_program(case: Case) -> None:
    """The table, and its bounds (R5)."""
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    compiled, where = tc.compile(case.text, entry=case.def_name, backend="opencl"), queue()
    numbers = compiled.program.static_scalars
    given = {
        name: put(value, where) if isinstance(value, np.ndarray) and name not in numbers else value
        for name, value in inputs.items()
    }
    targets = {n: put(v, where) for n, v in (copies(outputs) or {}).items()}
    results = [found.get() for found in as_tuple(compiled(**given, outputs=targets or None))]
    for result, value, bound in zip(results, expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)


# --- views ------------------------------------------------------------------------------------


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda a: a,
    "columns": lambda a: a.T,
    "every other": lambda a: a[::2, ::3],
    "upside down": lambda a: a[::-1],
    "backwards": lambda a: a[::-2, ::-1],
    "from a line on": lambda a: a[8:],
    "from anywhere on": lambda a: a[3:, 5:],
    "a column": lambda a: a[:, 7:8],
    "no rows": lambda a: a[40:],
    "no columns": lambda a: a[:, 3:3],
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("layout", LAYOUTS)
@on_pocl
def test_any_strides_n2(layout: str) -> None:
    """Rows are a line of 128 bytes: whatever begins at another place is copied on the device."""
    values, view = whole(0, 40, 32), LAYOUTS[layout]
    array = view(put(values, queue()))
    twice = tc.compile(TWICE, backend="opencl")
    with counted() as calls:
        found = twice(array)
    assert type(found) is arrays().Array
    assert (found.queue, found.offset) == (array.queue, 0)
    np.testing.assert_array_equal(found.get(), 2 * view(values))
    copied = layout in ("from anywhere on", "a column")
    assert calls["enqueue_copy"] == copied
    assert calls["finish"] + calls["wait"] + calls["wait_for_events"] == 0


@on_pocl
def test_parts_of_parts_and_pools() -> None:
    """Buffers that are parts of other buffers, and buffers of pyopencl's pools, which have no
    parts."""
    import pyopencl.tools

    where, values = queue(), whole(0, 40, 32)
    base = put(values, where)
    part = arrays().Array(where, (32, 32), np.float32, data=base.base_data[1024:])
    twice = tc.compile(TWICE, backend="opencl")
    np.testing.assert_array_equal(twice(part[4:]).get(), 2 * values[12:])
    assert "shares memory" in refusal_of(lambda: twice(part, outputs=base[:32])).cause
    pool = pyopencl.tools.MemoryPool(pyopencl.tools.ImmediateAllocator(where))
    pooled = arrays().to_device(where, values, allocator=pool)
    held = pool.active_blocks
    found = twice(pooled[8:])
    assert pool.active_blocks == held + 1
    assert isinstance(found.base_data, pyopencl.tools.PooledBuffer)
    np.testing.assert_array_equal(found.get(), 2 * values[8:])


@on_pocl
def test_arrays_of_rank_0_and_numbers() -> None:
    f, where = tc.compile(PARTS, backend="opencl"), queue()
    x = whole(0, 9)
    array, two = put(x, where), put(np.float32(2), where)
    for s in (2.0, two, 3.0, np.float32(3), two, 2.0):
        number = 2.0 if s is two else float(s)
        np.testing.assert_array_equal(f(array, s).get(), number * x.sum() * x)
    total = tc.compile("def f(float(N) x) -> (t) { t +=! x(i) }", backend="opencl")
    assert (total(array).shape, total(array).get()) == ((), x.sum())


@on_pocl
def test_outputs_of_the_caller_r4() -> None:
    text = "def f(float(N,M) a) -> (o) { o(i,j) += a(i,j) where i in 2:N }"
    f, where = tc.compile(text, backend="opencl"), queue()
    a, o = whole(0, 8, 32), whole(1, 24, 32)
    array, memory = put(a, where), put(o, where)
    for output, place in ((memory[:8], slice(0, 8)), (memory[8:16], slice(8, 16))):
        assert f(array, outputs=output) is output
        o[place] += np.where(np.arange(8)[:, None] >= 2, a, 0)
        np.testing.assert_array_equal(memory.get(), o)
    device = opencl_device()
    error = refusal_of(lambda: f(array[:, :31], outputs=put(np.zeros((20, 31)), where)[1:9]))
    assert error.cause == (
        f"f: o in outputs= begins at byte 248 of its buffer, and {NAME.format(device)} has kernels "
        "write to parts from multiples of 128 bytes on"
    )
    assert error.repair == "pyopencl.array.empty(o.queue, o.shape, np.float32)"
    columns = put(np.zeros((32, 8), np.float32), where).T
    assert "has strides (4, 32)" in refusal_of(lambda: f(array, outputs=columns)).cause
    error = refusal_of(lambda: f(memory[:8], outputs=memory[:8]))
    assert error.cause == "f: o in outputs= shares memory with the input a"
    assert error.repair == "pyopencl.array.empty(o.queue, (8, 32), np.float32)"
    cl = library()
    fixed = cl.Buffer(
        device.context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=a
    )
    read_only = arrays().Array(where, a.shape, a.dtype, data=fixed)
    assert refusal_of(lambda: f(array, outputs=read_only)).cause == "f: o in outputs= is read-only"
    np.testing.assert_array_equal(tc.compile(TWICE, backend="opencl")(read_only).get(), 2 * a)


@on_pocl
def test_an_input_without_elements() -> None:
    """Kernels that have something to do take it all the same."""
    text = "def f(float(N) x, float(M) y) -> (o) { t +=! x(i)  o(i) = y(i) + t }"
    f, where, y = tc.compile(text, backend="opencl", options=PLAIN), queue(), whole(0, 9)
    memory = put(whole(1, 40), where)
    for x in (memory[3:3], put(np.zeros(0, np.float32), where)):
        np.testing.assert_array_equal(f(x, put(y, where)).get(), y)


@on_pocl
def test_outputs_in_between_an_input_r4() -> None:
    """Parts of a buffer that enclose each other may not be passed both: the input is copied."""
    total = tc.compile("def t(float(N,M) a) -> (o) { o(j) +=! a(i,j) }", backend="opencl")
    values = whole(0, 9, 32)
    memory = put(values, queue())
    for output, copied in ((memory[3], 1), (memory[5], 1), (memory[7], 0), (memory[8], 0)):
        with counted() as calls:
            total(memory[0:7:2], outputs=output)
        assert calls["enqueue_copy"] == copied
        np.testing.assert_array_equal(output.get(), values[0:7:2].sum(0))
        np.testing.assert_array_equal(memory.get()[0:7:2], values[0:7:2])


@on_pocl
def test_what_is_refused() -> None:
    twice, where = tc.compile(TWICE, backend="opencl"), queue()
    for given, cause, repair in [
        (
            put(np.zeros((2, 3)), where),
            "twice: a has dtype float64, but float32(N, M) a asks for float32; a parameter for it "
            "is written float64(N, M) a",
            "a.astype(np.float32)",
        ),
        (
            put(np.zeros(3, np.float32), where),
            "twice: a has rank 1 and shape (3,), but float32(N, M) a asks for rank 2",
            "a.reshape((1, 3)) for one row, a.reshape((3, 1)) for one column",
        ),
        (
            put(np.zeros((2, 3), np.float32), where).with_queue(None),
            "twice: a has no queue to run in",
            "a.with_queue(queue)",
        ),
    ]:
        error = refusal_of(lambda g=given: twice(g))
        assert (error.cause, error.repair) == (cause, repair)
    cl = library()
    svm = cl.SVM(cl.csvm_empty(opencl_device().context, (2, 3), np.float32))
    shared = arrays().Array(where, (2, 3), np.float32, data=svm)
    error = refusal_of(lambda: twice(shared))
    assert error.cause == "twice: a lies in shared virtual memory, and not in a buffer"


# --- queues -----------------------------------------------------------------------------------


@on_pocl
def test_calls_are_put_in_line() -> None:
    """A repeated call launches, and neither waits nor copies; temporaries are kept for a queue."""
    f = tc.compile(PARTS, backend="opencl", options=PLAIN)
    first, second = queue(), queue()
    x = whole(0, 50)
    for where in (first, second):
        array, output = put(x, where), put(np.zeros_like(x), where)
        f(array, 2.0, outputs=output)
        with counted() as calls:
            for _ in range(4):
                assert f(array, 2.0, outputs=output) is output
        assert calls == {"enqueue_nd_range_kernel": 4 * 2}
        np.testing.assert_array_equal(output.get(), 2 * x.sum() * x)
    (special,) = f._specialiser.made.values()
    frames = special.frames.by_stream
    assert [*frames] == [first, second]
    buffers = [frame.temporaries[0].memory for each in frames.values() for frame in each]
    assert len({buffer.int_ptr for buffer in buffers}) == len(buffers) == 2


@pytest.mark.parametrize("in_order", [True, False])
@on_pocl
def test_the_order_of_work(in_order: bool) -> None:
    """Each call needs what the one before has written, also where a queue keeps no order."""
    where = queue(in_order=in_order)
    text = "def step(float(N) x) -> (y) { t max=! x(i)  y(i) = x(i) + t where i in 0:N }"
    step = tc.compile(text, backend="opencl", options=PLAIN)
    x = whole(0, 3000)
    arrays_of = [put(x, where), put(np.zeros_like(x), where)]
    for _ in range(30):
        step(arrays_of[0], outputs=arrays_of[1])
        arrays_of.reverse()
        x = x + x.max()
    assert bool(where.properties) != in_order
    np.testing.assert_array_equal(arrays_of[0].get(), x)


@on_pocl
def test_arrays_of_several_queues() -> None:
    """The call is in the queue of the first; what is in the others comes before, and what is put
    there afterwards comes after."""
    first, second = queue(), queue()
    a, b, c = whole(0, 30, 20), whole(1, 20, 40), np.zeros((30, 40), np.float32)
    mm = tc.compile(MM, backend="opencl")
    for _ in range(10):
        left, right, output = put(a, first), put(np.zeros_like(b), second), put(c, second)
        right.set(b, async_=True)
        with counted() as calls:
            mm(left, right, outputs=output)
        assert (calls["enqueue_marker"], calls["enqueue_barrier"]) == (2, 2)
        assert calls["finish"] + calls["wait"] + calls["wait_for_events"] == 0
        output += 1
        np.testing.assert_array_equal(output.get(), a @ b + 1)
    fresh_output = mm(left, right)
    assert fresh_output.queue == first


@on_pocl
def test_events_of_other_queues() -> None:
    """An array tells by its events who has written to it elsewhere; results tell, too."""
    cl, first, second = library(), queue(), queue()
    values = whole(0, 40, 32)
    array = put(np.zeros_like(values), first)
    gate = cl.UserEvent(opencl_device().context)
    source = put(values, second)
    late = cl.enqueue_copy(second, array.base_data, source.base_data, byte_count=values.nbytes,
                           wait_for=[gate])  # fmt: skip
    second.flush()
    array.add_event(late)
    found = tc.compile(TWICE, backend="opencl")(array)
    gate.set_status(cl.command_execution_status.COMPLETE)
    np.testing.assert_array_equal(found.get(queue=second), 2 * values)
    assert len(found.events) >= 1


@on_pocl
def test_several_contexts() -> None:
    """Kernels are built for the context of the arrays; those of a call are of one."""
    device = opencl_device()
    contexts = [device.library.Context([device.device]) for _ in range(2)]
    twice, values = tc.compile(TWICE, backend="opencl"), whole(0, 8, 32)
    for _ in range(2):
        for context in contexts:
            where = queue(context=context)
            found = twice(put(values, where))
            assert found.context == context
            np.testing.assert_array_equal(found.get(), 2 * values)
    assert len(twice._specialiser.made) == 2
    mm = tc.compile(MM, backend="opencl")
    a, b = (put(whole(0, 8, 8), queue(context=context)) for context in contexts)
    error = refusal_of(lambda: mm(a, b))
    name = NAME.format(device)
    assert error.cause == (
        f"mm: B lies on {name}, but A on {name} in another context: the arrays of a call lie in "
        "one place"
    )
    assert error.repair == "pyopencl.array.to_device(A.queue, B.get())"
    b = eval(error.repair, {"pyopencl": library(), "A": a, "B": b})
    np.testing.assert_array_equal(mm(a, b).get(), a.get() @ b.get())


@on_pocl
def test_threads_on_one_queue_and_on_several() -> None:
    f = tc.compile(PARTS, backend="opencl", options=PLAIN)
    shared = queue()

    def work(seed: int) -> None:
        own = queue()
        for turn in range(12):
            x = whole(seed * 100 + turn, 40)
            where = shared if turn % 2 else own
            found = f(put(x, where), float(seed))
            np.testing.assert_array_equal(found.get(), seed * x.sum() * x)

    run_at_once(partial(work, seed) for seed in range(5))


# --- checks and the rest --------------------------------------------------------------------------


@on_pocl
def test_checks_g7() -> None:
    """The message is that of other backends; nothing is left of it in the next call."""
    where, a = queue(), np.ones(5, np.float32)
    wrong, right = np.array([1, 5, 0], np.int32), np.array([1, 4, 0], np.int32)
    expected = str(refusal_of(lambda: tc.compile(GATHER, check=True)(a, wrong)))
    checked = tc.compile(GATHER, backend="opencl", check=True)
    for _ in range(3):
        assert str(refusal_of(lambda: checked(put(a, where), put(wrong, where)))) == expected
        assert checked(put(a, where), put(right, where)).get().tolist() == [1, 1, 1]


@on_pocl
def test_beside_arrays_of_numpy() -> None:
    """Both are taken, but not in one call."""
    where, mm = queue(), tc.compile(MM, backend="opencl")
    a, b = whole(0, 8, 9), whole(1, 9, 10)
    for _ in range(3):
        np.testing.assert_array_equal(mm(put(a, where), put(b, where)).get(), a @ b)
        np.testing.assert_array_equal(mm(a, b), a @ b)
    array = put(a, where)
    error = refusal_of(lambda: mm(array, b))
    assert error.cause == (
        "mm: B is an array of numpy, but A is one of pyopencl: the arrays of a call are of one kind"
    )
    scope = {"pyopencl": library(), "np": np, "A": array, "B": b}
    np.testing.assert_array_equal(mm(array, eval(error.repair or "", scope)).get(), a @ b)
    scope["B"] = other = put(b, where)
    error = refusal_of(lambda: mm(a, other))
    np.testing.assert_array_equal(mm(a, eval(error.repair or "", scope)), a @ b)
    error = refusal_of(lambda: tc.compile(MM, backend="numba")(array, other))
    assert error.cause == (
        f"mm: A lies on {NAME.format(opencl_device())}, and this runs on the processor"
    )
    assert error.repair == 'A.get() for a copy there, or tc.compile(..., backend="opencl")'


@on_pocl
def test_what_asks_for_shapes_alone() -> None:
    where, mm = queue(), tc.compile(MM, backend="opencl")
    a, b = put(whole(0, 8, 9), where), put(whole(1, 10, 9), where).T
    assert str(mm.infer(a, b)["C"]) == "float32(8, 10)"
    mm.prepare(a, b)
    made = {*map(id, mm._specialiser.made.values())}
    np.testing.assert_array_equal(mm(a, b).get(), a.get() @ b.get())
    assert {*map(id, mm._specialiser.made.values())} == made
    assert mm.source(a, b) == str(tc.emit(MM, a.get(), b.get(), backend="opencl"))
    assert timeless(mm.explain(a, b)) == timeless(mm.explain(a.get(), b.get()))
    error = refusal_of(lambda: tc.error_bound(MM, a, b))
    assert "this runs on the processor" in error.cause


FORK = """
import os, sys
import numpy as np
import pyopencl.array
import tc
from tc.backends.opencl_device import opencl_device
from tests.support.opencl import name_the_processor

name_the_processor()
device = opencl_device()
queue = device.library.CommandQueue(device.library.Context([device.device]))
array = pyopencl.array.to_device(queue, np.ones((2, 3), np.float32))
twice = tc.compile("def twice(float(N,M) a) -> (o) { o(i,j) = 2 * a(i,j) }", backend="opencl")
print(twice(array).get().sum(), flush=True)
pid = os.fork()
if pid == 0:
    try:
        twice(array)
    except tc.BackendError as error:
        print(error.cause, flush=True)
    finally:
        os._exit(0)
os.waitpid(pid, 0)
print(twice(array).get().sum())
"""


@on_pocl
def test_a_forked_child() -> None:
    done = run_python(FORK, flags=["-W", "ignore"], limit=120)
    assert ended_well(done), told(done)
    assert done.stdout.splitlines() == [
        "12.0",
        "this process was forked from one that has used OpenCL, and the threads of OpenCL's driver "
        "are not in it",
        "12.0",
    ]
