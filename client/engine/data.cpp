#include "client/engine/data.hpp"

#include "training/idx.hpp"
#include "training/partition.hpp"

namespace gleaner {

Result<Dataset> load_own_samples(const std::string& name, const DataBinding& binding, std::uint32_t classes) {
  IdxOptions options = customary_options(name);
  if (classes != 0) options.classes = classes;
  GLEANER_ASSIGN(auto all, load_idx_dataset(binding.path, Split::train, options));
  if (binding.split.empty()) return all;
  const PartitionSpec spec{.name = binding.split, .alpha = binding.alpha, .min_samples = binding.samples_min};
  GLEANER_ASSIGN(const auto partition, make_partition(spec, all.labels, binding.devices, binding.split_seed));
  return subset(all, partition.devices.at(binding.index));
}

}  // namespace gleaner
