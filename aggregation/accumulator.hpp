#pragma once
// The open round's sum: 64-bit integers, folded on arrival, the same to the last bit whatever the order and thread
// count. One owner at a time (the fold worker); 8 bytes a parameter.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "aggregation/grid.hpp"
#include "common/bytes.hpp"
#include "common/error.hpp"
#include "compression/payload.hpp"
#include "kernels/kernels.hpp"

namespace gleaner {

// An update as it came over the wire.
struct CodedUpdate {
  ByteView payload;
  PayloadLimits limits;
  std::uint32_t weight = 0;
};

class Accumulator {
 public:
  // kernels must outlive the accumulator. The sum is in the host's memory: a GPU's table gives way to the CPU's.
  Accumulator(std::uint32_t dimension, const KernelTable& kernels);

  void reset(const Grid& grid);  // GLEANER_CHECK: is_valid(grid)
  // Whether another update of this weight keeps the summed weight within what the grid was made for.
  bool admits(std::uint32_t weight) const { return weight <= grid_.weight_max() - weight_; }
  // update's indices and values were checked by decode_payload against the grid's clip. Weight 0 changes nothing.
  // A weight that is not admitted would void the promise that sums cannot overflow (GLEANER_CHECK).
  void fold(const SparseVector& update, std::uint32_t weight);
  // decode_payload and fold of each, with the same sum and the same refusals, for many updates several times as fast:
  // they are decoded side by side, each as far as a block of the sum that stays in the cache. What a refused one has
  // added is taken back, exactly, since sums are integers. The weights of all must be admitted together.
  std::vector<Admitted<PayloadBytes>> fold(std::span<const CodedUpdate> updates, const Grouping& grouping);

  const Grid& grid() const { return grid_; }
  std::span<const std::int64_t> sum() const { return sum_; }
  // Gives the sum away; until reset() there is none and nothing may be folded.
  std::vector<std::int64_t> take_sum() { return std::exchange(sum_, {}); }
  std::uint32_t dimension() const { return dimension_; }
  std::uint64_t weight() const { return weight_; }  // summed over the folded updates
  std::uint32_t contributions() const { return contributions_; }

  // The sum as bytes, sparse or dense, whichever is smaller; load() is the strict inverse (corrupt when it is not, and
  // the accumulator is empty then). Equal sums are equal bytes.
  //   record := u32 magic, u32 dimension, i8 clip exponent, u8 weight bits, u64 weight, u32 contributions,
  //             coded sum (integer_codec.hpp), u64 digest of all before
  Bytes to_record() const;
  void append_record(Bytes& out) const;  // the same bytes after those of out, made in place: records are large
  Status load(ByteView record);

 private:
  Status read(ByteView record);
  Admitted<PayloadBytes> fold_whole(const CodedUpdate& update, const Grouping& grouping);

  const KernelTable* kernels_;
  std::uint32_t dimension_;
  Grid grid_;
  std::vector<std::int64_t> sum_;
  std::uint64_t weight_ = 0;
  std::uint32_t contributions_ = 0;
};

}  // namespace gleaner
