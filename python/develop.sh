#!/usr/bin/env bash
# Builds toroid._core for one Python against a build's libtoroid_compiler.so, without a wheel: for development and tests.
#
# usage: develop.sh BUILD PYTHON FOLDER    FOLDER/toroid is then the package: run with PYTHONPATH=FOLDER. PYTHON needs nanobind, its
#                                          headers, and for toroid.torch PyTorch. BUILD needs the targets toroid_compile
#                                          and toroid: the command is started from there.
set -euo pipefail
build=$(realpath "${1:?"usage: develop.sh BUILD PYTHON FOLDER"}") python=${2:?} folder=$(realpath -m "${3:?}")
here=$(dirname "$(realpath "$0")")
mkdir -p "$folder/toroid" "$folder/objects"
read -r nanobind headers suffix < <("$python" -c "
import nanobind, sysconfig
print(nanobind.include_dir(), sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'))")
flags=(-O2 -fPIC -std=c++20 -fvisibility=hidden -DNDEBUG -DTOROID_PYTHON_GRAPH_BUILDER -Wno-unused-parameter
  "-I$headers" "-I$nanobind" "-I$nanobind/../ext/robin_map/include" "-I$here/../include" "-I$here/src")
compile() { # SOURCE OBJECT
  [[ $2 -nt $1 && -z $(find "$here/src" -name '*.h' -newer "$2") ]] || g++ "${flags[@]}" -c "$1" -o "$2"
}
waiting=()
compile "$nanobind/../src/nb_combined.cpp" "$folder/objects/nanobind.o" & waiting+=($!)
for source in "$here"/src/*.cpp; do
  compile "$source" "$folder/objects/$(basename "$source" .cpp).o" & waiting+=($!)
done
# A wheel's library has the command inside (toroid_main); here it is the build's own.
cat >"$folder/objects/command.cpp" <<END
#include <cstdio>
#include <unistd.h>
#include <vector>
extern "C" int toroid_main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  execv("$build/toroid", arguments.data());
  std::perror("$build/toroid");
  return 1;
}
END
compile "$folder/objects/command.cpp" "$folder/objects/command.o" & waiting+=($!)
for each in "${waiting[@]}"; do wait "$each"; done
library=$folder/toroid/libtoroid_compiler.so.1
cp --dereference "$build/libtoroid_compiler.so.1" "$library.new" && mv "$library.new" "$library"
g++ -shared -o "$folder/toroid/new.so" "$folder"/objects/*.o "$library" -Wl,-rpath,'$ORIGIN' -Wl,--gc-sections
mv "$folder/toroid/new.so" "$folder/toroid/_core$suffix"
[[ ! -d $build/run_side ]] || ln -sfn "$build/run_side" "$folder/toroid/run_side" # what toroid.compile(output=...) takes
for each in "$here"/toroid/*; do ln -sfn "$each" "$folder/toroid/$(basename "$each")"; done
