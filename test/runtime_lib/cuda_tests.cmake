# Tests of the cuda runtime over the emulation (test/emulation, which must be there): cuda_runtime_tests.
add_executable(cuda_runtime_tests ${CMAKE_CURRENT_LIST_DIR}/../main.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_collectives.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cuda_relay.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cuda_steps.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_kernels.cu)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/cuda_kernels.cu PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
target_include_directories(cuda_runtime_tests SYSTEM PRIVATE ${DOCTEST_INCLUDE_DIR})
target_include_directories(cuda_runtime_tests PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../.. ${CMAKE_CURRENT_LIST_DIR}/../../runtime_lib/src)
target_link_libraries(cuda_runtime_tests PRIVATE weft_runtime_emulated)
