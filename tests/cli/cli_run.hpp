#pragma once
// Runs a command line in this process and keeps what it printed.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "tests/coordinator/admin/fake_backend.hpp"

namespace gleaner::cli {

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

struct Terminal {
  bool is_terminal = false;
  std::string typed;
};

Ran run_cli(std::vector<std::string> args, const Terminal& terminal = {});

// The real program, with its exit status.
Ran run_program(const std::vector<std::string>& args);

class InTemporaryFolder : public testing::Test {
 protected:
  ~InTemporaryFolder() override;
  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;

  const std::filesystem::path folder_ = make_temporary_folder();
};

}  // namespace gleaner::cli
