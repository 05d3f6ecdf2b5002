# libweft_runtime_cuda.a without CMake's CUDA language, which wants a whole toolkit: nvcc from WEFT_CUDA_DIR, which may
# be the toolkit's Python packages, is run by plain commands. For what the compiler links emitted programs with.
find_path(WEFT_NCCL_INCLUDE_DIR nccl_device.h HINTS ${WEFT_CUDA_DIR}/../nccl/include ${WEFT_CUDA_DIR}/include)
if(NOT WEFT_NCCL_INCLUDE_DIR)
  message(FATAL_ERROR "nccl_device.h (NCCL 2.28 or later) is neither in ${WEFT_CUDA_DIR}/include nor in a folder that the compiler knows")
endif()
set(weft_cuda_folder ${CMAKE_CURRENT_LIST_DIR})
set(WEFT_CUDA_ARCHS 80 90 100 CACHE STRING "compute capabilities of the runtime's own kernels; the last also as PTX")
set(weft_nvcc_flags -std=c++20 -O3 --expt-relaxed-constexpr --objdir-as-tempdir -ccbin ${CMAKE_CXX_COMPILER})
foreach(arch ${WEFT_CUDA_ARCHS})
  list(APPEND weft_nvcc_flags -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET WEFT_CUDA_ARCHS -1 arch)
list(APPEND weft_nvcc_flags -gencode=arch=compute_${arch},code=compute_${arch})
set(weft_cuda_includes ${weft_cuda_folder}/../include ${weft_cuda_folder} ${weft_cuda_folder}/../src ${WEFT_NCCL_INCLUDE_DIR})

file(GLOB weft_cuda_kernels CONFIGURE_DEPENDS ${weft_cuda_folder}/*.cu)
file(GLOB_RECURSE weft_cuda_headers CONFIGURE_DEPENDS ${weft_cuda_folder}/*.h ${weft_cuda_folder}/../include/*.h)
foreach(source ${weft_cuda_kernels})
  get_filename_component(name ${source} NAME)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
  list(TRANSFORM weft_cuda_includes PREPEND -I OUTPUT_VARIABLE includes)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/cuda
    COMMAND ${WEFT_CUDA_DIR}/bin/nvcc ${weft_nvcc_flags} ${includes} -c -o ${object} ${source}
    DEPENDS ${source} ${weft_cuda_headers} VERBATIM)
  list(APPEND weft_cuda_objects ${object})
endforeach()

file(GLOB weft_cuda_sources CONFIGURE_DEPENDS ${weft_cuda_folder}/*.cpp)
add_library(weft_runtime_cuda STATIC ${weft_cuda_sources} ${weft_cuda_objects} $<TARGET_OBJECTS:weft_runtime_core>)
weft_runtime_library(weft_runtime_cuda)
target_compile_features(weft_runtime_cuda PUBLIC cxx_std_20)
target_include_directories(weft_runtime_cuda SYSTEM PRIVATE ${WEFT_CUDA_DIR}/include ${WEFT_NCCL_INCLUDE_DIR})
