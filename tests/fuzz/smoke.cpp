// Runs one fuzz target without libFuzzer on inputs that are the same in every run: the seeds, damaged seeds, and bytes
// of several kinds of randomness. What a build can check of its decoders in a second, under whatever sanitizers it has.
//   NAME_smoke SEEDS       SEEDS: a file with an input a line, in hexadecimal; --unpack DIR writes them as files for
//                          libFuzzer instead

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "common/bytes.hpp"
#include "common/random.hpp"
#include "tests/compression/corruption.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace gleaner {
namespace {

constexpr std::uint32_t kDamagedOfEach = 150;
constexpr std::uint32_t kRandomInputs = 4'000;
constexpr std::uint32_t kBytesMax = 400;

std::vector<Bytes> read_seeds(const char* path) {
  std::vector<Bytes> seeds;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    Bytes seed;
    for (std::size_t at = 0; at + 2 <= line.size(); at += 2) {
      unsigned byte = 0;
      std::from_chars(line.data() + at, line.data() + at + 2, byte, 16);
      seed.push_back(static_cast<std::byte>(byte));
    }
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

// Uniform bytes, few ones, few zeros, or small numbers: each reaches other branches of a decoder.
Bytes random_bytes(Random& random) {
  Bytes bytes(random.below(kBytesMax));
  const std::uint32_t kind = random.below(4);
  for (std::byte& byte : bytes) {
    const std::uint32_t bits = random.bits32();
    const std::uint32_t few = bits & bits >> 8 & bits >> 16;
    byte = static_cast<std::byte>(kind == 0 ? bits : kind == 1 ? few : kind == 2 ? ~few : bits % 7);
  }
  return bytes;
}

void feed(const Bytes& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

int unpack(const std::vector<Bytes>& seeds, const std::string& folder) {
  for (std::size_t j = 0; j < seeds.size(); ++j) {
    std::ofstream out(folder + "/seed" + std::to_string(j), std::ios::binary);
    out << as_text(seeds[j]);
    if (!out) return 1;
  }
  return 0;
}

int run(const std::vector<Bytes>& seeds) {
  if (seeds.empty()) {
    std::fputs("no seeds: the file is missing or empty\n", stderr);
    return 1;
  }
  Random random(1, Purpose::test);
  for (const Bytes& seed : seeds) {
    feed(seed);
    for (std::uint32_t j = 0; j < kDamagedOfEach; ++j) feed(testing::corrupted(random, seed));
  }
  for (std::uint32_t j = 0; j < kRandomInputs; ++j) feed(random_bytes(random));
  std::printf("%zu seeds, %zu inputs\n", seeds.size(), seeds.size() * (kDamagedOfEach + 1) + kRandomInputs);
  return 0;
}

}  // namespace
}  // namespace gleaner

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[2]) == "--unpack") return gleaner::unpack(gleaner::read_seeds(argv[1]), argv[3]);
  if (argc != 2) return std::fputs("usage: NAME_smoke SEEDS [--unpack DIR]\n", stderr), 2;
  return gleaner::run(gleaner::read_seeds(argv[1]));
}
