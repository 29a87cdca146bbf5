#include "tests/kernels/inputs.hpp"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/random.hpp"

namespace gleaner::testing {

std::vector<float> normal_vector(std::size_t size, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random.normal());
  return x;
}

std::vector<NamedVector> finite_vectors(std::size_t size, std::size_t turn, std::size_t one_in) {
  Random random(7, Purpose::test, size);
  std::size_t number = 0;
  const auto make = [&](std::string name, const std::function<float(std::size_t)>& at) {
    if (number++ % one_in != turn % one_in) return NamedVector();
    NamedVector named{std::move(name), std::vector<float>(size)};
    for (std::size_t i = 0; i < size; ++i) named.values[i] = at(i);
    return named;
  };
  const auto normal = [&] { return static_cast<float>(random.normal()); };
  const auto sign = [&](float x) { return random.below(2) == 0 ? x : -x; };
  std::vector<NamedVector> all;
  all.push_back(make("normal", [&](std::size_t) { return normal(); }));
  all.push_back(make("heavy_tails", [&](std::size_t) { return std::pow(normal(), 9.0F); }));
  all.push_back(make("all_zero", [](std::size_t) { return 0.0F; }));
  all.push_back(make("signed_zeros", [&](std::size_t) { return sign(0.0F); }));
  all.push_back(make("all_equal", [](std::size_t) { return 1.5F; }));
  all.push_back(make("equal_magnitudes", [&](std::size_t) { return sign(0.1F); }));
  all.push_back(make("three_levels", [&](std::size_t) { return sign(static_cast<float>(random.below(3))); }));
  all.push_back(make("mostly_zero", [&](std::size_t) { return random.below(500) == 0 ? normal() : 0.0F; }));
  all.push_back(make("one_spike", [&](std::size_t i) { return i == size / 2 ? -3.0F : 0.0F; }));
  all.push_back(make("denormals", [&](std::size_t) { return sign(1e-42F * normal()); }));
  all.push_back(make("tiny", [&](std::size_t) { return 1e-37F * normal(); }));
  all.push_back(make("huge", [&](std::size_t) { return 3e37F * normal(); }));
  all.push_back(make("largest", [&](std::size_t) { return sign(std::numeric_limits<float>::max()); }));
  all.push_back(make("every_scale", [&](std::size_t) {
    return sign(std::ldexp(1.0F + static_cast<float>(random.uniform()), static_cast<int>(random.below(252)) - 126));
  }));
  all.push_back(make("ascending", [](std::size_t i) { return static_cast<float>(i); }));
  all.push_back(make("descending", [&](std::size_t i) { return static_cast<float>(size - i); }));
  all.push_back(make("loud_tail", [&](std::size_t i) { return i + i / 64 >= size ? 100.0F + normal() : normal(); }));
  all.push_back(make("loud_period", [&](std::size_t i) { return i % 128 == 5 ? 50.0F * normal() : 0.01F * normal(); }));
  all.push_back(
      make("nine_magnitudes", [&](std::size_t) { return sign(std::ldexp(1.0F, -static_cast<int>(random.below(9)))); }));
  all.push_back(make("two_scales", [&](std::size_t i) { return i % 3 == 1 ? 1e4F * normal() : normal(); }));
  all.push_back(make("nearly_zero", [&](std::size_t) { return random.below(2000) == 0 ? normal() : 0.0F; }));
  // Every sample but a dense one sees only zeros or only the last entries.
  all.push_back(make("all_at_the_end", [&](std::size_t i) { return i + 100 >= size ? normal() : 0.0F; }));
  std::erase_if(all, [](const NamedVector& named) { return named.name.empty(); });
  return all;
}

const KernelTable* Subject::operator->() const {
  hwy::SetSupportedTargetsForTest(target_);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return table_;
}

std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name(); }

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    all.emplace_back(all.size(), fmt::format("cpu_{}", hwy::TargetName(target)), **kernels_for(Backend::cpu), target);
  }
  if (const auto cuda = kernels_for(Backend::cuda)) all.emplace_back(all.size(), "cuda", **cuda, 0);
  return all;
}

}  // namespace gleaner::testing
