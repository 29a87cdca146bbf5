#pragma once
// Who holds which samples. Every device of a run works its own part out from (spec, data, devices, seed), so the
// result must be the same everywhere. "iid" and "shards" are integers only. "dirichlet" (Hsu, Qi, Brown 2019, arXiv
// 1909.06335; label by label) and "quantity" draw with libm; what they draw is rounded at once (shares to 2^-20, sizes
// to 2^-16) and everything after is integers, and every draw has a random stream of its own, so that a last-bit
// difference between two libms changes the result only when it straddles a rounding step, about once in 2^30 draws.
// Compare digest() where that is too often. device_partition.hpp is for many devices.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"
#include "training/dataset.hpp"

namespace gleaner {

struct PartitionSpec {
  std::string name = "iid";             // a row of the table: iid, dirichlet, shards, quantity, natural
  double alpha = 0.5;                   // dirichlet: small is skewed, large is even; 1e-4 to 1e6
  std::uint32_t min_samples = 1;        // of every device
  std::uint32_t shards_per_device = 2;  // shards: about so many labels on a device; at least 1
  double size_sigma = 1.0;              // quantity: of the log-normal sizes; 0 (equal) to 4
  // 0: every sample goes to one device. Else every device draws so many of its own (device_partition.hpp).
  std::uint32_t samples_per_device = 0;
};

// What is split. users as in Dataset; empty where samples have none.
struct PartitionData {
  std::span<const std::uint8_t> labels;
  std::span<const std::uint32_t> users;

  PartitionData(std::span<const std::uint8_t> l, std::span<const std::uint32_t> u) : labels(l), users(u) {}
  PartitionData(const std::vector<std::uint8_t>& l) : labels(l) {}
  PartitionData(const Dataset& dataset) : labels(dataset.labels), users(dataset.users) {}
};

struct Partition {
  // Ascending sample indices, every sample exactly once; of natural, samples of users without a device are in none.
  std::vector<std::vector<std::uint32_t>> devices;
  Digest digest() const;
};

struct PartitionSummary {
  std::string_view name;
  std::string_view summary;
};
std::vector<PartitionSummary> known_partitions();

// What is wrong with a spec whatever the data is (bad_input): unknown name, a setting out of range.
Status check_partition(const PartitionSpec& spec);

// Errors (bad_input): unknown name, no devices, a setting out of range or not for this function, more samples demanded
// than there are, natural without enough users.
Result<Partition> make_partition(const PartitionSpec& spec, const PartitionData& data, std::uint32_t devices,
                                 std::uint64_t seed);

// A table for people: device, samples, samples of each class.
std::string partition_table(const Partition& partition, std::span<const std::uint8_t> labels);

}  // namespace gleaner
