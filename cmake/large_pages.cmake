# The library that compilers are started with (toolchain/large_pages/large_pages.h): TOROID_LARGE_PAGES_LIBRARY, empty where the C compiler
# cannot make it, and its bytes as a source, TOROID_LARGE_PAGES_SOURCE.
set(TOROID_LARGE_PAGES_LIBRARY ${CMAKE_BINARY_DIR}/large_pages.so)
set(TOROID_LARGE_PAGES_SOURCE ${CMAKE_BINARY_DIR}/generated/large_pages_library.cpp)
set(source ${CMAKE_SOURCE_DIR}/src/toolchain/large_pages/preloaded.c)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
execute_process(COMMAND ${CMAKE_C_COMPILER} -O1 -shared -fPIC -nostdlib -s -Wl,-z,noseparate-code ${source}
                        -o ${TOROID_LARGE_PAGES_LIBRARY} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
set(bytes "")
if(status EQUAL 0)
  file(READ ${TOROID_LARGE_PAGES_LIBRARY} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
else()
  set(TOROID_LARGE_PAGES_LIBRARY "")
endif()
file(CONFIGURE OUTPUT ${TOROID_LARGE_PAGES_SOURCE} @ONLY CONTENT
"#include \"toolchain/large_pages/library.h\"

namespace toroid {

static const unsigned char kBytes[] = {@bytes@0};
const std::string_view kLargePagesLibrary(reinterpret_cast<const char*>(kBytes), sizeof kBytes - 1);

}  // namespace toroid
")
