# The commit that is built, for `einkorn --version -v`. Two ways to read this file: included, it adds the build step;
# run by `cmake -P` with SOURCE and HEADER, it is that step, which writes the header only when the commit is another
# one.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(header ${CMAKE_BINARY_DIR}/gen/commit/commit.h)
  add_custom_target(commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DHEADER=${header} -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${header}
    VERBATIM)
  add_dependencies(einkorn commit)
  target_include_directories(einkorn PRIVATE ${CMAKE_BINARY_DIR}/gen/commit)
  set_source_files_properties(src/cli/options.c PROPERTIES OBJECT_DEPENDS ${header})
  return()
endif()

execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* OUTPUT_VARIABLE commit
  RESULT_VARIABLE code ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(code OR NOT commit OR NOT EXISTS ${SOURCE}/.git)
  set(commit "not known (built outside of a git checkout)")
endif()
set(text "#define EK_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${HEADER} "${text}")
endif()
