# The sources of src/library/special/ become a text that kernels for a GPU are compiled with: kSpecialPrelude (codegen/cuda/prelude.h).
function(toroid_source_text result)
  set(text "")
  foreach(file ${ARGN})
    file(READ ${CMAKE_SOURCE_DIR}/src/library/special/${file} part)
    string(REGEX REPLACE "#(include|pragma)[^\n]*\n" "" part "${part}")
    string(APPEND text "${part}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/library/special/${file})
  endforeach()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

toroid_source_text(TOROID_SPECIAL_FUNCTIONS special_functions.h polynomials.h special_functions.cpp)
toroid_source_text(TOROID_POLYNOMIALS polynomials.cpp)
string(REPLACE "kNan" "kNanOfPolynomials" TOROID_POLYNOMIALS "${TOROID_POLYNOMIALS}")  # one file has one of that name
configure_file(${CMAKE_SOURCE_DIR}/src/codegen/cuda/special_prelude.cpp.in ${CMAKE_BINARY_DIR}/generated/special_prelude.cpp @ONLY)
target_sources(toroid_codegen PRIVATE ${CMAKE_BINARY_DIR}/generated/special_prelude.cpp)
