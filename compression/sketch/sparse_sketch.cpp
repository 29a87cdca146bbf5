#include "compression/sketch/sparse_sketch.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "common/check.hpp"

namespace gleaner {
namespace {

std::size_t words_for(std::uint32_t dimension) { return (std::size_t{dimension} + 63) / 64; }
std::size_t bytes_for(std::uint32_t dimension) { return (std::size_t{dimension} + 7) / 8; }

}  // namespace

SparseSketch::SparseSketch(std::uint32_t dimension, const SketchShape& shape)
    : dimension_(dimension), bitmap_(words_for(dimension)), sketch_(shape) {}

Status SparseSketch::add(std::span<const std::uint32_t> indices, std::span<const std::int64_t> amounts) {
  for (const std::uint32_t index : indices) GLEANER_CHECK(index < dimension_);
  GLEANER_TRY(sketch_.add(indices, amounts));
  for (const std::uint32_t index : indices) bitmap_[index / 64] |= std::uint64_t{1} << (index % 64);
  return {};
}

Status SparseSketch::merge(const SparseSketch& other) {
  GLEANER_CHECK(dimension_ == other.dimension_);
  GLEANER_TRY(sketch_.merge(other.sketch_));
  for (std::size_t at = 0; at < bitmap_.size(); ++at) bitmap_[at] |= other.bitmap_[at];
  return {};
}

std::vector<std::uint32_t> SparseSketch::support() const {
  std::vector<std::uint32_t> support;
  for (std::size_t at = 0; at < bitmap_.size(); ++at) {
    for (std::uint64_t word = bitmap_[at]; word != 0; word &= word - 1) {
      support.push_back(static_cast<std::uint32_t>(at * 64 + static_cast<unsigned>(std::countr_zero(word))));
    }
  }
  return support;
}

std::vector<WeightedIndex> SparseSketch::estimates() const {
  std::vector<WeightedIndex> estimates;
  for (const std::uint32_t index : support()) estimates.push_back({index, sketch_.estimate(index)});
  return estimates;
}

Bytes SparseSketch::to_bytes() const {
  Bytes bytes(bytes_for(dimension_));
  if (!bytes.empty()) std::memcpy(bytes.data(), bitmap_.data(), bytes.size());
  ByteWriter(bytes).put_bytes(sketch_.to_bytes());
  return bytes;
}

Admitted<SparseSketch> SparseSketch::from_bytes(ByteView bytes, std::uint32_t dimension, const SketchShape& shape) {
  const std::size_t bitmap_bytes = bytes_for(dimension);
  if (bytes.size() < bitmap_bytes) return refuse(RefusalCode::malformed, "the bitmap of a sketch is cut off");
  auto sketch = CountSketch::from_bytes(bytes.subspan(bitmap_bytes), shape);
  if (!sketch) return std::unexpected(sketch.error());
  SparseSketch out(dimension, shape);
  out.sketch_ = *std::move(sketch);
  if (bitmap_bytes > 0) std::memcpy(out.bitmap_.data(), bytes.data(), bitmap_bytes);
  if (dimension % 64 != 0 && out.bitmap_.back() >> (dimension % 64) != 0) {
    return refuse(RefusalCode::malformed, "padding bits of the bitmap are not zero");
  }
  return out;
}

}  // namespace gleaner
