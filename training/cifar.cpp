#include "training/cifar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "training/content_reader.hpp"

namespace gleaner {
namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kChannels = 3;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::uint32_t kCoarseClasses = 20;
constexpr std::uint32_t kMaxRecordsPerFile = 1'000'000;  // twenty times the largest file there is

struct Layout {
  std::size_t labels;  // bytes in front of the pixels; the last one is the label
  std::uint32_t classes;
  std::size_t record() const { return labels + kPlane * kChannels; }
};
Layout layout_of(CifarKind kind) { return kind == CifarKind::cifar10 ? Layout{1, 10} : Layout{2, 100}; }

std::vector<std::string> files_of(CifarKind kind, Split split) {
  if (kind == CifarKind::cifar100) return {split == Split::train ? "train.bin" : "test.bin"};
  if (split == Split::test) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
}

std::unexpected<Error> wrong_record(const ContentReader& file, std::uint32_t record, const std::string& what) {
  return fail(ErrorCode::corrupt, fmt::format("{}: record {}: {}", file.path(), record, what));
}

Status append_record(const ContentReader& file, const Layout& layout, std::span<const std::uint8_t> bytes,
                     std::uint32_t record, Dataset& dataset) {
  const std::uint8_t label = bytes[layout.labels - 1];
  if (label >= layout.classes) {
    return wrong_record(file, record, fmt::format("expected a label below {}, found {}", layout.classes, label));
  }
  if (layout.labels == 2 && bytes[0] >= kCoarseClasses) {
    return wrong_record(file, record,
                        fmt::format("expected a coarse label below {}, found {}", kCoarseClasses, bytes[0]));
  }
  dataset.labels.push_back(label);
  const auto planes = bytes.subspan(layout.labels);
  for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
    for (std::size_t c = 0; c < kChannels; ++c) dataset.pixels.push_back(planes[c * kPlane + pixel]);
  }
  return {};
}

Status append_file(const std::filesystem::path& path, const Layout& layout, Dataset& dataset) {
  const auto file = std::make_unique<ContentReader>();
  GLEANER_TRY(file->open(path));
  // Of a plain file the length is known: reserve once.
  if (file->is_exact()) {
    const std::uint64_t records =
        std::min<std::uint64_t>(file->content_bytes_max() / layout.record(), kMaxRecordsPerFile);
    dataset.pixels.reserve(dataset.pixels.size() + records * kPlane * kChannels);
  }
  std::vector<std::uint8_t> bytes(layout.record());
  for (std::uint32_t record = 0;; ++record) {
    GLEANER_ASSIGN(const std::size_t got, file->read(bytes));
    if (got == 0) break;
    if (got != bytes.size()) {
      return wrong_record(*file, record,
                          fmt::format("expected {} bytes, the file ends after {}: it is truncated or "
                                      "not this format",
                                      bytes.size(), got));
    }
    if (record == kMaxRecordsPerFile) {
      return wrong_record(*file, record, fmt::format("expected at most {} records", kMaxRecordsPerFile));
    }
    GLEANER_TRY(append_record(*file, layout, bytes, record, dataset));
  }
  return file->expect_end();
}

}  // namespace

Result<Dataset> load_cifar(const std::filesystem::path& directory, CifarKind kind, Split split,
                           const Standardisation& standardisation) {
  const Layout layout = layout_of(kind);
  Dataset dataset;
  dataset.height = kSide;
  dataset.width = kSide;
  dataset.channels = kChannels;
  dataset.features = kPlane * kChannels;
  dataset.classes = layout.classes;
  dataset.standardisation = standardisation;
  for (const std::string& name : files_of(kind, split)) {
    GLEANER_ASSIGN(const auto path, find_content(directory, name));
    GLEANER_TRY(append_file(path, layout, dataset));
  }
  if (dataset.labels.empty()) {
    return fail(ErrorCode::corrupt, fmt::format("{}: expected records of {} bytes, found empty files",
                                                directory.string(), layout.record()));
  }
  dataset.samples = static_cast<std::uint32_t>(dataset.labels.size());
  return dataset;
}

}  // namespace gleaner
