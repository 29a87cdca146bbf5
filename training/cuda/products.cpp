#include "training/cuda/products.hpp"

#include <algorithm>

namespace gleaner::cuda {
namespace {

std::uint64_t tiles(std::uint64_t entries, std::uint32_t each) { return (entries + each - 1) / each; }

class OwnProducts final : public Products {
 public:
  OwnProducts(Engine& engine, const TrainingLaunches& launches) : engine_(engine), launches_(launches) {}

  std::string_view name() const override { return "own kernels"; }
  bool knows_counts() const override { return true; }

  Status multiply(Stream stream, const Wave& wave, const Product& product) override {
    const std::uint64_t units = wave.devices * tiles(product.rows, kTileRows) * tiles(product.columns, kTileColumns);
    return engine_.done(launches_.multiply(stream, blocks_for_units(engine_.driver(), units), wave, product),
                        "multiplying");
  }

 private:
  Engine& engine_;
  const TrainingLaunches& launches_;
};

}  // namespace

std::unique_ptr<Products> own_products(Engine& engine, const TrainingLaunches& launches) {
  return std::make_unique<OwnProducts>(engine, launches);
}

unsigned blocks_for_units(const Driver& driver, std::uint64_t units) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>(units, 1, driver.resident_blocks()));
}

}  // namespace gleaner::cuda
