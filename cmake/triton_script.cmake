# The Python file that compiles Triton kernels becomes a part of toroid: kTritonScript (src/toolchain/triton/triton.cpp).
file(READ ${CMAKE_SOURCE_DIR}/src/toolchain/triton/compile_triton.py TOROID_TRITON_SCRIPT)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/toolchain/triton/compile_triton.py)
configure_file(${CMAKE_SOURCE_DIR}/src/toolchain/triton/script.cpp.in ${CMAKE_BINARY_DIR}/generated/triton_script.cpp @ONLY)
target_sources(toroid_toolchain PRIVATE ${CMAKE_BINARY_DIR}/generated/triton_script.cpp)
