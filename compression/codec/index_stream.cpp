#include "compression/codec/index_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compression/codec/index_faults.hpp"

namespace gleaner::codec {
namespace {

template <class Stream>
Admitted<IndexStream> as_indices(Admitted<Stream> stream) {
  if (!stream) return std::unexpected(stream.error());
  return IndexStream(*std::move(stream));
}

std::unexpected<Refusal> other_count(std::uint32_t count) {
  return refuse(RefusalCode::malformed, fmt::format("the bitmap has other than the {} entries announced", count));
}

}  // namespace

Admitted<DenseStream> DenseStream::open(std::uint32_t size, std::uint32_t count) {
  if (count != size) {
    return refuse(RefusalCode::malformed, fmt::format("a dense group of {} with {} entries", size, count));
  }
  return DenseStream();
}

Admitted<void> DenseStream::next(std::span<std::uint32_t> out) {
  std::iota(out.begin(), out.end(), next_);
  next_ += static_cast<std::uint32_t>(out.size());
  return {};
}

Admitted<ListStream> ListStream::open(std::uint32_t size, std::uint32_t count, ByteView in) {
  if (in.size() < std::uint64_t{4} * count) return cut_off();
  ListStream stream;
  stream.size_ = size;
  stream.count_ = count;
  stream.in_ = in;
  return stream;
}

Admitted<void> ListStream::next(std::span<std::uint32_t> out) {
  std::memcpy(out.data(), in_.data() + at_, out.size_bytes());
  std::uint32_t last = 0;
  if (at_ > 0) std::memcpy(&last, in_.data() + at_ - 4, 4);
  bool falls = at_ > 0 && out[0] <= last;
  bool outside = out[0] >= size_;
  for (std::size_t j = 1; j < out.size(); ++j) {
    falls |= out[j] <= out[j - 1];
    outside |= out[j] >= size_;
  }
  if (outside) {
    return out_of_range(*std::ranges::find_if(out, [this](std::uint32_t index) { return index >= size_; }), size_);
  }
  if (falls) return not_ascending(out, at_ > 0 ? &last : nullptr);
  at_ += out.size_bytes();
  return {};
}

Admitted<BitmapStream> BitmapStream::open(std::uint32_t size, std::uint32_t count, ByteView in) {
  const std::uint64_t bytes = bytes_for_bits(size);
  if (in.size() < bytes) return cut_off();
  BitmapStream stream;
  stream.size_ = size;
  stream.count_ = count;
  stream.bitmap_ = in.first(bytes);
  return stream;
}

Admitted<void> BitmapStream::next(std::span<std::uint32_t> out) {
  std::uint32_t* to = ones_.data() + listed_;
  std::uint32_t* const enough = ones_.data() + out.size();
  std::size_t at = at_;
  while (to < enough && at < bitmap_.size()) {
    if (at + 8 <= bitmap_.size() && load_word(bitmap_, at) == 0) {
      at += 8;  // most words of a thin bitmap
    } else if (at + 8 <= bitmap_.size() && enough - to > 64) {
      for (std::size_t k = 0; k < 8; ++k) to = list_ones(static_cast<std::uint32_t>((at + k) * 8), bitmap_[at + k], to);
      at += 8;
    } else {
      to = list_ones(static_cast<std::uint32_t>(at * 8), bitmap_[at], to);
      ++at;
    }
  }
  at_ = at;
  if (to < enough) return other_count(count_);
  std::copy_n(ones_.begin(), out.size(), out.begin());
  if (out.back() >= size_) return bad_padding();
  listed_ = static_cast<std::size_t>(to - enough);
  std::copy_n(ones_.begin() + static_cast<std::ptrdiff_t>(out.size()), 8, ones_.begin());
  return {};
}

Admitted<std::size_t> BitmapStream::finish() const {
  const auto is_set = [](std::byte byte) { return byte != std::byte{0}; };
  if (listed_ > 0 || std::ranges::any_of(bitmap_.subspan(at_), is_set)) return other_count(count_);
  return bitmap_.size();
}

Admitted<IndexStream> open_indices(IndexFormat format, std::uint32_t size, std::uint32_t count, ByteView in) {
  switch (format) {
    case IndexFormat::dense: return as_indices(DenseStream::open(size, count));
    case IndexFormat::list: return as_indices(ListStream::open(size, count, in));
    case IndexFormat::bitmap: return as_indices(BitmapStream::open(size, count, in));
    case IndexFormat::golomb_rice: return as_indices(SplitStream::open(SplitStream::Kind::gaps, size, count, in));
    case IndexFormat::elias_fano: return as_indices(SplitStream::open(SplitStream::Kind::indices, size, count, in));
    case IndexFormat::blocks: return as_indices(BlocksStream::open(size, count, in));
  }
  return refuse(RefusalCode::malformed, fmt::format("unknown index format {}", static_cast<unsigned>(format)));
}

}  // namespace gleaner::codec
