# The runtime as one object that goes into every saved model: position-independent, its symbols hidden and weak (several
# models may be linked into one program). Embedded by src/driver/embed.c.
set(runtime_source ${CMAKE_SOURCE_DIR}/src/runtime/embedded.c)
file(GLOB runtime_parts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/runtime/*.c ${CMAKE_SOURCE_DIR}/src/runtime/*.h)
set(runtime_header ${CMAKE_SOURCE_DIR}/src/runtime/call.h)
set(runtime_object ${CMAKE_BINARY_DIR}/gen/runtime.o)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/gen)
add_custom_command(
  OUTPUT ${runtime_object}
  COMMAND ${CMAKE_C_COMPILER} -std=c17 -D_GNU_SOURCE -O2 -fPIC -fvisibility=hidden -fno-stack-protector
    -fno-asynchronous-unwind-tables -ffunction-sections -I${CMAKE_SOURCE_DIR}/src -c ${runtime_source} -o
    ${runtime_object}
  COMMAND ${CMAKE_OBJCOPY} --wildcard --weaken-symbol=ek_rt_* ${runtime_object}
  DEPENDS ${runtime_parts}
  COMMENT "Runtime for saved models"
  VERBATIM)
set_source_files_properties(src/driver/embed.c PROPERTIES
  COMPILE_DEFINITIONS "EK_RUNTIME_OBJECT=\"${runtime_object}\";EK_RUNTIME_HEADER=\"${runtime_header}\""
  OBJECT_DEPENDS "${runtime_object};${runtime_header}")
