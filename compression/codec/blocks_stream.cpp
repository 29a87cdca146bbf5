#include <fmt/format.h>

#include <algorithm>

#include "compression/codec/index_faults.hpp"
#include "compression/codec/index_stream.hpp"

namespace gleaner::codec {

Admitted<BlocksStream> BlocksStream::open(std::uint32_t size, std::uint32_t count, ByteView in) {
  ByteReader reader(in);
  const auto head = reader.get<std::uint8_t>();
  const std::uint64_t blocks = reader.get_varint();
  if (!reader.ok()) return cut_off();
  const bool full = (head & kFull) != 0;
  const unsigned shift = head & ~unsigned{kFull};
  if (shift < kShiftMin || shift > kShiftMax) {
    return refuse(RefusalCode::malformed, fmt::format("blocks of 2^{} entries", shift));
  }
  const auto numbers = static_cast<std::uint32_t>((std::uint64_t{size} + (1U << shift) - 1) >> shift);
  if (blocks == 0 || blocks > count || blocks > numbers) {
    return refuse(RefusalCode::malformed, fmt::format("{} of {} blocks with {} entries", blocks, numbers, count));
  }
  const ByteView bitmaps = reader.get_bytes(full ? 0 : blocks << (shift - 3));
  if (!reader.ok()) return cut_off();
  const std::size_t used = in.size() - reader.remaining();
  auto stream =
      SplitStream::open(SplitStream::Kind::gaps, numbers, static_cast<std::uint32_t>(blocks), in.subspan(used));
  if (!stream) return std::unexpected(stream.error());
  BlocksStream out(*std::move(stream));
  out.size_ = size;
  out.count_ = count;
  out.shift_ = shift;
  out.full_ = full;
  out.blocks_left_ = static_cast<std::uint32_t>(blocks);
  out.bitmaps_ = bitmaps;
  out.header_and_bitmaps_ = used;
  return out;
}

std::unexpected<Refusal> BlocksStream::other_count() const {
  return refuse(RefusalCode::malformed, fmt::format("the blocks have other than the {} entries announced", count_));
}

Admitted<void> BlocksStream::next_block() {
  if (!any_in_block_) return refuse(RefusalCode::malformed, "a block without entries");
  if (read_at_ == read_end_) {
    read_at_ = 0;
    read_end_ = std::min<std::size_t>(blocks_left_, kBlockEntries);
    if (read_end_ == 0) return other_count();
    if (auto read = numbers_.next(std::span(read_ahead_).first(read_end_)); !read) return read;
    blocks_left_ -= static_cast<std::uint32_t>(read_end_);
  }
  at_ = std::uint64_t{read_ahead_[read_at_++]} << shift_;
  end_ = std::min<std::uint64_t>(size_, at_ + (1U << shift_));
  bytes_left_ = 1U << (shift_ - 3);
  any_in_block_ = false;
  return {};
}

// Lists bytes of the block up to `enough`, or all that are left.
std::uint32_t* BlocksStream::list_block(std::uint32_t* to, const std::uint32_t* enough) {
  std::uint64_t at = at_;
  std::uint32_t left = bytes_left_;
  if (full_) {
    for (; left > 0 && to < enough; --left, at += 8) {
      const std::uint64_t n = std::min<std::uint64_t>(8, end_ - std::min(end_, at));
      to = list_ones(static_cast<std::uint32_t>(at), static_cast<std::byte>((1U << n) - 1), to);
    }
    any_in_block_ = true;
  } else {
    const std::byte* from = bitmaps_.data();
    std::byte any{0};
    for (; left > 0 && to < enough; --left, at += 8) {
      any |= *from;
      to = list_ones(static_cast<std::uint32_t>(at), *from++, to);
    }
    bitmaps_ = bitmaps_.subspan(static_cast<std::size_t>(from - bitmaps_.data()));
    any_in_block_ |= any != std::byte{0};
  }
  at_ = at;
  bytes_left_ = left;
  return to;
}

Admitted<void> BlocksStream::next(std::span<std::uint32_t> out) {
  std::uint32_t* to = ones_.data() + listed_;
  const std::uint32_t* const enough = ones_.data() + out.size();
  while (to < enough) {
    if (bytes_left_ == 0) {
      if (auto next = next_block(); !next) return next;
    }
    to = list_block(to, enough);
  }
  std::copy_n(ones_.begin(), out.size(), out.begin());
  if (out.back() >= size_) return bad_padding();
  listed_ = static_cast<std::size_t>(to - enough);
  std::copy_n(ones_.begin() + static_cast<std::ptrdiff_t>(out.size()), 8, ones_.begin());
  return {};
}

Admitted<std::size_t> BlocksStream::finish() const {
  if (listed_ > 0 || blocks_left_ > 0 || read_at_ < read_end_) return other_count();
  // What is left of the last block: entries behind the last, or bits behind size.
  const auto is_set = [](std::byte byte) { return byte != std::byte{0}; };
  if (full_ ? at_ < end_ : std::ranges::any_of(bitmaps_, is_set)) return other_count();
  const auto numbers = numbers_.finish();
  if (!numbers) return numbers;
  return header_and_bitmaps_ + *numbers;
}

Admitted<std::size_t> BlocksStream::extent() const {
  const auto numbers = numbers_.extent();
  if (!numbers) return numbers;
  return header_and_bitmaps_ + *numbers;
}

}  // namespace gleaner::codec
