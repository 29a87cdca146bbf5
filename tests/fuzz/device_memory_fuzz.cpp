// Stored device memory that was damaged past its checksum: an Error, or a memory that writes the same bytes again and
// settles without a fault.

#include <cstdint>
#include <span>

#include "common/check.hpp"
#include "compression/device_memory.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using gleaner::MemoryKind;
  if (size < 3) return 0;
  const auto kind = static_cast<MemoryKind>(bytes[0] % 3);
  const auto outcome = static_cast<gleaner::Outcome>(bytes[1] % 8);
  const std::uint32_t dimension = bytes[2];
  const auto stored = std::as_bytes(std::span(bytes, size).subspan(3));
  auto memory = gleaner::DeviceMemory::from_bytes(stored, kind, dimension);
  if (!memory) return 0;
  const gleaner::Bytes again = memory->to_bytes();
  GLEANER_CHECK(std::ranges::equal(again, stored));
  memory->settle(outcome);
  return 0;
}
