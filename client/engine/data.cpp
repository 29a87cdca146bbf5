#include "client/engine/data.hpp"

#include "training/named_data.hpp"
#include "training/partition.hpp"

namespace gleaner {

Result<Dataset> load_own_samples(const std::string& name, const DataBinding& binding, std::uint32_t classes) {
  const DataSource source{.name = name, .directory = binding.path, .format = {}, .classes = classes};
  GLEANER_ASSIGN(auto all, load_dataset(source, Split::train));
  if (binding.split.empty()) return all;
  const PartitionSpec spec{.name = binding.split, .alpha = binding.alpha, .min_samples = binding.samples_min};
  GLEANER_ASSIGN(const auto partition, make_partition(spec, all.labels, binding.devices, binding.split_seed));
  return subset(all, partition.devices.at(binding.index));
}

}  // namespace gleaner
