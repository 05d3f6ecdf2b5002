# The runtime library for each other machine whose cross compiler is here, which programs for it are linked with
# (weft compile --arch aarch64). Debian: apt-get install g++-aarch64-linux-gnu.
include(ExternalProject)
foreach(machine aarch64)
  find_program(WEFT_COMPILER_${machine} ${machine}-linux-gnu-g++ DOC "compiles programs for ${machine}")
  if(NOT WEFT_COMPILER_${machine} OR CMAKE_SYSTEM_PROCESSOR STREQUAL machine)
    continue()
  endif()
  set(library ${CMAKE_CURRENT_BINARY_DIR}/${machine}/libweft_runtime.a)
  ExternalProject_Add(weft_runtime_${machine}
    SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR}
    BINARY_DIR ${CMAKE_CURRENT_BINARY_DIR}/${machine}
    PREFIX ${CMAKE_CURRENT_BINARY_DIR}/${machine}/steps
    CMAKE_ARGS -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=${machine} -DCMAKE_CXX_COMPILER=${WEFT_COMPILER_${machine}}
               -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=${CMAKE_CXX_FLAGS_RELEASE}
               -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
               -DCMAKE_COMPILE_WARNING_AS_ERROR=${CMAKE_COMPILE_WARNING_AS_ERROR}
    BUILD_ALWAYS ON  # it finds out itself what has changed
    BUILD_BYPRODUCTS ${library}
    INSTALL_COMMAND "")
  install(FILES ${library} DESTINATION lib/${machine})
endforeach()
