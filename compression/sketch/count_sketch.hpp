#pragma once
// A count sketch of a vector of integers (Charikar, Chen, Farach-Colton 2002): rows of cells; in every row a coordinate
// adds to one cell with a sign of its own. Sketches of one shape add up cell by cell, and being of integers they do so
// exactly: sketch(x) + sketch(y) is sketch(x + y), to the last bit and in whatever order. An estimate is the median
// over the rows. Where two coordinates never meet in more than half of the rows, it is exact. One owner at a time. Sums
// that 64 bits might not hold are refused, so that nothing wraps.

#include <cstdint>
#include <span>
#include <vector>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/refusal.hpp"
#include "compression/sketch/weighted_index.hpp"

namespace gleaner {

struct SketchShape {
  std::uint32_t rows = 5;        // odd, at most kRowsMax: the median is then one of the estimates
  std::uint32_t columns = 1024;  // at least 1; rows * columns at most kCellsMax
  std::uint64_t seed = 0;        // of the hashes; whoever adds sketches up shares it

  static constexpr std::uint32_t kRowsMax = 31;
  static constexpr std::uint64_t kCellsMax = std::uint64_t{1} << 32;

  bool operator==(const SketchShape&) const = default;
};
Status check_shape(const SketchShape& shape);

class CountSketch {
 public:
  explicit CountSketch(const SketchShape& shape);  // all zero; check_shape holds (GLEANER_CHECK)

  const SketchShape& shape() const { return shape_; }
  std::span<const std::int64_t> cells() const { return cells_; }  // row by row
  // The sum of the magnitudes that went in; no cell is beyond it.
  std::uint64_t mass() const { return mass_; }

  // Adds amounts[j] at indices[j], in any order, an index any number of times. An Error (bad_input), and no change,
  // when the mass would pass 2^63 - 1.
  Status add(std::span<const std::uint32_t> indices, std::span<const std::int64_t> amounts);
  // Adds another sketch of the same shape (GLEANER_CHECK); the same Error.
  Status merge(const CountSketch& other);
  // Empties every cell that one of these indices adds to: what a server does with its error after it has sent them
  // (Rothchild et al. 2020), where taking the estimates out would let what collides with them grow.
  void clear(std::span<const std::uint32_t> indices);

  std::int64_t estimate(std::uint32_t index) const;
  // The k indices below dimension, or of the candidates (ascending, each once), whose estimates have the largest
  // magnitudes and are not 0; ties go to the lower index. Ascending by index, with the estimates. Takes memory for
  // O(k) entries.
  std::vector<WeightedIndex> largest(std::uint32_t dimension, std::size_t k) const;
  std::vector<WeightedIndex> largest(std::span<const std::uint32_t> candidates, std::size_t k) const;

  // record = u32 rows, u32 columns, u64 seed, u64 mass, i64 cells: as long for every sketch of a shape.
  Bytes to_bytes() const;
  // Strict: of this shape, of its length, and no row with more than the mass.
  static Admitted<CountSketch> from_bytes(ByteView bytes, const SketchShape& shape);

 private:
  struct Cell {
    std::size_t at;
    std::int64_t sign;  // 1 or -1
  };
  Cell cell_of(std::uint32_t row, std::uint32_t index) const;

  SketchShape shape_;
  std::vector<std::uint64_t> row_seeds_;
  std::vector<std::int64_t> cells_;
  std::uint64_t mass_ = 0;
};

}  // namespace gleaner
