#pragma once
// Who has which samples. Reading from several threads is safe.

#include <cstdint>
#include <memory>

#include "training/dataset.hpp"

namespace gleaner::simulation {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::uint32_t count_of(std::uint32_t device) const = 0;
  // A copy of its own; not kept.
  virtual std::shared_ptr<const Dataset> samples_of(std::uint32_t device) const = 0;
  virtual const DatasetShape& shape() const = 0;
};

}  // namespace gleaner::simulation
