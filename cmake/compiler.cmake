# Which compilers are accepted, and the flags that everything is built with.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "g++ ${CMAKE_CXX_COMPILER_VERSION} miscompiles temporaries inside co_await expressions into double frees. "
    "Use clang 19 (apt-get install clang-19, then cmake -DCMAKE_CXX_COMPILER=clang++-19) or g++ 13 or later.")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR "clang ${CMAKE_CXX_COMPILER_VERSION} lacks std::expected with libstdc++ 12: use clang 19 or later.")
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(GLEANER_SANITIZE "" CACHE STRING "Sanitizers for everything: address,undefined or thread")
set(GLEANER_WERROR ON CACHE BOOL "Treat warnings as errors")
option(GLEANER_FUZZ "Build the libFuzzer targets (clang)" OFF)

find_program(GLEANER_CCACHE ccache)
if(GLEANER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GLEANER_CCACHE})
endif()

# gleaner_flags: warnings, numbers that repeat (no fused multiply-add), sanitizers.
add_library(gleaner_flags INTERFACE)
target_include_directories(gleaner_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(gleaner_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough -Wextra-semi
  -ffp-contract=off -fno-math-errno)
if(GLEANER_WERROR)
  target_compile_options(gleaner_flags INTERFACE -Werror)
endif()
if(GLEANER_SANITIZE)
  target_compile_options(gleaner_flags INTERFACE -fsanitize=${GLEANER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(gleaner_flags INTERFACE -fsanitize=${GLEANER_SANITIZE})
endif()
if(GLEANER_FUZZ)
  target_compile_options(gleaner_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -g1)
  target_link_options(gleaner_flags INTERFACE -fsanitize=address,undefined)
endif()
find_program(GLEANER_LLD NAMES ld.lld-19 ld.lld)
if(GLEANER_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_link_options(gleaner_flags INTERFACE -fuse-ld=lld)
endif()
