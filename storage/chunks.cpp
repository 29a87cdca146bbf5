#include "storage/chunks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/hash.hpp"

namespace gleaner {
namespace {

std::string_view to_string(ChunkKind kind) {
  switch (kind) {
    case ChunkKind::aggregate: return "aggregate";
    case ChunkKind::patch: return "patch";
    case ChunkKind::snapshot: return "snapshot";
  }
  return "chunk";
}

template <class Visit>
Status visit_chunks(Connection& connection, const ChunkOwner& owner, std::uint64_t expected_bytes,
                    const std::string& run_name, const Visit& visit) {
  const auto damaged = [&](std::string_view what) {
    return fail(ErrorCode::corrupt,
                fmt::format("{}: {}: {}; restore a backup", connection.path(), to_string(owner, run_name), what));
  };
  // Lengths first: nothing is allocated on the word of a damaged row.
  GLEANER_ASSIGN(const auto stored, connection.first<std::uint64_t>("SELECT coalesce(sum(length(bytes)), 0) FROM chunk "
                                                                    "WHERE run = ? AND version = ? AND kind = ?",
                                                                    owner.run, owner.version, owner.kind));
  if (stored != expected_bytes) {
    return damaged(fmt::format("{} of {} bytes are there", stored.value_or(0), expected_bytes));
  }
  GLEANER_ASSIGN(Statement rows, connection.query("SELECT place, hash, bytes FROM chunk "
                                                  "WHERE run = ? AND version = ? AND kind = ? ORDER BY place",
                                                  owner.run, owner.version, owner.kind));
  for (std::uint32_t place = 0;; ++place) {
    GLEANER_ASSIGN(const bool found, rows.step());
    if (!found) return {};
    if (rows.get<std::int64_t>(0) != place) return damaged(fmt::format("chunk {} is missing", place));
    const ByteView bytes = rows.get<ByteView>(2);
    if (digest_of(bytes) != rows.get<Digest>(1)) return damaged(fmt::format("chunk {} fails its checksum", place));
    visit(bytes);
  }
}

}  // namespace

std::string to_string(const ChunkOwner& owner, const std::string& run_name) {
  return fmt::format("version {} of run {}, {}", owner.version.value, run_name, to_string(owner.kind));
}

Status write_chunk(Connection& connection, const ChunkOwner& owner, std::uint32_t place, ByteView bytes) {
  return connection.execute("INSERT INTO chunk (run, version, kind, place, hash, bytes) VALUES (?, ?, ?, ?, ?, ?)",
                            owner.run, owner.version, owner.kind, place, digest_of(bytes), bytes);
}

Status write_chunks(Connection& connection, const ChunkOwner& owner, ByteView bytes) {
  for (std::uint32_t place = 0; !bytes.empty(); ++place) {
    const ByteView piece = bytes.first(std::min(bytes.size(), kChunkBytesMax));
    GLEANER_TRY(write_chunk(connection, owner, place, piece));
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Status delete_chunks(Connection& connection, const ChunkOwner& owner) {
  return connection.execute("DELETE FROM chunk WHERE run = ? AND version = ? AND kind = ?", owner.run, owner.version,
                            owner.kind);
}

Result<Bytes> read_chunks(Connection& connection, const ChunkOwner& owner, std::uint64_t expected_bytes,
                          const std::string& run_name) {
  Bytes all;
  GLEANER_TRY(visit_chunks(connection, owner, expected_bytes, run_name, [&](ByteView bytes) {
    if (all.empty()) all.reserve(expected_bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }));
  return all;
}

Status check_chunks(Connection& connection, const ChunkOwner& owner, std::uint64_t expected_bytes,
                    const std::string& run_name) {
  return visit_chunks(connection, owner, expected_bytes, run_name, [](ByteView) {});
}

}  // namespace gleaner
