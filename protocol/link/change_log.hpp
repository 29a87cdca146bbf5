#pragma once
// Says whether a line is news: the same trouble of the same peer is told once, however often it is tried again.
// Bounded; not thread-safe.

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gleaner {

class ChangeLog {
 public:
  explicit ChangeLog(std::size_t keys_max = 1024) : keys_max_(keys_max) {}

  // key: a peer's name or address. The number of times that the key's last text was repeated unsaid, when this text is
  // another (0 for a new key); nothing when the text is the same again.
  std::optional<std::uint64_t> note(const std::string& key, std::string_view text);
  // The trouble is over: the same text will be news again.
  void forget(const std::string& key);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string key;
    std::uint64_t text_hash = 0;
    std::uint64_t repeats = 0;
  };

  std::size_t keys_max_;
  std::list<Entry> entries_;  // the least lately noted last
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace gleaner
