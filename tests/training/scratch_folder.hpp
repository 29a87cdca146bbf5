#pragma once
// A folder of a test's own that goes with it, and errors as they read without its name.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/error.hpp"

namespace gleaner::testing {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = ::testing::TempDir() + "/gleaner-data-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

  template <class T>
  std::string message_of(const Result<T>& result, ErrorCode code = ErrorCode::corrupt) const {
    if (result) {
      ADD_FAILURE() << "no error";
      return {};
    }
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    std::string text = result.error().message();
    const std::string prefix = path_.string() + "/";
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) text.erase(at, prefix.size());
    return text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace gleaner::testing
