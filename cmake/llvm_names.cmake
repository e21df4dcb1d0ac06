# LLVM is loaded when it is first needed (src/codegen/llvm/lib.h): names of its functions become members of a table.
file(STRINGS ${CMAKE_SOURCE_DIR}/src/codegen/llvm/functions.def llvm_functions REGEX "^F\\(")
set(llvm_names "")
foreach(f ${llvm_functions})
  string(REGEX REPLACE "^F\\([^,]*, ([A-Za-z0-9]+),.*" "#define \\1 (ek_llvm.\\1)\n" line "${f}")
  string(APPEND llvm_names "${line}")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gen/llvm_names.h CONTENT "${llvm_names}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/codegen/llvm/functions.def)
