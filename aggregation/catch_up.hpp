#pragma once
// How a device gets to the model that a plan is based on: the server's choice by exact bytes, and the device's inverse.
//
//   none      it holds the base
//   seeded    version 0 is made from the run's seed: no bytes
//   patches   for every version from+1 .. base: u32 payload bytes, f32 clip (a power of two), payload; subtracted in
//             order
//   absolute  a payload of one group of f32 values to be assigned: the coordinates changed since `from`
//   snapshot  the dimension's f32 values

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "aggregation/server_model.hpp"
#include "common/bytes.hpp"
#include "common/ids.hpp"
#include "common/refusal.hpp"

namespace gleaner {

// The numbers of SyncKind on the wire; never renumber.
enum class CatchUpKind : std::uint8_t { none = 0, seeded = 1, patches = 2, absolute = 3, snapshot = 4 };

struct CatchUp {
  CatchUpKind kind = CatchUpKind::none;
  std::uint64_t bytes = 0;
  Bytes absolute;  // the payload, when that is the kind: it was made to be measured
};

inline constexpr std::uint64_t kPatchFramingBytes = sizeof(std::uint32_t) + sizeof(float);

// held: the version the device holds with the very hash that version has here; nullopt for another lineage or hash. A
// device without a model can be said to hold version 0, which it makes from the seed: what changed since is often less
// than a snapshot. patch_bytes: payload sizes of versions held+1 .. model.version() in order; fewer than
// that mean that some are not kept any more, and patches are out of the question. The fewest bytes win; at a tie
// patches before absolute before snapshot. Scans the last changes once: O(dimension).
CatchUp choose_catch_up(const ServerModel& model, std::optional<Version> held,
                        std::span<const std::uint64_t> patch_bytes);

// The bytes of the two kinds that are put together from what is there.
inline constexpr std::size_t kPatchHeadBytes = 8;  // u32 bytes of the payload, f32 clip
void append_patch(Bytes& out, ByteView payload, float patch_clip);
Bytes snapshot_bytes(std::span<const float> parameters);

// The device's half: the base model from the one it holds (for seeded: version 0 from the seed; for snapshot: only its
// size counts). Refusals name the fault; a result without the announced hash or with a value that is not finite is
// wrong_base or non_finite. `from` stays as it is: 4 bytes a parameter for the copy.
Admitted<std::vector<float>> apply_catch_up(CatchUpKind kind, ByteView bytes, std::span<const float> from,
                                            std::uint64_t base_hash, const Grouping& tensors,
                                            const KernelTable& kernels);

}  // namespace gleaner
