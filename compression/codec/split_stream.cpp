#include <fmt/format.h>

#include <algorithm>

#include "compression/codec/index_faults.hpp"
#include "compression/codec/index_stream.hpp"

namespace gleaner::codec {
Admitted<SplitStream> SplitStream::open(Kind kind, std::uint32_t size, std::uint32_t count, ByteView in) {
  if (in.empty()) return cut_off();
  SplitStream stream;
  stream.kind_ = kind;
  stream.size_ = size;
  stream.count_ = count;
  stream.low_bits_ = std::to_integer<unsigned>(in[0]);
  if (stream.low_bits_ > kLowBitsMax) {
    return refuse(RefusalCode::malformed, fmt::format("{} low bits of an index", stream.low_bits_));
  }
  stream.in_ = in;
  const std::uint64_t low_bits = std::uint64_t{count} * stream.low_bits_;
  if (bytes_for_bits(low_bits + count) > in.size() - 1) return cut_off();
  stream.upper_begin_ = 1 + low_bits / 8;
  stream.upper_skip_ = low_bits % 8;
  stream.at_ = stream.upper_begin_;
  // A one for every index and as many zeros as the highest upper part; the ones read past it are out of range.
  const std::uint64_t upper_bits = stream.upper_skip_ + std::uint64_t{count} + (size >> stream.low_bits_);
  stream.upper_end_ = std::min<std::uint64_t>(in.size(), stream.upper_begin_ + bytes_for_bits(upper_bits) + 1);
  return stream;
}

// Makes ones_ hold at least `count` places, counted from the first bit of upper_begin_'s byte and modulo 2^32.
Admitted<void> SplitStream::list_upper(std::size_t count) {
  std::uint32_t* to = ones_.data() + listed_;
  std::uint32_t* const enough = ones_.data() + count;
  auto base = static_cast<std::uint32_t>((at_ - upper_begin_) * 8);
  const std::byte* from = in_.data() + at_;
  const std::byte* const end = in_.data() + upper_end_;
  if (at_ == upper_begin_ && to < enough) {
    to = list_ones(base, *from++ & static_cast<std::byte>(0xffU << upper_skip_), to);
    base += 8;
  }
  for (; enough - to > 32 && end - from >= 4; from += 4, base += 32) {
    for (std::uint32_t k = 0; k < 4; ++k) to = list_ones(base + 8 * k, from[k], to);
  }
  for (; to < enough && from < end; base += 8) to = list_ones(base, *from++, to);
  at_ = static_cast<std::size_t>(from - in_.data());
  listed_ = static_cast<std::size_t>(to - ones_.data());
  if (to >= enough) return {};
  if (upper_end_ == in_.size()) return cut_off();
  return out_of_range(upper_of(base - 8, done_ + listed_) << low_bits_, size_);
}

std::uint64_t SplitStream::upper_of(std::uint32_t one, std::uint64_t before) const {
  const std::uint64_t read = (at_ - upper_begin_) * 8;
  const std::uint64_t place = read - (static_cast<std::uint32_t>(read) - one);  // a one is at most a block behind
  return place - upper_skip_ - before;
}

Admitted<void> SplitStream::next(std::span<std::uint32_t> out) {
  const std::size_t n = out.size();
  if (auto listed = list_upper(n); !listed) return listed;
  unpack_fields(in_.subspan(lows_at_), low_bits_, out);
  lows_at_ += n * low_bits_ / 8;  // only the last block is of less than kBlockEntries
  auto joined = kind_ == Kind::gaps ? join_gaps(out) : join_indices(out);
  if (!joined) return joined;
  last_one_ = ones_[n - 1];
  done_ += n;
  listed_ -= n;
  std::copy_n(ones_.begin() + static_cast<std::ptrdiff_t>(n), 8, ones_.begin());
  return {};
}

// Four entries at a time, sums within them by shifting. The sum over the block in full says whether 32 bits hold it.
Admitted<void> SplitStream::join_gaps(std::span<std::uint32_t> out) {
  const std::size_t n = out.size();
  const unsigned bits = low_bits_;
  std::uint64_t lows = lows_sum_;
  for (const std::uint32_t low : out) lows += low;
  auto sum = static_cast<std::uint32_t>(lows_sum_);
  auto before = static_cast<std::uint32_t>(done_);
  const std::uint32_t skip = upper_skip_;
  const std::uint32_t* const ones = ones_.data();
  std::uint32_t* const to = out.data();
  std::size_t j = 0;
  for (Quad carry = Quad{} + sum, place = Quad{0, 1, 2, 3} + before; j + 4 <= n; j += 4, place += 4) {
    Quad low = load_quad(to + j);
    low += __builtin_shufflevector(low, Quad{}, 4, 0, 1, 2);
    low += __builtin_shufflevector(low, Quad{}, 4, 4, 0, 1);
    low += carry;
    carry = __builtin_shufflevector(low, low, 3, 3, 3, 3);
    store_quad(((load_quad(ones + j) - place - skip) << bits) + low + place, to + j);
    sum = carry[0];
  }
  before += static_cast<std::uint32_t>(j);
  for (; j < n; ++j, ++before) {
    sum += to[j];
    to[j] = ((ones[j] - before - skip) << bits) + sum + before;
  }
  lows_sum_ = lows;
  // Gaps only add up, so that the last index is the largest; when it is in range the 32 bits above did not wrap.
  const std::uint64_t last = done_ + n - 1;
  const std::uint64_t upper = upper_of(ones[n - 1], last);
  const std::uint64_t index = (upper << bits) + lows + last;
  if (upper > size_ >> bits || index >= size_) return out_of_range(index, size_);
  return {};
}

Admitted<void> SplitStream::join_indices(std::span<std::uint32_t> out) {
  const std::size_t n = out.size();
  const unsigned bits = low_bits_;
  const std::uint32_t before = upper_skip_ + static_cast<std::uint32_t>(done_);
  const std::uint32_t* const ones = ones_.data();
  std::uint32_t* const to = out.data();
  std::size_t j = 0;
  for (Quad place = Quad{0, 1, 2, 3} + before; j + 4 <= n; j += 4, place += 4) {
    store_quad(load_quad(to + j) | (load_quad(ones + j) - place) << bits, to + j);
  }
  for (; j < n; ++j) to[j] |= (ones[j] - before - static_cast<std::uint32_t>(j)) << bits;
  const std::uint64_t upper = upper_of(ones[n - 1], done_ + n - 1);
  if (upper > size_ >> bits) return out_of_range(upper << bits, size_);
  bool falls = done_ > 0 && to[0] <= last_;
  Quad fallen{};
  for (j = 1; j + 4 <= n; j += 4) fallen |= std::bit_cast<Quad>(load_quad(to + j) <= load_quad(to + j - 1));
  for (; j < n; ++j) falls |= to[j] <= to[j - 1];
  falls |= (fallen[0] | fallen[1] | fallen[2] | fallen[3]) != 0;
  if (falls) return not_ascending(out, done_ > 0 ? &last_ : nullptr);
  last_ = to[n - 1];
  if (last_ >= size_) return out_of_range(last_, size_);
  return {};
}

// The byte of the last one, found by counting ones.
Admitted<std::size_t> SplitStream::extent() const {
  std::size_t at = upper_begin_;
  const auto ones_at = [this](std::size_t begin, std::size_t bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, in_.data() + begin, bytes);
    if (begin == upper_begin_) word &= ~std::uint64_t{0} << upper_skip_;
    return static_cast<std::uint32_t>(std::popcount(word));
  };
  std::uint32_t left = count_;
  for (; at + 8 <= upper_end_; at += 8) {
    const std::uint32_t ones = ones_at(at, 8);
    if (ones >= left) break;
    left -= ones;
  }
  for (; at < upper_end_; ++at) {
    const std::uint32_t ones = ones_at(at, 1);
    if (ones >= left) return at + 1;
    left -= ones;
  }
  return cut_off();
}

Admitted<std::size_t> SplitStream::finish() const {
  // The last one stands in the last byte that was listed: the bits above it are padding.
  const std::size_t in_byte = last_one_ % 8;
  if (std::to_integer<unsigned>(in_[at_ - 1]) >> in_byte != 1) return bad_padding();
  return at_;
}

}  // namespace gleaner::codec
