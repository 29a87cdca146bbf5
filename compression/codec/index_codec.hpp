#pragma once
// One group's indices as bytes (grammar in docs/payload.md). Indices are relative to the group: ascending, each once,
// below size. Pure functions; what a peer sent is refused with the fault's code. index_stream.hpp reads in blocks.

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
  std::uint8_t low_bits = 0;  // golomb_rice, elias_fano, and the block numbers of blocks: bits that stand as they are
  std::uint8_t shift = 0;     // blocks: of 2^shift entries
  bool full = false;          // blocks: all of them are, and need no bitmaps
  std::uint32_t blocks = 0;
  std::uint64_t bytes = 0;
};

// The exact cost of one format, with its best parameters; none when it cannot hold these indices (dense: only all of
// them; blocks: at least one).
std::optional<IndexPlan> plan_indices(IndexFormat format, std::span<const std::uint32_t> indices, std::uint32_t size);

// The cheapest format; among equals the first of dense, bitmap, list, elias_fano, golomb_rice, blocks. Preference
// `speed` leaves out the last two, which cost a decoder more time an index.
IndexPlan cheapest_indices(std::span<const std::uint32_t> indices, std::uint32_t size,
                           IndexPreference preference = IndexPreference::bytes);

// Appends exactly plan.bytes.
void put_indices(const IndexPlan& plan, std::span<const std::uint32_t> indices, std::uint32_t size, Bytes& out);

// Reads out.size() > 0 indices below size.
Admitted<void> get_indices(IndexFormat format, std::uint32_t size, ByteReader& in, std::span<std::uint32_t> out);

// log2 C(size, count): what a random index set costs at least. For figures only, not exact to the last bit.
double index_floor_bits(std::uint32_t size, std::uint32_t count);

}  // namespace gleaner::codec
