#pragma once
// The folder of an experiment's results, held by one process at a time.

#include <string>

#include "common/descriptor.hpp"
#include "common/error.hpp"

namespace gleaner::cli {

class OutputFolder {
 public:
  // Makes PATH and PATH/state and holds PATH/lock for as long as the object lives.
  // Errors: conflict when another process holds it, bad_input when it cannot be made.
  static Result<OutputFolder> make(const std::string& path);
  // The same for one that must be there; not_found leaves no folder behind.
  static Result<OutputFolder> reopen(const std::string& path);

 private:
  explicit OutputFolder(int lock) : lock_(lock) {}
  static Result<OutputFolder> hold(const std::string& path);

  Descriptor lock_;
};

}  // namespace gleaner::cli
