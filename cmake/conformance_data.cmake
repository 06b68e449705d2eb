# Unpacks the recorded PyTorch results of tests/conformance into the build folder, where tests read them:
# conformance/{opinfo,control_flow,extensions,models}/NAME.pt2, each with its .in and .out.safetensors.
# Done while configuring, so that every test binary finds them; again only when an archive changes.
set(TOROID_CONFORMANCE_DIR ${CMAKE_BINARY_DIR}/conformance)

function(toroid_unpack archive folder)
  get_filename_component(name ${archive} NAME_WE)
  set(stamp ${TOROID_CONFORMANCE_DIR}/${name}.unpacked)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${archive})
  if(${archive} IS_NEWER_THAN ${stamp})
    file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${folder})
    file(TOUCH ${stamp})
  endif()
endfunction()

foreach(set opinfo control_flow extensions)
  toroid_unpack(${CMAKE_SOURCE_DIR}/tests/conformance/${set}.tar.xz ${TOROID_CONFORMANCE_DIR})
endforeach()
file(GLOB model_archives CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/conformance/models/*.tar.xz)
foreach(archive IN LISTS model_archives)
  toroid_unpack(${archive} ${TOROID_CONFORMANCE_DIR}/models)
endforeach()
