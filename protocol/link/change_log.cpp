#include "protocol/link/change_log.hpp"

#include <utility>

#include "common/hash.hpp"

namespace gleaner {

std::optional<std::uint64_t> ChangeLog::note(const std::string& key, std::string_view text) {
  const std::uint64_t hash = hash_of(text);
  if (const auto at = by_key_.find(key); at != by_key_.end()) {
    Entry& entry = *at->second;
    entries_.splice(entries_.begin(), entries_, at->second);
    if (entry.text_hash == hash) {
      ++entry.repeats;
      return std::nullopt;
    }
    entry.text_hash = hash;
    return std::exchange(entry.repeats, 0);
  }
  if (keys_max_ == 0) return 0;
  if (entries_.size() >= keys_max_) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({.key = key, .text_hash = hash});
  by_key_.emplace(key, entries_.begin());
  return 0;
}

void ChangeLog::forget(const std::string& key) {
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return;
  entries_.erase(at->second);
  by_key_.erase(at);
}

}  // namespace gleaner
