// Whatever the bytes, the index decoders return a refusal or ascending indices below the group's size; what was
// admitted and is coded again, in whatever format, decodes to the same. The first bytes choose format, size and count.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/check.hpp"
#include "compression/codec/index_codec.hpp"
#include "compression/codec/index_stream.hpp"

namespace gleaner {
namespace {

constexpr IndexFormat kFormats[] = {IndexFormat::list,        IndexFormat::dense,      IndexFormat::bitmap,
                                    IndexFormat::golomb_rice, IndexFormat::elias_fano, IndexFormat::blocks};

void run(ByteView input) {
  ByteReader in(input);
  const IndexFormat format = kFormats[in.get<std::uint8_t>() % std::size(kFormats)];
  const auto choice = in.get<std::uint16_t>();
  const std::uint32_t size = choice % 5 == 0 ? ~std::uint32_t{choice} : choice;
  const std::uint32_t count = std::min<std::uint32_t>(size, in.get<std::uint16_t>() % 2'000);
  if (count == 0) return;
  std::vector<std::uint32_t> indices(count);
  ByteReader again_in = in;
  const ByteView all = again_in.get_bytes(again_in.remaining());
  const bool read = codec::get_indices(format, size, in, indices).has_value();
  const auto stream = codec::open_indices(format, size, count, all);
  const auto extent = stream ? codec::extent_of_indices(*stream) : std::unexpected(stream.error());
  GLEANER_CHECK(!extent || *extent <= all.size());
  if (!read) return;
  GLEANER_CHECK(extent.has_value() && *extent == all.size() - in.remaining() && indices.back() < size);
  GLEANER_CHECK(std::ranges::adjacent_find(indices, std::ranges::greater_equal{}) == indices.end());
  for (const IndexFormat again : kFormats) {
    if (again == IndexFormat::bitmap && size > 1U << 17) continue;
    const auto plan = codec::plan_indices(again, indices, size);
    if (!plan || plan->bytes > 1U << 20) continue;
    Bytes bytes;
    codec::put_indices(*plan, indices, size, bytes);
    GLEANER_CHECK(bytes.size() == plan->bytes);
    std::vector<std::uint32_t> decoded(count);
    ByteReader coded(bytes);
    GLEANER_CHECK(codec::get_indices(again, size, coded, decoded).has_value());
    GLEANER_CHECK(decoded == indices && coded.at_end());
  }
}

}  // namespace
}  // namespace gleaner

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  gleaner::run(std::as_bytes(std::span(bytes, size)));
  return 0;
}
