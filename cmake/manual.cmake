# Manual pages and completions, printed by the program itself (src/cli/describe.c) when it is built. Two ways to read this file: included, it adds the build step; run by `cmake -P` with EINKORN and SHARE, it is that step.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(share ${CMAKE_BINARY_DIR}/gen/share)
  if(NOT CMAKE_CROSSCOMPILING)
    add_custom_command(
      OUTPUT ${share}/man/man1/einkorn.1
      COMMAND ${CMAKE_COMMAND} -DEINKORN=$<TARGET_FILE:einkorn> -DSHARE=${share} -P ${CMAKE_CURRENT_LIST_FILE}
      DEPENDS einkorn ${CMAKE_CURRENT_LIST_FILE}
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
describe(man/man1/einkorn.1 man)
