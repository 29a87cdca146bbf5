// Whatever the bytes, a frame is refused or becomes a message that keeps every limit: it can be encoded again, and that
// encoding decodes to itself. The first byte chooses the sender and the type, so that the length need not be guessed.

#include <cstdint>
#include <span>

#include "common/check.hpp"
#include "protocol/aligned_buffer.hpp"
#include "protocol/messages.hpp"

namespace gleaner {
namespace {

Result<Message> decode(ByteView frame, Sender sender, AlignedBuffer& body) {
  const auto header = decode_header(frame.first(FrameHeader::kBytes), sender);
  if (!header) return fail(header.error());
  body = AlignedBuffer::copy_of(frame.subspan(FrameHeader::kBytes));
  return decode_body(*header, body.view());
}

void run(ByteView input) {
  ByteReader in(input);
  const auto choice = in.get<std::uint8_t>();
  const Sender sender = choice % 2 == 0 ? Sender::device : Sender::coordinator;
  // The bytes as they are: what a header lets through is bounded.
  if (const auto header = decode_header(input, sender)) {
    GLEANER_CHECK(header->body_bytes <= kChunkBytesMax + 88 && frame_name(header->type) != "unknown");
  }
  Bytes frame;
  ByteWriter writer(frame);
  writer.put(static_cast<std::uint32_t>(in.remaining()));
  writer.put(static_cast<std::uint8_t>(choice / 4));
  writer.put_bytes(in.get_bytes(in.remaining()));

  AlignedBuffer body, body_again;
  const auto message = decode(frame, sender, body);
  if (!message) {
    GLEANER_CHECK(message.error().code() == ErrorCode::peer_fault && !message.error().message().empty());
    return;
  }
  const Bytes encoded = encode_frame(*message);
  const auto again = decode(encoded, sender, body_again);
  GLEANER_CHECK(again.has_value() && encode_frame(*again) == encoded);
}

}  // namespace
}  // namespace gleaner

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gleaner::run(std::as_bytes(std::span(data, size)));
  return 0;
}
