# tiles.cpp for each level of CPUs, as parts of weft_runtime; WEFT_TILE_ARCHS: for some of them only.
include(${CMAKE_CURRENT_LIST_DIR}/../kernel_options.cmake)
set(weft_tile_archs generic)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(weft_tile_archs x86-64 x86-64-v2 x86-64-v3 x86-64-v4)
  if(WEFT_TILE_ARCHS)
    set(weft_tile_archs ${WEFT_TILE_ARCHS})
  endif()
endif()
foreach(arch IN LISTS weft_tile_archs)
  set(tiles weft_tiles_${arch})
  add_library(${tiles} OBJECT ${CMAKE_CURRENT_LIST_DIR}/tiles.cpp)
  weft_runtime_library(${tiles})
  target_compile_features(${tiles} PRIVATE cxx_std_20)
  target_compile_definitions(${tiles} PRIVATE WEFT_TILES)
  # With sanitizers optimised tiles take minutes to compile. A product and a sum are one operation there too: kernels
  # have sums of their own beside those of tiles, with the same bits.
  target_compile_options(${tiles} PRIVATE ${WEFT_KERNEL_OPTIONS} -ffunction-sections "$<$<CONFIG:Debug>:-Og;-fexpensive-optimizations>"
                                          $<$<CXX_COMPILER_ID:Clang>:-Wno-align-mismatch>)
  if(NOT arch STREQUAL "generic")
    target_compile_options(${tiles} PRIVATE -march=${arch})
  endif()
  target_sources(weft_runtime PRIVATE $<TARGET_OBJECTS:${tiles}>)
endforeach()
