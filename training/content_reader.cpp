#include "training/content_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gleaner {
namespace {

constexpr std::uint64_t kMaxInflation = 1032;  // deflate cannot do better than this

}  // namespace

ContentReader::~ContentReader() {
  if (inflating_) inflateEnd(&stream_);
}

Status ContentReader::open(const std::filesystem::path& path) {
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

std::uint64_t ContentReader::content_bytes_max() const {
  return inflating_ ? file_bytes_ * kMaxInflation : file_bytes_;
}

Result<std::size_t> ContentReader::read(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size() && !ended_) {
    if (stream_.avail_in == 0) GLEANER_TRY(fill());
    if (stream_.avail_in == 0) {
      if (inflating_)
        return fail(ErrorCode::corrupt, path_ + ": the gzip stream ends too early: the file is truncated");
      break;
    }
    if (inflating_) {
      GLEANER_ASSIGN(const std::size_t got, inflate_some(out.subspan(done)));
      done += got;
    } else {
      done += copy_some(out.subspan(done));
    }
  }
  return done;
}

Status ContentReader::read_whole(std::span<std::uint8_t> out, std::string_view what) {
  GLEANER_ASSIGN(const std::size_t got, read(out));
  if (got == out.size()) return {};
  return fail(ErrorCode::corrupt,
              fmt::format("{}: the {} should have {} bytes, the file ends after {}: it is truncated", path_, what,
                          out.size(), got));
}

Status ContentReader::expect_end() {
  std::array<std::uint8_t, 1> extra{};
  GLEANER_ASSIGN(const std::size_t got, read(extra));
  if (stream_.avail_in == 0) GLEANER_TRY(fill());
  if (got == 0 && stream_.avail_in == 0) return {};
  return fail(ErrorCode::corrupt, path_ + (got != 0 ? ": bytes follow the last value that its header announces"
                                                    : ": bytes follow the end of its gzip stream"));
}

Status ContentReader::fill() {
  stream_.next_in = block_.data();
  stream_.avail_in = static_cast<uInt>(std::fread(block_.data(), 1, block_.size(), file_.get()));
  if (std::ferror(file_.get()) != 0)
    return fail(ErrorCode::fatal, fmt::format("{}: reading fails: {}", path_, std::strerror(errno)));
  return {};
}

std::size_t ContentReader::copy_some(std::span<std::uint8_t> out) {
  const std::size_t size = std::min<std::size_t>(out.size(), stream_.avail_in);
  std::memcpy(out.data(), stream_.next_in, size);
  stream_.next_in += size;
  stream_.avail_in -= static_cast<uInt>(size);
  return size;
}

Result<std::size_t> ContentReader::inflate_some(std::span<std::uint8_t> out) {
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

Result<std::filesystem::path> find_content(const std::filesystem::path& directory, const std::string& name) {
  for (const std::string_view suffix : {"", ".gz"}) {
    const auto path = directory / (name + std::string(suffix));
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return fail(ErrorCode::not_found, fmt::format("{}: neither {} nor {}.gz is there", directory.string(), name, name));
}

}  // namespace gleaner
