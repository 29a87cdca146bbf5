# gleaner_library(NAME SOURCES a.cpp... [HEADERS a.hpp...] [PUBLIC targets...] [PRIVATE targets...])
#   A static library gleaner_NAME. Its headers are compiled alone, and a link test proves that it needs no more than it names.
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

# gleaner_program(NAME SOURCES a.cpp... LINK targets...): an executable with that name in the build folder's bin/.
function(gleaner_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE gleaner_flags ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# gleaner_test(NAME SOURCES a.cpp... LINK targets... [LABELS l...] [TIMEOUT s] [ENVIRONMENT e...]): GoogleTest cases, one executable a folder.
function(gleaner_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINK;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE gleaner_flags ${arg_LINK} GTest::gtest GTest::gmock GTest::gtest_main gleaner_rapidcheck)
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_PREFIX ${name}. PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
    ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

# gleaner_fuzz(NAME SOURCES a.cpp... LINK targets...): a libFuzzer target, built when GLEANER_FUZZ is on.
function(gleaner_fuzz name)
  if(NOT GLEANER_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE gleaner_flags ${arg_LINK})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
endfunction()
