# Fuzz targets (option EK_FUZZ, clang only): every tests/fuzz/fuzz_NAME.c is a libFuzzer program, built with the others
# by the target `fuzz`; tests/fuzz.sh runs them. EK_FUZZ_COVERAGE: counters of lines for llvm-cov as well.
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "EK_FUZZ needs clang: CC=clang-19 cmake -DEK_FUZZ=ON ..")
endif()
option(EK_FUZZ_COVERAGE "count lines in fuzz targets" OFF)
# compiled code has no signature in front of its functions
set(fuzz_checks -fsanitize=address,undefined -fno-sanitize=function -fno-sanitize-recover=undefined
  -fno-omit-frame-pointer)
if(EK_FUZZ_COVERAGE)
  list(APPEND fuzz_checks -fprofile-instr-generate -fcoverage-mapping)
endif()
add_compile_options(${fuzz_checks} -fsanitize=fuzzer-no-link)
add_link_options(${fuzz_checks})

function(fuzz_targets)
  file(GLOB targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
  add_custom_target(fuzz)
  add_executable(seeds EXCLUDE_FROM_ALL tests/fuzz/seeds.c tests/fuzz/fuzz.c tests/fuzz/proto.c)
  target_link_libraries(seeds PRIVATE einkorn_core)
  add_dependencies(fuzz seeds)
  foreach(source ${targets})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL ${source} ${CMAKE_SOURCE_DIR}/tests/fuzz/entry.c
      ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz.c ${CMAKE_SOURCE_DIR}/tests/fuzz/proto.c)
    target_link_libraries(${name} PRIVATE einkorn_data einkorn_core)
    target_compile_definitions(${name} PRIVATE EK_FUZZ_MODELS="${CMAKE_SOURCE_DIR}/tests/models")
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzz ${name})
  endforeach()
endfunction()
