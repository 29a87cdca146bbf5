#pragma once
// A count sketch of a sparse vector with the bitmap of its support (after S2 Reducer: Ge et al. 2021, arXiv
// 2110.02140). Both parts add up without being decoded, cells by sums and bitmaps by or, and the bitmap keeps estimates
// from appearing where nobody sent anything: the cells need room for the union of the supports, not for the dimension.
// Pays against pairs of index and value when dimension / 8 + 8 rows columns bytes are less than the pairs'.

#include <cstdint>
#include <span>
#include <vector>

#include "compression/sketch/count_sketch.hpp"

namespace gleaner {

class SparseSketch {
 public:
  SparseSketch(std::uint32_t dimension, const SketchShape& shape);

  std::uint32_t dimension() const { return dimension_; }
  const CountSketch& sketch() const { return sketch_; }

  // Indices below dimension (GLEANER_CHECK); what CountSketch::add refuses changes nothing.
  Status add(std::span<const std::uint32_t> indices, std::span<const std::int64_t> amounts);
  Status merge(const SparseSketch& other);  // of the same dimension and shape (GLEANER_CHECK)

  std::vector<std::uint32_t> support() const;    // ascending
  std::vector<WeightedIndex> estimates() const;  // of the whole support, ascending; zeros too

  // record = the bitmap's bytes, then the sketch's.
  Bytes to_bytes() const;
  // Strict: bits behind the dimension are 0, and what CountSketch::from_bytes asks.
  static Admitted<SparseSketch> from_bytes(ByteView bytes, std::uint32_t dimension, const SketchShape& shape);

 private:
  std::uint32_t dimension_;
  std::vector<std::uint64_t> bitmap_;
  CountSketch sketch_;
};

}  // namespace gleaner
