#include "config/paths.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "config/units.hpp"

namespace gleaner::config {
namespace {

namespace fs = std::filesystem;

std::string make_absolute(const std::string& path, const fs::path& folder) {
  return (folder / path).lexically_normal().string();
}

Fault about(std::string_view what, const std::string& path) {
  return {.what = fmt::format("{}: {}", what, path), .meant = {}};
}

// Asks for the effective user, who is the one that opens the file later.
bool may(const std::string& path, int mode) { return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0; }

using Check = std::function<std::optional<Fault>(const std::string& absolute)>;

Kind path_kind(std::string& into, std::string expected, Check check) {
  Kind kind = text(into);
  kind.expected = std::move(expected);
  if (!into.empty()) {
    kind.set = [set = kind.set](const Value& value) -> std::optional<Fault> {
      const auto* found = std::get_if<std::string>(&value.scalar);
      if (found != nullptr && found->empty()) return Fault{.what = "is empty", .meant = {}};
      return set(value);
    };
  }
  kind.settle = [&into, check = std::move(check)](const fs::path& folder) -> std::optional<Fault> {
    if (into.empty()) return std::nullopt;
    into = make_absolute(into, folder);
    return check(into);
  };
  return kind;
}

// Why there is nothing readable of that sort, or nothing.
std::optional<Fault> check_readable(const std::string& path, fs::file_type wanted) {
  std::error_code code;
  const auto status = fs::status(path, code);
  const bool is_directory = wanted == fs::file_type::directory;
  if (status.type() == fs::file_type::not_found)
    return about(is_directory ? "no such directory" : "no such file", path);
  if (code) return about(code.message(), path);
  if (is_directory != (status.type() == fs::file_type::directory)) {
    return about(is_directory ? "is no directory" : "is a directory", path);
  }
  if (!may(path, is_directory ? R_OK | X_OK : R_OK)) return about(std::strerror(errno), path);
  return std::nullopt;
}

std::optional<Fault> check_directory_to_write(const std::string& path) {
  // The nearest ancestor that exists decides whether the rest can be made.
  fs::path at(path);
  if (!at.has_filename()) at = at.parent_path();
  std::error_code code;
  while (!fs::exists(at, code) && at.has_relative_path()) {
    if (code && code != std::errc::not_a_directory) return about(code.message(), at.string());
    at = at.parent_path();
  }
  if (!fs::is_directory(at, code)) return about("is no directory", at.string());
  if (!may(at.string(), W_OK | X_OK)) return about(std::strerror(errno), at.string());
  return std::nullopt;
}

std::optional<Fault> check_file_to_write(const std::string& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) return about("is a directory", path);
  if (fs::exists(path, code)) {
    return may(path, R_OK | W_OK) ? std::nullopt : std::optional(about(std::strerror(errno), path));
  }
  return check_directory_to_write(fs::path(path).parent_path().string());
}

}  // namespace

Kind readable_file(std::string& into) {
  return path_kind(into, "the path of a readable file",
                   [](const std::string& path) { return check_readable(path, fs::file_type::regular); });
}

Kind readable_directory(std::string& into) {
  return path_kind(into, "the path of a readable directory",
                   [](const std::string& path) { return check_readable(path, fs::file_type::directory); });
}

Kind file_to_write(std::string& into) {
  return path_kind(into, "the path of a file that can be written", check_file_to_write);
}

Kind directory_to_write(std::string& into) {
  return path_kind(into, "the path of a directory that can be written", check_directory_to_write);
}

Kind unix_socket(std::string& into) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  return path_kind(into, fmt::format("a path of at most {} bytes for a Unix socket", kLongest),
                   [](const std::string& path) -> std::optional<Fault> {
                     if (path.size() > kLongest) return about(fmt::format("has {} bytes", path.size()), path);
                     std::error_code code;
                     if (fs::is_directory(path, code)) return about("is a directory", path);
                     return check_directory_to_write(fs::path(path).parent_path().string());
                   });
}

Kind endpoint(std::string& host, std::uint16_t& port, Ports ports) {
  const auto set = [&host, &port, ports](const Value& value) -> std::optional<Fault> {
    Fault fault{.what = "is " + describe(value), .meant = {}};
    const auto* found = std::get_if<std::string>(&value.scalar);
    if (found == nullptr) return fault;
    std::string why;
    const auto parsed = parse_endpoint(*found, why);
    if (!parsed) {
      fault.what += ", " + why;
      return fault;
    }
    if (parsed->port == std::uint16_t{0} && ports == Ports::given) {
      fault.what += ", whose port is 0";
      return fault;
    }
    host = parsed->host;
    port = parsed->port.value_or(port);
    return std::nullopt;
  };
  std::string expected = R"("HOST:PORT" such as "example.org:7433" or "[::1]:7433")";
  if (ports == Ports::any_free_too)
    expected = R"("ADDRESS:PORT" such as "0.0.0.0:7433" or "[::]:7433"; port 0 is any free one)";
  return {.expected = std::move(expected), .set = set, .show = [&host, &port] {
            return host.empty() ? quote("") : quote(format_endpoint(host, port));
          }};
}

}  // namespace gleaner::config
