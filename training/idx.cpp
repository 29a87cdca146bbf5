#include "training/idx.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "common/text.hpp"

namespace gleaner {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::uint8_t kMaxRank = 8;
constexpr std::uint64_t kMaxInflation = 1032;  // deflate cannot do better than this
constexpr std::size_t kBlockBytes = 64 * 1024;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// A file of which only the content counts: gzip is seen by its first bytes and undone.
class ContentReader {
 public:
  ContentReader() = default;
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;
  ~ContentReader() {
    if (inflating_) inflateEnd(&stream_);
  }

  Status open(const std::filesystem::path& path) {
    path_ = path.string();
    std::error_code error;
    const auto kind = std::filesystem::status(path, error).type();
    if (kind == std::filesystem::file_type::not_found) return fail(ErrorCode::not_found, path_ + ": no such file");
    if (kind != std::filesystem::file_type::regular) return fail(ErrorCode::bad_input, path_ + ": not a regular file");
    file_bytes_ = std::filesystem::file_size(path, error);
    file_.reset(std::fopen(path_.c_str(), "rb"));
    if (error || file_ == nullptr)
      return fail(ErrorCode::bad_input,
                  fmt::format("{}: cannot be read: {}", path_, error ? error.message() : std::strerror(errno)));
    GLEANER_TRY(fill());
    if (stream_.avail_in >= 2 && block_[0] == 0x1f && block_[1] == 0x8b) {
      // 15 bits of window, and 16 for "gzip only".
      if (inflateInit2(&stream_, 15 + 16) != Z_OK) return fail(ErrorCode::fatal, path_ + ": zlib does not start");
      inflating_ = true;
    }
    return {};
  }

  // The most bytes of content that this file can hold.
  std::uint64_t content_bytes_max() const { return inflating_ ? file_bytes_ * kMaxInflation : file_bytes_; }
  bool is_exact() const { return !inflating_; }
  const std::string& path() const { return path_; }

  // As many bytes as there are, up to out.size().
  Result<std::size_t> read(std::span<std::uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      if (stream_.avail_in == 0) GLEANER_TRY(fill());
      if (stream_.avail_in == 0) {
        if (inflating_)
          return fail(ErrorCode::corrupt, path_ + ": the gzip stream ends too early: the file is truncated");
        break;
      }
      GLEANER_ASSIGN(const std::size_t got,
                     inflating_ ? inflate_some(out.subspan(done)) : copy_some(out.subspan(done)));
      done += got;
    }
    return done;
  }

  Status expect_end() {
    std::array<std::uint8_t, 1> extra{};
    GLEANER_ASSIGN(const std::size_t got, read(extra));
    if (stream_.avail_in == 0) GLEANER_TRY(fill());
    if (got == 0 && stream_.avail_in == 0) return {};
    return fail(ErrorCode::corrupt, path_ + (got != 0 ? ": bytes follow the last value that its header announces"
                                                      : ": bytes follow the end of its gzip stream"));
  }

 private:
  Status fill() {
    stream_.next_in = block_.data();
    stream_.avail_in = static_cast<uInt>(std::fread(block_.data(), 1, block_.size(), file_.get()));
    if (std::ferror(file_.get()) != 0)
      return fail(ErrorCode::fatal, fmt::format("{}: reading fails: {}", path_, std::strerror(errno)));
    return {};
  }

  Result<std::size_t> copy_some(std::span<std::uint8_t> out) {
    const std::size_t size = std::min<std::size_t>(out.size(), stream_.avail_in);
    std::memcpy(out.data(), stream_.next_in, size);
    stream_.next_in += size;
    stream_.avail_in -= static_cast<uInt>(size);
    return size;
  }

  Result<std::size_t> inflate_some(std::span<std::uint8_t> out) {
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      ended_ = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return fail(ErrorCode::corrupt, fmt::format("{}: the gzip stream is damaged: {}", path_,
                                                  stream_.msg == nullptr ? zError(code) : stream_.msg));
    }
    return out.size() - stream_.avail_out;
  }

  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  std::uint64_t file_bytes_ = 0;
  std::array<std::uint8_t, kBlockBytes> block_{};
  z_stream stream_{};
  bool inflating_ = false;
  bool ended_ = false;  // of the gzip stream
};

Status read_whole(ContentReader& reader, std::span<std::uint8_t> out, std::string_view what) {
  GLEANER_ASSIGN(const std::size_t got, reader.read(out));
  if (got == out.size()) return {};
  return fail(ErrorCode::corrupt,
              fmt::format("{}: the {} should have {} bytes, the file ends after {}: it is truncated", reader.path(),
                          what, out.size(), got));
}

Result<std::vector<std::uint32_t>> read_dims(ContentReader& reader) {
  std::array<std::uint8_t, 4> magic{};
  GLEANER_TRY(read_whole(reader, magic, "magic"));
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedByte || magic[3] == 0 || magic[3] > kMaxRank) {
    return fail(ErrorCode::corrupt,
                fmt::format("{}: expected an IDX file of unsigned bytes (first bytes 00 00 08 and a rank of 1 to {}), "
                            "found {:02x}",
                            reader.path(), kMaxRank, fmt::join(magic, " ")));
  }
  std::vector<std::uint8_t> bytes(std::size_t{magic[3]} * 4);
  GLEANER_TRY(read_whole(reader, bytes, "header"));
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

constexpr std::string_view prefix_of(Split split) { return split == Split::train ? "train" : "t10k"; }

Result<std::filesystem::path> find_file(const std::filesystem::path& directory, const std::string& name) {
  for (const std::string_view suffix : {"", ".gz"}) {
    const auto path = directory / (name + std::string(suffix));
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return fail(ErrorCode::not_found, fmt::format("{}: neither {} nor {}.gz is there", directory.string(), name, name));
}

struct NamedDataset {
  std::string_view name;
  std::string_view package;
  std::vector<std::filesystem::path> places;
  IdxOptions options;
};

const std::vector<NamedDataset>& named_datasets() {
  static const std::vector<NamedDataset> rows = {
      {"fashion-mnist",
       "dataset-fashion-mnist",
       {"/usr/share/datasets/fashion-mnist", "/usr/local/share/datasets/fashion-mnist"},
       {Standardisation{0.2860, 0.3530}, 10}},
      {"mnist",
       "",
       {"/usr/share/datasets/mnist", "/usr/local/share/datasets/mnist"},
       {Standardisation{0.1307, 0.3081}, 10}},
  };
  return rows;
}

const NamedDataset* find_named(const std::string& name) {
  const auto row = std::ranges::find(named_datasets(), name, &NamedDataset::name);
  return row == named_datasets().end() ? nullptr : &*row;
}

}  // namespace

Result<IdxFile> read_idx(const std::filesystem::path& path) {
  const auto reader = std::make_unique<ContentReader>();
  GLEANER_TRY(reader->open(path));
  IdxFile file;
  GLEANER_ASSIGN(file.dims, read_dims(*reader));
  GLEANER_ASSIGN(const std::size_t size, value_count(*reader, file.dims));
  file.values.resize(size);
  GLEANER_TRY(read_whole(*reader, file.values, "values"));
  GLEANER_TRY(reader->expect_end());
  return file;
}

Result<Dataset> load_idx_dataset(const std::filesystem::path& directory, Split split, const IdxOptions& options) {
  GLEANER_ASSIGN(const auto image_path, find_file(directory, fmt::format("{}-images-idx3-ubyte", prefix_of(split))));
  GLEANER_ASSIGN(const auto label_path, find_file(directory, fmt::format("{}-labels-idx1-ubyte", prefix_of(split))));
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

std::vector<std::string> known_datasets() {
  std::vector<std::string> names;
  for (const NamedDataset& row : named_datasets()) names.emplace_back(row.name);
  return names;
}

IdxOptions customary_options(const std::string& name) {
  if (const NamedDataset* row = find_named(name)) return row->options;
  return {Standardisation{0.0, 1.0}, 0};
}

std::vector<std::filesystem::path> dataset_places(const std::string& name) {
  const NamedDataset* row = find_named(name);
  return row == nullptr ? std::vector<std::filesystem::path>{} : row->places;
}

Result<Dataset> load_named_dataset(const std::string& name, Split split) {
  const NamedDataset* row = find_named(name);
  if (row == nullptr) {
    return fail(ErrorCode::bad_input, fmt::format("unknown data set \"{}\": there are {}; or name a directory with IDX "
                                                  "files",
                                                  name, join_names(known_datasets())));
  }
  std::vector<std::string> places;
  for (const auto& place : row->places) {
    std::error_code error;
    if (std::filesystem::is_directory(place, error)) return load_idx_dataset(place, split, row->options);
    places.push_back(place.string());
  }
  const std::string install = row->package.empty() ? "" : fmt::format("apt-get install {}, or ", row->package);
  return fail(ErrorCode::not_found,
              fmt::format("data set {} is not in {}: {}name its directory", name, join_names(places), install));
}

}  // namespace gleaner
