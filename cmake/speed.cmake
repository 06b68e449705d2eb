# Quick builds: ccache, mold and large pages when the machine has them, warnings for our own code.
find_program(TOROID_CCACHE ccache)
if(TOROID_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header defeats ccache unless it is told that its time stamps do not matter. Comments count: g++ knows the headers
  # inside a precompiled one by their bytes, and a checkout whose headers differ in a comment alone must not get another one's.
  # Precompiled headers have a hundred megabytes, which INODECACHE hashes once, not for each file that takes one.
  # The compiler's list of what it read (DEPEND) takes the place of a run of the preprocessor, which is in vain while the cache is empty.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_COMMENTS=1 CCACHE_DEPEND=1
      CCACHE_INODECACHE=1 CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${TOROID_CCACHE})
endif()
# Where Linux gives large pages to those who ask, as Ubuntu's does, the compiler is made to ask.
include(cmake/large_pages.cmake)
if(TOROID_LARGE_PAGES_LIBRARY AND NOT CMAKE_CROSSCOMPILING AND EXISTS /sys/kernel/mm/transparent_hugepage/enabled)
  file(READ /sys/kernel/mm/transparent_hugepage/enabled large_pages)
  if(large_pages MATCHES "\\[madvise\\]")
    list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env --modify LD_PRELOAD=path_list_append:${TOROID_LARGE_PAGES_LIBRARY} --)
  endif()
endif()
find_program(TOROID_MOLD mold)
if(TOROID_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
add_compile_options(-Wall -Wextra -fvisibility=hidden)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(CMAKE_UNITY_BUILD)
    # g++ takes files that are compiled together for headers, whose anonymous namespaces it warns about.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
  # Memory is cheaper than collecting garbage, which takes a fifth of the time by default; a file takes up to 1.8 GB.
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
  # g++ 12 warns about overflow inside its own std::string.
  add_compile_options(-fpch-preprocess -Wno-stringop-overflow -Wno-restrict -Wno-array-bounds)
endif()
# What runs once in a compilation, and tests that compute much, are optimised a little: -O1 without the passes of g++ that take longest for
# what they gain there. Inlining, and what makes values of loads, stays. Without these passes a warning of g++ errs.
set(TOROID_A_LITTLE -O1)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  foreach(pass tree-pta tree-dominator-opts tree-sink tree-slsr tree-bit-ccp tree-loop-optimize ssa-phiopt ivopts move-loop-invariants
          if-conversion if-conversion2 split-wide-types compare-elim combine-stack-adjustments shrink-wrap reorder-blocks cprop-registers
          forward-propagate guess-branch-probability)
    list(APPEND TOROID_A_LITTLE -fno-${pass})
  endforeach()
  list(APPEND TOROID_A_LITTLE -Wno-maybe-uninitialized)
endif()
# Executables compile like libraries: with -fPIE they could not share the precompiled header.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # checks stay on: TOROID_CHECK does not depend on NDEBUG
if(TOROID_SANITIZE)
  # A finding ends the process, so that a test fails by it.
  add_compile_options(-fsanitize=${TOROID_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TOROID_SANITIZE})
endif()
