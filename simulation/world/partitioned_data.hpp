#pragma once
// One data set in memory, shared out to the devices by a partition.

#include <memory>

#include "simulation/population.hpp"
#include "simulation/world/sample_source.hpp"

namespace gleaner::simulation {

class PartitionedData final : public SampleSource {
 public:
  explicit PartitionedData(PopulationData data) : data_(std::move(data)) {}

  std::uint32_t count_of(std::uint32_t device) const override { return data_.partition->count_of(device); }
  std::shared_ptr<const Dataset> samples_of(std::uint32_t device) const override {
    return std::make_shared<const Dataset>(subset(data_.train, data_.partition->samples_of(device)));
  }
  const DatasetShape& shape() const override { return data_.train; }
  const Dataset* whole() const override { return &data_.train; }
  std::vector<std::uint32_t> places_of(std::uint32_t device) const override {
    return data_.partition->samples_of(device);
  }
  const PopulationData& all() const { return data_; }

 private:
  PopulationData data_;
};

}  // namespace gleaner::simulation
