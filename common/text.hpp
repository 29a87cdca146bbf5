#pragma once
// Small text helpers for messages to people.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gleaner {

// The candidate with the fewest edits from word, or "" when none is near enough to be meant.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "a, b and c"
std::string join_names(std::span<const std::string> names);

// "12.3 kB", "4.56 MB": powers of ten, three digits.
std::string human_bytes(double bytes);

// 16 lower-case hexadecimal digits.
std::string to_hex(unsigned long long value);

}  // namespace gleaner
