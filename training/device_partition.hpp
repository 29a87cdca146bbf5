#pragma once
// A partition asked device by device, for up to millions of them. Without samples_per_device it is a table of what
// make_partition() says. With it nothing is kept for a device: each draws its own samples by the partition's rule from
// a random stream of (seed, device), in time of its samples, so that devices share samples where there are more devices
// than data:
//   iid        so many different samples, all equally likely
//   dirichlet  the device's mix of labels is drawn from Dirichlet(alpha), then so many different samples by that mix;
//              what a label cannot give comes from the others
//   shards     the samples in order of label are cut into pieces of samples_per_device / shards_per_device; a device
//              has shards_per_device different pieces, all equally likely
//   quantity   as iid, with a log-normal number of samples whose mean is samples_per_device
// natural has its users' own numbers and cannot be drawn. No device has more samples than there are, nor fewer than
// min_samples. Immutable: any thread.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "training/partition.hpp"

namespace gleaner {

class DevicePartition {
 public:
  virtual ~DevicePartition() = default;
  virtual std::uint32_t devices() const = 0;
  // Ascending, without repetition. device < devices().
  virtual std::vector<std::uint32_t> samples_of(std::uint32_t device) const = 0;
  virtual std::uint32_t count_of(std::uint32_t device) const = 0;
};

// Errors as of make_partition(). The data need not stay.
Result<std::unique_ptr<const DevicePartition>> make_device_partition(const PartitionSpec& spec,
                                                                     const PartitionData& data, std::uint32_t devices,
                                                                     std::uint64_t seed);

// A table for people: of few devices a line each, then least, median and most samples and classes of a device. Of more
// than 10,000 devices as many, evenly spread, are looked at, and the table says so.
std::string partition_table(const DevicePartition& partition, std::span<const std::uint8_t> labels);

}  // namespace gleaner
