#pragma once
// Who has which samples. Reading from several threads is safe.

#include <cstdint>
#include <memory>
#include <vector>

#include "training/dataset.hpp"

namespace gleaner::simulation {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::uint32_t count_of(std::uint32_t device) const = 0;
  // A copy of its own; not kept.
  virtual std::shared_ptr<const Dataset> samples_of(std::uint32_t device) const = 0;
  virtual const DatasetShape& shape() const = 0;
  // All samples as one data set, and where a device's are in it, in the order of samples_of(). Null: there is no such
  // thing.
  virtual const Dataset* whole() const { return nullptr; }
  virtual std::vector<std::uint32_t> places_of(std::uint32_t /*device*/) const { return {}; }
};

}  // namespace gleaner::simulation
