#include "aggregation/device_half.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "common/check.hpp"

namespace gleaner {

Admitted<std::uint64_t> apply_patch_payload(std::span<float> model, ByteView patch, float patch_clip,
                                            std::uint64_t hash, const Grouping& grouping, const KernelTable& kernels) {
  GLEANER_CHECK(model.size() <= std::numeric_limits<std::uint32_t>::max());
  constexpr std::uint32_t kMantissa = 0x7fffffU;
  if (!std::isnormal(patch_clip) || patch_clip < 0.0F || (std::bit_cast<std::uint32_t>(patch_clip) & kMantissa) != 0) {
    return refuse(RefusalCode::malformed, "the patch's clip is not a power of two");
  }
  const PayloadLimits limits{.entries_max = static_cast<std::uint32_t>(model.size()), .clip = patch_clip};
  auto decoded = decode_payload(patch, grouping, limits);
  if (!decoded) return std::unexpected(std::move(decoded).error());
  GLEANER_CHECK(decoded->dimension == model.size());
  return kernels.apply_patch(model, decoded->indices, decoded->values, hash);
}

Admitted<std::uint64_t> apply_absolute_payload(std::span<float> model, ByteView payload, const KernelTable& kernels) {
  GLEANER_CHECK(model.size() <= std::numeric_limits<std::uint32_t>::max());
  const auto dimension = static_cast<std::uint32_t>(model.size());
  const PayloadLimits limits{.entries_max = dimension, .clip = kParameterMax};
  auto decoded = decode_payload(payload, Grouping{{dimension}}, limits);
  if (!decoded) return std::unexpected(std::move(decoded).error());
  for (std::size_t j = 0; j < decoded->indices.size(); ++j) model[decoded->indices[j]] = decoded->values[j];
  return kernels.model_hash(model);
}

}  // namespace gleaner
