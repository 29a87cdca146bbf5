#pragma once
// A file that appears under its name whole or not at all.

#include <string>

#include "common/bytes.hpp"
#include "common/error.hpp"

namespace gleaner::cli {

enum class Existing { keep, replace };

class NewFile {
 public:
  // Errors: conflict when there is such a file and it is to be kept, bad_input when its folder cannot be written to.
  static Result<NewFile> create(const std::string& path, Existing existing);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // without commit() nothing stays

  Status write(ByteView bytes);
  Status commit();  // on disk, and named

 private:
  NewFile(std::string path, Existing existing) : path_(std::move(path)), existing_(existing) {}
  Error failed(const char* what) const;

  std::string path_;
  Existing existing_;
  std::string partial_;
  int descriptor_ = -1;
};

}  // namespace gleaner::cli
