// Whatever lies in the files of a data set, it is refused with the file's name, or every sample has its pixels, a label
// below the number of classes and a user who is there. The first byte names the format; IDX has a u16 for where its
// labels begin.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/check.hpp"
#include "tests/fuzz/fuzz_file.hpp"
#include "training/cifar.hpp"
#include "training/idx.hpp"
#include "training/leaf.hpp"

namespace gleaner {
namespace {

constexpr Standardisation kPlain{.mean = 0.0F, .deviation = 1.0F};

const FuzzFolder& folder() {
  static const FuzzFolder folder;
  static const bool made = std::filesystem::create_directories(folder.path() / "train");
  GLEANER_CHECK(made);
  return folder;
}

void check(const Result<Dataset>& data) {
  if (!data) {
    GLEANER_CHECK(data.error().message().contains(folder().path().string()));
    return;
  }
  GLEANER_CHECK(data->samples > 0 && data->features == data->height * data->width * data->channels);
  GLEANER_CHECK(data->pixels.size() == std::size_t{data->samples} * data->features);
  GLEANER_CHECK(data->labels.size() == data->samples && data->classes <= 256);
  for (const std::uint8_t label : data->labels) GLEANER_CHECK(label < data->classes);
  GLEANER_CHECK(data->users.empty() || data->users.size() == data->samples);
  for (const std::uint32_t user : data->users) GLEANER_CHECK(user < data->user_names.size());
  GLEANER_CHECK(std::isfinite(data->standardisation.mean) && data->standardisation.deviation > 0.0);
}

void run(std::string_view bytes) {
  if (bytes.empty()) return;
  const char format = bytes.front();
  bytes.remove_prefix(1);
  if (format == 'i' && bytes.size() >= 2) {
    const std::size_t images = static_cast<unsigned char>(bytes[0]) + 256U * static_cast<unsigned char>(bytes[1]);
    bytes.remove_prefix(2);
    folder().write("train-images-idx3-ubyte", bytes.substr(0, images));
    folder().write("train-labels-idx1-ubyte", bytes.substr(std::min(images, bytes.size())));
    check(load_idx_dataset(folder().path(), Split::train, {}));
  } else if (format == 'c') {
    folder().write("test_batch.bin", bytes);
    check(load_cifar(folder().path(), CifarKind::cifar10, Split::test, kPlain));
  } else if (format == 'h') {
    folder().write("test.bin", bytes);
    check(load_cifar(folder().path(), CifarKind::cifar100, Split::test, kPlain));
  } else if (format == 'l') {
    folder().write("train/a.json", bytes);
    check(load_leaf_femnist(folder().path(), Split::train, kPlain));
  }
}

}  // namespace
}  // namespace gleaner

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  gleaner::run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
