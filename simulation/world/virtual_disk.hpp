#pragma once
// The coordinator's database as it lies in the virtual world: its disk is full when the world says so, which the
// coordinator waits out in virtual time. A real disk that is full is no part of the world, and nothing that is waited
// out there makes room on it.

#include <functional>
#include <memory>

#include "common/error.hpp"
#include "storage/database.hpp"

namespace gleaner::simulation {

struct DiskState {
  std::function<bool()> is_full;  // of the virtual disk; none: never
  std::function<void(const Error&)> on_really_full;
};

// What is behind outlives it.
std::unique_ptr<Database> in_front_of(Database& behind, DiskState state);

}  // namespace gleaner::simulation
