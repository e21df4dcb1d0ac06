# The Python package: the extension einkorn._core, the C library and the program, put together as python/einkorn
# expects them. pyproject.toml builds a wheel of it, with EK_PYTHON on; `cmake --build build --target python_package`
# makes build/python/einkorn, to test what was just built. Each part finds the library from its own place.
find_package(Python 3.11 COMPONENTS Interpreter Development.Module)
if(NOT Python_Development.Module_FOUND)
  if(EK_PYTHON)
    message(FATAL_ERROR "the headers of Python 3.11 or later are missing (Debian: python3-dev)")
  endif()
  return()
endif()
file(GLOB extension_sources CONFIGURE_DEPENDS python/extension/*.c)
add_library(einkorn_python MODULE EXCLUDE_FROM_ALL ${extension_sources})
target_include_directories(einkorn_python PRIVATE include ${Python_INCLUDE_DIRS})
target_link_libraries(einkorn_python PRIVATE einkorn_shared)
set_target_properties(einkorn_python PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX .abi3.so
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/lib")

# the program, from the library beside it: what it needs of the inner rooms comes from the archive
add_executable(einkorn_program EXCLUDE_FROM_ALL ${cli_sources})
target_include_directories(einkorn_program PRIVATE src include ${CMAKE_BINARY_DIR}/gen/commit)
add_dependencies(einkorn_program commit)
target_link_options(einkorn_program PRIVATE -Wl,--gc-sections)
target_link_libraries(einkorn_program PRIVATE einkorn_shared einkorn_data einkorn_core)
set_target_properties(einkorn_program PROPERTIES OUTPUT_NAME program/einkorn BUILD_WITH_INSTALL_RPATH ON
  INSTALL_RPATH "$ORIGIN/../lib")
if(EK_PYTHON)
  foreach(target einkorn_python einkorn_program einkorn_shared)
    target_link_options(${target} PRIVATE -s) # a wheel has no symbols for debuggers
  endforeach()
endif()

function(install_package)
  install(${ARGN} COMPONENT python EXCLUDE_FROM_ALL)
endfunction()
install_package(PROGRAMS $<TARGET_FILE:einkorn_python> DESTINATION einkorn)
install_package(PROGRAMS $<TARGET_FILE:einkorn_program> DESTINATION einkorn/bin)
# one file of the library, under the name that programs look for
install_package(PROGRAMS $<TARGET_FILE:einkorn_shared> DESTINATION einkorn/lib
  RENAME $<TARGET_SONAME_FILE_NAME:einkorn_shared>)
install_package(FILES include/einkorn/einkorn.h include/einkorn/einkorn.hpp DESTINATION einkorn/include/einkorn)
install_package(FILES bench/peer.py bench/onnx_jax.py DESTINATION einkorn/share/einkorn/bench)

add_custom_target(python_package
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_SOURCE_DIR}/python/einkorn ${CMAKE_BINARY_DIR}/python/einkorn
  COMMAND ${CMAKE_COMMAND} --install ${CMAKE_BINARY_DIR} --component python --prefix ${CMAKE_BINARY_DIR}/python
  COMMENT "Python package in build/python"
  VERBATIM)
add_dependencies(python_package einkorn_python einkorn_program einkorn_shared)
