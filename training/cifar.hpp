#pragma once
// CIFAR-10 and CIFAR-100 in their binary version (Krizhevsky 2009): records of one label (CIFAR-100: coarse, then fine;
// the fine one counts) and 32 x 32 pixels as a red, a green and a blue plane. Plain or gzip, a file each. Errors as of
// read_idx(); each names the file, the record (from 0), what was expected and what was found.

#include <cstdint>
#include <filesystem>

#include "common/error.hpp"
#include "training/dataset.hpp"

namespace gleaner {

enum class CifarKind { cifar10, cifar100 };

// data_batch_1.bin to data_batch_5.bin or test_batch.bin; for CIFAR-100 train.bin or test.bin. Any number of records a
// file, at least one in all. The pixels' channels lie together, as everywhere here.
Result<Dataset> load_cifar(const std::filesystem::path& directory, CifarKind kind, Split split,
                           const Standardisation& standardisation);

}  // namespace gleaner
