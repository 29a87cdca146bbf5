#pragma once
// One group's indices as bytes (grammar in docs/payload.md). Indices are relative to the group: ascending, each once,
// below size. Pure functions; what a peer sent is refused with the fault's code.

#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "common/bytes.hpp"
#include "common/refusal.hpp"
#include "compression/payload.hpp"

namespace gleaner::codec {

// How a group's indices will be coded and what it costs.
struct IndexPlan {
  IndexFormat format = IndexFormat::list;
  std::uint8_t rice_bits = 0;  // golomb_rice only: low bits of a gap that are stored as they are
  std::uint64_t bytes = 0;
};

// The exact cost of one format; none when it cannot hold these indices (dense: only all of them).
std::optional<IndexPlan> plan_indices(IndexFormat format, std::span<const std::uint32_t> indices, std::uint32_t size);

// The cheapest format; among equals the first of dense, bitmap, list, golomb_rice.
IndexPlan cheapest_indices(std::span<const std::uint32_t> indices, std::uint32_t size);

// Appends exactly plan.bytes.
void put_indices(const IndexPlan& plan, std::span<const std::uint32_t> indices, std::uint32_t size, Bytes& out);

// Reads out.size() indices below size.
Admitted<void> get_indices(IndexFormat format, std::uint32_t size, ByteReader& in, std::span<std::uint32_t> out);

// log2 C(size, count): what a random index set costs at least. For figures only, not exact to the last bit.
double index_floor_bits(std::uint32_t size, std::uint32_t count);

}  // namespace gleaner::codec
