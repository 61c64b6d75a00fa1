# The libraries that cdynamo stands on, as interface targets: cdynamo_llvm, cdynamo_absl, Python::Module.

find_package(Threads REQUIRED)
find_package(Python 3.11 COMPONENTS Interpreter Development.Module)

# LLVM 19, static. Debian's package answers to 19.1, not to 19.
find_package(LLVM 19.1 CONFIG REQUIRED HINTS /usr/lib/llvm-19/lib/cmake/llvm)
llvm_map_components_to_libnames(llvm_libs orcjit native passes nvptxcodegen nvptxdesc nvptxinfo)
add_library(cdynamo_llvm INTERFACE)
target_include_directories(cdynamo_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(llvm_defs NATIVE_COMMAND ${LLVM_DEFINITIONS})
target_compile_definitions(cdynamo_llvm INTERFACE ${llvm_defs})
target_link_libraries(cdynamo_llvm INTERFACE ${llvm_libs})

# Abseil: Debian's CMake targets name shared objects, which a wheel could not carry; the archives beside them can.
find_path(ABSL_INCLUDE absl/container/flat_hash_map.h REQUIRED)
file(GLOB absl_archives /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libabsl_*.a)
if(NOT absl_archives)
  message(FATAL_ERROR "abseil's static libraries are missing: apt-get install libabsl-dev")
endif()
list(FILTER absl_archives EXCLUDE REGEX "libabsl_(throw_delegate|raw_hash_set)")
add_library(cdynamo_absl_exceptions STATIC ${CMAKE_CURRENT_LIST_DIR}/absl_exceptions.cpp
  ${CMAKE_CURRENT_LIST_DIR}/absl_hash_tables.cpp)
target_include_directories(cdynamo_absl_exceptions SYSTEM PRIVATE ${ABSL_INCLUDE})
add_library(cdynamo_absl INTERFACE)
target_include_directories(cdynamo_absl SYSTEM INTERFACE ${ABSL_INCLUDE})
target_link_libraries(cdynamo_absl INTERFACE -Wl,--start-group ${absl_archives}
  $<TARGET_FILE:cdynamo_absl_exceptions> -Wl,--end-group)
add_dependencies(cdynamo_absl cdynamo_absl_exceptions)
