// What every index format would cost, exactly.

#include <algorithm>
#include <array>
#include <bit>

#include "compression/codec/bits.hpp"
#include "compression/codec/index_codec.hpp"
#include "compression/codec/index_stream.hpp"

namespace gleaner::codec {
namespace {

using Indices = std::span<const std::uint32_t>;

std::uint64_t varint_bytes(std::uint64_t value) {
  return (static_cast<std::uint64_t>(std::bit_width(value | 1U)) + 6) / 7;
}

// The zeros of the unary part: the sum of gap >> b. Gaps add up to less than 2^32.
std::uint64_t rice_zeros(Indices indices, unsigned b) {
  std::uint32_t zeros = indices[0] >> b;
  for (std::size_t j = 1; j < indices.size(); ++j) zeros += (indices[j] - indices[j - 1] - 1) >> b;
  return zeros;
}

// One more low bit costs a bit an index and saves half of the zeros, rounded up for every gap. That saving falls as b
// grows, so that a b from which neither neighbour is cheaper is the best of all. The start is the b for geometric gaps.
IndexPlan plan_rice(Indices indices) {
  const std::uint64_t n = indices.size();
  const auto cost = [&](unsigned b) { return n * (1 + b) + rice_zeros(indices, b); };
  const std::uint64_t gaps = indices.back() + std::uint64_t{1} - n;
  unsigned b = std::min<unsigned>(kLowBitsMax, static_cast<unsigned>(std::bit_width(gaps * 7 / (10 * n))));
  b -= b > 0 ? 1 : 0;
  std::uint64_t best = cost(b);
  bool rises = false;
  for (; b < kLowBitsMax; ++b, rises = true) {
    const std::uint64_t above = cost(b + 1);
    if (above >= best) break;
    best = above;
  }
  for (; !rises && b > 0; --b) {
    const std::uint64_t below = cost(b - 1);
    if (below > best) break;
    best = below;
  }
  return {
      .format = IndexFormat::golomb_rice, .low_bits = static_cast<std::uint8_t>(b), .bytes = 1 + bytes_for_bits(best)};
}

IndexPlan plan_elias_fano(Indices indices) {
  std::uint64_t best = ~std::uint64_t{0};
  unsigned best_b = 0;
  for (unsigned b = 0; b <= kLowBitsMax; ++b) {
    const std::uint64_t bits = std::uint64_t{indices.size()} * (1 + b) + (indices.back() >> b);
    if (bits >= best) continue;
    best = bits;
    best_b = b;
  }
  return {.format = IndexFormat::elias_fano,
          .low_bits = static_cast<std::uint8_t>(best_b),
          .bytes = 1 + bytes_for_bits(best)};
}

// How many blocks of 2^shift entries are occupied, for every shift at once: a new block begins where an index differs
// from the one before in a bit at or above the shift.
std::array<std::uint32_t, 33> occupied_blocks(Indices indices) {
  std::array<std::uint32_t, 33> widths{};
  for (std::size_t j = 1; j < indices.size(); ++j) ++widths[std::bit_width(indices[j] ^ indices[j - 1])];
  std::array<std::uint32_t, 33> blocks{};
  std::uint32_t above = 1;
  for (std::size_t shift = 33; shift-- > 0;) {
    blocks[shift] = above;
    above += widths[shift];
  }
  return blocks;
}

void list_blocks(Indices indices, unsigned shift, std::vector<std::uint32_t>& numbers) {
  numbers.clear();
  for (const std::uint32_t index : indices) {
    if (numbers.empty() || numbers.back() != index >> shift) numbers.push_back(index >> shift);
  }
}

// A block of twice the size is occupied at least half as often, so that bitmaps only grow with the shift: where those
// of the least one need more than `most`, none pays. Full blocks have no bitmaps, but then the smallest are full as
// well.
bool blocks_may_pay(Indices indices, std::uint64_t most) {
  std::uint32_t changes = 0;
  for (std::size_t j = 1; j < indices.size(); ++j) {
    changes += (indices[j] ^ indices[j - 1]) >> BlocksStream::kShiftMin != 0 ? 1U : 0U;
  }
  const std::uint64_t bitmaps = std::uint64_t{changes} + 1;  // of a byte each
  const bool maybe_full = indices.size() + 8 > bitmaps * 8;  // but for the last block, which may be cut short
  return bitmaps <= most || maybe_full;
}

// Of every shift the bitmaps are known at once and the numbers are not; only where the bitmaps and a bit for each
// number leave room below `most` bytes are the numbers listed.
std::optional<IndexPlan> plan_blocks(Indices indices, std::uint32_t size, std::uint64_t most) {
  if (indices.empty() || !blocks_may_pay(indices, most)) return std::nullopt;
  const auto blocks = occupied_blocks(indices);
  std::optional<IndexPlan> best;
  std::vector<std::uint32_t> numbers;
  for (unsigned shift = BlocksStream::kShiftMin; shift <= BlocksStream::kShiftMax; ++shift) {
    const std::uint32_t occupied = blocks[shift];
    const std::uint32_t last_block = indices.back() >> shift << shift;
    const std::uint64_t of_last = std::min<std::uint64_t>(std::uint64_t{1} << shift, size - last_block);
    const bool full = indices.size() == (std::uint64_t{occupied - 1} << shift) + of_last;
    const std::uint64_t fixed = 1 + varint_bytes(occupied) + (full ? 0 : std::uint64_t{occupied} << (shift - 3));
    if (fixed + 1 + bytes_for_bits(occupied) > most) continue;
    list_blocks(indices, shift, numbers);
    const IndexPlan coded = plan_rice(numbers);
    if (best && fixed + coded.bytes >= best->bytes) continue;
    best = {.format = IndexFormat::blocks,
            .low_bits = coded.low_bits,
            .shift = static_cast<std::uint8_t>(shift),
            .full = full,
            .blocks = occupied,
            .bytes = fixed + coded.bytes};
    most = std::min(most, best->bytes);
  }
  return best;
}

}  // namespace

std::optional<IndexPlan> plan_indices(IndexFormat format, Indices indices, std::uint32_t size) {
  const bool empty = indices.empty();
  switch (format) {
    case IndexFormat::list: return IndexPlan{.format = format, .bytes = std::uint64_t{4} * indices.size()};
    case IndexFormat::dense:
      if (indices.size() != size) return std::nullopt;
      return IndexPlan{.format = format};
    case IndexFormat::bitmap: return IndexPlan{.format = format, .bytes = bytes_for_bits(size)};
    case IndexFormat::golomb_rice: return empty ? IndexPlan{.format = format, .bytes = 1} : plan_rice(indices);
    case IndexFormat::elias_fano: return empty ? IndexPlan{.format = format, .bytes = 1} : plan_elias_fano(indices);
    case IndexFormat::blocks: return plan_blocks(indices, size, ~std::uint64_t{0});
  }
  return std::nullopt;
}

IndexPlan cheapest_indices(Indices indices, std::uint32_t size, IndexPreference preference) {
  constexpr std::array kPlain = {IndexFormat::dense, IndexFormat::bitmap, IndexFormat::list, IndexFormat::elias_fano};
  std::optional<IndexPlan> best;
  const auto consider = [&](const std::optional<IndexPlan>& plan) {
    if (plan && (!best || plan->bytes < best->bytes)) best = plan;
  };
  for (const IndexFormat format : kPlain) consider(plan_indices(format, indices, size));
  if (preference == IndexPreference::bytes && best->bytes > 0) {
    consider(plan_indices(IndexFormat::golomb_rice, indices, size));
    consider(plan_blocks(indices, size, best->bytes - 1));
  }
  return *best;
}

}  // namespace gleaner::codec
