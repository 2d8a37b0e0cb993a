"""Repairs as a shell takes them: errors give repairs for Python, shells take options and
NAME=VALUE."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable
from functools import partial

from tc.cli.arguments import CallArguments
from tc.cli.values import FILLS, number_of
from tc.errors import TCError
from tc.runtime.sizes import EXAMPLE_SIZE

OF_TWO_NOTATIONS = "tc.compile(text), for a text of defs; tc.sac.compile(text) for one of SaC's"
"""What errors of Python say about a text of the other notation."""

OWNERS = {"MappingOptions": "mapping", "ScheduleOptions": "schedule", "GpuOptions": "gpu"}


def in_shell_words(message: TCError | str, call: CallArguments | None = None) -> str:
    """The text of an error or a warning, its repair as it would be typed.

    >>> print(in_shell_words(TCError("no entry", repair="entry='2x'")))
    TCError: no entry
    repair: --entry 2x
    >>> print(in_shell_words(TCError("M is missing", repair='{"N": 2, "M": 64}')))
    TCError: M is missing
    repair: N=2 M=64
    >>> print(in_shell_words(TCError("too wide", repair="MappingOptions(rows=4, vectors=2)")))
    TCError: too wide
    repair: --options '{"mapping": {"rows": 4, "vectors": 2}}'
    >>> print(in_shell_words(TCError("too many", repair="GpuOptions(threads=(8, 32))")))
    TCError: too many
    repair: --options '{"gpu": {"threads": [8, 32]}}'
    >>> print(in_shell_words(TCError("both", repair="Options(plan=plan, match_library=False)")))
    TCError: both
    repair: --options '{"match_library": false}'
    """
    message = str(message).replace(OF_TWO_NOTATIONS, "the suffix .tc, for a text of defs")
    head, mark, repair = message.rpartition("repair: ")
    if not mark or "\n" in repair:
        return message
    for rewrite in WITHOUT_CALL:
        repair = rewrite(repair)
    if call is not None:
        repair = _of_call(repair, head, call)
    return f"{head}{mark}{_outputs(repair, call)}"


# --- repairs that speak for themselves --------------------------------------------------------


def _entry(repair: str) -> str:
    found = re.fullmatch(r"entry=('[^']*')", repair)
    return f"--entry {shlex.quote(ast.literal_eval(found[1]))}" if found else repair


def _named(repair: str) -> str:
    """
    >>> _named('backend="opencl" or "numba" runs it'), _named('search="random"')
    ('--backend opencl or --backend numba runs it', '--search random')
    >>> _named('stage="schedule"')
    '--stage schedule'
    """

    def words(found: re.Match[str]) -> str:
        return " or ".join(f"--{found[1]} {name}" for name in re.findall(r'"(\w+)"', found[0]))

    return re.sub(r'\b(backend|search|stage)="\w+"( or "\w+")*', words, repair)


def _derived(repair: str) -> str:
    """The options of `tc grad` and its kin for arguments of `tc.grad`.

    >>> _derived("wrt=['A', 'B']"), _derived("in_axes={'A': 0, 'B': None}")
    ('--wrt A,B', '--in-axes A=0,B=none')
    >>> _derived("ties='split'"), _derived("sizes={'N': 3, 'K': 4}")
    ('--ties split', '--sizes N=3,K=4')
    """
    found = re.fullmatch(r"(wrt|constant|ties|save|sizes|in_axes)=([\[{'].*)", repair)
    if found is None:
        return repair
    value = ast.literal_eval(found[2])
    if isinstance(value, dict):
        value = [f"{name}={'none' if axis is None else axis}" for name, axis in value.items()]
    words = value if isinstance(value, str) else ",".join(map(str, value))
    return f"--{found[1].replace('_', '-')} {shlex.quote(words)}"


def _functions(repair: str) -> str:
    """
    >>> _functions("tc.emit shows its code")
    'tc emit shows its code'
    """
    return re.sub(r"\btc\.(emit|explain|grad)(?= )", r"tc \1", repair)


def _sizes(repair: str) -> str:
    try:
        sizes = ast.literal_eval(repair)
    except (SyntaxError, ValueError):
        return repair
    if not isinstance(sizes, dict) or not all(isinstance(v, int) for v in sizes.values()):
        return repair
    return " ".join(f"{name}={value}" for name, value in sizes.items()) or repair


def _options(repair: str) -> str:
    """A call of tc.Options or of a part of it, as JSON."""
    try:
        tree = ast.parse(repair.removeprefix("tc."), mode="eval").body
    except SyntaxError:
        return repair
    match tree:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            pass
        case _:
            return repair
    if name not in (*OWNERS, "Options"):
        return repair
    try:
        # what is passed on as it was given, `plan=plan`, stays as it was typed
        said = [k for k in keywords if not (isinstance(k.value, ast.Name) and k.value.id == k.arg)]
        values = {str(k.arg): ast.literal_eval(k.value) for k in said}
    except ValueError:
        return repair
    if name == "Options" and list(values) == ["threads"]:
        return f"--threads {values['threads']}"
    return option_words(values if name == "Options" else {OWNERS[name]: values})


def option_words(values: object) -> str:
    """
    >>> option_words({"threads": 2})
    '--options \\'{"threads": 2}\\''
    """
    return f"--options {shlex.quote(json.dumps(values))}"


def _directory(repair: str) -> str:
    """
    >>> _directory('tc.cache.enable("~/kernels")'), _directory('tc.cache.enable("/tmp/k")')
    ('export TC_CACHE_DIR="$HOME/kernels"', 'export TC_CACHE_DIR="/tmp/k"')
    """
    found = re.fullmatch(r'tc\.cache\.enable\("(~(?=/))?([^"]*)"\)', repair)
    return f'export TC_CACHE_DIR="{"$HOME" if found[1] else ""}{found[2]}"' if found else repair


WITHOUT_CALL: tuple[Callable[[str], str], ...] = (
    _entry,
    _named,
    _derived,
    _functions,
    _sizes,
    _options,
    _directory,
)


# --- repairs about the values of a call -------------------------------------------------------


def _of_call(repair: str, cause: str, call: CallArguments) -> str:
    callee = call.callee
    found = re.fullmatch(r"(\w+)=\.\.\.", repair)
    if repair == callee.call_text or (found is not None and found[1] in callee.inputs):
        missing = [name for name in callee.inputs if name not in call.pairs]
        return " ".join(_pair(name, "random", call) for name in missing) or repair
    name, is_output = callee.blamed_input(cause)
    if name is None:
        return repair
    if is_output:
        return f'outputs={{"{name}": ...}}'
    text = call.pairs.get(name, "")
    if text.endswith(".npy"):
        return _in_file(name, text, repair)
    names_value = re.match(rf"(?:np\.)?\w*\(?\(?{re.escape(name)}\b|np\.full\(", repair)
    return _pair(name, text.partition(":")[0], call) if text and names_value else repair


def _pair(name: str, fill: str, call: CallArguments) -> str:
    """A value for an input, of the declared shape as far as it is known."""
    callee = call.callee
    wanted = callee.inputs[name]
    sizes = {size: value for size, value in call.values.items() if size in callee.sizes}
    for given, array in call.inputs.items():
        dims = callee.inputs[given].sizes or ()
        if given != name and dims and len(dims) == len(getattr(array, "shape", ())):
            for dim, extent in zip(dims, array.shape, strict=True):
                if isinstance(dim, str):
                    sizes.setdefault(dim, extent)
    if wanted.rank == 0:
        number = number_of(fill)
        return f"{name}={1 if number is None else int(number)}"
    shape = [
        size if isinstance(size, int) else sizes.get(size or "", EXAMPLE_SIZE)
        for size in ((None, None) if wanted.sizes is None else wanted.sizes)
    ]
    return f"{name}={fill if fill in FILLS else 'random'}:{'x'.join(map(str, shape))}"


def _in_file(name: str, file: str, repair: str) -> str:
    """Methods and parts of an input that comes from a file, as commands that change the file."""
    taken = rf"(?<![\w.]){re.escape(name)}(\.\w+\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\])"
    return re.sub(taken, partial(_changed, file), repair)


def _changed(file: str, found: re.Match[str]) -> str:
    change = found[1].replace("np.", "numpy.")
    modules = "numpy, ml_dtypes" if "ml_dtypes." in change else "numpy"
    script = f"import {modules}; numpy.save({file!r}, numpy.load({file!r}){change})"
    return f"python -c {shlex.quote(script)}"


def _outputs(repair: str, call: CallArguments | None) -> str:
    def given(found: re.Match[str]) -> str:
        return f"--outputs {found[1]}=zeros{_shape_of_output(found[1], call)}"

    return re.sub(r'outputs=\{"(\w+)": [^}]*\}', given, repair)


def _shape_of_output(name: str, call: CallArguments | None) -> str:
    """The shape of an output as ":2x3"; empty where the output has no shape, or none that is
    known."""
    shape = () if call is None else call.callee.output_shape(name, call.values)
    return ":" + "x".join(map(str, shape)) if shape else ""
