# What `cmake --install` puts where: the command, the run library, its headers, and what find_package(toroid) and pkg-config read.
include(CMakePackageConfigHelpers)

install(TARGETS toroid RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS toroid_run toroid_compile EXPORT toroid LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/toroid/toroid.h include/toroid/toroid.hpp include/toroid/toroid_compiler.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/toroid)
target_include_directories(toroid_compile INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(toroid_run INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(EXPORT toroid NAMESPACE toroid:: FILE toroidTargets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/toroid)

configure_package_config_file(cmake/toroidConfig.cmake.in ${CMAKE_BINARY_DIR}/generated/toroidConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/toroid PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/toroidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/toroidConfig.cmake ${CMAKE_BINARY_DIR}/generated/toroidConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/toroid)

# toroid_pkg_config(NAME LIBRARY DESCRIPTION): NAME.pc.
function(toroid_pkg_config PC_NAME PC_LIBRARY PC_DESCRIPTION)
  file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
  configure_file(cmake/toroid.pc.in ${CMAKE_BINARY_DIR}/generated/${PC_NAME}.pc @ONLY)
endfunction()
toroid_pkg_config(toroid toroid "runs models that toroid has compiled")
toroid_pkg_config(toroid-compiler toroid_compiler "compiles models, and runs them")
install(FILES ${CMAKE_BINARY_DIR}/generated/toroid.pc ${CMAKE_BINARY_DIR}/generated/toroid-compiler.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
