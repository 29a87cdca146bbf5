#include "training/named_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text.hpp"
#include "training/cifar.hpp"
#include "training/leaf.hpp"
#include "training/synthetic.hpp"

namespace gleaner {
namespace {

constexpr std::array<std::string_view, 4> kFormats = {"idx", "cifar10", "cifar100", "leaf"};

struct Named {
  std::string_view name;
  std::string_view format;
  std::string_view package;  // of Debian; empty: none
  std::string_view folder;   // below the usual places
  std::string_view stem;     // of the files' names
  Standardisation standardisation;
  DatasetShape shape;
  std::uint32_t train_samples;
  std::uint32_t test_samples;
  std::uint32_t users;  // 0: samples have none
};

constexpr DatasetShape grey28(std::uint32_t classes) { return {28 * 28, classes, 28, 28, 1}; }
constexpr DatasetShape colour32(std::uint32_t classes) { return {32 * 32 * 3, classes, 32, 32, 3}; }

// Mean and deviation over all bytes of the training split. The letters of EMNIST are labelled from 1. FEMNIST is taken
// as it is, as in LEAF; its numbers of samples and writers are those of TensorFlow Federated's edition.
constexpr Standardisation kEmnist = {0.1736, 0.3317};
constexpr std::array<Named, 10> kNamed = {{
    {"fashion-mnist",
     "idx",
     "dataset-fashion-mnist",
     "fashion-mnist",
     "",
     {0.2860, 0.3530},
     grey28(10),
     60'000,
     10'000,
     0},
    {"mnist", "idx", "", "mnist", "", {0.1307, 0.3081}, grey28(10), 60'000, 10'000, 0},
    {"kmnist", "idx", "", "kmnist", "", {0.1918, 0.3483}, grey28(10), 60'000, 10'000, 0},
    {"emnist-balanced", "idx", "", "emnist", "emnist-balanced-", kEmnist, grey28(47), 112'800, 18'800, 0},
    {"emnist-byclass", "idx", "", "emnist", "emnist-byclass-", kEmnist, grey28(62), 697'932, 116'323, 0},
    {"emnist-digits", "idx", "", "emnist", "emnist-digits-", kEmnist, grey28(10), 240'000, 40'000, 0},
    {"emnist-letters", "idx", "", "emnist", "emnist-letters-", kEmnist, grey28(27), 124'800, 20'800, 0},
    {"cifar10", "cifar10", "", "cifar-10-batches-bin", "", {0.4734, 0.2516}, colour32(10), 50'000, 10'000, 0},
    {"cifar100", "cifar100", "", "cifar-100-binary", "", {0.4782, 0.2682}, colour32(100), 50'000, 10'000, 0},
    {"femnist", "leaf", "", "femnist", "", {0.0, 1.0}, grey28(62), 671'585, 77'483, 3'400},
}};

const Named* find_named(const std::string& name) {
  const auto* row = std::ranges::find(kNamed, name, &Named::name);
  return row == kNamed.end() ? nullptr : row;
}

std::unexpected<Error> unknown_name(const std::string& name) {
  const auto names = known_datasets();
  const std::string near = nearest(name, names);
  return fail(ErrorCode::bad_input,
              fmt::format("unknown data set \"{}\": there are {}{}; or name a directory with its "
                          "files",
                          name, join_names(names), near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

Result<std::filesystem::path> usual_place(const Named& row) {
  std::vector<std::string> places;
  for (const auto& place : dataset_places(std::string(row.name))) {
    std::error_code error;
    if (std::filesystem::is_directory(place, error)) return place;
    places.push_back(place.string());
  }
  const std::string install = row.package.empty() ? "" : fmt::format("apt-get install {}, or ", row.package);
  return fail(ErrorCode::not_found,
              fmt::format("data set {} is not in {}: {}name its directory", row.name, join_names(places), install));
}

// What lies there, where no name says it.
std::string_view format_of(const std::filesystem::path& directory) {
  std::error_code error;
  const auto has = [&](const char* name) { return std::filesystem::exists(directory / name, error); };
  if (has("data_batch_1.bin") || has("test_batch.bin") || has("data_batch_1.bin.gz")) return "cifar10";
  if (has("train.bin") || has("test.bin") || has("train.bin.gz")) return "cifar100";
  if (std::filesystem::is_directory(directory / "train", error)) return "leaf";
  return "idx";
}

Result<Dataset> load_format(std::string_view format, const std::filesystem::path& directory, Split split,
                            const IdxOptions& options) {
  const Standardisation standardisation = *options.standardisation;
  if (format == "cifar10") return load_cifar(directory, CifarKind::cifar10, split, standardisation);
  if (format == "cifar100") return load_cifar(directory, CifarKind::cifar100, split, standardisation);
  if (format == "leaf") return load_leaf_femnist(directory, split, standardisation);
  return load_idx_dataset(directory, split, options);
}

Status demand_classes(Dataset& dataset, std::uint32_t classes, const std::string& name) {
  if (classes == 0 || classes == dataset.classes) return {};
  const std::uint32_t largest = *std::ranges::max_element(dataset.labels);
  if (largest >= classes) {
    return fail(ErrorCode::bad_input,
                fmt::format("data set {} has label {}, but there are {} classes", name, largest, classes));
  }
  dataset.classes = classes;
  return {};
}

}  // namespace

std::vector<std::string> known_datasets() {
  std::vector<std::string> names;
  for (const Named& row : kNamed) names.emplace_back(row.name);
  return names;
}

IdxOptions customary_options(const std::string& name) {
  if (const Named* row = find_named(name)) return {row->standardisation, row->shape.classes, std::string(row->stem)};
  return {Standardisation{0.0, 1.0}, 0, {}};
}

std::vector<std::filesystem::path> dataset_places(const std::string& name) {
  const Named* row = find_named(name);
  if (row == nullptr) return {};
  const std::filesystem::path shared = "/usr/share/datasets";
  const std::filesystem::path local = "/usr/local/share/datasets";
  std::vector<std::filesystem::path> places = {shared / row->folder, local / row->folder};
  if (row->folder != row->name && row->stem.empty()) {
    places.push_back(shared / row->name);
    places.push_back(local / row->name);
  }
  return places;
}

Result<Dataset> load_dataset(const DataSource& source, Split split) {
  if (source.name.starts_with(kSyntheticPrefix) && source.directory.empty()) {
    return synthetic_stand_in(source.name.substr(kSyntheticPrefix.size()), split);
  }
  const Named* row = find_named(source.name);
  if (row == nullptr && source.directory.empty()) return unknown_name(source.name);
  std::string_view format = source.format;
  if (!format.empty() && std::ranges::find(kFormats, format) == kFormats.end()) {
    const std::vector<std::string> names(kFormats.begin(), kFormats.end());
    return fail(ErrorCode::bad_input,
                fmt::format("unknown data format \"{}\": there are {}", format, join_names(names)));
  }
  std::filesystem::path directory = source.directory;
  if (directory.empty()) {
    GLEANER_ASSIGN(directory, usual_place(*row));
  }
  if (format.empty()) format = row != nullptr ? row->format : format_of(directory);
  IdxOptions options = customary_options(source.name);
  if (source.classes != 0) options.classes = source.classes;
  GLEANER_ASSIGN(Dataset dataset, load_format(format, directory, split, options));
  GLEANER_TRY(demand_classes(dataset, source.classes, source.name));
  return dataset;
}

Result<Dataset> load_named_dataset(const std::string& name, Split split) {
  return load_dataset({.name = name, .directory = {}, .format = {}, .classes = 0}, split);
}

Result<Dataset> synthetic_stand_in(const std::string& name, Split split, std::uint32_t samples) {
  const Named* row = find_named(name);
  if (row == nullptr) return unknown_name(name);
  const bool train = split == Split::train;
  if (samples == 0) samples = train ? row->train_samples : row->test_samples;
  if (samples < row->users) {
    return fail(ErrorCode::bad_input, fmt::format("a stand-in for {} needs at least a sample for each of its {} users, "
                                                  "{} were asked for",
                                                  name, row->users, samples));
  }
  const SyntheticSpec spec = {.samples = samples,
                              .classes = row->shape.classes,
                              .height = row->shape.height,
                              .width = row->shape.width,
                              .channels = row->shape.channels,
                              .users = row->users};
  return synthetic_dataset(spec, {.pattern = 1, .noise = train ? 2U : 3U});
}

}  // namespace gleaner
