# Manual pages and completions, printed by the program itself (src/cli/describe.c) when it is built; those of the C
# interface are made from the header's comments (man3.awk). Two ways to read this file: included, it adds the build
# step; run by `cmake -P` with EINKORN and SHARE, it is that step.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(share ${CMAKE_BINARY_DIR}/gen/share)
  if(NOT CMAKE_CROSSCOMPILING)
    add_custom_command(
      OUTPUT ${share}/man/man1/einkorn.1
      COMMAND ${CMAKE_COMMAND} -DEINKORN=$<TARGET_FILE:einkorn> -DSHARE=${share} -DVERSION=${PROJECT_VERSION}
        -DSOURCE=${CMAKE_SOURCE_DIR} -P ${CMAKE_CURRENT_LIST_FILE}
      DEPENDS einkorn ${CMAKE_CURRENT_LIST_FILE} ${CMAKE_SOURCE_DIR}/cmake/man3.awk
        ${CMAKE_SOURCE_DIR}/include/einkorn/einkorn.h
      COMMENT "Manual pages and completions"
      VERBATIM)
    add_custom_target(manual ALL DEPENDS ${share}/man/man1/einkorn.1)
    install(DIRECTORY ${share}/ DESTINATION ${CMAKE_INSTALL_DATADIR})
  endif()
  install(TARGETS einkorn RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  return()
endif()

function(describe file)
  execute_process(COMMAND ${EINKORN} describe ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE code)
  if(code)
    message(FATAL_ERROR "einkorn describe ${ARGN} failed: ${code}")
  endif()
  file(WRITE ${SHARE}/${file} "${text}")
endfunction()
file(REMOVE_RECURSE ${SHARE})
execute_process(COMMAND ${EINKORN} describe commands OUTPUT_VARIABLE commands OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REPLACE "\n" ";" commands "${commands}")
foreach(command ${commands})
  describe(man/man1/einkorn-${command}.1 man ${command})
endforeach()
describe(bash-completion/completions/einkorn bash)
describe(zsh/site-functions/_einkorn zsh)
describe(fish/vendor_completions.d/einkorn.fish fish)
file(MAKE_DIRECTORY ${SHARE}/man/man3)
execute_process(COMMAND awk -v version=${VERSION} -v to=${SHARE}/man/man3 -f ${SOURCE}/cmake/man3.awk
  ${SOURCE}/include/einkorn/einkorn.h RESULT_VARIABLE code)
if(code)
  message(FATAL_ERROR "cmake/man3.awk failed: ${code}")
endif()
describe(man/man1/einkorn.1 man)
