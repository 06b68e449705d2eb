# The Python file that compiles Halide pipelines becomes a part of toroid: kHalideScript (src/toolchain/halide/halide.cpp).
file(READ ${CMAKE_SOURCE_DIR}/src/toolchain/halide/compile_halide.py TOROID_HALIDE_SCRIPT)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/toolchain/halide/compile_halide.py)
configure_file(${CMAKE_SOURCE_DIR}/src/toolchain/halide/script.cpp.in ${CMAKE_BINARY_DIR}/generated/halide_script.cpp @ONLY)
target_sources(toroid_toolchain PRIVATE ${CMAKE_BINARY_DIR}/generated/halide_script.cpp)
