# What `cmake --install` puts where: the command, the run library, its headers, and what find_package(toroid) and pkg-config read.
include(CMakePackageConfigHelpers)

install(TARGETS toroid RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS toroid_run EXPORT toroid LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/toroid/toroid.h include/toroid/toroid.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/toroid)
target_include_directories(toroid_run INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(EXPORT toroid NAMESPACE toroid:: FILE toroidTargets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/toroid)

configure_package_config_file(cmake/toroidConfig.cmake.in ${CMAKE_BINARY_DIR}/generated/toroidConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/toroid PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/toroidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/toroidConfig.cmake ${CMAKE_BINARY_DIR}/generated/toroidConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/toroid)

configure_file(cmake/toroid.pc.in ${CMAKE_BINARY_DIR}/generated/toroid.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/toroid.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
