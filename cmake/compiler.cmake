# Which compilers are accepted, and the flags that everything is built with.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "g++ ${CMAKE_CXX_COMPILER_VERSION} miscompiles temporaries inside co_await expressions into double frees. "
    "Use clang 19 (apt-get install clang-19, then cmake -DCMAKE_CXX_COMPILER=clang++-19) or g++ 13 or later.")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR
    "clang ${CMAKE_CXX_COMPILER_VERSION} lacks std::expected with libstdc++ 12: use clang 19 or later.")
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
option(GLEANER_CUDA "Build the CUDA backend; an error where there is no nvcc" OFF)

if(GLEANER_FUZZ AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "GLEANER_FUZZ needs clang, whose libFuzzer it uses; the compiler is ${CMAKE_CXX_COMPILER_ID}.")
endif()
if(GLEANER_SANITIZE AND GLEANER_FUZZ)
  message(FATAL_ERROR "GLEANER_FUZZ brings its own sanitizers (address,undefined): leave GLEANER_SANITIZE empty.")
endif()
set(GLEANER_SANITIZERS ${GLEANER_SANITIZE})
if(GLEANER_FUZZ)
  set(GLEANER_SANITIZERS address,undefined)
endif()

# Build folders share the cache: paths are hashed relative to the folder, and the folder itself is not hashed.
find_program(GLEANER_CCACHE ccache)
if(GLEANER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${GLEANER_CCACHE})
endif()

# gleaner_flags: warnings, numbers that repeat (no fused multiply-add), sanitizers, hardening.
add_library(gleaner_flags INTERFACE)
target_include_directories(gleaner_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
set(gleaner_warnings
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough -Wextra-semi
  $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-designated-field-initializers>)
if(GLEANER_WERROR)
  list(APPEND gleaner_warnings -Werror)
endif()
# __FILE__ in messages is the path inside the project, whichever way the compiler was given it.
file(RELATIVE_PATH gleaner_source_from_build ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
set(gleaner_code_generation
  -ffp-contract=off -fno-math-errno -fstack-protector-strong
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${gleaner_source_from_build}=)
target_compile_options(gleaner_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${gleaner_warnings}> $<$<COMPILE_LANGUAGE:CXX>:${gleaner_code_generation}>)
target_compile_definitions(gleaner_flags INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
target_link_options(gleaner_flags INTERFACE -Wl,-z,relro,-z,now)

if(GLEANER_SANITIZERS)
  set(gleaner_sanitizer_flags
    -fsanitize=${GLEANER_SANITIZERS} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  if(GLEANER_SANITIZERS MATCHES undefined)
    # It asks the kernel through a pipe whether an address can be read, and cries wolf where descriptors run out.
    list(APPEND gleaner_sanitizer_flags -fno-sanitize=vptr)
  endif()
  target_compile_options(gleaner_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${gleaner_sanitizer_flags}>)
  target_link_options(gleaner_flags INTERFACE -fsanitize=${GLEANER_SANITIZERS})
else()
  target_compile_definitions(gleaner_flags INTERFACE $<$<CONFIG:Release>:_FORTIFY_SOURCE=2>)
endif()
if(GLEANER_FUZZ)
  target_compile_options(gleaner_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()

find_program(GLEANER_LLD NAMES ld.lld-19 ld.lld)
if(GLEANER_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_link_options(gleaner_flags INTERFACE -fuse-ld=lld)
endif()

if(GLEANER_CUDA)
  include(cuda)
endif()
