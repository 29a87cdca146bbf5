#pragma once
// What a device does with a patch: the counterpart of ServerModel::prepare, for clients, the simulator and recovery
// alike. Decoders are strict; whoever calls compares the hash that comes back with the one that was announced.

#include <cstdint>
#include <span>

#include "common/bytes.hpp"
#include "common/refusal.hpp"
#include "compression/payload.hpp"
#include "kernels/kernels.hpp"

namespace gleaner {

// Absolute values and parameters beyond it are refused: 2^127, the largest power of two in f32.
inline constexpr float kParameterMax = 0x1p127F;

// model[i] -= u[i]; hash is the model's before it, the result the one after it. patch_clip bounds |u| (over_bound); one
// that is not a power of two is malformed. A refused patch leaves the model as it was.
Admitted<std::uint64_t> apply_patch_payload(std::span<float> model, ByteView patch, float patch_clip,
                                            std::uint64_t hash, const Grouping& grouping, const KernelTable& kernels);

// model[i] = value; returns the hash of the whole model, made anew. A refused payload leaves the model as it was.
Admitted<std::uint64_t> apply_absolute_payload(std::span<float> model, ByteView payload, const KernelTable& kernels);

}  // namespace gleaner
