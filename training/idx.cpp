#include "training/idx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "common/text.hpp"
#include "training/content_reader.hpp"

namespace gleaner {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::uint8_t kMaxRank = 8;

Result<std::vector<std::uint32_t>> read_dims(ContentReader& reader) {
  std::array<std::uint8_t, 4> magic{};
  GLEANER_TRY(reader.read_whole(magic, "magic"));
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedByte || magic[3] == 0 || magic[3] > kMaxRank) {
    return fail(ErrorCode::corrupt,
                fmt::format("{}: expected an IDX file of unsigned bytes (first bytes 00 00 08 and a rank of 1 to {}), "
                            "found {:02x}",
                            reader.path(), kMaxRank, fmt::join(magic, " ")));
  }
  std::vector<std::uint8_t> bytes(std::size_t{magic[3]} * 4);
  GLEANER_TRY(reader.read_whole(bytes, "header"));
  std::vector<std::uint32_t> dims;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    dims.push_back(std::uint32_t{bytes[i]} << 24 | std::uint32_t{bytes[i + 1]} << 16 |
                   std::uint32_t{bytes[i + 2]} << 8 | std::uint32_t{bytes[i + 3]});
  }
  return dims;
}

// The number of values, when it is under the limit and the file can hold them.
Result<std::size_t> value_count(const ContentReader& reader, const std::vector<std::uint32_t>& dims) {
  std::uint64_t size = 1;
  for (const std::uint32_t dim : dims) {
    size *= dim;  // both below 2^32: the limit is checked after every factor
    if (size > kMaxIdxBytes) {
      return fail(ErrorCode::corrupt,
                  fmt::format("{}: dimensions {} mean more than the {} that are accepted", reader.path(),
                              fmt::join(dims, " x "), human_bytes(static_cast<double>(kMaxIdxBytes))));
    }
  }
  const std::uint64_t header = 4 + 4 * dims.size();
  const std::uint64_t most = reader.content_bytes_max();
  const bool fits = reader.is_exact() ? most == header + size : most >= header + size;
  if (fits) return static_cast<std::size_t>(size);
  return fail(ErrorCode::corrupt, fmt::format("{}: dimensions {} mean {} bytes with the header, the file {} {}",
                                              reader.path(), fmt::join(dims, " x "), header + size,
                                              reader.is_exact() ? "has" : "cannot hold more than", most));
}

// "emnist-digits-" has test files, the plain names have those of the ten thousand of MNIST.
std::string prefix_of(Split split, const std::string& stem) {
  if (split == Split::train) return stem + "train";
  return stem.empty() ? "t10k" : stem + "test";
}

}  // namespace

Result<IdxFile> read_idx(const std::filesystem::path& path) {
  const auto reader = std::make_unique<ContentReader>();
  GLEANER_TRY(reader->open(path));
  IdxFile file;
  GLEANER_ASSIGN(file.dims, read_dims(*reader));
  GLEANER_ASSIGN(const std::size_t size, value_count(*reader, file.dims));
  file.values.resize(size);
  GLEANER_TRY(reader->read_whole(file.values, "values"));
  GLEANER_TRY(reader->expect_end());
  return file;
}

Result<Dataset> load_idx_dataset(const std::filesystem::path& directory, Split split, const IdxOptions& options) {
  const std::string prefix = prefix_of(split, options.stem);
  GLEANER_ASSIGN(const auto image_path, find_content(directory, prefix + "-images-idx3-ubyte"));
  GLEANER_ASSIGN(const auto label_path, find_content(directory, prefix + "-labels-idx1-ubyte"));
  GLEANER_ASSIGN(IdxFile images, read_idx(image_path));
  GLEANER_ASSIGN(IdxFile labels, read_idx(label_path));
  const auto wrong = [](const std::filesystem::path& path, const std::string& what) {
    return fail(ErrorCode::bad_input, path.string() + ": " + what);
  };
  if (images.dims.size() != 3 || images.values.empty()) {
    return wrong(image_path, fmt::format("expected images x rows x columns, none of them 0, found {}",
                                         fmt::join(images.dims, " x ")));
  }
  if (labels.dims.size() != 1) {
    return wrong(label_path, fmt::format("expected one dimension, found {}", fmt::join(labels.dims, " x ")));
  }
  if (labels.dims[0] != images.dims[0]) {
    return wrong(label_path, fmt::format("has {} labels for the {} images of {}", labels.dims[0], images.dims[0],
                                         image_path.filename().string()));
  }
  Dataset dataset;
  dataset.samples = images.dims[0];
  dataset.height = images.dims[1];
  dataset.width = images.dims[2];
  dataset.channels = 1;
  dataset.features = dataset.height * dataset.width;  // at most kMaxIdxBytes, as there is an image
  const std::uint32_t largest = *std::ranges::max_element(labels.values);
  dataset.classes = options.classes != 0 ? options.classes : std::max(2U, largest + 1);
  if (largest >= dataset.classes) {
    return wrong(label_path, fmt::format("has label {}, but there are {} classes", largest, dataset.classes));
  }
  dataset.standardisation = options.standardisation ? *options.standardisation : measure_standardisation(images.values);
  dataset.pixels = std::move(images.values);
  dataset.labels = std::move(labels.values);
  return dataset;
}

}  // namespace gleaner
