#pragma once
// The virtual devices' names, and back. Digits enough for all, so that the order of names is that of numbers.

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "common/ids.hpp"

namespace gleaner::simulation {

class Names {
 public:
  explicit Names(std::uint32_t devices)
      : devices_(devices), digits_(std::max<std::size_t>(2, std::to_string(devices == 0 ? 0 : devices - 1).size())) {}

  DeviceName name_of(std::uint32_t device) const { return {fmt::format("device-{:0{}}", device, digits_)}; }

  std::optional<std::uint32_t> device_of(const DeviceName& name) const {
    constexpr std::string_view kPrefix = "device-";
    std::uint32_t device = 0;
    if (!name.value.starts_with(kPrefix)) return std::nullopt;
    const char* end = name.value.data() + name.value.size();
    const auto [rest, ec] = std::from_chars(name.value.data() + kPrefix.size(), end, device);
    if (ec != std::errc{} || rest != end || device >= devices_) return std::nullopt;
    return device;
  }

 private:
  std::uint32_t devices_;
  std::size_t digits_;
};

}  // namespace gleaner::simulation
