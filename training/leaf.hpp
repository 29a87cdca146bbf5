#pragma once
// FEMNIST as LEAF writes it (Caldas et al. 2018, arXiv 1812.01097): JSON files with users, num_samples and
// user_data.USER.{x, y}; a sample is 784 floats from 0 to 1 and a label below 62. Read as a stream: a file's size is no
// matter, only its samples take memory, a byte a pixel. Strict: the three lists must agree, no user may come twice.
// Errors as of read_idx(); each names the file, the user and sample, what was expected and what was found.

#include <filesystem>

#include "common/error.hpp"
#include "training/dataset.hpp"

namespace gleaner {

// All *.json and *.json.gz of DIRECTORY/train or DIRECTORY/test, by name. Every sample keeps its user.
Result<Dataset> load_leaf_femnist(const std::filesystem::path& directory, Split split,
                                  const Standardisation& standardisation);

}  // namespace gleaner
