#include "compression/codec/index_codec.hpp"

#include <fmt/format.h>
#include <math.h>  // NOLINT: lgamma_r is not in <cmath>

#include <array>
#include <bit>
#include <cstring>
#include <numbers>

#include "common/check.hpp"

namespace gleaner::codec {
namespace {

constexpr std::uint8_t kRiceBitsMax = 31;
constexpr std::array kFormats = {IndexFormat::dense, IndexFormat::bitmap, IndexFormat::list, IndexFormat::golomb_rice};

std::uint64_t bytes_for_bits(std::uint64_t bits) { return (bits + 7) / 8; }

// A gap g costs (g >> b) zeros, a one and b low bits. The sum of g >> b over all gaps follows for every b from how
// often each bit of a gap is set, so one pass finds the best b exactly.
IndexPlan plan_rice(std::span<const std::uint32_t> indices) {
  std::array<std::uint64_t, 32> set{};
  std::uint32_t any = 0;
  std::uint32_t next = 0;  // one past the previous index
  for (const std::uint32_t index : indices) {
    any |= index - next;
    next = index + 1;
  }
  const auto width = static_cast<unsigned>(std::bit_width(any));
  next = 0;
  for (const std::uint32_t index : indices) {
    const std::uint32_t gap = index - next;
    next = index + 1;
    for (unsigned bit = 0; bit < width; ++bit) set[bit] += (gap >> bit) & 1U;
  }
  IndexPlan best{.format = IndexFormat::golomb_rice};
  std::uint64_t best_bits = 0;
  for (std::uint8_t b = 0; b <= std::min<unsigned>(width, kRiceBitsMax); ++b) {
    std::uint64_t bits = std::uint64_t{indices.size()} * (1U + b);
    for (unsigned bit = b; bit < width; ++bit) bits += set[bit] << (bit - b);
    if (b == 0 || bits < best_bits) {
      best_bits = bits;
      best.rice_bits = b;
    }
  }
  best.bytes = 1 + bytes_for_bits(best_bits);
  return best;
}

// Appends bits, the first in the lowest place, to space that was made before.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}

  void put(std::uint64_t value, unsigned bits) {  // bits <= 32, value below 2^bits
    pending_ |= value << used_;
    used_ += bits;
    if (used_ >= 32) {
      const auto word = static_cast<std::uint32_t>(pending_);
      std::memcpy(to_, &word, 4);
      to_ += 4;
      pending_ >>= 32;
      used_ -= 32;
    }
  }
  std::byte* finish() {
    for (; used_ > 0; used_ -= std::min(used_, 8U), pending_ >>= 8) *to_++ = static_cast<std::byte>(pending_);
    return to_;
  }

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;  // below 32 between calls
};

void put_rice(const IndexPlan& plan, std::span<const std::uint32_t> indices, Bytes& out) {
  out.push_back(static_cast<std::byte>(plan.rice_bits));
  const std::size_t at = out.size();
  out.resize(at + plan.bytes - 1);
  BitWriter writer(out.data() + at);
  const unsigned low_bits = plan.rice_bits;
  const std::uint32_t low_mask = (1U << low_bits) - 1;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    const std::uint32_t gap = index - next;
    next = index + 1;
    std::uint32_t zeros = gap >> low_bits;
    for (; zeros >= 31; zeros -= 31) writer.put(0, 31);
    writer.put(std::uint64_t{1} << zeros, zeros + 1);
    writer.put(gap & low_mask, low_bits);
  }
  GLEANER_CHECK(writer.finish() == out.data() + out.size());
}

std::unexpected<Refusal> truncated() { return refuse(RefusalCode::malformed, "the indices are cut off"); }
std::unexpected<Refusal> out_of_range(std::uint64_t index, std::uint32_t size) {
  return refuse(RefusalCode::index_out_of_range, fmt::format("index {} in a group of {}", index, size));
}

class BitReader {
 public:
  static constexpr unsigned kPeekBits = 57;

  explicit BitReader(ByteView in) : in_(in), end_(std::uint64_t{in.size()} * 8) {}

  // At least kPeekBits bits from the position on; zeros past the end.
  std::uint64_t peek() const {
    const std::size_t at = position_ >> 3;
    std::uint64_t word = 0;
    if (at + 8 <= in_.size()) [[likely]] {
      std::memcpy(&word, in_.data() + at, 8);
    } else if (at < in_.size()) {
      std::memcpy(&word, in_.data() + at, in_.size() - at);
    }
    return word >> (position_ & 7);
  }
  void skip(unsigned bits) { position_ += bits; }
  bool past_end() const { return position_ > end_; }
  std::uint64_t position() const { return position_; }

 private:
  ByteView in_;
  std::uint64_t end_;
  std::uint64_t position_ = 0;
};

Admitted<void> get_rice(std::uint32_t size, ByteReader& in, std::span<std::uint32_t> out) {
  const auto low_bits = in.get<std::uint8_t>();
  if (!in.ok()) return truncated();
  if (low_bits > kRiceBitsMax) return refuse(RefusalCode::malformed, fmt::format("Rice parameter {}", low_bits));
  ByteReader rest = in;
  BitReader bits(rest.get_bytes(rest.remaining()));
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits) - 1;
  std::uint64_t next = 0;
  for (std::uint32_t& index : out) {
    std::uint64_t zeros = 0;
    std::uint64_t word = bits.peek();
    while (word == 0) [[unlikely]] {
      bits.skip(BitReader::kPeekBits);
      if (bits.past_end()) return truncated();
      zeros += BitReader::kPeekBits;
      if (zeros > size) return out_of_range(next + zeros, size);
      word = bits.peek();
    }
    const auto run = static_cast<unsigned>(std::countr_zero(word));
    zeros += run;  // at most size + 63, so that nothing below overflows
    bits.skip(run + 1);
    const std::uint64_t low = run + 1 + low_bits <= BitReader::kPeekBits ? word >> (run + 1) : bits.peek();
    bits.skip(low_bits);
    if (bits.past_end()) return truncated();
    const std::uint64_t value = next + ((zeros << low_bits) | (low & low_mask));
    if (value >= size) return out_of_range(value, size);
    index = static_cast<std::uint32_t>(value);
    next = value + 1;
  }
  const ByteView used = in.get_bytes(bytes_for_bits(bits.position()));
  const auto padding = static_cast<unsigned>(used.size() * 8 - bits.position());
  if (padding > 0 && std::to_integer<unsigned>(used.back()) >> (8 - padding) != 0) {
    return refuse(RefusalCode::malformed, "padding bits behind the indices are not zero");
  }
  return {};
}

Admitted<void> get_list(std::uint32_t size, ByteReader& in, std::span<std::uint32_t> out) {
  const ByteView bytes = in.get_bytes(out.size_bytes());
  if (!in.ok()) return truncated();
  std::memcpy(out.data(), bytes.data(), bytes.size());
  for (std::size_t j = 0; j < out.size(); ++j) {
    if (out[j] >= size) return out_of_range(out[j], size);
    if (j == 0 || out[j] > out[j - 1]) continue;
    const bool again = out[j] == out[j - 1];
    return refuse(again ? RefusalCode::repeated_index : RefusalCode::unsorted_index,
                  fmt::format("index {} behind {}", out[j], out[j - 1]));
  }
  return {};
}

void put_bitmap(std::span<const std::uint32_t> indices, std::uint32_t size, Bytes& out) {
  const std::size_t at = out.size();
  out.resize(at + bytes_for_bits(size));
  for (const std::uint32_t index : indices) out[at + index / 8] |= static_cast<std::byte>(1U << (index % 8));
}

Admitted<void> get_bitmap(std::uint32_t size, ByteReader& in, std::span<std::uint32_t> out) {
  const ByteView bytes = in.get_bytes(bytes_for_bits(size));
  if (!in.ok()) return truncated();
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    if (count + static_cast<unsigned>(std::popcount(word)) > out.size()) {
      return refuse(RefusalCode::malformed,
                    fmt::format("the bitmap has more entries than the {} announced", out.size()));
    }
    for (; word != 0; word &= word - 1) {
      out[count++] = static_cast<std::uint32_t>(at * 8 + static_cast<unsigned>(std::countr_zero(word)));
    }
  }
  if (count < out.size()) {
    return refuse(RefusalCode::malformed, fmt::format("the bitmap has {} of {} announced entries", count, out.size()));
  }
  if (count > 0 && out.back() >= size) return refuse(RefusalCode::malformed, "padding bits of the bitmap are not zero");
  return {};
}

}  // namespace

std::optional<IndexPlan> plan_indices(IndexFormat format, std::span<const std::uint32_t> indices, std::uint32_t size) {
  switch (format) {
    case IndexFormat::list: return IndexPlan{.format = format, .bytes = std::uint64_t{4} * indices.size()};
    case IndexFormat::dense:
      if (indices.size() != size) return std::nullopt;
      return IndexPlan{.format = format};
    case IndexFormat::bitmap: return IndexPlan{.format = format, .bytes = bytes_for_bits(size)};
    case IndexFormat::golomb_rice: return plan_rice(indices);
  }
  return std::nullopt;
}

IndexPlan cheapest_indices(std::span<const std::uint32_t> indices, std::uint32_t size) {
  std::optional<IndexPlan> best;
  for (const IndexFormat format : kFormats) {
    const auto plan = plan_indices(format, indices, size);
    if (plan && (!best || plan->bytes < best->bytes)) best = plan;
  }
  return *best;
}

void put_indices(const IndexPlan& plan, std::span<const std::uint32_t> indices, std::uint32_t size, Bytes& out) {
  switch (plan.format) {
    case IndexFormat::list: ByteWriter(out).put_array(indices); break;
    case IndexFormat::dense: GLEANER_CHECK(indices.size() == size); break;
    case IndexFormat::bitmap: put_bitmap(indices, size, out); break;
    case IndexFormat::golomb_rice: put_rice(plan, indices, out); break;
  }
}

Admitted<void> get_indices(IndexFormat format, std::uint32_t size, ByteReader& in, std::span<std::uint32_t> out) {
  switch (format) {
    case IndexFormat::list: return get_list(size, in, out);
    case IndexFormat::bitmap: return get_bitmap(size, in, out);
    case IndexFormat::golomb_rice: return get_rice(size, in, out);
    case IndexFormat::dense: break;
  }
  if (out.size() != size) {
    return refuse(RefusalCode::malformed, fmt::format("a dense group of {} with {} entries", size, out.size()));
  }
  for (std::uint32_t i = 0; i < size; ++i) out[i] = i;
  return {};
}

double index_floor_bits(std::uint32_t size, std::uint32_t count) {
  int sign = 0;
  const double n = size;
  const double k = count;
  return (lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign)) / std::numbers::ln2;
}

}  // namespace gleaner::codec
