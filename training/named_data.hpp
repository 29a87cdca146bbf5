#pragma once
// Data sets by name, whatever format they lie in: the one way in which devices, the coordinator's evaluation and
// simulations load data, so that all read the same bytes alike.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "training/dataset.hpp"
#include "training/idx.hpp"

namespace gleaner {

// What a name that starts so stands for: made-up samples of the shape of the rest ("synthetic-cifar10"). Outputs that
// print the name say it with that.
inline constexpr std::string_view kSyntheticPrefix = "synthetic-";

struct DataSource {
  std::string name;                 // decides standardisation and classes where it is known
  std::filesystem::path directory;  // empty: the first place where the name usually lies
  std::string format;         // idx, cifar10, cifar100, leaf; empty: the name's, else what the directory looks like
  std::uint32_t classes = 0;  // 0: the name's, else largest label + 1
};

// Errors: bad_input (unknown name or format, labels beyond the classes), not_found (no such files), corrupt (damaged).
Result<Dataset> load_dataset(const DataSource& source, Split split);

// Names that load_dataset() knows without a directory, and where each usually lies.
std::vector<std::string> known_datasets();
std::vector<std::filesystem::path> dataset_places(const std::string& name);

// How files of that name are read wherever they lie: a well-known name's standardisation, classes and file names, else
// pixels as b / 255. The same on every device, which measuring each device's own samples would not be.
IdxOptions customary_options(const std::string& name);

Result<Dataset> load_named_dataset(const std::string& name, Split split);

// Made-up samples with the named set's shape, classes and, for FEMNIST, writers; for benchmarks whose data is not at
// hand. The training and the test split share their patterns. samples: 0 for as many as the real one has.
Result<Dataset> synthetic_stand_in(const std::string& name, Split split, std::uint32_t samples = 0);

}  // namespace gleaner
