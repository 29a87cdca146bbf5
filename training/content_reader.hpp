#pragma once
// A file of which only the content counts: gzip is seen by its first bytes and undone. Errors: not_found (no such
// file), corrupt (damaged or too short), bad_input (cannot be read), fatal; each names the file.

#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/error.hpp"

namespace gleaner {

class ContentReader {
 public:
  ContentReader() = default;
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;
  ~ContentReader();

  Status open(const std::filesystem::path& path);

  // The most bytes of content that this file can hold.
  std::uint64_t content_bytes_max() const;
  bool is_exact() const { return !inflating_; }
  const std::string& path() const { return path_; }

  // As many bytes as there are, up to out.size().
  Result<std::size_t> read(std::span<std::uint8_t> out);
  // All of out; what: for the error.
  Status read_whole(std::span<std::uint8_t> out, std::string_view what);
  Status expect_end();

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  Status fill();
  std::size_t copy_some(std::span<std::uint8_t> out);
  Result<std::size_t> inflate_some(std::span<std::uint8_t> out);

  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  std::uint64_t file_bytes_ = 0;
  std::array<std::uint8_t, 64 * 1024> block_{};
  z_stream stream_{};
  bool inflating_ = false;
  bool ended_ = false;  // of the gzip stream
};

// DIRECTORY/NAME or DIRECTORY/NAME.gz, whichever is there. Error: not_found.
Result<std::filesystem::path> find_content(const std::filesystem::path& directory, const std::string& name);

}  // namespace gleaner
