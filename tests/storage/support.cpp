#include "tests/storage/support.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "common/hash.hpp"

namespace gleaner::test {

Folder::Folder(Place place) {
  const std::filesystem::path memory = "/dev/shm";
  const bool in_memory = place == Place::memory && std::filesystem::is_directory(memory);
  const std::filesystem::path parent = in_memory ? memory : std::filesystem::temp_directory_path();
  std::string pattern = (parent / "gleaner-storage-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

RunRow run_row(const std::string& name, RunId id) {
  return {.id = id,
          .name = name,
          .settings = "rounds = 5\n",
          .state = RunState::active,
          .lineage = {0xfedcba9876543210ULL},
          .created_unix_ms = 1'700'000'000'000};
}

Bytes content(std::uint64_t seed, std::size_t size) {
  Bytes bytes;
  bytes.reserve(size + 8);
  ByteWriter writer(bytes);
  for (std::uint64_t i = 0; bytes.size() < size; ++i) writer.put(mix64(mix64(seed) + i));
  bytes.resize(size);
  return bytes;
}

PlanRow plan_row(std::uint64_t id, const std::string& device, std::uint32_t round) {
  return {.id = {id},
          .device = {device},
          .round = round,
          .base = {round - 1},
          .entries_max = 100,
          .steps_max = 7,
          .threshold = 0.25F,
          .clip_exponent = -3,
          .weight_bits = 20,
          .samples = 600};
}

AnswerRow answer_row(std::uint64_t plan, const std::string& device, Outcome outcome) {
  return {.plan = {plan},
          .device = {device},
          .outcome = outcome,
          .refusal = outcome == Outcome::refused ? RefusalCode::non_finite : RefusalCode::none,
          .digest = {mix64(plan)},
          .samples = 600,
          .compute_ms = 1'234,
          .payload_bytes = 900,
          .left = static_cast<float>(plan) + 0.5F,
          .right = 2.5F,
          .loss = 0.75F};
}

std::uint64_t model_hash_of(std::uint32_t version) { return mix64(0xABCD'0000ULL + version); }

CommitRecord record_of(std::uint32_t version, std::size_t aggregate_bytes) {
  return {.version = {version},
          .round = version,
          .aggregate = content(2 * std::uint64_t{version}, aggregate_bytes),
          .patch = content(2 * std::uint64_t{version} + 1, 300 + version % 50),
          .patch_clip = 0.125F,
          .model_hash = model_hash_of(version),
          .weight = 0x8000'0000'0000'0000ULL + version,
          .contributions = 3,
          .step_squared_norm = 0.5 / version,
          .answers = {},
          .traffic = {.up_bytes = 10,
                      .down_bytes = 20,
                      .up_value_bytes = 3,
                      .up_index_bytes = 4,
                      .down_value_bytes = 5,
                      .down_index_bytes = 6},
          .wall_unix_ms = 1'700'000'000'000 + version,
          .duration_ms = 250};
}

Bytes snapshot_of(std::uint32_t version, std::size_t size) { return content(0x5AAD'0000ULL + version, size); }

Status write_snapshot(Database& database, RunId run, std::uint32_t version, std::size_t size,
                      std::uint32_t patches_kept) {
  const Bytes bytes = snapshot_of(version, size);
  GLEANER_TRY(database.begin_snapshot(run, {version}, size));
  for (ByteView rest = bytes; !rest.empty();) {
    const ByteView piece = rest.first(std::min(rest.size(), kChunkBytesMax));
    GLEANER_TRY(database.append_snapshot(run, {version}, piece));
    rest = rest.subspan(piece.size());
  }
  return database.finish_snapshot(run, {version}, patches_kept);
}

std::string compare_with_functions(Database& database, RunId run, std::uint32_t version_at_least) {
  const auto row = database.run(run);
  if (!row) return row.error().message();
  if (row->version.value < version_at_least) {
    return fmt::format("version {} was reported, version {} is stored", version_at_least, row->version.value);
  }
  if (row->version.value != 0 && row->model_hash != model_hash_of(row->version.value)) return "another model hash";
  const auto snapshot = database.newest_snapshot(run);
  if (!snapshot) return snapshot.error().message();
  Version from;
  if (*snapshot) {
    from = (*snapshot)->version;
    if ((*snapshot)->bytes != snapshot_of(from.value, (*snapshot)->bytes.size())) return "another snapshot";
  }
  std::uint32_t at = from.value;
  const Status replayed = database.replay(run, from, [&](const CommitRecord& record) -> Status {
    const CommitRecord expected = record_of(++at, record.aggregate.size());
    if (record.version.value != at || record.aggregate != expected.aggregate || record.patch != expected.patch ||
        record.model_hash != expected.model_hash || record.weight != expected.weight) {
      return fail(ErrorCode::corrupt, fmt::format("version {} is not what was written", at));
    }
    return {};
  });
  if (!replayed) return replayed.error().message();
  return at == row->version.value ? "" : "the replay ended early";
}

}  // namespace gleaner::test
