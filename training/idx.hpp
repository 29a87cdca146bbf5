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

struct IdxOptions {
  std::optional<Standardisation> standardisation;  // none: measured over the images read
  std::uint32_t classes = 0;                       // 0: largest label + 1, at least 2
  std::string stem;                                // in front of the files' names: "emnist-digits-"
};

// {train|t10k}-images-idx3-ubyte and {train|t10k}-labels-idx1-ubyte in the directory, with or without .gz; with a stem
// STEM{train|test}-... Give the test split the standardisation of the training split.
Result<Dataset> load_idx_dataset(const std::filesystem::path& directory, Split split, const IdxOptions& options = {});

}  // namespace gleaner
