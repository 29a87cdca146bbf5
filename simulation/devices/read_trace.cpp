#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "simulation/devices/sources.hpp"

namespace gleaner::simulation {

Result<std::string> read_trace(const std::string& path) {
  constexpr std::uintmax_t kMost = 512U << 20;
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::bad_input, fmt::format("{}: {}", path, why));
  };
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::not_found) return refuse("no such file");
  if (code) return refuse(code.message());
  // A pipe or a device has no size to check before reading.
  if (!std::filesystem::is_regular_file(status)) return refuse("is no file, expected a trace");
  const std::uintmax_t size = std::filesystem::file_size(path, code);
  if (code) return refuse(code.message());
  if (size > kMost) return refuse(fmt::format("has {} bytes, expected at most {}", size, kMost));
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!in || !in.read(text.data(), static_cast<std::streamsize>(size))) {
    return refuse(errno != 0 ? std::strerror(errno) : "became shorter while it was read");
  }
  return text;
}

}  // namespace gleaner::simulation
