#pragma once
// Large values in rows of at most 4 MiB, each with its XXH3-64. Writing belongs into the caller's transaction; reading
// checks every row, and damaged bytes are corrupt with their place.

#include <cstdint>
#include <string>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/ids.hpp"
#include "storage/sqlite.hpp"

namespace gleaner {

constexpr std::size_t kChunkBytesMax = 4U << 20;

enum class ChunkKind : std::uint8_t { aggregate = 1, patch = 2, snapshot = 3 };  // stored: never renumber

struct ChunkOwner {
  RunId run;
  Version version;
  ChunkKind kind;
};

// "version 12 of run demo, aggregate"; run_name is for people.
std::string to_string(const ChunkOwner& owner, const std::string& run_name);

Status write_chunk(Connection& connection, const ChunkOwner& owner, std::uint32_t place, ByteView bytes);
Status write_chunks(Connection& connection, const ChunkOwner& owner, ByteView bytes);
Status delete_chunks(Connection& connection, const ChunkOwner& owner);

// All chunks of the owner in order; corrupt unless they are whole and together `expected_bytes`.
Result<Bytes> read_chunks(Connection& connection, const ChunkOwner& owner, std::uint64_t expected_bytes,
                          const std::string& run_name);
// The same without keeping the bytes.
Status check_chunks(Connection& connection, const ChunkOwner& owner, std::uint64_t expected_bytes,
                    const std::string& run_name);

}  // namespace gleaner
