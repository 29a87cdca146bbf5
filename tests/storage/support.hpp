#pragma once
// What the storage tests share: a folder of their own, and records whose content is a function of their version.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "storage/sqlite_database.hpp"

namespace gleaner::test {

// Made empty, removed at the end. In memory, where there is such a place, no write waits for a disk.
class Folder {
 public:
  enum class Place { disk, memory };
  explicit Folder(Place place = Place::disk);
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

constexpr RunId kRun{0x9123456789abcdefULL};  // the top bit set, like half of all ids

RunRow run_row(const std::string& name = "demo", RunId id = kRun);
Bytes content(std::uint64_t seed, std::size_t size);
PlanRow plan_row(std::uint64_t id, const std::string& device = "a", std::uint32_t round = 1);
AnswerRow answer_row(std::uint64_t plan, const std::string& device = "a", Outcome outcome = Outcome::included);

// The record that makes `version` in the round of the same number, without answers; its bytes depend on it alone.
CommitRecord record_of(std::uint32_t version, std::size_t aggregate_bytes = 5'000);
std::uint64_t model_hash_of(std::uint32_t version);
Bytes snapshot_of(std::uint32_t version, std::size_t size);

Status write_snapshot(Database& database, RunId run, std::uint32_t version, std::size_t size,
                      std::uint32_t patches_kept);

// Checks every stored record and snapshot against the functions above; "" or what differs.
std::string compare_with_functions(Database& database, RunId run, std::uint32_t version_at_least);

}  // namespace gleaner::test
