#!/usr/bin/env bash
# Files that may be compiled together (toroid_unity in cmake/folders.cmake) define helpers of different names: those of a folder of src/, of
# a directory in src/passes, and all tests of a folder.
#
# usage: unity_names_test.sh [ROOT]      prints each such name with its files and exits 1 when there is one
#
# A type or a constant twice is an error of the compiler, but only while the two files happen to be in one group of 64. A function twice
# may be none: with other parameters it is an overload, which calls of the other file may take. Aliases, which say the
# same where they compile, and PrintTo, which GoogleTest calls by the type of the argument, may be many.
set -euo pipefail
export LC_ALL=C  # one order of names everywhere
root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root"

# Prints "GROUP NAME: FILES" of the tree at the working directory. Goes by clang-format's layout: a definition begins in column 1.
check() {
  # But for tests and what toroid_folder sets APART, the run side's files are compiled each by itself, and so is what is optimised for
  # tests.
  find src cli tests -name '*.cpp' ! -name '*_for_test.cpp' |
    awk '/_test\.cpp$/ || !/^src\/(base|tensor|library|runtime)\// ||
         /^src\/base\/(error|format|file\/(file|framing|kept_files|mapped_file)|machine\/(isa|machine|out_of_memory))\.cpp$/ ||
         /^src\/library\/linalg\// || /^src\/runtime\/cuda\// || /^src\/runtime\/kernels\/(linked\/linked_kernels|registry\/(library|plan|problem|registry|unfused_epilogue))\.cpp$/ ||
         /^src\/runtime\/(contract\/contract|memory\/arena|program\/(executable|loaded_program|loaded_variant|output_memory|own_program|package|runtime_callbacks|weights))\.cpp$/' |
    sort | xargs awk '
    FNR == 1 {
      inside = raw = 0
      split(FILENAME, parts, "/")
      group = FILENAME
      if (FILENAME ~ /^src\/.*_test\.cpp$/) group = parts[1] "/" parts[2] "/*_test.cpp"
      else if (parts[1] == "cli") group = "cli"
      else if (parts[1] == "src" && parts[2] != "passes") group = parts[1] "/" parts[2]
      else sub(/\/[^\/]*$/, "", group)
    }
    raw { if (/\)[a-z]*"/) raw = 0; next }                      # the text of a raw string
    /R"[a-z]*\(/ && !/\)[a-z]*"/ { raw = 1 }
    /^namespace \{/ { inside = 1; next }
    /^}  \/\/ namespace$/ { inside = 0; next }
    !inside && !/^static / { next }
    !/^[A-Za-z]/ || /^(TEST|TYPED_TEST|TOROID_|INSTANTIATE|template|using|namespace|public:|private:|static_assert)/ { next }
    {
      line = $0
      sub(/^((inline|constexpr|static|const|thread_local|TOROID_[A-Z0-9]+) )+/, "", line)
      if (match(line, /^(struct|class|enum class|enum|union) [A-Za-z_0-9]+/)) {
        name = substr(line, RSTART, RLENGTH)
      } else {
        sub(/[({=;\[].*/, "", line)                              # up to the parameters, the value or the size
        while (gsub(/<[^<>]*>/, "", line)) {}
        sub(/<.*/, "", line)
        sub(/ +$/, "", line)
        name = line
      }
      sub(/.*[ *&]/, "", name)
      if (name !~ /^[A-Za-z_][A-Za-z_0-9]*$/ || name == "PrintTo" || (group, name, FILENAME) in seen) next
      seen[group, name, FILENAME] = 1
      files[group " " name] = files[group " " name] " " FILENAME
      count[group " " name]++
    }
    END { for (name in count) if (count[name] > 1) print name ":" files[name] }' | sort
}

# The check is checked first.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted"/{cli,tests} "$planted"/src/{early/part,passes/part,runtime}
for function in 'int twice(int x) {\n  return x;\n}\nstruct Once {};' 'std::vector<int> twice(double x) { return {}; }'; do
  file=$planted/src/early/$([[ ! -f $planted/src/early/a.cpp ]] && echo a || echo b).cpp
  printf "namespace {\n\n$function\nusing Clock = int;\n\n}  // namespace\nint twice_outside();\n" >"$file"
done
cp "$planted/src/early/a.cpp" "$planted/src/passes/a.cpp"
cp "$planted/src/early/a.cpp" "$planted/src/passes/part/b.cpp"
mv "$planted/src/early/b.cpp" "$planted/src/early/part/b.cpp"
printf 'namespace {\nconstexpr int kRows[] = {1};\n}  // namespace\n' |
  tee "$planted"/src/early/{a,part/b}_test.cpp "$planted"/src/runtime/{a,b}.cpp >/dev/null
found=$(cd "$planted" && check)
expected='src/early twice: src/early/a.cpp src/early/part/b.cpp
src/early/*_test.cpp kRows: src/early/a_test.cpp src/early/part/b_test.cpp'
[[ $found == "$expected" ]] || {
  echo "the check of names does not see the planted ones: '$found'"
  exit 1
}

violations=$(check)
[[ -z $violations ]] || {
  echo "$violations"
  exit 1
}
