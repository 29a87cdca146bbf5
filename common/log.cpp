#include "common/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <stdexcept>

namespace gleaner {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> make_logger(const LogSettings& settings) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (settings.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(settings.file);
  }
  auto logger = std::make_shared<spdlog::logger>(settings.program, std::move(sink));
  logger->set_level(to_spdlog(settings.level));
  logger->set_pattern(settings.program.empty() ? "%Y-%m-%dT%H:%M:%S.%eZ %l %v" : "%Y-%m-%dT%H:%M:%S.%eZ %n %l %v",
                      spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::info);
  return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = make_logger({});
  return instance;
}

}  // namespace

void start_logging(const LogSettings& settings) {
  try {
    logger() = make_logger(settings);
  } catch (const spdlog::spdlog_ex& e) {
    throw std::runtime_error(std::string("cannot open the log file: ") + e.what());
  }
}

void log_line(LogLevel level, std::string_view line) {
  logger()->log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

bool log_enabled(LogLevel level) { return logger()->should_log(to_spdlog(level)); }

}  // namespace gleaner
