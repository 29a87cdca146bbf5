#pragma once
// The logging seam. Everything logs one line through log(); only log.cpp knows the library behind it. Thread-safe.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace gleaner {

enum class LogLevel { debug, info, warn, error };

struct LogSettings {
  LogLevel level = LogLevel::info;
  std::string file;     // empty: standard error
  std::string program;  // shown in every line
};

// Call once at start-up; before it, lines go to standard error at level info. Throws std::runtime_error when the file
// cannot be opened.
void start_logging(const LogSettings& settings);

void log_line(LogLevel level, std::string_view line);
bool log_enabled(LogLevel level);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::debug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::info, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::warn, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::error, format, std::forward<Args>(args)...);
}

}  // namespace gleaner
