#pragma once
// Names and numbers that identify things, as types of their own so that they cannot be swapped.

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace gleaner {

template <class Tag, class Value>
struct StrongId {
  Value value{};
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
};

using RunId = StrongId<struct RunTag, std::uint64_t>;        // random, unique for ever
using Lineage = StrongId<struct LineageTag, std::uint64_t>;  // random; new when a database is restored from a backup
using PlanId = StrongId<struct PlanTag, std::uint64_t>;      // durable, never reused within a run; 0 = none
using Version = StrongId<struct VersionTag, std::uint32_t>;  // of the model; version 0 is the seeded one
using Digest = StrongId<struct DigestTag, std::uint64_t>;    // XXH3-64 of a payload
using DeviceName = StrongId<struct DeviceTag, std::string>;  // from the certificate, [a-z0-9._-]{1,64}

inline Version next(Version v) { return {v.value + 1}; }

// True for a name that may stand in a certificate, a file name and a log line.
inline bool is_valid_name(const std::string& name) {
  if (name.empty() || name.size() > 64 || name.front() == '.' || name.front() == '-') return false;
  for (const char c : name) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!ok) return false;
  }
  return true;
}

}  // namespace gleaner

template <class Tag, class Value>
struct std::hash<gleaner::StrongId<Tag, Value>> {
  std::size_t operator()(const gleaner::StrongId<Tag, Value>& id) const { return std::hash<Value>{}(id.value); }
};
