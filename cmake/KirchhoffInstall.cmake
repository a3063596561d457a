# `cmake --install`: headers, one static library per module, and a CMake package, so that a consumer writes
# find_package(kirchhoff) and links kirchhoff::kirchhoff. The program and its completion: apps/cli/CMakeLists.txt.
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY KIRCHHOFF_MODULES)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kirchhoff)

install(TARGETS ${modules} kirchhoff_library EXPORT kirchhoffTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kirchhoff DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT kirchhoffTargets NAMESPACE kirchhoff:: DESTINATION ${package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kirchhoffConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/kirchhoffConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kirchhoffConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kirchhoffConfig.cmake ${PROJECT_BINARY_DIR}/kirchhoffConfigVersion.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
