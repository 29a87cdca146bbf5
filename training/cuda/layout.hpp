#pragma once
// A model as the kernels take it, and where everything of one slot lies: a number of bytes for each of its arrays. The
// arrays of all slots lie one after another.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "training/cuda/launches.hpp"
#include "training/layer_plan.hpp"
#include "training/model.hpp"

namespace gleaner::cuda {

struct ModelStage {
  LayerKind kind = LayerKind::dense;
  Outputs outputs;                // of a dense layer or a convolution
  Windows windows;                // of a convolution or a pool
  std::uint32_t inputs = 0;       // of a product: a dense layer's, or a window's
  std::uint64_t weights = 0;      // where they begin in the parameters; the bias follows
  std::uint64_t from_floats = 0;  // a row
  std::uint64_t to_floats = 0;
  std::uint64_t first_output = 0;  // floats a row of the stages before
  std::uint64_t first_winner = 0;  // bytes a row of the pools before

  bool multiplies() const { return kind != LayerKind::max_pool; }
  std::uint64_t weight_floats() const { return std::uint64_t{inputs} * outputs.columns; }
  std::uint64_t window_floats() const { return std::uint64_t{outputs.pixels} * inputs; }  // a row, unrolled
};

struct Layout {
  std::uint32_t parameters = 0;
  std::uint32_t features = 0;
  std::uint32_t classes = 0;
  std::vector<ModelStage> stages;
  std::uint64_t output_floats = 0;    // a row, of all stages
  std::uint64_t gradient_floats = 0;  // a row, of the stage that has most
  std::uint64_t unrolled_floats = 0;
  std::uint64_t winner_bytes = 0;
};

// Of a spec that passes check_spec().
Layout layout_of(const ModelSpec& spec);

// What the slots of a wave must have room for.
struct Room {
  std::uint32_t rows = 0;     // of a part of a batch
  std::uint32_t parts = 0;    // of a turn
  std::uint64_t order = 0;    // samples of a turn, all epochs together
  bool has_gradient = false;  // steps are made apart from the products
  bool has_velocity = false;
  bool has_own_start = false;  // the turns begin with different parameters
  std::uint32_t selects = 0;   // entries of a delta with its residual; 0: nothing is selected

  // Whether the same arrays serve: what is selected has memory of its own.
  bool has_arrays_of(Room other) const {
    other.selects = selects;
    return *this == other;
  }
  friend bool operator==(const Room&, const Room&) = default;
};

// The arrays of a wave with one slot or many, as numbers of bytes.
struct ArrayBytes {
  std::uint64_t model = 0;
  std::uint64_t start = 0;
  std::uint64_t gradient = 0;
  std::uint64_t velocity = 0;
  std::uint64_t inputs = 0;
  std::uint64_t labels = 0;
  std::uint64_t outputs = 0;
  std::uint64_t gradients = 0;  // each of the two that stages hand on to each other
  std::uint64_t unrolled = 0;
  std::uint64_t winners = 0;
  std::uint64_t sums = 0;
  std::uint64_t row_losses = 0;
  std::uint64_t tables = 0;  // plan, now, progress, settings, order
};
ArrayBytes array_bytes(const Layout& layout, const Room& room, std::uint64_t slots);
// Of device memory, as the pool rounds requests: of the arrays alone, and with what selecting needs.
std::uint64_t memory_bytes(const Layout& layout, const Room& room, std::uint64_t slots);
std::uint64_t slots_bytes(const Layout& layout, const Room& room, std::uint64_t slots);

// Floats of the bias's sums in a slot.
std::uint64_t sum_floats(const Layout& layout, const Room& room);

// bad_input where a slot has more entries than a kernel counts.
Status check_room(const Layout& layout, const Room& room);

}  // namespace gleaner::cuda
