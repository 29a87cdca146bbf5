#pragma once
// What `gleaner doctor` found: one line each, with what to do about it.

#include <ostream>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace gleaner::cli {

enum class Level { ok, warn, fail };

struct Finding {
  Level level = Level::ok;
  std::string what;
  std::string advice;  // empty when there is nothing to do
};

class Findings {
 public:
  void ok(std::string what) { add({Level::ok, std::move(what), ""}); }
  void warn(std::string what, std::string advice) { add({Level::warn, std::move(what), std::move(advice)}); }
  void fail(std::string what, std::string advice = "") { add({Level::fail, std::move(what), std::move(advice)}); }
  void fail(const Error& error);  // one finding a line: a configuration's mistakes come together
  void add(Finding finding);

  const std::vector<Finding>& all() const { return all_; }
  std::size_t count(Level level) const;
  void print(std::ostream& out) const;
  void print_json(std::ostream& out) const;

 private:
  std::vector<Finding> all_;
};

}  // namespace gleaner::cli
