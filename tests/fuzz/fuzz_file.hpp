#pragma once
// Files that a fuzz target gives to readers which take a path: in a folder of the process's own, gone at its end.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/check.hpp"

namespace gleaner {

class FuzzFolder {
 public:
  FuzzFolder() {
    namespace fs = std::filesystem;
    const fs::path base = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
    path_ = base / ("gleaner-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(path_);
  }
  FuzzFolder(const FuzzFolder&) = delete;
  FuzzFolder& operator=(const FuzzFolder&) = delete;
  ~FuzzFolder() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
    file << content;
    file.close();
    GLEANER_CHECK(file.good());
  }

 private:
  std::filesystem::path path_;
};

}  // namespace gleaner
