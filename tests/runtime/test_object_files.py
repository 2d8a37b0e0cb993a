"""Object files of LLVM alone, and what numba adds: made, looked into, loaded, let go."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import weakref
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from tc.backends.numba import objects
from tc.backends.numba.backend import NumbaBackend
from tc.errors import InternalError
from tc.runtime.object_files import (
    ObjectFile,
    all_found,
    compile_modules,
    is_whole,
    keep_masks,
    load_object,
    new_engine,
    outside,
    parse_module,
)
from tests.support.kernels import load, matmul, run
from tests.support.processes import ended_well, run_python, told
from tests.support.threads import run_at_once

ADD = "define i64 @add(i64 %x) { %y = add i64 %x, 7 ret i64 %y }"
EXP = "declare double @exp(double) define double @e(double %x) { %y = call double @exp(double %x) ret double %y }"  # noqa: E501
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
TARGET = objects._target()

PROCESS = """
import sys
import llvmlite.binding as llvm
import numpy as np
import tc
mm = tc.compile("def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
a = np.ones((128, 128), np.float32)
assert (mm(a, a) == 128).all()
print("numba.np.linalg" in sys.modules, "scipy.linalg" in sys.modules)
"""


def test_several_modules_become_one_file() -> None:
    file = compile_modules([ADD, EXP], ["add", "e"], TARGET)
    assert file.functions == ("add", "e")
    code = load_object(file)
    add, e = code.addresses
    assert FUNCTION(add)(35) == 42
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(e)(0.0) == 1.0


def test_what_a_file_needs_from_outside() -> None:
    file = compile_modules([ADD, EXP], ["add", "e"], TARGET)
    if file.content.startswith(b"\x7fELF"):
        assert list(outside(file.content)) == ["exp"]
        assert all_found(file) is True
        missing = compile_modules([EXP.replace("@exp", "@tc_nowhere")], ["e"], TARGET)
        assert all_found(missing) is False
    assert all_found(ObjectFile(b"\xcf\xfa\xed\xfe", ("f",))) is None  # of macOS
    assert all_found(ObjectFile(b"", ())) is True


def test_a_file_that_is_none_is_not_loaded() -> None:
    """LLVM would end the process, or a call would begin at address 0."""
    file = compile_modules([ADD, EXP], ["add", "e"], TARGET)
    assert is_whole(file)
    assert is_whole(compile_modules([], [], TARGET))
    assert not is_whole(replace(file, functions=("add", "sub")))
    assert not is_whole(replace(file, functions=("exp",)))  # it is used, not defined
    if file.content.startswith(b"\x7fELF"):
        cut = [replace(file, content=file.content[:n]) for n in range(len(file.content))]
        assert not any(map(is_whole, cut))


def test_any_byte_of_a_file_may_be_another() -> None:
    """Whatever becomes of it is refused, or has the form of an object file: nothing is raised."""
    file = compile_modules([ADD, EXP], ["add", "e"], TARGET)
    rng = np.random.default_rng(1)
    refused = 0
    for at in range(len(file.content)):
        content = bytearray(file.content)
        content[at] ^= int(rng.integers(1, 256))
        for damaged in (bytes(content), content[:at] + content[at + 1 :]):
            refused += not is_whole(ObjectFile(bytes(damaged), file.functions))
    assert refused > len(file.content)


def test_no_functions_at_all() -> None:
    assert load_object(compile_modules([], [], TARGET)).addresses == ()
    empty = objects.compile_regions([])
    assert load_object(empty).addresses == ()


def test_wrong_texts_are_errors_of_tc() -> None:
    for text in ("define i64 @f( {", "define i64 @f() { ret void }"):
        with pytest.raises(InternalError, match="LLVM does not take a region"):
            parse_module(text)


def test_files_with_the_same_symbols_live_side_by_side() -> None:
    codes = [
        load_object(compile_modules([ADD.replace("7", str(n))], ["add"], TARGET)) for n in range(20)
    ]
    assert [FUNCTION(code.addresses[0])(100) for code in codes] == list(range(100, 120))


def test_code_goes_with_its_owner() -> None:
    code = load_object(compile_modules([ADD], ["add"], TARGET))
    owner = weakref.ref(code.owner)
    del code
    gc.collect()
    assert owner() is None


def test_threads_load_and_drop_at_once() -> None:
    file = compile_modules([ADD], ["add"], TARGET)

    def work() -> None:
        for number in range(50):
            code = load_object(file)
            assert FUNCTION(code.addresses[0])(number) == number + 7

    run_at_once([work] * 4)


def test_an_engine_compiles_a_module() -> None:
    engine = new_engine(parse_module(ADD))
    engine.finalize_object()
    assert FUNCTION(engine.get_function_address("add"))(1) == 8


def test_kernels_of_one_text_are_apart() -> None:
    """Their symbols are made in one process, or come from several."""
    given = {"A": np.ones((2, 4), np.float32), "B": np.ones((4, 3), np.float32)}
    for _ in range(3):
        _, arrays = run(load(NumbaBackend(), matmul(2, 3, 4)), given)
        assert arrays["C"].tolist() == [[4.0] * 3] * 2


def test_traced_regions_do_not_set_up_numbas_compiler() -> None:
    """That alone would take some 0.3 s of a first call."""
    done = run_python(PROCESS)
    assert done.stdout.split() == ["False", "False"], told(done)


FORKS = """
import faulthandler, os, sys, threading, time
import llvmlite.binding as llvm
import numpy as np
import tc
import tc.process.forks

tc.cache.disable()
tc.process.forks.FORK_WAIT_SECONDS = 400
f = tc.compile("def f(float(N,M) A, float(M,K) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
a, b = np.ones((90, 40), np.float32), np.ones((40, 30), np.float32)
stop = threading.Event()

def compiling(number):
    rows = number
    while not stop.is_set():
        rows += 3
        f(a[: 1 + rows % 89], b)

threads = [threading.Thread(target=compiling, args=(n,)) for n in range(3)]
for thread in threads:
    thread.start()
status = 0
for fork in range(6):
    time.sleep(0.02 * fork)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(500, exit=True)
        right = (f(a[:, :9], b[:9, : 1 + fork]) == 9).all()
        os._exit(0 if right else 1)
    status |= os.waitpid(child, 0)[1]
stop.set()
for thread in threads:
    thread.join()
sys.exit(status != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_compiles_though_other_threads_did() -> None:
    """The locks of LLVM and of numba's compiler are free in it."""
    done = run_python(FORKS, flags=["-W", "ignore"])
    assert done.returncode == 0, told(done)


FORK_BESIDE_THE_LOG = """
import os, threading, time
import llvmlite.binding as llvm
import numpy as np
import tc
import tc.process.forks
tc.process.forks.FORK_WAIT_SECONDS = 400  # and not the fork gives up
tc.compile("def f(float(N) A) -> (B) { B(i) = A(i) }")(np.ones(3, np.float32))
from numba.core.compiler_lock import global_compiler_lock
import logging  # not before tc

held = threading.Event()

def compiling():
    with global_compiler_lock:
        held.set()
        time.sleep(0.3)
        logging.getLogger("numba").debug("as numba does")

thread = threading.Thread(target=compiling)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_fork_and_a_compiler_that_writes_to_its_log_do_not_wait_for_each_other() -> None:
    done = run_python(FORK_BESIDE_THE_LOG, limit=200)
    assert ended_well(done), told(done)


UNDER_ONE_MASK = """
target triple = "x86_64-unknown-linux-gnu"
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define <16 x float> @f(ptr %p, <16 x i1> %m, <16 x float> %s, <16 x float> %a) {
  %b = call <16 x float> @llvm.masked.load.v16f32.p0(
      ptr %p, i32 4, <16 x i1> %m, <16 x float> zeroinitializer)
  %c = call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %s, <16 x float> %b)
  %d = select <16 x i1> %m, <16 x float> %c, <16 x float> zeroinitializer
  %e = fadd <16 x float> %d, %s
  %g = fadd <16 x float> %e, %a
  ret <16 x float> %g
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86")
def test_masked_loads_keep_their_masks() -> None:
    """LLVM 22 drops the mask of this load, and reads the lanes outside of the mask."""
    keep_masks()
    module = llvm.parse_assembly(UNDER_ONE_MASK)
    target = llvm.Target.from_triple(module.triple)
    machine = target.create_target_machine(cpu="skylake-avx512", features="", opt=3)
    reads = [line for line in machine.emit_assembly(module).splitlines() if "(%rdi)" in line]
    assert reads
    assert all("{%k" in line for line in reads), reads
