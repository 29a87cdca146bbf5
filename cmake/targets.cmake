# The functions that the folders' CMakeLists.txt are written in.
include(GoogleTest)

# Every sanitized executable carries its options in itself.
if(GLEANER_SANITIZERS)
  find_program(GLEANER_LLVM_SYMBOLIZER NAMES llvm-symbolizer-19 llvm-symbolizer HINTS /usr/lib/llvm-19/bin)
  add_library(gleaner_sanitizer_options OBJECT ${PROJECT_SOURCE_DIR}/cmake/sanitizer_options.cpp)
  if(GLEANER_LLVM_SYMBOLIZER)
    target_compile_definitions(gleaner_sanitizer_options PRIVATE GLEANER_SYMBOLIZER="${GLEANER_LLVM_SYMBOLIZER}")
  endif()
endif()

function(gleaner_executable_ name)
  add_executable(${name} ${ARGN})
  if(GLEANER_SANITIZERS)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:gleaner_sanitizer_options>)
  endif()
endfunction()

# gleaner_library(NAME SOURCES a.cpp... [HEADERS a.hpp...] [PUBLIC targets...] [PRIVATE targets...])
#   A static library gleaner_NAME. Its headers are compiled alone (target all_verify_interface_header_sets), and the
#   program link_NAME, which takes in the whole archive, proves that it needs no more than it names.
function(gleaner_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  set(target gleaner_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  target_link_libraries(${target} PUBLIC gleaner_flags ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  if(arg_HEADERS)
    target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  endif()
  add_executable(link_${name} ${PROJECT_SOURCE_DIR}/cmake/link_test.cpp)
  target_link_libraries(link_${name} PRIVATE gleaner_flags
    -Wl,--whole-archive $<TARGET_FILE:${target}> -Wl,--no-whole-archive ${target} ${arg_PUBLIC} ${arg_PRIVATE})
  add_dependencies(link_${name} ${target})
endfunction()

# gleaner_compile_fast(TARGET...): for code that waits more than it computes. The optimiser spends most of its time on
#   the templates of the libraries that such code is made of, and a build from clean is to take minutes.
function(gleaner_compile_fast)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

# gleaner_program(NAME SOURCES a.cpp... LINK targets...): an executable with that name in the build folder's bin/.
function(gleaner_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  gleaner_executable_(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE gleaner_flags ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# gleaner_test(NAME SOURCES a.cpp... LINK targets... [LABELS l...] [TIMEOUT s] [ENVIRONMENT e...] [SERIAL])
#   GoogleTest cases, one executable a folder. Labels with a meaning: slow (left out under sanitizers in CI), no_asan.
#   SERIAL: no other test runs beside them. TIMEOUT is for an ordinary build; sanitized builds get four times as much.
function(gleaner_test name)
  cmake_parse_arguments(arg "SERIAL" "TIMEOUT" "SOURCES;LINK;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(GLEANER_SANITIZERS)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  gleaner_executable_(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE
    gleaner_flags ${arg_LINK} GTest::gtest GTest::gmock GTest::gtest_main gleaner_rapidcheck)
  gleaner_compile_fast(${name})
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_PREFIX ${name}. PROPERTIES ${properties})
  # gtest_discover_tests flattens lists and lets an empty one swallow the name of the next property, so that these are
  # set when ctest has read the names of the tests.
  set(lines "")
  foreach(property LABELS ENVIRONMENT)
    if(arg_${property})
      string(APPEND lines "  set_tests_properties(\${test} PROPERTIES ${property} [==[${arg_${property}}]==])\n")
    endif()
  endforeach()
  if(lines)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_lists.cmake)
    file(WRITE ${file} "foreach(test IN LISTS ${name}_TESTS)\n${lines}endforeach()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
  endif()
endfunction()

# gleaner_fuzz(NAME SOURCES a.cpp... LINK targets...): a libFuzzer target, built when GLEANER_FUZZ is on. Otherwise,
#   where seeds/NAME.txt lies beside it, the test fuzz_smoke.NAME runs the same code on inputs that never change: they
#   come from the target gleaner_fuzz_smoke.
function(gleaner_fuzz name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  set(seeds ${CMAKE_CURRENT_SOURCE_DIR}/seeds/${name}.txt)
  if(NOT GLEANER_FUZZ)
    if(EXISTS ${seeds})
      gleaner_executable_(${name}_smoke ${arg_SOURCES})
      target_link_libraries(${name}_smoke PRIVATE gleaner_flags gleaner_fuzz_smoke ${arg_LINK})
      add_test(NAME fuzz_smoke.${name} COMMAND ${name}_smoke ${seeds})
      set_tests_properties(fuzz_smoke.${name} PROPERTIES TIMEOUT 300)
    endif()
    return()
  endif()
  gleaner_executable_(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE gleaner_flags ${arg_LINK})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
endfunction()
