// Whatever the bytes, the value decoders return a refusal or values within the clip; what was admitted, coded again in
// whatever format, is what the encoder says it is, and taking it out of the values and putting it back is exact. The
// first bytes choose format, clip and count.

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "common/check.hpp"
#include "compression/codec/value_codec.hpp"

namespace gleaner {
namespace {

bool same_bits(std::span<const float> a, std::span<const float> b) {
  for (std::size_t j = 0; j < a.size(); ++j) {
    if (std::bit_cast<std::uint32_t>(a[j]) != std::bit_cast<std::uint32_t>(b[j])) return false;
  }
  return a.size() == b.size();
}

void run(ByteView input) {
  ByteReader in(input);
  const ValueFormat format = kValueFormats[in.get<std::uint8_t>() % kValueFormats.size()];
  const auto clip = std::bit_cast<float>(std::uint32_t{in.get<std::uint8_t>() % 254U + 1} << 23);
  const std::size_t count = in.get<std::uint16_t>() % 1'000 + 1;
  std::vector<float> values(count);
  if (!codec::get_values(format, clip, in, values)) return;
  for (const float value : values) GLEANER_CHECK(std::fabs(value) <= clip);
  for (const ValueFormat again : kValueFormats) {
    Bytes bytes;
    std::vector<float> sent(count), decoded(count);
    codec::put_values(again, values, clip, bytes, sent);
    ByteReader coded(bytes);
    GLEANER_CHECK(codec::get_values(again, clip, coded, decoded).has_value() && coded.at_end());
    GLEANER_CHECK(same_bits(sent, decoded));
    for (std::size_t j = 0; j < count; ++j) {
      const float rest = values[j] - sent[j];
      GLEANER_CHECK(double{rest} == double{values[j]} - double{sent[j]} && rest + sent[j] == values[j]);
    }
  }
}

}  // namespace
}  // namespace gleaner

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  gleaner::run(std::as_bytes(std::span(bytes, size)));
  return 0;
}
