# Looks for nvcc and says in BRAID_WITH_CUDA whether src/cuda is built, for the architectures in BRAID_CUDA_ARCHITECTURES.
set(BRAID_WITH_CUDA OFF)
if(BRAID_CUDA)
  find_program(BRAID_NVCC nvcc HINTS /usr/local/cuda/bin)
  mark_as_advanced(BRAID_NVCC)
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # stated below instead, since this CMake does not know all of them
  set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
  if(BRAID_NVCC AND NOT CMAKE_CUDA_COMPILER)
    # An nvcc that does not work with this host compiler counts as none.
    set(ENV{CUDACXX} ${BRAID_NVCC})
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(BRAID_WITH_CUDA ON)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    foreach(architecture ${BRAID_CUDA_ARCHITECTURES})
      target_compile_options(braid_flags INTERFACE
        "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-gencode arch=compute_${architecture},code=sm_${architecture}>")
    endforeach()
    # This CMake knows no CUDA standard 20 and drops it without a word, so nvcc is told directly.
    target_compile_options(braid_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -Xfatbin=-compress-all
      --expt-relaxed-constexpr>)
    # fmt 9 takes nvcc for a compiler without constexpr, and then its own check of format strings does not compile.
    target_compile_definitions(braid_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
  endif()
endif()
if(BRAID_WITH_CUDA)
  message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER} for ${BRAID_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA: left out")
endif()
