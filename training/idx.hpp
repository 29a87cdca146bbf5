#pragma once
// Data sets in the IDX format (big-endian magic 0 0 type rank, one u32 a dimension, then the values; LeCun, Cortes,
// Burges: the MNIST database), plain or gzip. Strict: everything is checked before memory is taken, nothing may follow.
// Errors: not_found (no such file), corrupt (damaged), bad_input (readable, but not what is needed); each names the
// file, what was expected and what was found.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "training/dataset.hpp"

namespace gleaner {

// Values of a file may take this much memory.
inline constexpr std::uint64_t kMaxIdxBytes = std::uint64_t{1} << 30;

struct IdxFile {
  std::vector<std::uint32_t> dims;
  std::vector<std::uint8_t> values;  // the product of dims; files of unsigned bytes only
};

Result<IdxFile> read_idx(const std::filesystem::path& path);

enum class Split { train, test };

struct IdxOptions {
  std::optional<Standardisation> standardisation;  // none: measured over the images read
  std::uint32_t classes = 0;                       // 0: largest label + 1, at least 2
};

// {train|t10k}-images-idx3-ubyte and {train|t10k}-labels-idx1-ubyte in the directory, with or without .gz. Give the
// test split the standardisation of the training split.
Result<Dataset> load_idx_dataset(const std::filesystem::path& directory, Split split, const IdxOptions& options = {});

// Names that load_named_dataset() knows, and where each usually lies.
std::vector<std::string> known_datasets();
std::vector<std::filesystem::path> dataset_places(const std::string& name);

// How files of that name are read wherever they lie: a well-known name's standardisation and classes, else pixels as
// b / 255. The same on every device, which measuring each device's own samples would not be.
IdxOptions customary_options(const std::string& name);

// A well-known data set from the first of its places that has it, with its customary standardisation and classes.
Result<Dataset> load_named_dataset(const std::string& name, Split split);

}  // namespace gleaner
