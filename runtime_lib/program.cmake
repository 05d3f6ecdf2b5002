# Builds an emitted program:  weft_program(NAME TARGET SOURCES files...)
# NAME is the executable; TARGET is host, or a device whose language project() enables, such as cuda. weights.bin and manifest.json stay beside it.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "kind of build" FORCE)
endif()
set(WEFT_ARCH "native" CACHE STRING "-march of the kernels of host programs, such as x86-64-v3 or x86-64-v4")

set(WEFT_RUNTIME_FOLDER ${CMAKE_CURRENT_LIST_DIR})
include(${CMAKE_CURRENT_LIST_DIR}/transport.cmake OPTIONAL)  # what the sources were emitted for
set(WEFT_TRANSPORT "local" CACHE STRING "how ranks of host programs talk: local (one machine) or mpi")
# What kernels need to vectorise; not -ffast-math, which would break masks of infinities and the range reductions, and
# loops only: of straight code GCC 12 takes the sum or maximum of a few comparisons for one of masks. Bodies of loops
# over a team are inlined whatever arrays they have, or GCC does not vectorise loops that read what they captured.
set(WEFT_KERNEL_OPTIONS -O3 -march=${WEFT_ARCH} -fno-math-errno -fno-trapping-math -fwrapv -fno-tree-slp-vectorize
    "$<$<CXX_COMPILER_ID:GNU>:-fno-tree-loop-distribute-patterns;--param=large-stack-frame=1000000>" -fopenmp-simd)

# Ranks of several machines: the network over the MPI that CMake finds (MPI_HOME, MPI_CXX_COMPILER choose another).
function(weft_use_mpi name)
  set(MPI_CXX_SKIP_MPICXX ON)  # no C++ bindings: a wrapper of C compilers will do
  find_package(MPI REQUIRED COMPONENTS CXX)
  target_sources(${name} PRIVATE ${WEFT_RUNTIME_FOLDER}/mpi/mpi_network.cpp)
  target_include_directories(${name} PRIVATE ${WEFT_RUNTIME_FOLDER}/src)
  target_link_libraries(${name} PRIVATE MPI::MPI_CXX)
endfunction()

function(weft_program name target)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES")
  if(NOT TARGET weft_runtime)
    add_subdirectory(${WEFT_RUNTIME_FOLDER} ${CMAKE_BINARY_DIR}/weft_runtime EXCLUDE_FROM_ALL)
  endif()
  set(library weft_runtime_${target})
  if(target STREQUAL "host")
    set(library weft_runtime)
  elseif(NOT TARGET ${library})
    string(TOUPPER ${target} language)
    message(FATAL_ERROR "weft_program: no runtime library for '${target}': host has one, a device's where project(... LANGUAGES CXX ${language}) enables its language")
  else()
    # The standard of C++ is the device's too, and not every CMake knows that its compiler speaks C++20: the flag is ours.
    if(POLICY CMP0128)
      cmake_policy(SET CMP0128 NEW)  # no flag for a standard that nobody asked for
    endif()
    foreach(property STANDARD STANDARD_REQUIRED EXTENSIONS)
      unset(CMAKE_CXX_${property})
    endforeach()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${library})  # which says how its kernels are compiled
  if(target STREQUAL "host")
    target_compile_options(${name} PRIVATE ${WEFT_KERNEL_OPTIONS})
    if(WEFT_TRANSPORT STREQUAL "mpi")
      weft_use_mpi(${name})
    endif()
  else()
    target_compile_options(${name} PRIVATE -std=c++20 $<$<COMPILE_LANGUAGE:CXX>:-O2>)
  endif()
  target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  foreach(file weights.bin manifest.json)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
      add_custom_command(TARGET ${name} POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink
                         ${CMAKE_CURRENT_SOURCE_DIR}/${file} $<TARGET_FILE_DIR:${name}>/${file})
    endif()
  endforeach()
endfunction()
