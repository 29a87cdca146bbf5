#pragma once
// PATH.lock: who serves the database at PATH, and which state of the file it knew last. Held by an
// open-file-description lock that ends with the process; the text in it names the holder's pid and up to two tokens of
// the database (two while one replaces the other, so that a crash in between is no mismatch). Errors: conflict when it
// is held.

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace gleaner {

class LockFile {
 public:
  static Result<LockFile> acquire(const std::string& database_path);
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

  const std::vector<std::uint64_t>& tokens() const { return tokens_; }
  Status set_tokens(std::vector<std::uint64_t> tokens);  // on disk at return

 private:
  LockFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Status write() const;

  std::string path_;
  int descriptor_;
  std::vector<std::uint64_t> tokens_;
};

}  // namespace gleaner
