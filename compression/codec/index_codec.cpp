#include "compression/codec/index_codec.hpp"

#include <math.h>  // NOLINT: lgamma_r is not in <cmath>

#include <algorithm>
#include <array>
#include <cstring>
#include <numbers>
#include <vector>

#include "common/check.hpp"
#include "compression/codec/bits.hpp"
#include "compression/codec/index_stream.hpp"

namespace gleaner::codec {
namespace {

using Indices = std::span<const std::uint32_t>;

// The low parts of all entries, then the unary parts, with no gap between them (split_stream.cpp reads it).
class SplitWriter {
 public:
  SplitWriter(unsigned low_bits, Indices indices, Bytes& out) : low_bits_(low_bits), indices_(indices), out_(out) {}

  void put_gaps(std::uint64_t bytes) {
    BitWriter rest = put_lows(begin(bytes), [this](std::size_t j) { return gap(j); });
    put_upper(rest, [this](std::size_t j) { return gap(j) >> low_bits_; });
    GLEANER_CHECK(rest.finish() == out_.data() + out_.size());
  }
  void put_indices(std::uint64_t bytes) {
    BitWriter rest = put_lows(begin(bytes), [this](std::size_t j) { return indices_[j]; });
    put_upper(rest, [this](std::size_t j) {
      return (indices_[j] >> low_bits_) - (j == 0 ? 0 : indices_[j - 1] >> low_bits_);
    });
    GLEANER_CHECK(rest.finish() == out_.data() + out_.size());
  }

 private:
  std::uint32_t gap(std::size_t j) const { return j == 0 ? indices_[0] : indices_[j] - indices_[j - 1] - 1; }

  std::byte* begin(std::uint64_t bytes) {
    out_.push_back(static_cast<std::byte>(low_bits_));
    const std::size_t at = out_.size();
    out_.resize(at + bytes - 1);
    return out_.data() + at;
  }

  template <class Entry>
  BitWriter put_lows(std::byte* to, Entry entry) {
    std::array<std::uint32_t, kBlockEntries> block;
    const std::size_t whole = indices_.size() / 32 * 32;
    for (std::size_t begin = 0; begin < whole; begin += kBlockEntries) {
      const std::size_t n = std::min(kBlockEntries, whole - begin);
      for (std::size_t j = 0; j < n; ++j) block[j] = entry(begin + j);
      pack_fields(std::span(block).first(n), low_bits_, to);
      to += n / 8 * low_bits_;
    }
    BitWriter writer(to);
    const std::uint32_t mask = (1U << low_bits_) - 1;
    for (std::size_t j = whole; j < indices_.size(); ++j) writer.put(entry(j) & mask, low_bits_);
    return writer;
  }

  template <class Upper>
  void put_upper(BitWriter& writer, Upper upper) {
    for (std::size_t j = 0; j < indices_.size(); ++j) writer.put_unary(upper(j));
  }

  unsigned low_bits_;
  Indices indices_;
  Bytes& out_;
};

void put_bitmap(Indices indices, std::uint32_t size, Bytes& out) {
  const std::size_t at = out.size();
  out.resize(at + bytes_for_bits(size));
  for (const std::uint32_t index : indices) out[at + index / 8] |= static_cast<std::byte>(1U << (index % 8));
}

void put_blocks(const IndexPlan& plan, Indices indices, Bytes& out) {
  const std::size_t begin = out.size();
  out.push_back(static_cast<std::byte>(plan.shift | (plan.full ? BlocksStream::kFull : 0)));
  ByteWriter(out).put_varint(plan.blocks);
  const std::size_t bitmap_bytes = std::size_t{1} << (plan.shift - 3);
  const std::size_t bitmaps = out.size();
  if (!plan.full) out.resize(bitmaps + plan.blocks * bitmap_bytes);
  std::vector<std::uint32_t> numbers;
  numbers.reserve(plan.blocks);
  for (const std::uint32_t index : indices) {
    const std::uint32_t number = index >> plan.shift;
    if (numbers.empty() || numbers.back() != number) numbers.push_back(number);
    if (plan.full) continue;
    const std::uint32_t in_block = index - (number << plan.shift);
    out[bitmaps + (numbers.size() - 1) * bitmap_bytes + in_block / 8] |= static_cast<std::byte>(1U << (in_block % 8));
  }
  SplitWriter(plan.low_bits, numbers, out).put_gaps(plan.bytes - (out.size() - begin));
}

}  // namespace

void put_indices(const IndexPlan& plan, Indices indices, std::uint32_t size, Bytes& out) {
  switch (plan.format) {
    case IndexFormat::list: ByteWriter(out).put_array(indices); break;
    case IndexFormat::dense: GLEANER_CHECK(indices.size() == size); break;
    case IndexFormat::bitmap: put_bitmap(indices, size, out); break;
    case IndexFormat::golomb_rice: SplitWriter(plan.low_bits, indices, out).put_gaps(plan.bytes); break;
    case IndexFormat::elias_fano: SplitWriter(plan.low_bits, indices, out).put_indices(plan.bytes); break;
    case IndexFormat::blocks: put_blocks(plan, indices, out); break;
  }
}

Admitted<void> get_indices(IndexFormat format, std::uint32_t size, ByteReader& in, std::span<std::uint32_t> out) {
  ByteReader rest = in;
  auto stream = open_indices(format, size, static_cast<std::uint32_t>(out.size()), rest.get_bytes(rest.remaining()));
  if (!stream) return std::unexpected(stream.error());
  const auto read = std::visit(
      [out](auto& of_format) -> Admitted<std::size_t> {
        for (std::size_t begin = 0; begin < out.size(); begin += kBlockEntries) {
          const auto block = out.subspan(begin, std::min(kBlockEntries, out.size() - begin));
          if (auto next = of_format.next(block); !next) return std::unexpected(next.error());
        }
        return of_format.finish();
      },
      *stream);
  if (!read) return std::unexpected(read.error());
  in.get_bytes(*read);
  return {};
}

double index_floor_bits(std::uint32_t size, std::uint32_t count) {
  int sign = 0;
  const double n = size;
  const double k = count;
  return (lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign)) / std::numbers::ln2;
}

}  // namespace gleaner::codec
