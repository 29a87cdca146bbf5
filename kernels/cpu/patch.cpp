#include "common/check.hpp"
#include "common/hash.hpp"
#include "kernels/cpu/cpu.hpp"

namespace gleaner::cpu {

std::uint64_t apply_patch(std::span<float> model, std::span<const std::uint32_t> indices, std::span<const float> u,
                          std::uint64_t hash) {
  GLEANER_CHECK(indices.size() == u.size());
  for (std::size_t j = 0; j < indices.size(); ++j) {
    const std::uint32_t index = indices[j];
    const float before = model[index];
    const float after = before - u[j];
    model[index] = after;
    hash += coordinate_hash(index, after) - coordinate_hash(index, before);
  }
  return hash;
}

std::uint64_t model_hash(std::span<const float> model) {
  std::uint64_t lanes[4] = {};
  const std::size_t whole = model.size() / 4 * 4;
  for (std::size_t i = 0; i < whole; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) lanes[j] += coordinate_hash(static_cast<std::uint32_t>(i + j), model[i + j]);
  }
  std::uint64_t hash = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  for (std::size_t i = whole; i < model.size(); ++i) hash += coordinate_hash(static_cast<std::uint32_t>(i), model[i]);
  return hash;
}

}  // namespace gleaner::cpu
