#pragma once
// The open round's sum: 64-bit integers, folded on arrival, the same to the last bit whatever the order and thread
// count. One owner at a time (the fold worker); 8 bytes a parameter.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "aggregation/grid.hpp"
#include "common/bytes.hpp"
#include "common/error.hpp"
#include "compression/payload.hpp"
#include "kernels/kernels.hpp"

namespace gleaner {

class Accumulator {
 public:
  Accumulator(std::uint32_t dimension, const KernelTable& kernels);

  void reset(const Grid& grid);
  // update's indices and values were checked by decode_payload against the grid's clip. Weight 0 changes nothing.
  void fold(const SparseVector& update, std::uint32_t weight);

  const Grid& grid() const { return grid_; }
  std::span<const std::int64_t> sum() const { return sum_; }
  std::uint64_t weight() const { return weight_; }  // summed over the folded updates
  std::uint32_t contributions() const { return contributions_; }

  // The sum as bytes, sparse or dense, whichever is smaller; load() is the strict inverse (corrupt when it is not).
  Bytes to_record() const;
  Status load(ByteView record);

 private:
  const KernelTable& kernels_;
  Grid grid_;
  std::vector<std::int64_t> sum_;
  std::uint64_t weight_ = 0;
  std::uint32_t contributions_ = 0;
};

}  // namespace gleaner
