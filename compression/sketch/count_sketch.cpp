#include "compression/sketch/count_sketch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "common/check.hpp"
#include "common/hash.hpp"

namespace gleaner {
namespace {

constexpr std::uint64_t kMassMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kHeadBytes = 24;

std::uint64_t magnitude(std::int64_t x) {
  const auto bits = static_cast<std::uint64_t>(x);
  return x < 0 ? 0 - bits : bits;
}

std::unexpected<Error> too_heavy() {
  return fail(ErrorCode::bad_input, "a sketch of magnitudes that add up to 2^63 or more: its cells have 64 bits");
}

// The k largest of a stream, in memory for twice as many: when that is full, the smaller half goes.
class Largest {
 public:
  explicit Largest(std::size_t k) : k_(k) {}

  void offer(std::uint32_t index, std::int64_t weight) {
    if (weight == 0 || k_ == 0 || magnitude(weight) < least_) return;
    kept_.push_back({index, weight});
    if (kept_.size() >= 2 * k_ + 64) cut();
  }
  std::vector<WeightedIndex> take() {
    cut();
    std::ranges::sort(kept_, {}, &WeightedIndex::index);
    return std::move(kept_);
  }

 private:
  void cut() {
    if (kept_.size() <= k_) return;
    const auto before = [](const WeightedIndex& a, const WeightedIndex& b) {
      const std::uint64_t x = magnitude(a.weight);
      const std::uint64_t y = magnitude(b.weight);
      return x != y ? x > y : a.index < b.index;
    };
    std::ranges::nth_element(kept_, kept_.begin() + static_cast<std::ptrdiff_t>(k_ - 1), before);
    kept_.resize(k_);
    least_ = magnitude(kept_.back().weight);
  }

  std::size_t k_;
  std::uint64_t least_ = 0;  // what is smaller cannot be among the k
  std::vector<WeightedIndex> kept_;
};

}  // namespace

Status check_shape(const SketchShape& shape) {
  if (shape.rows % 2 == 0 || shape.rows > SketchShape::kRowsMax) {
    return fail(ErrorCode::bad_input, fmt::format("a sketch of {} rows, expected an odd number of at most {}",
                                                  shape.rows, SketchShape::kRowsMax));
  }
  if (shape.columns == 0 || std::uint64_t{shape.rows} * shape.columns > SketchShape::kCellsMax) {
    return fail(ErrorCode::bad_input, fmt::format("a sketch of {} rows of {} cells, expected one to {} cells",
                                                  shape.rows, shape.columns, SketchShape::kCellsMax));
  }
  return {};
}

CountSketch::CountSketch(const SketchShape& shape) : shape_(shape) {
  GLEANER_CHECK(check_shape(shape).has_value());
  for (std::uint32_t row = 0; row < shape.rows; ++row) row_seeds_.push_back(mix64(mix64(shape.seed) + row));
  cells_.resize(std::size_t{shape.rows} * shape.columns);
}

// The upper half of the hash chooses the cell (by a product, not a remainder) and the lowest bit the sign.
CountSketch::Cell CountSketch::cell_of(std::uint32_t row, std::uint32_t index) const {
  const std::uint64_t hash = mix64(row_seeds_[row] ^ index);
  const auto column = static_cast<std::size_t>((hash >> 32) * shape_.columns >> 32);
  return {std::size_t{row} * shape_.columns + column, (hash & 1U) != 0 ? 1 : -1};
}

Status CountSketch::add(std::span<const std::uint32_t> indices, std::span<const std::int64_t> amounts) {
  GLEANER_CHECK(indices.size() == amounts.size());
  std::uint64_t mass = mass_;
  for (const std::int64_t amount : amounts) {
    mass += magnitude(amount);  // both at most 2^63: the first sum beyond the limit does not wrap
    if (mass > kMassMax) return too_heavy();
  }
  mass_ = mass;
  for (std::uint32_t row = 0; row < shape_.rows; ++row) {
    for (std::size_t j = 0; j < indices.size(); ++j) {
      const Cell cell = cell_of(row, indices[j]);
      cells_[cell.at] += cell.sign * amounts[j];
    }
  }
  return {};
}

Status CountSketch::merge(const CountSketch& other) {
  GLEANER_CHECK(shape_ == other.shape_);
  if (mass_ + other.mass_ > kMassMax) return too_heavy();
  mass_ += other.mass_;
  for (std::size_t at = 0; at < cells_.size(); ++at) cells_[at] += other.cells_[at];
  return {};
}

void CountSketch::clear(std::span<const std::uint32_t> indices) {
  for (std::uint32_t row = 0; row < shape_.rows; ++row) {
    for (const std::uint32_t index : indices) cells_[cell_of(row, index).at] = 0;
  }
}

std::int64_t CountSketch::estimate(std::uint32_t index) const {
  std::array<std::int64_t, SketchShape::kRowsMax> estimates;
  for (std::uint32_t row = 0; row < shape_.rows; ++row) {
    const Cell cell = cell_of(row, index);
    estimates[row] = cell.sign * cells_[cell.at];
  }
  const auto rows = std::span(estimates).first(shape_.rows);
  const auto middle = rows.begin() + shape_.rows / 2;
  std::ranges::nth_element(rows, middle);
  return *middle;
}

std::vector<WeightedIndex> CountSketch::largest(std::uint32_t dimension, std::size_t k) const {
  Largest largest(std::min<std::size_t>(k, dimension));
  for (std::uint32_t index = 0; index < dimension; ++index) largest.offer(index, estimate(index));
  return largest.take();
}

std::vector<WeightedIndex> CountSketch::largest(std::span<const std::uint32_t> candidates, std::size_t k) const {
  Largest largest(std::min(k, candidates.size()));
  for (const std::uint32_t index : candidates) largest.offer(index, estimate(index));
  return largest.take();
}

Bytes CountSketch::to_bytes() const {
  Bytes bytes;
  bytes.reserve(kHeadBytes + 8 * cells_.size());
  ByteWriter out(bytes);
  out.put(shape_.rows);
  out.put(shape_.columns);
  out.put(shape_.seed);
  out.put(mass_);
  out.put_array(std::span(cells_));
  return bytes;
}

Admitted<CountSketch> CountSketch::from_bytes(ByteView bytes, const SketchShape& shape) {
  GLEANER_CHECK(check_shape(shape).has_value());
  const std::size_t cells = std::size_t{shape.rows} * shape.columns;
  if (bytes.size() != kHeadBytes + 8 * cells) {
    return refuse(RefusalCode::malformed,
                  fmt::format("a sketch of {} bytes, expected {}", bytes.size(), kHeadBytes + 8 * cells));
  }
  ByteReader in(bytes);
  SketchShape sent;
  sent.rows = in.get<std::uint32_t>();
  sent.columns = in.get<std::uint32_t>();
  sent.seed = in.get<std::uint64_t>();
  if (sent != shape) return refuse(RefusalCode::schema_mismatch, "a sketch of another shape or seed");
  CountSketch sketch(shape);
  sketch.mass_ = in.get<std::uint64_t>();
  if (sketch.mass_ > kMassMax) return refuse(RefusalCode::over_bound, "a sketch heavier than its cells can hold");
  std::memcpy(sketch.cells_.data(), in.get_bytes(8 * cells).data(), 8 * cells);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    std::uint64_t of_row = 0;
    for (const std::int64_t cell : std::span(sketch.cells_).subspan(row * shape.columns, shape.columns)) {
      of_row += magnitude(cell);
      if (of_row <= sketch.mass_) continue;
      return refuse(RefusalCode::over_bound,
                    fmt::format("row {} of a sketch is heavier than its mass {}", row, sketch.mass_));
    }
  }
  return sketch;
}

}  // namespace gleaner
