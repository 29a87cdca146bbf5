#pragma once
// What a device remembers of its updates, as a transaction: an update in flight is kept apart until its outcome is
// known, so that mass is conserved whatever dies when. Arithmetic only; the caller writes to_bytes() to disk, with a
// checksum, before the first byte leaves. One owner, not thread-safe.
//
//   residual  compressor.select(update, {}, memory.state(), ...); encode; begin(sent); ...; settle(outcome)
//             After begin the sent part is out of the residual; included drops it, late, stale, quota and abandoned put
//             it back bit for bit, refused drops it and zeroes what is left at its coordinates.
//   tracked   compressor.select(update, memory.state(), candidate, ...); ...; included adds the sent part to h (rounded
//             to f32); every other outcome leaves h as it was.
//   none      The state is empty; whatever the outcome, the sent part is forgotten.
// Invariant (residual): residual + pending + included + zeroed = computed.

#include <cstdint>
#include <optional>
#include <span>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/refusal.hpp"
#include "compression/compressor.hpp"

namespace gleaner {

class DeviceMemory {
 public:
  DeviceMemory(MemoryKind kind, std::uint32_t dimension);  // all zero, nothing pending

  MemoryKind kind() const { return kind_; }
  std::uint32_t dimension() const { return dimension_; }

  // The residual, or h; empty for none.
  std::span<float> state() { return state_; }
  std::span<const float> state() const { return state_; }

  // The entries in flight as the decoder will see them, while there are any.
  const std::optional<SparseVector>& pending() const { return pending_; }

  // Puts the sent entries in flight; nothing is pending (GLEANER_CHECK). An Error (bad_input) that names the
  // coordinate, and no change, when an entry could not be put back exactly (a value 2^24 times the clip or more).
  Status begin(SparseVector sent);

  // Ends the flight. Outcome::unknown keeps it; without anything pending nothing happens (a skipped round). Returns how
  // many coordinates were zeroed because their content was refused: the caller's alarm.
  std::uint32_t settle(Outcome outcome);

  std::size_t size_bytes() const;  // of to_bytes()
  void append_to(Bytes& out) const;
  Bytes to_bytes() const;
  // Strict: kind and dimension must be the expected ones; anything else about the bytes is an Error (corrupt).
  static Result<DeviceMemory> from_bytes(ByteView bytes, MemoryKind kind, std::uint32_t dimension);

 private:
  MemoryKind kind_;
  std::uint32_t dimension_;
  std::vector<float> state_;
  std::optional<SparseVector> pending_;
};

}  // namespace gleaner
