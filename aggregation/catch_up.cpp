#include "aggregation/catch_up.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/check.hpp"
#include "common/text.hpp"
#include "kernels/arithmetic.hpp"

namespace gleaner {
namespace {

Admitted<std::uint64_t> apply_patches(std::span<float> model, ByteView bytes, const Grouping& tensors,
                                      const KernelTable& kernels) {
  std::uint64_t hash = kernels.model_hash(model);
  ByteReader in(bytes);
  for (std::uint32_t number = 0; !in.at_end(); ++number) {
    const auto size = in.get<std::uint32_t>();
    const auto clip = in.get<float>();
    const ByteView payload = in.get_bytes(size);
    if (!in.ok()) return refuse(RefusalCode::malformed, fmt::format("patch {} is cut off", number));
    auto applied = apply_patch_payload(model, payload, clip, hash, tensors, kernels);
    if (!applied) {
      return refuse(applied.error().code(), fmt::format("patch {}: {}", number, applied.error().detail()));
    }
    hash = *applied;
  }
  return hash;
}

Admitted<std::uint64_t> assign_snapshot(std::span<float> model, ByteView bytes, const KernelTable& kernels) {
  if (bytes.size() != model.size_bytes()) {
    return refuse(RefusalCode::malformed,
                  fmt::format("a snapshot of {} bytes for {} parameters of 4 bytes", bytes.size(), model.size()));
  }
  if (!model.empty()) std::memcpy(model.data(), bytes.data(), bytes.size());
  return kernels.model_hash(model);
}

Admitted<std::uint64_t> apply_kind(CatchUpKind kind, std::span<float> model, ByteView bytes, const Grouping& tensors,
                                   const KernelTable& kernels) {
  switch (kind) {
    case CatchUpKind::none:
    case CatchUpKind::seeded:
      if (!bytes.empty()) return refuse(RefusalCode::malformed, "bytes where none are needed");
      return kernels.model_hash(model);
    case CatchUpKind::patches: return apply_patches(model, bytes, tensors, kernels);
    case CatchUpKind::absolute: return apply_absolute_payload(model, bytes, kernels);
    case CatchUpKind::snapshot: return assign_snapshot(model, bytes, kernels);
  }
  return refuse(RefusalCode::malformed, fmt::format("unknown kind of synchronization {}", static_cast<unsigned>(kind)));
}

}  // namespace

CatchUp choose_catch_up(const ServerModel& model, std::optional<Version> held,
                        std::span<const std::uint64_t> patch_bytes) {
  const Version base = model.version();
  if (held == base) return {};
  if (base.value == 0) return {.kind = CatchUpKind::seeded};
  CatchUp best{.kind = CatchUpKind::snapshot, .bytes = std::uint64_t{model.dimension()} * sizeof(float)};
  if (!held || *held > base) return best;

  // Four bytes a value is what an absolute payload takes at the least: most are ruled out without being made.
  if (model.absolute_entries_since(*held) * sizeof(float) < best.bytes) {
    Bytes absolute = model.absolute_since(*held);
    if (absolute.size() <= best.bytes) {
      best = {.kind = CatchUpKind::absolute, .bytes = absolute.size(), .absolute = std::move(absolute)};
    }
  }
  if (patch_bytes.size() == base.value - held->value) {
    std::uint64_t bytes = 0;
    for (const std::uint64_t payload : patch_bytes) bytes += kPatchFramingBytes + payload;
    if (bytes <= best.bytes) best = {.kind = CatchUpKind::patches, .bytes = bytes};
  }
  return best;
}

void append_patch(Bytes& out, ByteView payload, float patch_clip) {
  GLEANER_CHECK(payload.size() <= std::numeric_limits<std::uint32_t>::max());
  ByteWriter writer(out);
  writer.put(static_cast<std::uint32_t>(payload.size()));
  writer.put(patch_clip);
  writer.put_bytes(payload);
}

Bytes snapshot_bytes(std::span<const float> parameters) {
  const ByteView bytes = std::as_bytes(parameters);
  return {bytes.begin(), bytes.end()};
}

Admitted<std::vector<float>> apply_catch_up(CatchUpKind kind, ByteView bytes, std::span<const float> from,
                                            std::uint64_t base_hash, const Grouping& tensors,
                                            const KernelTable& kernels) {
  std::vector<float> model(from.begin(), from.end());
  const auto hash = apply_kind(kind, model, bytes, tensors, kernels);
  if (!hash) return std::unexpected(hash.error());
  if (!all_finite(model)) {
    const auto wild = std::ranges::find_if(model, [](float w) { return !std::isfinite(w); });
    return refuse(RefusalCode::non_finite, fmt::format("parameter {} would be {}", wild - model.begin(), *wild));
  }
  if (*hash != base_hash) {
    return refuse(RefusalCode::wrong_base,
                  fmt::format("the model has hash {}, the plan's base has {}", to_hex(*hash), to_hex(base_hash)));
  }
  return model;
}

}  // namespace gleaner
