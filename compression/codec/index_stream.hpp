#pragma once
// Reads one group's indices in blocks, without a vector of them (grammar in docs/payload.md). Strict: what a peer sent
// is refused with the fault's code; no read leaves the view, whatever the bytes, and the time is linear in them. Every
// stream: next() reads the following out.size() <= kBlockEntries indices, of which so many are left; finish(), behind
// the last of them, checks what else the format promises and says how many bytes the indices took. extent(), before
// the first, says the same of sound indices much sooner; of others it may say anything within the view.

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "common/bytes.hpp"
#include "common/refusal.hpp"
#include "compression/codec/bits.hpp"
#include "compression/payload.hpp"

namespace gleaner::codec {

// Golomb-Rice and Elias-Fano: a parameter b, the low b bits of every entry, then in unary what is above them: as many
// zeros as it has grown by, and a one. For Golomb-Rice the entry is the gap to the index before, less one; for
// Elias-Fano the index itself, whose upper part is written as its growth. Either way the ones of the unary part,
// counted from its start, give all upper parts summed up: entry i's is the place of the i-th one less i.
class SplitStream {
 public:
  enum class Kind : std::uint8_t { gaps, indices };

  static Admitted<SplitStream> open(Kind kind, std::uint32_t size, std::uint32_t count, ByteView in);

  Admitted<void> next(std::span<std::uint32_t> out);
  Admitted<std::size_t> finish() const;
  Admitted<std::size_t> extent() const;

 private:
  SplitStream() = default;
  Admitted<void> list_upper(std::size_t count);
  Admitted<void> join_gaps(std::span<std::uint32_t> out);
  Admitted<void> join_indices(std::span<std::uint32_t> out);
  // The upper part for which a one of the newest block stands that has so many before it, in full.
  std::uint64_t upper_of(std::uint32_t one, std::uint64_t before) const;

  Kind kind_ = Kind::gaps;
  unsigned low_bits_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t done_ = 0;       // indices read
  std::uint64_t lows_sum_ = 0;   // gaps: the low parts so far
  std::uint32_t last_ = 0;       // indices: the last one
  ByteView in_;                  // the parameter and all behind it
  std::size_t lows_at_ = 1;      // where the next block's low parts begin
  std::size_t upper_begin_ = 0;  // the byte in which the unary part begins
  unsigned upper_skip_ = 0;      // and the bit in it
  std::size_t upper_end_ = 0;    // no byte from here on can belong to the unary part of indices below size
  std::size_t at_ = 0;           // the next byte of the unary part
  std::size_t listed_ = 0;       // places in ones_ that no index has used yet
  std::uint32_t last_one_ = 0;   // the place of the last index's one
  alignas(64) std::array<std::uint32_t, kBlockEntries + 8> ones_;
};

class BitmapStream {
 public:
  static Admitted<BitmapStream> open(std::uint32_t size, std::uint32_t count, ByteView in);

  Admitted<void> next(std::span<std::uint32_t> out);
  Admitted<std::size_t> finish() const;
  Admitted<std::size_t> extent() const { return bitmap_.size(); }

 private:
  BitmapStream() = default;
  std::uint32_t size_ = 0;
  std::uint32_t count_ = 0;
  ByteView bitmap_;
  std::size_t at_ = 0;
  std::size_t listed_ = 0;
  alignas(64) std::array<std::uint32_t, kBlockEntries + 8> ones_;
};

// Blocks of 2^shift entries of which some are occupied: a bitmap for each of these, or none when all are full; then the
// blocks' numbers as gaps.
class BlocksStream {
 public:
  static constexpr unsigned kShiftMin = 3;
  static constexpr unsigned kShiftMax = 16;
  static constexpr std::uint8_t kFull = 0x80;

  static Admitted<BlocksStream> open(std::uint32_t size, std::uint32_t count, ByteView in);

  Admitted<void> next(std::span<std::uint32_t> out);
  Admitted<std::size_t> finish() const;
  Admitted<std::size_t> extent() const;

 private:
  explicit BlocksStream(SplitStream numbers) : numbers_(std::move(numbers)) {}
  Admitted<void> next_block();
  std::uint32_t* list_block(std::uint32_t* to, const std::uint32_t* enough);
  std::unexpected<Refusal> other_count() const;

  std::uint32_t size_ = 0;
  std::uint32_t count_ = 0;
  unsigned shift_ = 0;
  bool full_ = false;
  std::uint32_t blocks_left_ = 0;  // that numbers_ has not read
  ByteView bitmaps_;               // that are not listed
  std::size_t header_and_bitmaps_ = 0;
  SplitStream numbers_;
  std::array<std::uint32_t, kBlockEntries> read_ahead_;
  std::size_t read_at_ = 0;
  std::size_t read_end_ = 0;
  std::uint64_t at_ = 0;          // the first entry that the next byte of the block stands for
  std::uint64_t end_ = 0;         // one past the block's last entry, at most size
  std::uint32_t bytes_left_ = 0;  // of the block
  bool any_in_block_ = true;
  std::size_t listed_ = 0;
  alignas(64) std::array<std::uint32_t, kBlockEntries + 8> ones_;
};

class ListStream {
 public:
  static Admitted<ListStream> open(std::uint32_t size, std::uint32_t count, ByteView in);

  Admitted<void> next(std::span<std::uint32_t> out);
  Admitted<std::size_t> finish() const { return at_; }
  Admitted<std::size_t> extent() const { return std::size_t{4} * count_; }

 private:
  ListStream() = default;

  std::uint32_t size_ = 0;
  std::uint32_t count_ = 0;
  ByteView in_;
  std::size_t at_ = 0;
};

class DenseStream {
 public:
  static Admitted<DenseStream> open(std::uint32_t size, std::uint32_t count);

  Admitted<void> next(std::span<std::uint32_t> out);
  Admitted<std::size_t> finish() const { return 0; }
  Admitted<std::size_t> extent() const { return 0; }

 private:
  DenseStream() = default;

  std::uint32_t next_ = 0;
};

using IndexStream = std::variant<DenseStream, ListStream, BitmapStream, SplitStream, BlocksStream>;

// in: from the indices on, to the end of the payload. An unknown format is malformed.
Admitted<IndexStream> open_indices(IndexFormat format, std::uint32_t size, std::uint32_t count, ByteView in);

inline Admitted<void> next_indices(IndexStream& stream, std::span<std::uint32_t> out) {
  return std::visit([&](auto& of_format) { return of_format.next(out); }, stream);
}
inline Admitted<std::size_t> finish_indices(const IndexStream& stream) {
  return std::visit([](const auto& of_format) { return of_format.finish(); }, stream);
}
inline Admitted<std::size_t> extent_of_indices(const IndexStream& stream) {
  return std::visit([](const auto& of_format) { return of_format.extent(); }, stream);
}

}  // namespace gleaner::codec
