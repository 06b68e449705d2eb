# What ./run test and ./run conform do, which read this file: tests in C++ and checks by commands, several at a time.

passed=0 failed=0
# count PASSED FAILED: adds to the totals.
count() { passed=$((passed + $1)) failed=$((failed + $2)); }

# How many processes share a binary's tests: these take longest.
parts_of() {
  case $(basename "$1") in
    driver_test | runtime_test) echo 4 ;;
    cli_test) echo 2 ;;
    *) echo 1 ;;
  esac
}

# start COMMAND...: runs it beside the others, once fewer than one more than there are jobs run: tests of servers and of time limits mostly
# wait.
start() {
  while (($(jobs -rp | wc -l) > jobs)); do wait -n || true; done
  "$@" &
}

# run_logged LOG COMMAND...: runs it with its output in LOG; never fails itself: the exit status goes to LOG.status.
run_logged() {
  local log=$1 status=0
  shift
  "$@" >"$log" 2>&1 || status=$?
  echo "$status" >"$log.status"
}
# 255 where there is none: what was to run was killed.
status_of() { cat "$1.status" 2>/dev/null || echo 255; }

# How a binary's programs are compiled: with -O1 where results, words or endings are looked at, which takes two thirds of the time. The rest
# looks at the compiler's flags, sizes or accuracy, or says itself how its programs are compiled. Of these ./run conform runs programs_test
# with -O3; a mend of what only -O3 makes wrong is a program of that.
flags_of() {
  case $(basename "$1") in
    c_api_test | cli_test | collectives_test | gpu_test | mutate_test | programs_test | reliability_test | server_test | text_forms_test)
      echo "-O${TOROID_TEST_OPTIMISATION:-1}"
      ;;
  esac
}

# run_test_binary BINARY LOG PART PARTS: that part of a GoogleTest binary's tests.
run_test_binary() {
  TOROID_CXXFLAGS=${TOROID_CXXFLAGS:-$(flags_of "$1")} GTEST_SHARD_INDEX=$3 GTEST_TOTAL_SHARDS=$4 run_logged "$2" \
    timeout --kill-after=10 "${TOROID_TEST_TIMEOUT_S:-600}" "$1" --gtest_color=no
}

# report_test_part LOG: adds what the log of one run of a binary counts to `ok`, `bad` and `skipped`, and prints what failed.
report_test_part() {
  local log=$1 status failed
  status=$(status_of "$log")
  ok=$((ok + $(grep -c '\[       OK \]' "$log" || true)))
  skipped=$((skipped + $(grep -cE '\[  SKIPPED \] .* \([0-9]+ ms\)$' "$log" || true)))
  failed=$(grep -cE '\[  FAILED  \] .* \([0-9]+ ms\)$' "$log" || true)
  if ((failed)); then
    echo "FAIL $name:"
    # From each failing test: its own lines, between RUN and FAILED.
    awk '/^\[ RUN      \]/ { text = ""; inside = 1 }
         inside { text = text "    " $0 "\n" }
         /\[       OK \]|\[  SKIPPED \]/ { inside = 0 }
         inside && /\[  FAILED  \]/ { printf "%s", text; inside = 0 }' "$log" | head -n 200 || true
  fi
  if ((status > 1 || (status == 1 && failed == 0))); then # GoogleTest itself exits with 0 or 1
    failed=$((failed + 1))
    echo "FAIL $name: exit status $status$([[ $status != 124 ]] || echo ' (time limit)') in or after: $(
      grep -E '\[ RUN      \]' "$log" | tail -n 1 | sed 's/.*\] *//'
    )"
    tail -n 15 "$log" | sed 's/^/    /'
  fi
  bad=$((bad + failed))
}

# report_test_binary NAME LOG PARTS: counts a finished binary from the logs of its parts and prints what failed, brief otherwise.
report_test_binary() {
  local name=$1 log=$2 parts=$3 part ok=0 bad=0 skipped=0
  for ((part = 0; part < parts; ++part)); do report_test_part "$log.$part.log"; done
  if ((ok + bad + skipped == 0)); then
    bad=1
    echo "FAIL $name: ran no test"
  fi
  printf '%-22s %5d passed, %d failed%s\n' "$name" "$ok" "$bad" "$( ((!skipped)) || echo ", $skipped skipped")"
  count "$ok" "$bad"
}

# report_check NAME LOG: counts a finished check, which passes when it exits with 0, and prints what it said if it failed, or, where its
# status is 77, that it was skipped.
report_check() {
  local status
  status=$(status_of "$2")
  grep '^SKIPPED:' "$2" || true
  if [[ $status == 0 ]]; then
    count 1 0
  elif [[ $status == 77 ]]; then
    return
  else
    echo "FAIL $1:"
    sed 's/^/    /' "$2"
    count 0 1
  fi
}

checks=()
# check_command NAME COMMAND...: starts a check, which report_checks reports.
check_command() {
  local name=$1 log=$logs/check_${#checks[@]}.log
  shift
  checks+=("$name")
  start run_logged "$log" "$@"
}
report_checks() {
  local i
  wait
  for i in "${!checks[@]}"; do report_check "${checks[i]}" "$logs/check_$i.log"; done
  checks=()
}

# Compares with PyTorch's recorded results: one test a case. A case listed in tests/conformance/SET.gaps is known not to
# work yet; it counts neither way, and a failing case that is not listed is a failure.
#
# conformance FOLDER SET [N]: all cases, or the first of every N.
conformance() {
  local folder=$1 set=$2 every=${3:-1} log=$1/test_logs/conform_$2.log gaps=tests/conformance/$2.gaps known new mended="" passes
  timeout --kill-after=10 "${TOROID_CONFORM_TIMEOUT_S:-900}" "$folder/toroid" conform "$folder/conformance/$set" --every "$every" \
    --isolate >"$log" 2>"$log.stderr" || true # a failing case makes its exit status 1
  passes=$(sed -nE 's/^([0-9]+) passed, [0-9]+ failed$/\1/p' "$log" | tail -n 1)
  if [[ -z $passes ]]; then
    echo "FAIL conformance $set: toroid conform did not finish"
    tail -n 5 "$log" "$log.stderr" | sed 's/^/    /'
    count 0 1
    return
  fi
  sed -nE 's/^FAIL ([^ :]+):.*/\1/p' "$log" | sort >"$log.failing"
  grep -vE '^(#|$)' "$gaps" 2>/dev/null | sed -E 's/[ :].*//' | sort >"$log.gaps" || true
  new=$(comm -23 "$log.failing" "$log.gaps")
  ((every > 1)) || mended=$(comm -13 "$log.failing" "$log.gaps")
  known=$(comm -12 "$log.failing" "$log.gaps" | wc -l)
  [[ -z $new ]] || grep -F -f <(sed 's/.*/FAIL &:/' <<<"$new") "$log"
  [[ -z $mended ]] || echo "conformance $set: these pass now, remove them from $gaps: $(tr '\n' ' ' <<<"$mended")"
  new=$(grep -c . <<<"$new") || true
  echo "conformance $set: $passes passed, $new failed, $known known gaps ($gaps)"
  count "$passes" "$new"
}

# Of what is given to others and only built when it is asked for: this machine may lack archives of libraries for it.
has_target() { ninja -C "$folder" -t query "$1" >/dev/null 2>&1; }

check_packages_on_gpu() {
  if "$folder/toroid" doctor 2>/dev/null | grep -q '^ok  *GPU '; then
    check_command "packages on a GPU" tests/gpu/packages_on_gpu.sh "$folder"
  else
    echo "SKIPPED: packages on a GPU, for there is none"
  fi
}

check_portable() {
  if has_target package_portable; then
    check_command "a portable toroid" tests/portable_test.sh "$folder"
  else
    echo "a portable toroid: not made on this machine, which lacks archives of libraries"
  fi
}

# The Python package, with python3 and its headers; nanobind and a CMake that knows abi3 come from PyPI. Without these it is said.
check_python() {
  if ! python3 -c 'import venv, sys, sysconfig, os
sys.exit(sys.version_info < (3, 10) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null; then
    echo "SKIPPED: the Python package, which takes python3 from 3.10 on, python3-venv and python3-dev"
  elif ! has_target portable_python; then
    echo "SKIPPED: the Python package, for this machine lacks archives of libraries"
  else
    check_command "the Python package" test_python
  fi
}

# Builds the Python package in an environment of its own and tests it: in one piece and without optimisation, which takes a third of the
# time.
test_python() {
  local build=$folder/python/test environment=$folder/python/environment python
  mkdir -p "$folder/python"
  if [[ ! -e $environment/complete ]]; then
    python3 -m venv --clear "$environment" || return
    if ! "$environment/bin/pip" --quiet --disable-pip-version-check install "nanobind>=2.9" "cmake>=3.26" >"$environment.log" 2>&1; then
      echo "SKIPPED: the Python package, for nanobind does not come from PyPI: $(tail -n 1 "$environment.log")"
      return 77
    fi
    touch "$environment/complete"
  fi
  python=$PWD/$environment/bin/python
  "$environment/bin/cmake" -S python -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PWD/$build/package" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DCMAKE_CXX_FLAGS_RELEASE=-O0 \
    -DTOROID_BUILD="$PWD/$folder" -DPython_EXECUTABLE="$python" \
    $(! command -v ccache >/dev/null || echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) &&
    ninja -C "$build" -j "$jobs" install && cp -r python/toroid "$build/package/" &&
    TOROID_PLAYED_GPU="$PWD/$folder/tests/libfake_gpu.so" PYTHONPATH="$PWD/$build/package" \
      "$python" -m unittest discover -q -s python/tests -p test_models.py
}

# Versions lay out some lines differently, so only the one that the sources were laid out with can tell.
check_layout() {
  local version
  version=$(clang-format --version 2>/dev/null | grep -oE 'version [0-9]+' | cut -d ' ' -f 2) || true
  if [[ $version == 14 ]]; then
    check_command "layout (./run format mends it)" run_format --check
  else
    echo "layout: not checked, which takes clang-format 14 (Debian 12's)"
  fi
}

# Each part of the tests of a binary, the largest binaries first, which take longest.
start_test_binaries() {
  local binary parts part
  while read -r binary; do
    parts=$(parts_of "$binary")
    for ((part = 0; part < parts; ++part)); do
      start run_test_binary "$binary" "$logs/$(basename "$binary").$part.log" "$part" "$parts"
    done
  done < <(grep . "$folder/test_binaries.txt" | xargs ls -S)
}

report_test_binaries() {
  local binary
  wait
  while read -r binary; do
    [[ -n $binary ]] || continue
    report_test_binary "$(basename "$binary")" "$logs/$(basename "$binary")" "$(parts_of "$binary")"
  done <"$folder/test_binaries.txt"
}

run_test() {
  local preset=${1:-release} folder logs target targets=(all)
  configure "$preset"
  for target in package_portable portable_python; do
    if [[ $preset == release ]] && has_target $target; then targets+=($target); fi
  done
  compile "$folder" "${targets[@]}"
  logs=$folder/test_logs
  rm -rf "$logs" && mkdir -p "$logs"
  unset TOROID_REMOTE_CACHE
  export TSAN_OPTIONS=${TSAN_OPTIONS:-atexit_sleep_ms=0} # else a process takes a second to end, and tests limit its time
  export TOROID_CACHE_DIR=$PWD/$folder/test_cache # never the user's; kept, so that a second run compiles only what changed
  if [[ $preset == release ]]; then
    check_python
    check_portable
  fi
  start_test_binaries
  check_command "include direction" tests/include_direction_test.sh
  check_command "names of helpers that are compiled together" tests/unity_names_test.sh
  check_command "planted bugs (tests/fuzz/planted.sh) fit the sources" git apply --check tests/fuzz/planted.patch
  # 3 MiB: with g++ 12 it has a tenth less, and compilers differ.
  check_command "run side" tests/run_side_test.sh "$folder/libtoroid.so" $([[ $preset != release ]] || echo 3145728)
  if [[ $preset == release ]]; then
    check_command "an installed toroid" tests/install_test.sh "$folder"
    check_command "sources of packages link" tests/run_source_test.sh "$folder"
    check_command "headers of packages' sources are C++17" tests/cpp17_test.sh "$folder" headers
    check_command "pages that show code" tests/pages_test.sh "$folder"
    check_packages_on_gpu
  fi
  check_layout
  report_test_binaries
  report_checks
  if [[ -x $folder/toroid ]]; then
    # A sample, whose kernels are compiled in two thirds of the time with -O1. All of them with the real flags: ./run conform.
    TOROID_CXXFLAGS=-O1 conformance "$folder" opinfo 4
    conformance "$folder" control_flow
    conformance "$folder" extensions
    conformance "$folder" models
  fi
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

run_conform() {
  local folder=build logs=build/test_logs set
  build
  mkdir -p $logs
  unset TOROID_REMOTE_CACHE
  export TOROID_CACHE_DIR=$PWD/$folder/test_cache
  for set in opinfo control_flow extensions models; do conformance "$folder" $set; done
  [[ ! -e $folder/run_side ]] || check_command "models as packages" tests/package/conform_packages.sh "$folder" "$folder/conformance/models"
  local models=$folder/conformance/models
  local sources=(tests/package/conform_sources.sh "$folder" "$models"/{mlp,convnet,hf_bert}.pt2)
  check_command "models as source packages" "${sources[@]}"
  ! command -v clang++ >/dev/null || check_command "models as source packages by clang" env CLANG=1 "${sources[@]}"
  check_command "sources of packages are C++17" tests/cpp17_test.sh "$folder"
  ! command -v dpkg-shlibdeps >/dev/null || check_command "a Debian package" tests/debian_package_test.sh "$folder"
  ! command -v mpirun >/dev/null || check_command "a program of four processes" tests/mpi_test.sh "$folder"
  if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null; then
    check_command "a user's project for aarch64" tests/install_cross_test.sh "$folder"
    check_command "a package for aarch64" tests/cross_compile_test.sh "$folder"
  fi
  # What ./run test compiles with less optimisation, as users have it.
  check_command "programs of the driver's tests with -O3" env TOROID_TEST_OPTIMISATION=3 "$folder/driver_test" --gtest_brief=1
  check_command "programs that were wrong once with -O3" "$folder/programs_test" --gtest_brief=1
  report_checks
  echo "$passed passed, $failed failed"
  ((failed == 0))
}
