#!/usr/bin/env bash
# Brings tc to a machine with a GPU and no network, tests and measures it there, and brings back one
# file.
#
#   tools/gpu_machine.sh pack [--python 3.12] [--also NAME]... [--to FILE]
#       makes build/gpu-pack.tar.gz: tc as a wheel, its tests and benchmarks, and wheels of what they
#       need and such a machine may lack; PyCUDA as the source package that it is.
#
#   tar xzf gpu-pack.tar.gz && gpu-pack/tools/gpu_machine.sh there [--seconds 540] [--out FILE]
#           [--before FILE] [--steps a,b]
#       installs what is missing, beside and not into the Python that is there, and takes the steps
#       below within that time. FILE (gpu-results.tar.gz) has all logs and results. With --before
#       and that file, another such machine takes the steps that are left; all but the benchmark if
#       the file is of another commit. Steps that are named are taken anew. Ends with 0, with 1 if a
#       step failed, with 3 if some are left.
set -euo pipefail

SELF="$(readlink -f "${BASH_SOURCE[0]}")"
ROOT="$(dirname "$(dirname "$SELF")")"
WORK="$ROOT/work"       # of this machine
RESULTS="$WORK/results" # of all machines: what is brought back
SITE="$WORK/site"       # what was installed
PYCUDA="$WORK/pycuda"   # PyCUDA alone, as tc prefers it where it is found

# A step and the most seconds that it may take, in order of importance.
STEPS=(
  machine:60 emitted:400 called:500 overhead:120 memcheck:500 racecheck:500 synccheck:500
  tests:540 bench:3000 constants:120 counters:300 generated:400 build-pycuda:540 pycuda:300
)
LEAST="${LEAST:-15}" # seconds to begin a step with
NOT_POSSIBLE=77 # status of a step where the machine lacks what it needs
LEFT=3          # where another run has to go on with it

usage() {
  sed -n '2,/^set -euo/{/^set -euo/d;s/^# \{0,1\}//;p}' "$SELF"
}

fail() {
  echo "$*" >&2
  exit 2
}

# --- here ---------------------------------------------------------------------------------------

# Small, and not on every such machine. What is there already is not installed again.
WHEELS=(
  islpy platformdirs tabulate pyopencl pytools siphash24 mako markupsafe typing-extensions
  pytest iniconfig pluggy packaging pygments pytest-xdist execnet hypothesis sortedcontainers attrs
  setuptools wheel
)
PLATFORMS=(manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64
  manylinux1_x86_64)

pack() {
  local python=3.12 target="$ROOT/build/gpu-pack.tar.gz" names=("${WHEELS[@]}")
  while [ $# -gt 0 ]; do
    case "$1" in
      --python) python="$2" ;;
      --also) names+=("$2") ;;
      --to) target="$2" ;;
      *) fail "pack: no option $1" ;;
    esac
    shift 2
  done
  local folder pack
  folder="$(mktemp -d)"
  # shellcheck disable=SC2064  # of this function's variable
  trap "rm -rf '$folder'" EXIT
  pack="$folder/gpu-pack"
  mkdir -p "$pack/wheels" "$pack/sources" "$folder/whole"
  files | tar -C "$ROOT" -c --null -T - | tar -C "$folder/whole" -x
  commit >"$pack/commit"
  local pip=(python3 -m pip --disable-pip-version-check --quiet)
  "${pip[@]}" wheel --no-deps --wheel-dir "$pack/wheels" "$folder/whole"
  local tags=()
  for platform in "${PLATFORMS[@]}"; do tags+=(--platform "$platform"); done
  "${pip[@]}" download --no-deps --only-binary :all: --python-version "$python" \
    --implementation cp "${tags[@]}" --dest "$pack/wheels" "${names[@]}"
  "${pip[@]}" download --no-deps --no-binary pycuda --dest "$pack/sources" pycuda
  # tc comes from the wheel
  rm -rf "$folder/whole/tc" "$folder/whole/build"
  cp -r "$folder/whole/." "$pack"
  mkdir -p "$(dirname "$target")"
  tar -C "$folder" -czf "$target" gpu-pack
  du -h "$target"
}

# Those of the tree as it is, without what git ignores; with a zero byte behind each.
files() {
  git -C "$ROOT" ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [ -e "$ROOT/$file" ]; then printf '%s\0' "$file"; fi
  done
}

commit() {
  local changes=""
  if [ -n "$(git -C "$ROOT" status --porcelain)" ]; then changes=" and changes"; fi
  echo "$(git -C "$ROOT" rev-parse HEAD)$changes"
}

# --- there --------------------------------------------------------------------------------------

there() {
  local seconds=540 before="" named=""
  OUT="$PWD/gpu-results.tar.gz"
  while [ $# -gt 0 ]; do
    case "$1" in
      --seconds) seconds="$2" ;;
      --out) OUT="$(readlink -f "$2")" ;;
      --before) before="$2" ;;
      --steps) named="$2" ;;
      *) fail "there: no option $1" ;;
    esac
    shift 2
  done
  if [ ! -e "$ROOT/commit" ] || [ ! -d "$ROOT/wheels" ]; then
    fail "there: $ROOT is no pack: make one by \`$SELF pack\`, unpack it on the machine with a GPU, and" \
      "run gpu-pack/tools/gpu_machine.sh there"
  fi
  local end=$((SECONDS + seconds)) chosen=()
  CHILD=""
  mapfile -t chosen < <(choose "$named")
  mkdir -p "$RESULTS/logs" "$RESULTS/status"
  if [ -n "$before" ]; then tar -C "$RESULTS" -xzf "$before"; fi
  if ! cmp -s "$ROOT/commit" "$RESULTS/commit"; then rm -rf "$RESULTS/status" "$RESULTS/logs"; fi
  mkdir -p "$RESULTS/logs" "$RESULTS/status"
  cp "$ROOT/commit" "$RESULTS/commit"
  if [ -n "$named" ]; then (cd "$RESULTS/status" && rm -f "${chosen[@]%:*}"); fi
  rm -f "$RESULTS/status/machine" # that was another one
  trap bring_back EXIT
  trap 'if [ -n "$CHILD" ]; then kill "$CHILD"; fi; exit 143' TERM INT
  if ! "$SELF" step install >"$RESULTS/logs/install.txt" 2>&1; then
    cat "$RESULTS/logs/install.txt"
    exit 1
  fi
  for each in "${chosen[@]}"; do
    # without what the first one looks for, the others would take their time for nothing
    case "$(status_of machine)" in 0 | left) ;; *) break ;; esac
    take "${each%:*}" "${each#*:}" $((end - SECONDS))
  done
  summary
  local all=0
  for each in "${chosen[@]}"; do
    case "$(status_of "${each%:*}")" in
      0 | "$NOT_POSSIBLE") ;;
      left) all="$LEFT" ;;
      *) exit 1 ;;
    esac
  done
  exit "$all"
}

# The steps of these names with their limits; all for no name.
choose() {
  for each in "${STEPS[@]}"; do
    if [ -z "$1" ] || [[ ",$1," == *",${each%:*},"* ]]; then echo "$each"; fi
  done
}

# Takes a step that has not been taken, if there is time: its name, its limit, the seconds left.
take() {
  local name="$1" limit="$2" left="$3" begin="$SECONDS" status=0 cut=""
  if [ "$(status_of "$name")" != left ]; then return; fi
  if [ "$left" -lt "$LEAST" ]; then return; fi
  if [ "$left" -lt "$limit" ]; then limit="$left" cut=yes; fi
  echo "== $name ($limit s at most)"
  SECONDS_LEFT="$((limit - 5))" timeout --kill-after=10 "$limit" "$SELF" step "$name" \
    >>"$RESULTS/logs/$name.txt" 2>&1 &
  CHILD=$! # a shell that waits for it is not deaf
  wait "$CHILD" || status=$?
  CHILD=""
  local over=""
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then over=yes; fi
  tail -n 3 "$RESULTS/logs/$name.txt" || true
  echo "== $name: status $status after $((SECONDS - begin)) s"
  if [ "$status" = "$LEFT" ] || { [ -n "$over" ] && [ -n "$cut" ]; }; then return; fi
  echo "$status" >"$RESULTS/status/$name"
}

# What a step ended with, "left" if it has not.
status_of() {
  cat "$RESULTS/status/$1" 2>/dev/null || echo left
}

summary() {
  {
    echo "commit $(cat "$ROOT/commit")"
    for each in "${STEPS[@]}"; do
      printf '%-14s %s\n' "${each%:*}" "$(meaning "$(status_of "${each%:*}")")"
    done
  } | tee "$RESULTS/summary.txt"
}

meaning() {
  case "$1" in
    0) echo "passed" ;;
    left) echo "left" ;;
    "$NOT_POSSIBLE") echo "not possible on this machine" ;;
    124 | 137) echo "FAILED: not over in time" ;;
    *) echo "FAILED with status $1" ;;
  esac
}

bring_back() {
  tar -C "$RESULTS" -czf "$OUT.new" . && mv "$OUT.new" "$OUT" && echo "all in $OUT"
}

# --- the steps ------------------------------------------------------------------------------------

step() {
  cd "$ROOT"
  # what lies around this folder is not of it
  export GIT_CEILING_DIRECTORIES="$ROOT/.."
  export PYTHONPATH="$ROOT:$SITE" PYTHONUNBUFFERED=1 TC_STRICT=1 TC_CACHE_DIR="$WORK/kernels"
  date -u
  "step_${1//-/_}"
}

# The wheels of what this Python does not have, and tc.
step_install() {
  local wheels
  mkdir -p "$SITE" "$PYCUDA"
  wheels="$(python3 - "$ROOT"/wheels/*.whl <<'PYTHON'
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

for path in sys.argv[1:]:
    name = Path(path).name.split("-")[0]
    try:
        found = None if name == "tensor_comprehensions" else version(name)
    except PackageNotFoundError:
        found = None
    if found is None:
        print(path)
PYTHON
)"
  mapfile -t wheels <<<"$wheels"
  python3 -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target "$SITE" "${wheels[@]}"
  ls "$SITE"
  local built=("$RESULTS"/built/pycuda*.whl)
  if [ -e "${built[0]}" ]; then install_pycuda; fi
}

install_pycuda() {
  python3 -m pip install --quiet --no-index --no-deps --no-cache-dir --upgrade --target "$PYCUDA" \
    "$RESULTS"/built/pycuda*.whl
}

step_machine() {
  nvidia-smi || true
  nvcc --version || echo "no nvcc"
  compute-sanitizer --version || echo "no compute-sanitizer"
  cat /proc/cpuinfo | grep -m 1 "model name" || true
  python3 --version
  python3 -m pip list 2>/dev/null || true
  python3 -c "import tc; print(tc.__file__, tc.__version__, tc.backends())"
  python3 -c "
from tc.backends.cuda_driver import cuda_driver
from tc.backends import nvrtc
d = cuda_driver()
print(d.name, d.version(), [(d.title(n), d.gpu(n)) for n in range(d.count())], nvrtc.version())"
}

step_emitted() {
  python3 -m tools.run_on_gpu emitted
}

step_called() {
  local failed=0
  python3 -m tools.run_on_gpu "called, torch" "called, torch's graph" "called, numpy" || failed=1
  if python3 -c "import cupy"; then
    python3 -m tools.run_on_gpu "called, cupy" || failed=1
  else
    echo "there is no CuPy"
  fi
  return "$failed"
}

step_overhead() {
  python3 -m bench.gpu_overhead | tee "$RESULTS/gpu_overhead.md"
}

step_memcheck() {
  sanitize memcheck "emitted, default" "emitted, paper"
}

step_racecheck() {
  sanitize racecheck "emitted, default" "tmm: emitted, paper" "MLP3: emitted, paper"
}

step_synccheck() {
  sanitize synccheck "emitted, default" "tmm: emitted, paper" "MLP3: emitted, paper"
}

# A tool of compute-sanitizer on what `run_on_gpu` calls so.
sanitize() {
  local tool="$1"
  shift
  if ! command -v compute-sanitizer; then return "$NOT_POSSIBLE"; fi
  local run=(compute-sanitizer --tool "$tool" --error-exitcode 9 python3 -m tools.run_on_gpu --here)
  if "${run[@]}" "tmm: emitted, default" | tee "$WORK/$tool.txt" | grep -i "device not supported"; then
    return "$NOT_POSSIBLE"
  fi
  "${run[@]}" "$@"
}

step_tests() {
  local files
  mapfile -t files < <(find tests/api tests/backends tests/benchmarks tests/runtime \
    -name 'test_*cuda*.py' -o -name 'test_*device*.py' -o -name 'test_gpu_*.py' | sort)
  # None of the plugins that this Python happens to have. The driver that stands in for CUDA's keeps
  # its arrays in the processor's memory, so JAX must not put them on the GPU that is there.
  JAX_PLATFORMS=cpu PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -m pytest -q -p no:cacheprovider -rs "${files[@]}"
}

step_bench() {
  python3 -m bench.gpu --commit "$(cat commit)" --out "$RESULTS/gpu.json" \
    --seconds "$SECONDS_LEFT"
}

step_constants() {
  python3 -m bench.gpu_constants --commit "$(cat commit)" --out "$RESULTS/gpu-constants.json"
}

step_counters() {
  if ! command -v ncu; then return "$NOT_POSSIBLE"; fi
  python3 -m bench.gpu_counters --commit "$(cat commit)" --out "$RESULTS/gpu-counters.json"
}

step_generated() {
  python3 -m tests.fuzz --tree "$SITE" --backends cuda --count 100000 --seed 1 \
    --minutes "$((SECONDS_LEFT < 300 ? SECONDS_LEFT / 75 : 4))" \
    --log "$RESULTS/generated.jsonl" --found "$RESULTS/found" | tee "$WORK/generated.txt"
  grep " ran (cuda)" "$WORK/generated.txt" # else all were refused
}

# Beside the toolkit's compiler it needs one of C++.
step_build_pycuda() {
  if ! command -v nvcc || ! command -v c++; then return "$NOT_POSSIBLE"; fi
  local root
  root="$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")"
  CUDA_ROOT="$root" python3 -m pip wheel --no-index --no-deps --no-build-isolation --no-cache-dir \
    --wheel-dir "$RESULTS/built" sources/pycuda*.tar.gz
  install_pycuda
}

step_pycuda() {
  if [ ! -e "$PYCUDA/pycuda" ]; then return "$NOT_POSSIBLE"; fi
  export PYTHONPATH="$PYCUDA:$PYTHONPATH"
  python3 -c "from tc.backends.cuda_driver import cuda_driver; print(cuda_driver().name)" |
    grep PyCUDA
  local failed=0
  python3 -m tools.run_on_gpu "emitted, default" || failed=1
  # PyCUDA launches on the default stream, which no graph of torch's records
  python3 -m tools.run_on_gpu "called, torch" || failed=1
  return "$failed"
}

# ------------------------------------------------------------------------------------------------

case "${1:-}" in
  pack | there | step) "$@" ;;
  *)
    usage
    exit 2
    ;;
esac
