#include "simulation/population.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "training/named_data.hpp"
#include "training/synthetic.hpp"

namespace gleaner::simulation {
namespace {

// Of a stand-in for a data set that is not well known.
constexpr std::uint32_t kTrainSamples = 60'000;
constexpr std::uint32_t kTestSamples = 10'000;

bool is_well_known(const std::string& name) {
  const auto names = known_datasets();
  return std::ranges::find(names, name) != names.end();
}

Result<Dataset> stand_in(const Experiment& experiment, Split split) {
  std::string name = experiment.run.spec.data;
  if (name.starts_with(kSyntheticPrefix)) name.erase(0, kSyntheticPrefix.size());
  const bool is_train = split == Split::train;
  const std::uint32_t samples = is_train ? experiment.population.synthetic_samples : 0;
  if (is_well_known(name)) return synthetic_stand_in(name, split, samples);
  const DatasetShape& shape = experiment.run.shape;
  const std::uint32_t usual = is_train ? kTrainSamples : kTestSamples;
  return synthetic_dataset({.samples = samples == 0 ? usual : samples,
                            .classes = shape.classes,
                            .height = shape.height,
                            .width = shape.width,
                            .channels = shape.channels},
                           {.pattern = 1, .noise = is_train ? 2U : 3U});
}

Result<Dataset> load_split(const Experiment& experiment, Split split) {
  const std::string& from_elsewhere = experiment.run.evaluation_data;
  const bool is_elsewhere = split == Split::test && !from_elsewhere.empty();
  if (experiment.is_synthetic() && !is_elsewhere) return stand_in(experiment, split);
  DataSource source{
      .name = experiment.run.spec.data, .directory = {}, .format = {}, .classes = experiment.run.shape.classes};
  if (is_elsewhere) {
    source.directory = from_elsewhere;
  } else if (experiment.population.data != kInstalledData) {
    source.directory = experiment.population.data;
  }
  return load_dataset(source, split);
}

Result<Dataset> load_checked(const Experiment& experiment, Split split) {
  GLEANER_ASSIGN(Dataset dataset, load_split(experiment, split));
  const DatasetShape& found = dataset;
  const DatasetShape& wanted = experiment.run.shape;
  if (found == wanted) return dataset;
  return fail(ErrorCode::bad_input,
              fmt::format("the data {} has samples of {} x {} x {} in {} classes, but [data] says {} x {} x {} in {}",
                          experiment.data_label(), found.height, found.width, found.channels, found.classes,
                          wanted.height, wanted.width, wanted.channels, wanted.classes));
}

PartitionSpec partition_spec(const Population& p) {
  return {.name = p.partition,
          .alpha = p.alpha,
          .min_samples = p.min_samples,
          .shards_per_device = p.shards_per_device,
          .size_sigma = p.size_sigma,
          .samples_per_device = p.samples_per_device};
}

}  // namespace

Result<PopulationData> load_population(const Experiment& experiment) {
  PopulationData data{.label = experiment.data_label(), .train = {}, .test = {}, .partition = nullptr};
  GLEANER_ASSIGN(data.train, load_checked(experiment, Split::train));
  GLEANER_TRY(check_samples(experiment, data.train.samples));
  GLEANER_ASSIGN(data.test, load_checked(experiment, Split::test));
  const std::uint64_t seed =
      experiment.population.split_seed != 0 ? experiment.population.split_seed : experiment.run.spec.seed;
  GLEANER_ASSIGN(data.partition, make_device_partition(partition_spec(experiment.population), data.train,
                                                       experiment.population.devices, seed));
  return data;
}

std::string split_table(const PopulationData& population) {
  return fmt::format("{}: {} training and {} test samples\n{}", population.label, population.train.samples,
                     population.test.samples, partition_table(*population.partition, population.train.labels));
}

}  // namespace gleaner::simulation
