# What `make install` puts where, and how other builds find it: pkg-config (einkorn.pc) and find_package(Einkorn). Both
# files find their prefix from their own place, so that a tree can be moved.
include(CMakePackageConfigHelpers)
install(TARGETS einkorn_shared EXPORT EinkornTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/einkorn/einkorn.h include/einkorn/einkorn.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/einkorn)
# what README and the documents name, at the same places, so that their links lead somewhere
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN "__pycache__" EXCLUDE)
install(FILES tests/models/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/tests/models)
install(FILES include/einkorn/einkorn.h DESTINATION ${CMAKE_INSTALL_DOCDIR}/include/einkorn)

file(RELATIVE_PATH up_from_pkgconfig /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/einkorn.pc.in ${CMAKE_BINARY_DIR}/gen/einkorn.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/gen/einkorn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Einkorn)
install(EXPORT EinkornTargets NAMESPACE Einkorn:: DESTINATION ${package_dir})
configure_package_config_file(cmake/EinkornConfig.cmake.in ${CMAKE_BINARY_DIR}/gen/EinkornConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gen/EinkornConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gen/EinkornConfig.cmake ${CMAKE_BINARY_DIR}/gen/EinkornConfigVersion.cmake
  DESTINATION ${package_dir})
