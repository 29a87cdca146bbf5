#pragma once
// PATH.lock: who serves the database at PATH, and which state of the file it knew last. Held by an
// open-file-description lock that ends with the process; the text in it names the holder's pid and up to two tokens of
// the database (two while one replaces the other, so that a crash in between is no mismatch). Beside it the database's
// own file is locked as a whole, so that neither another name of it nor a PATH.lock that was removed lets a second
// process in. Errors: conflict when either is held, corrupt when the file is no database, bad_input when it is no file.

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
  void keep() { made_ = false; }  // without it a PATH.lock that was made for this is removed with the lock
  Status set_tokens(std::vector<std::uint64_t> tokens);  // on disk at return

 private:
  LockFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Status write() const;
  Status lock_database(const std::string& database_path);

  std::string path_;
  int descriptor_;
  bool made_ = false;
  // Of the database's file, which SQLite's locks do not know of. While SQLite has the file open this must stay open:
  // closing any descriptor of a file takes all of a process's POSIX locks from it.
  int database_ = -1;
  std::vector<std::uint64_t> tokens_;
};

}  // namespace gleaner
