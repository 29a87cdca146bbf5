# What is taken from Debian. Every library is one target here, so that a folder names what it uses and nothing else.
find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(SQLite3 3.40 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS context json)
find_package(PkgConfig REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_program(GLEANER_FLATC flatc REQUIRED)
find_package(MPI QUIET COMPONENTS C)  # to share experiments out; simulation/CMakeLists.txt says what happens without

pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)
find_path(GLEANER_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
find_path(GLEANER_XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(GLEANER_RAPIDCHECK_INCLUDE rapidcheck.h REQUIRED)
find_library(GLEANER_RAPIDCHECK_LIBRARY rapidcheck REQUIRED)

# Asio is compiled once, in protocol/link/asio.cpp; everything else includes declarations only.
add_library(gleaner_asio INTERFACE)
target_link_libraries(gleaner_asio INTERFACE Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
target_compile_definitions(gleaner_asio INTERFACE BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED
  BOOST_BEAST_SEPARATE_COMPILATION)

add_library(gleaner_rapidcheck INTERFACE)
target_include_directories(gleaner_rapidcheck SYSTEM INTERFACE ${GLEANER_RAPIDCHECK_INCLUDE})
target_link_libraries(gleaner_rapidcheck INTERFACE ${GLEANER_RAPIDCHECK_LIBRARY})
