#pragma once
// Who multiplies: our own kernel, or cuBLAS where it is. One stream at a time.

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/error.hpp"
#include "kernels/cuda/engine.hpp"
#include "training/cuda/launches.hpp"

namespace gleaner::cuda {

class Products {
 public:
  using Stream = Driver::Stream;
  virtual ~Products() = default;

  virtual std::string_view name() const = 0;
  // False: all rows of all slots are multiplied, whatever they hold. See Wave::whole.
  virtual bool knows_counts() const = 0;
  // Queues it, also while a graph is captured.
  virtual Status multiply(Stream stream, const Wave& wave, const Product& product) = 0;
};

// Kernel `multiply`: the same bits for a slot whatever is in the others. The engine outlives it.
std::unique_ptr<Products> own_products(Engine& engine, const TrainingLaunches& launches);

// How many blocks work on `units` pieces.
unsigned blocks_for_units(const Driver& driver, std::uint64_t units);

}  // namespace gleaner::cuda
