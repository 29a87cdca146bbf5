#pragma once
// Who holds which samples. Every device of a run works its own part out from (spec, labels, devices, seed), so the
// result must be the same everywhere. "iid" is integers only. "dirichlet" (Hsu, Qi, Brown 2019, arXiv 1909.06335; label
// by label) draws from a gamma distribution with libm; the shares are rounded to 2^-20 at once and everything after is
// integers, and every draw has a random stream of its own, so that a last-bit difference between two libms changes the
// result only when it straddles a rounding step, about once in 2^30 draws. Compare digest() where that is too often.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"

namespace gleaner {

struct PartitionSpec {
  std::string name = "iid";       // a row of the table: iid, dirichlet
  double alpha = 0.5;             // dirichlet: small is skewed, large is even; 1e-4 to 1e6
  std::uint32_t min_samples = 1;  // of every device
};

struct Partition {
  std::vector<std::vector<std::uint32_t>> devices;  // ascending sample indices; every sample exactly once
  Digest digest() const;
};

struct PartitionSummary {
  std::string_view name;
  std::string_view summary;
};
std::vector<PartitionSummary> known_partitions();

// Errors (bad_input): unknown name, no devices, alpha out of range, more samples demanded than there are.
Result<Partition> make_partition(const PartitionSpec& spec, std::span<const std::uint8_t> labels, std::uint32_t devices,
                                 std::uint64_t seed);

// A table for people: device, samples, samples of each class.
std::string partition_table(const Partition& partition, std::span<const std::uint8_t> labels);

}  // namespace gleaner
