# Turns the CUDA language on. Asking for CUDA where there is none is an error, never a silent build without it.
find_program(GLEANER_NVCC nvcc HINTS $ENV{CUDA_PATH}/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT GLEANER_NVCC)
  message(FATAL_ERROR
    "GLEANER_CUDA is ON, but there is no nvcc on PATH, in CUDA_PATH, CUDA_HOME or /usr/local/cuda/bin. "
    "Install the CUDA Toolkit 13 and put its bin folder on PATH, or configure with -DGLEANER_CUDA=OFF.")
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${GLEANER_NVCC})
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
endif()
enable_language(CUDA)

# CMake 3.25 knows nvcc's dialects only up to C++17.
foreach(kind STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
  endif()
endforeach()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
find_package(CUDAToolkit REQUIRED)

# The same numbers as on the CPU: no fused multiply-add on either side of nvcc. Warnings of every stage are errors, and
# a register that spills is a warning. clang, as nvcc's host compiler, meets casts and names of nvcc's own making.
set(gleaner_cuda_options --fmad=false --expt-relaxed-constexpr -Xptxas=-warn-spills
  "SHELL:-Xcompiler -Wall,-Wextra,-ffp-contract=off")
if(GLEANER_WERROR)
  list(APPEND gleaner_cuda_options "SHELL:-Werror all-warnings" "SHELL:-Xptxas -Werror" "SHELL:-Xcompiler -Werror")
endif()
target_compile_options(gleaner_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${gleaner_cuda_options}>")
message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for architectures ${CMAKE_CUDA_ARCHITECTURES}: ${GLEANER_NVCC}")
