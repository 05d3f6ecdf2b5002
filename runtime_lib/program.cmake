# Builds an emitted program:  weft_program(NAME TARGET [LEVELS archs...] SOURCES files...)
# NAME is the executable; TARGET is host, or a device whose language project() enables, such as cuda. weights.bin and manifest.json stay beside it.
# LEVELS are the -march values, from low to high, of kernels that are compiled for several; else WEFT_ARCH is that of all.
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
include(${CMAKE_CURRENT_LIST_DIR}/kernel_options.cmake)

# Ranks of several machines: the network over the MPI that CMake finds (MPI_HOME, MPI_CXX_COMPILER choose another).
function(weft_use_mpi name)
  set(MPI_CXX_SKIP_MPICXX ON)  # no C++ bindings: a wrapper of C compilers will do
  find_package(MPI REQUIRED COMPONENTS CXX)
  target_sources(${name} PRIVATE ${WEFT_RUNTIME_FOLDER}/mpi/mpi_network.cpp)
  target_include_directories(${name} PRIVATE ${WEFT_RUNTIME_FOLDER}/src)
  target_link_libraries(${name} PRIVATE MPI::MPI_CXX)
endfunction()

# The program once more, with the kernels that gain by it for another level, as one object. All of its symbols but the
# program's, which levels.cpp knows by its level, are its own: of functions that two objects have, such as those of
# templates, a linker takes the first it meets. Which kernels gain by it is said by is_level_file in backend/toolchain.cpp
# as well, for executables.
function(weft_level name arch base)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "SOURCES")
  set(kernels ${arg_SOURCES})
  if(base MATCHES "v[34]$")  # the others would have the same bits, and wait for memory
    list(FILTER kernels INCLUDE REGEX "kernels/(contraction|reduction|chunks)")
  else()
    list(FILTER kernels INCLUDE REGEX "kernels/")
  endif()
  list(FILTER arg_SOURCES INCLUDE REGEX "program.cpp$")
  string(MAKE_C_IDENTIFIER ${arch} level)
  add_library(${name}_${level} OBJECT ${arg_SOURCES} ${kernels})
  target_link_libraries(${name}_${level} PRIVATE weft_runtime)
  target_compile_options(${name}_${level} PRIVATE -march=${arch} ${WEFT_KERNEL_OPTIONS})
  set_source_files_properties(${arg_SOURCES} PROPERTIES COMPILE_OPTIONS -march=${base})  # also where kernels are for it
  find_program(WEFT_OBJCOPY objcopy REQUIRED DOC "renames symbols")
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}_${level}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -Wl,--force-group-allocation -o ${object} $<TARGET_OBJECTS:${name}_${level}>
    COMMAND ${WEFT_OBJCOPY} --redefine-sym weft_program=weft_program_${level} --keep-global-symbol weft_program_${level} ${object}
    DEPENDS ${name}_${level} $<TARGET_OBJECTS:${name}_${level}> COMMAND_EXPAND_LISTS VERBATIM)
  target_sources(${name} PRIVATE ${object})
endfunction()

function(weft_program name target)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LEVELS;SOURCES")
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
    list(POP_FRONT arg_LEVELS arch)
    if(NOT arch)
      set(arch ${WEFT_ARCH})
    endif()
    target_compile_options(${name} PRIVATE -march=${arch} ${WEFT_KERNEL_OPTIONS})
    foreach(level IN LISTS arg_LEVELS)
      weft_level(${name} ${level} ${arch} SOURCES ${arg_SOURCES})
    endforeach()
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
