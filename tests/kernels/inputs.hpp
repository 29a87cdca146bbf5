#pragma once
// Named inputs that selections find hard, and the backends that the conformance tests run over.

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernels.hpp"

namespace gleaner::testing {

// Under a sanitizer, which takes its time, tests that go over many inputs look at one in so many.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr std::size_t kOneIn = 4;
#else
constexpr std::size_t kOneIn = 1;
#endif

struct NamedVector {
  std::string name;
  std::vector<float> values;
};

// Finite vectors of size entries: random, ties, zeros, denormals, sorted, huge, tiny. One in one_in of them: turns that
// follow each other get all.
std::vector<NamedVector> finite_vectors(std::size_t size, std::size_t turn, std::size_t one_in = kOneIn);

std::vector<float> normal_vector(std::size_t size, std::uint64_t seed);

// A backend of this build but the reference; the cpu backend once for every instruction set that this machine has.
class Subject {
 public:
  Subject(std::size_t number, std::string name, const KernelTable& table, std::int64_t target)
      : number_(number), name_(std::move(name)), table_(&table), target_(target) {}

  const std::string& name() const { return name_; }
  std::size_t number() const { return number_; }  // 0, 1, ...: a turn of finite_vectors
  const KernelTable* operator->() const;          // its instruction set is the one that runs from now on

 private:
  std::size_t number_;
  std::string name_;
  const KernelTable* table_;
  std::int64_t target_;  // of Highway; 0: whatever is best
};
std::ostream& operator<<(std::ostream& out, const Subject& subject);

std::vector<Subject> subjects();

}  // namespace gleaner::testing
